"""What an agent is told about the promises of other members that concern its tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.protocol.task import Task
from bullpen.team.promises.concerns import concerning
from bullpen.team.promises.rules import in_force

_SHOWN_MAX = 6
_LINE_MAX = 300


def promise_lines(tasks: Mapping[str, Task], own: Iterable[Task], team: str) -> dict[str, str]:
    """Return a line for each promise that concerns one of these tasks, by id and version."""
    standing = in_force(tasks, team)
    found = [each for task in own for each in concerning(task, standing, team)] if standing else []
    return {
        f"{each.promise.id} v{each.promise.version}": f"- {one_line(each.named, _LINE_MAX)}"
        for each in found
    }


def shown_lines(lines: Iterable[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    there = list(lines)
    more = len(there) - _SHOWN_MAX
    return [*there[:_SHOWN_MAX], *([f"- and {more} more (Promise, list)"] if more > 0 else [])]


def promise_note(tasks: Mapping[str, Task], task: Task, team: str) -> str | None:
    """Return what the new owner of a task is told; None if nothing concerns it."""
    lines = promise_lines(tasks, [task], team)
    if not lines:
        return None
    about = "Promises of other members that concern this task:"
    return "\n".join([about, *shown_lines(lines.values())])
