"""A program of another vendor that says where it is, and asks before it changes the user's file.

The second argument is that file.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from acp import run_agent, schema

from support.agents.tiny_agent import PARTS, Tiny, call_of, ended, told, write


def top() -> str:
    words = ["git", "rev-parse", "--show-toplevel"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


async def looks(agent: Tiny, session: str) -> schema.PromptResponse:
    told("place", top=top(), here=os.getcwd(), temp=os.environ.get("TMPDIR"))
    for path in (sys.argv[2], os.path.join(os.getcwd(), "mine.txt")):
        location = schema.ToolCallLocation(path=path)
        answer = await agent.ask(call_of("edit", locations=[location]), "allow_once", "reject_once")
        if answer == "allow_once":
            write(path)
    await agent.say("Done.")
    return ended()


if __name__ == "__main__":
    PARTS["looks"] = looks
    part: Any = Tiny(sys.argv[1])
    asyncio.run(run_agent(part))
