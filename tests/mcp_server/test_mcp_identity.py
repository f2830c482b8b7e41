"""Who a connected program is: fixed when it starts, and nobody else's."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import anyio
import httpx2
import pytest
from mcp import MCPError

from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD

if TYPE_CHECKING:
    from tests.mcp_server.conftest import House

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
ACCEPT = {"Accept": "application/json, text/event-stream"}


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


async def test_only_one_leads(house: House) -> None:
    async with house.program("--team", "alpha") as lead:
        assert not (await lead.call_tool("TaskList", {})).is_error
        with pytest.RaisesGroup(
            pytest.RaisesExc(MCPError, match="leads this team"), flatten_subgroups=True
        ):
            async with house.program("--team", "alpha", mode="legacy"):
                pass
    async with house.program("--team", "alpha") as lead:
        assert not (await lead.call_tool("TaskList", {})).is_error


async def test_what_a_client_had_claimed_it_still_has_after_a_restart(house: House) -> None:
    await house.team.tasks.add("A task", by=LEAD)
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        await ann.call_tool("TaskUpdate", {"taskId": "1", "status": "in_progress"})
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        again = await ann.call_tool("TaskUpdate", {"taskId": "1", "status": "in_progress"})
        assert "yours already (attempt 1)" in str(again.content)
        done = await ann.call_tool("TaskUpdate", {"taskId": "1", "status": "completed"})
        assert not done.is_error


@pytest.mark.parametrize(
    "words",
    [
        ("mcp", "--team", "nowhere", "--as", "ann"),
        ("mcp", "--team", "alpha", "--as", "a b"),
        ("mcp", "--team", "alpha", "--as", "cy", "--tools", "read-only"),
        ("mcp", "token", "ann", "--team", "nowhere"),
        ("mcp", "token", "a b", "--team", "alpha"),
        ("mcp", "revoke", "ann", "--team", "alpha"),
        ("mcp", "--port", "1"),
        ("mcp", "--http", "--host", "0.0.0.0"),
    ],
    ids=" ".join,
)
async def test_what_cannot_be_had_is_said_at_once(house: House, words: tuple[str, ...]) -> None:
    done = await house.type(*words)
    assert done.exit_code in (2, 3)
    assert "error: " in done.stderr
    assert done.stdout == ""


async def test_a_token_is_shown_once_and_kept_as_a_digest(house: House) -> None:
    first = (await house.type("mcp", "token", "ann", "--team", "alpha")).stdout.strip()
    file = house.home / "mcp-tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for path in house.home.rglob("*"):
        if path.is_file():
            assert first not in path.read_text(encoding="utf-8", errors="replace"), path
    assert (await house.type("mcp", "tokens")).stdout == "ann@alpha\n"
    again = await house.type("mcp", "token", "ann", "--team", "alpha")
    assert "counts no more" in again.stderr
    assert again.stdout.strip() not in (first, "")
    assert (await house.type("mcp", "revoke", "ann", "--team", "alpha")).exit_code == 0
    assert "no tokens" in (await house.type("mcp", "tokens")).stdout


async def test_a_file_of_tokens_that_cannot_be_read_is_not_an_empty_one(house: House) -> None:
    (house.home / "mcp-tokens.json").write_text("{", encoding="utf-8")
    for words in (("tokens",), ("token", "ann", "--team", "alpha")):
        done = await house.type("mcp", *words)
        assert done.exit_code == 5
        assert "mcp-tokens.json" in done.stderr
    assert (house.home / "mcp-tokens.json").read_text(encoding="utf-8") == "{"


async def test_nobody_is_answered_without_a_token_that_counts(house: House) -> None:
    ann, bob = house.token("ann"), house.token("bob")
    async with house.served() as url, httpx2.AsyncClient(timeout=60, headers=ACCEPT) as http:

        async def status(token: str | None, **headers: str) -> int:
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            return (await http.post(url, json=HELLO, headers=headers)).status_code

        assert await status(None) == 401
        assert await status("wrong") == 401
        assert await status(ann[:-1]) == 401
        assert (await http.post(url, json=HELLO)).headers["www-authenticate"].startswith("Bearer")
        assert await status(ann, Host="evil.example") == 421
        assert await status(ann, Host="evil.example:80", Origin="http://evil.example") == 421
        assert await status(ann, Origin="http://evil.example") == 403
        assert await status(ann) == 200
        # A session belongs to the token that began it.
        began = await http.post(url, json=HELLO, headers={"Authorization": f"Bearer {ann}"})
        session = {"mcp-session-id": began.headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        for token, expected in ((ann, 200), (bob, 404)):
            headers = {**session, "Authorization": f"Bearer {token}"}
            answer = await http.post(url, json=listing, headers=headers)
            assert answer.status_code == expected
        assert (await house.type("mcp", "revoke", "ann", "--team", "alpha")).exit_code == 0
        assert await status(ann) == 401
        assert await status(bob) == 200


async def test_over_http_a_token_says_who_calls(house: House) -> None:
    ann, bob = house.token("ann"), house.token("bob")
    async with (
        house.served() as url,
        house.visitor(url, ann) as one,
        house.visitor(url, bob) as other,
    ):
        await one.call_tool("SendMessage", {"to": "bob", "message": "I am Ann"})
        got = await other.call_tool("WaitForMail", {})
        assert 'teammate_id="ann"' in str(got.content[0])
        box = await one.read_resource("bullpen://team/alpha/mailbox")
        assert "I am Ann" not in str(box.contents)
        with pytest.raises(MCPError):
            await one.read_resource("bullpen://team/beta/mailbox")
    assert await house.mail_of("bob") == [("ann", "I am Ann", "injected")]


async def test_a_token_for_one_team_makes_no_other(house: House) -> None:
    token = house.token(LEAD, "gamma")
    async with house.served() as url, house.visitor(url, token) as lead:
        other = await lead.call_tool("TeamCreate", {"team_name": "delta"})
        assert "other_team" in str(other.content)
        assert not (await lead.call_tool("TeamCreate", {"team_name": "Gamma"})).is_error
    assert await house.teams.names() == ["alpha", "gamma"]
