"""An agent's own todo list, as its model reads it at the start of a turn and after compaction."""

from __future__ import annotations

from pathlib import Path

from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.agents.tools.planning.todo_tools import TODO_WRITE, read_todos

_SHOWN_MAX = 30
_CHARS_MAX = 120


def todo_text(folder: Path) -> str | None:
    """The open items of the list; None if there are none."""
    todos = read_todos(folder)
    if todos is None:
        return f"Your todo list cannot be read. Write it anew with {TODO_WRITE.name}."
    still_open = [todo for todo in todos if todo.status != "completed"]
    if not still_open:
        return None
    lines = [f"Your todo list ({len(todos) - len(still_open)} of {len(todos)} done):"]
    for todo in still_open[:_SHOWN_MAX]:
        now = " (in progress)" if todo.status == "in_progress" else ""
        # It may quote what others wrote.
        lines.append(f"- {one_line(todo.content, _CHARS_MAX)}{now}")
    if len(still_open) > _SHOWN_MAX:
        lines.append(f"- and {len(still_open) - _SHOWN_MAX} more")
    return "\n".join(lines)
