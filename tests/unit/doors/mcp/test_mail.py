"""Mail of a connected member: given, proved read by the next call, given again after a death."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from bullpen.doors.mcp.member_tools import WAIT_S_MAX
from bullpen.protocol.names import LEAD

if TYPE_CHECKING:
    from mcp import Client

    from support.doors.mcp_house import House, Mode


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


async def wait_for_mail(client: Client, seconds: float = 30) -> str:
    result = await client.call_tool("WaitForMail", {"timeout_seconds": seconds})
    assert not result.is_error
    return texts(result)[0]


async def test_mail_is_seen_when_the_next_call_proves_that_it_was_read(house: House) -> None:
    """R-2.1b: given is not read."""
    await house.team.mailbox.send("ann", "First", sender="bob")
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        assert "First" in await wait_for_mail(ann)
        assert await house.mail_of("ann") == [("bob", "First", "injected")]
        await ann.list_tools()
        await ann.read_resource("bullpen://team/alpha/mailbox")
        assert await house.mail_of("ann") == [("bob", "First", "injected")]
        await ann.call_tool("TaskList", {})
        assert await house.mail_of("ann") == [("bob", "First", "seen")]
        assert "No mail came" in await wait_for_mail(ann, 0)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http_a_new_client_gets_what_the_one_before_had_not_proved_read(
    house: House, mode: Mode
) -> None:
    await house.team.mailbox.send("ann", "Again", sender="bob")
    token = house.token("ann")
    async with house.served() as url:
        async with house.visitor(url, token, mode=mode) as first:
            assert "Again" in await wait_for_mail(first)
        async with house.visitor(url, token, mode=mode) as second:
            assert "Again" in await wait_for_mail(second)
            await second.call_tool("TaskList", {})
            assert "No mail came" in await wait_for_mail(second, 0)
    assert await house.mail_of("ann") == [("bob", "Again", "seen")]


async def test_waiting_ends_when_mail_comes_and_at_its_deadline(house: House) -> None:
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        assert "No mail came within 0.5 seconds" in await wait_for_mail(ann, 0.5)
        got: list[str] = []

        async def wait() -> None:
            got.append(await wait_for_mail(ann, WAIT_S_MAX))

        # It ends with the mail: its own deadline is later than this one.
        with anyio.fail_after(WAIT_S_MAX - 5):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                # Others' mail and tasks do not end it.
                await house.team.mailbox.send("bob", "Not yours", sender=LEAD)
                await house.team.tasks.add("A task", by=LEAD)
                assert not got
                await house.team.mailbox.send("ann", "Yours", sender=LEAD)
        (text,) = got
        assert "Yours" in text
        assert "Not yours" not in text


@pytest.mark.parametrize("seconds", [50.5, -1, "soon"])
async def test_nobody_waits_for_longer_than_programs_do(house: House, seconds: object) -> None:
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        result = await ann.call_tool("WaitForMail", {"timeout_seconds": seconds})
        assert result.is_error
        assert "timeout_seconds" in texts(result)[0]


async def test_every_result_says_how_much_mail_is_unread(house: House) -> None:
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        assert len((await ann.call_tool("TaskList", {})).content) == 1
        for number in range(3):
            await house.team.mailbox.send("ann", f"Word {number}", sender="bob")
        await house.team.mailbox.send("ann", "Word 3", sender=LEAD)
        result = await ann.call_tool("SendMessage", {"to": "bob", "message": "hi"})
        answer, line = texts(result)
        assert json.loads(answer)["success"] is True
        assert "4 unread messages from bob, team-lead" in line
        failed = await ann.call_tool("TaskGet", {"taskId": "99"})
        assert failed.is_error
        assert "4 unread messages" in texts(failed)[1]
        await wait_for_mail(ann)
        assert len((await ann.call_tool("TaskList", {})).content) == 1


async def test_what_does_not_fit_into_one_result_comes_with_the_next(house: House) -> None:
    for number in range(103):
        await house.team.mailbox.send("ann", f"Word {number:03}.", sender="bob")
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        first = await ann.call_tool("WaitForMail", {})
        text, line = texts(first)
        assert ("Word 099." in text, "Word 100." in text) == (True, False)
        assert "3 unread messages" in line
        rest = await wait_for_mail(ann)
        assert ("Word 099." in rest, "Word 100." in rest, "Word 102." in rest) == (
            False,
            True,
            True,
        )


async def test_two_waiting_at_once_share_the_mail_and_do_not_double_it(house: House) -> None:
    got: list[str] = []
    first = anyio.Event()
    async with house.program("--team", "alpha", "--as", "ann") as ann:

        async def wait() -> None:
            got.append(await wait_for_mail(ann))
            first.set()

        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(wait)
            await house.team.mailbox.send("ann", "The word", sender="bob")
            await first.wait()
            await house.team.mailbox.send("ann", "The end", sender="bob")
    assert sum("The word" in text for text in got) == 1
    assert sum("The end" in text for text in got) == 1
