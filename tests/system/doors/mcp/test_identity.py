"""Who a connected program is: fixed when it starts, and nobody else's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio

from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD

if TYPE_CHECKING:
    from support.doors.mcp_house import House

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


async def test_a_program_joins_with_its_first_request_and_not_before(house: House) -> None:
    """R-2.1g: a process that was started proves nothing; a client that speaks does."""
    words = house.words("mcp", "--team", "alpha", "--as", "cy")
    before = {LEAD, "ann", "bob"}
    async with await anyio.open_process(words, env=house.env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # A notification is no request: nobody could tell that an answer is read.
        await process.stdin.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        assert {member.name for member in await house.team.roster.list()} == before
        await process.stdin.send(json.dumps(HELLO).encode() + b"\n")
        with anyio.fail_after(120):
            answer = json.loads(await process.stdout.receive())
        assert answer["result"]["serverInfo"]["name"] == "bullpen"
        assert {member.name for member in await house.team.roster.list()} == {*before, "cy"}
        assert (await house.team.agents.presence())["cy"].state == "idle"
        await process.stdin.aclose()
        with anyio.fail_after(60):
            assert await process.wait() == 0
    # It stays a member, whose mail is kept; and everybody can see that it is gone.
    assert (await house.team.agents.presence())["cy"].state == "stopped"
    await house.team.mailbox.send("cy", "For later", sender=LEAD)


async def test_a_program_that_never_speaks_is_no_member(house: House) -> None:
    done = await house.run("mcp", "--team", "alpha", "--as", "cy")
    assert (done.returncode, done.stdout) == (0, b"")
    assert {member.name for member in await house.team.roster.list()} == {LEAD, "ann", "bob"}


async def test_the_name_of_an_agent_that_we_run_cannot_be_had(house: House) -> None:
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd=str(house.home))
    await house.team.agents.register("dee", spec, by=LEAD, nonce="n-1")
    done = await house.type("mcp", "--team", "alpha", "--as", "dee")
    assert done.exit_code == 2
    assert "is an agent that Bullpen runs" in done.stderr
    assert (await house.type("mcp", "token", "dee", "--team", "alpha")).exit_code == 2
    # To look at its mail without a trace is something else.
    seen = await house.run("mcp", "--team", "alpha", "--as", "dee", "--tools", "read-only")
    assert seen.returncode == 0
