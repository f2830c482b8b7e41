"""The tools of a connected program: those of its set, in its own name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bullpen.protocol.names import LEAD
from support.doors.mcp_calls import OF_A_MEMBER, OF_THE_LEAD, READ_ONLY, names_of, ok, refused

if TYPE_CHECKING:
    from support.doors.mcp_house import House


@pytest.mark.parametrize(
    ("tools", "who", "listed"),
    [
        ("coordination", LEAD, OF_A_MEMBER),
        ("read-only", LEAD, READ_ONLY),
        ("read-only", "bob", READ_ONLY),
    ],
)
async def test_only_the_tools_of_the_set_exist(
    house: House, tools: str, who: str, listed: set[str]
) -> None:
    async with house.program("--team", "alpha", "--as", who, "--tools", tools) as client:
        assert await names_of(client) == listed
        for missing in sorted({*OF_THE_LEAD, "Finish", "Bash", "Write"} - listed):
            assert f"'{missing}'" in await refused(client, missing)


async def test_whoever_only_reads_leaves_no_trace(house: House) -> None:
    await house.team.mailbox.send("ann", "For you", sender="bob")
    before = await house.team.events()
    async with house.program("--team", "alpha", "--as", "ann", "--tools", "read-only") as client:
        for _ in range(2):
            await ok(client, "TaskList")
        assert "For you" in await ok(client, "WaitForMail", timeout_seconds=0)
        assert "ann" in await ok(client, "TeamStatus")
    assert await house.mail_of("ann") == [("bob", "For you", "stored")]
    assert await house.team.events() == before
    assert "ann" not in await house.team.agents.presence()


async def test_a_check_that_runs_a_command_cannot_be_stated(house: House) -> None:
    """What the runtime runs for it would be governed by nobody."""
    async with house.program("--team", "alpha", "--as", "ann") as client:
        check = {"kind": "command", "run": "touch /tmp/never"}
        said = await refused(client, "TaskCreate", subject="x", description="x", checks=[check])
        assert "denied" in said
    assert not (await house.team.tasks.list()).tasks


@pytest.mark.parametrize("name", ["from", "sender", "as", "team", "by"])
async def test_no_field_of_a_call_chooses_who_makes_it(house: House, name: str) -> None:
    async with house.program("--team", "alpha", "--as", "ann") as client:
        said = await refused(client, "SendMessage", to="bob", message="hi", **{name: LEAD})
        assert name in said
        await refused(client, "WaitForMail", **{name: "bob"})
    assert await house.mail_of("bob") == []
