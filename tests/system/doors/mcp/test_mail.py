"""Mail of a connected member: given, proved read by the next call, given again after a death."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from mcp import Client

    from support.doors.mcp_house import House

ASKS_AND_HANGS = """
import sys, time
import anyio
from mcp import Client, StdioServerParameters

async def main() -> None:
    command, *args = sys.argv[1:]
    async with Client(StdioServerParameters(command=command, args=args)) as client:
        result = await client.call_tool("WaitForMail", {})
        print(result.content[0].text.replace(chr(10), " "), flush=True)
        time.sleep(600)

anyio.run(main)
"""


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


async def wait_for_mail(client: Client, seconds: float = 30) -> str:
    result = await client.call_tool("WaitForMail", {"timeout_seconds": seconds})
    assert not result.is_error
    return texts(result)[0]


async def test_a_client_that_is_killed_before_its_next_call_gets_its_mail_again(
    house: House, tmp_path: Path
) -> None:
    """R-2.1b: kill -9 between the delivery and the proof that it was read."""
    await house.team.mailbox.send("ann", "Only once read", sender="bob")
    program = tmp_path / "asks_and_hangs.py"
    program.write_text(ASKS_AND_HANGS, encoding="utf-8")
    words = house.words("mcp", "--team", "alpha", "--as", "ann", "--home", str(house.home))
    async with await anyio.open_process(
        [sys.executable, str(program), *words], env=house.env
    ) as client:
        assert client.stdout is not None
        with anyio.fail_after(120):
            assert b"Only once read" in await client.stdout.receive()
        client.kill()
        await client.wait()
    assert await house.mail_of("ann") == [("bob", "Only once read", "injected")]
    async with house.program("--team", "alpha", "--as", "ann") as ann:
        assert "Only once read" in await wait_for_mail(ann, 0)
        await ann.call_tool("TaskList", {})
    assert await house.mail_of("ann") == [("bob", "Only once read", "seen")]
