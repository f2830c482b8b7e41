"""Two programs of anybody's, connected by MCP: one leads, the other does a task and reports."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

HOME = tempfile.mkdtemp()


def member(*words: str) -> Client:
    """A program that starts `bullpen mcp` and speaks for one member."""
    env = {"PATH": os.environ["PATH"], "BULLPEN_HOME": HOME}
    args = ["-m", "bullpen", "mcp", *words]
    return Client(StdioServerParameters(command=sys.executable, args=args, env=env))


async def call(client: Client, tool: str, **given: Any) -> str:
    result = await client.call_tool(tool, given)
    text: str = getattr(result.content[0], "text", "")
    assert not result.is_error, text
    return text


async def main() -> None:
    async with member() as lead:
        await call(lead, "TeamCreate", team_name="Parser", description="Ship the parser")
        await call(lead, "TaskCreate", subject="Write it", description="With tests")

        async with member("--team", "parser", "--as", "carol") as carol:
            await call(lead, "TaskUpdate", taskId="1", owner="carol")
            print(await call(carol, "WaitForMail"))
            await call(carol, "TaskUpdate", taskId="1", status="in_progress")
            await call(carol, "TaskUpdate", taskId="1", status="completed", report="12 tests pass")
            await call(carol, "SendMessage", to="team-lead", summary="done", message="It is done.")

            mail = await call(lead, "WaitForMail")
            assert "It is done." in mail
            print(await call(lead, "TaskList"))

            ask = {"type": "shutdown_request", "reason": "All is done"}
            await call(lead, "SendMessage", to="carol", message=ask)
            asked = re.search(r"shutdown-\d+@carol", await call(carol, "WaitForMail"))
            assert asked, "The request is in the mail."
            await call(carol, "ApproveRequest", request_id=asked[0], approve=True)

        print(await call(lead, "TeamDelete"))


anyio.run(main)
