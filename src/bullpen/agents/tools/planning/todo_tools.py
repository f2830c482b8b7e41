"""An agent's own todo list, in its folder. It outlives turns, restarts and compaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from anyio import to_thread
from pydantic import Field, TypeAdapter, ValidationError

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.store.private_folder import make_private
from bullpen.workspace.git.marks import write_whole

FILE = "todos.json"

_ITEMS_MAX = 100
_BYTES_MAX = 1_000_000


class TodoItem(ToolInput):
    """One item of a todo list."""

    content: str = Field(min_length=1, max_length=1_000, description="What to do")
    status: Literal["pending", "in_progress", "completed"] = Field(description="Its status")
    active_form: str | None = Field(
        None, alias="activeForm", max_length=1_000, description="The same as an activity"
    )


class TodoWriteInput(ToolInput):
    """Input of TodoWrite."""

    todos: list[TodoItem] = Field(max_length=_ITEMS_MAX, description="The whole new list")


_LIST = TypeAdapter(list[TodoItem])


async def _write(given: TodoWriteInput, desk: Desk) -> str:
    """Keep your own todo list, for steps within your work. Each turn starts with it."""
    await to_thread.run_sync(_store, desk.folder, given.todos)
    done = sum(todo.status == "completed" for todo in given.todos)
    return f"Your todo list is stored: {done} of {len(given.todos)} done."


def _store(folder: Path, todos: Sequence[TodoItem]) -> None:
    raw = json.dumps([todo.model_dump(by_alias=True) for todo in todos], ensure_ascii=False)
    make_private(folder)
    write_whole(folder / FILE, raw.encode("utf-8", "replace"))


def read_todos(folder: Path) -> list[TodoItem] | None:
    """The todo list in an agent's folder, empty if it has none; None if it cannot be read."""
    try:
        with open(folder / FILE, "rb") as file:
            return _LIST.validate_json(file.read(_BYTES_MAX))
    except FileNotFoundError:
        return []
    except (OSError, ValidationError):
        return None


TODO_WRITE: Tool[Desk] = documented("TodoWrite", TodoWriteInput, "team", _write)
