"""Who a connected program is: fixed when it starts, and nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import MCPError

from bullpen.agents.runner import lead_lease
from bullpen.app.app import open_app
from bullpen.app.settings import settings_from
from bullpen.doors.mcp.member import ConnectedMember
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
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def test_who_leads_renews_its_lease_between_calls(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lead_lease, "_RENEW_S", 0.0)
    agents = house.teams.open("alpha").agents
    async with open_app(settings_from(house.env, home=house.home)) as app:
        lead = ConnectedMember(app, LEAD, team="alpha", cwd=str(house.home), tool_set="all")
        await lead.arrive()
        before = await agents.leader()
        await lead.tend()
        after = await agents.leader()
        assert before is not None
        assert after is not None
        assert after.nonce == before.nonce
        assert after.until_ms > before.until_ms
        await lead.depart("the test is over")


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
        assert "already yours and in progress (attempt 1)" in str(again.content)
        done = await ann.call_tool("TaskUpdate", {"taskId": "1", "status": "completed"})
        assert not done.is_error


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
        port = urlsplit(url).port
        # Another program of this machine serves its pages on another port.
        for host in ("127.0.0.1:1", f"127.0.0.1:{port}.evil.example", f"localhost:{port}0"):
            assert await status(ann, Host=host) == 421, host
            assert await status(ann, Origin=f"http://{host}") == 403, host
        for origin in (f"https://127.0.0.1:{port}", "null", f"http://127.0.0.1:{port}/"):
            assert await status(ann, Origin=origin) == 403, origin
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
            assert await status(ann, Host=host, Origin=f"http://{host}") == 200, host
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
