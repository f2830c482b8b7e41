"""A tool that lists the TODO comments of a file."""

from __future__ import annotations

import anyio
from pydantic import Field

from bullpen.agents.contracts import Desk, Tool, ToolInput
from bullpen.errors import NotFound


class FindTodosInput(ToolInput):
    # A tool that reads a file calls it `path` or `file_path`: then the rules for Read apply to it.
    path: str = Field(description="The file to look at")


async def find_todos(given: FindTodosInput, desk: Desk) -> str:
    path = anyio.Path(desk.spec.cwd, given.path)
    try:
        text = await path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        # The model is told this; another exception would count as a bug in the tool.
        raise NotFound(f"Cannot read {given.path}: {error.strerror}.") from error
    lines = enumerate(text.splitlines(), 1)
    found = [f"{number}: {line.strip()}" for number, line in lines if "TODO" in line]
    return "\n".join(found) or "There is no TODO in it."


FIND_TODOS: Tool[Desk] = Tool(
    "FindTodos", "List the TODO comments of a file.", FindTodosInput, "read", find_todos
)
