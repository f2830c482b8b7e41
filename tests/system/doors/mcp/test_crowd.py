"""A hundred programs at once on one server: each has its own mail, and nobody another's."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from support.doors.mcp_house import House

CROWD = 100


async def test_a_hundred_clients_at_once_see_their_own_mail_only(house: House) -> None:
    names = [f"m{number:03}" for number in range(CROWD)]
    tokens = {name: house.token(name) for name in names}
    got: dict[str, str] = {}
    here = 0
    all_here = anyio.Event()

    async def take_part(url: str, name: str) -> None:
        nonlocal here
        number = int(name[1:])
        neighbour = f"m{(number + 1) % CROWD:03}"
        async with house.visitor(url, tokens[name]) as client:
            await client.call_tool("TaskList", {})
            here += 1
            if here == CROWD:
                all_here.set()
            await all_here.wait()
            word = f"word-{name}-to-{neighbour}"
            sent = await client.call_tool("SendMessage", {"to": neighbour, "message": word})
            assert not sent.is_error, sent
            mail = await client.call_tool("WaitForMail", {"timeout_seconds": 50})
            got[name] = str(mail.content[0])
            await client.call_tool("TaskList", {})

    async with house.served() as url:
        began = time.monotonic()
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(take_part, url, name)
        print(f"{CROWD} clients took {time.monotonic() - began:.1f} s")
    for number, name in enumerate(names):
        before = f"m{(number - 1) % CROWD:03}"
        assert re.findall(r"word-\w+-to-\w+", got[name]) == [f"word-{before}-to-{name}"]
        assert await house.mail_of(name) == [(before, f"word-{before}-to-{name}", "seen")]
    assert len(await house.team.roster.list()) == CROWD + 3
