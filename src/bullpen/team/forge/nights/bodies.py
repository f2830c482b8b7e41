"""What Bullpen writes about a night on a forge: the title and text of its pull request. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bullpen.protocol.forge import ForgeNight
from bullpen.protocol.task import Task
from bullpen.team.forge.bodies import Made, bounded, checks_of, inline_id, made_by
from bullpen.team.forge.markers import Mark
from bullpen.team.forge.nights.rules import landed_commit
from bullpen.team.forge.outside_words import defused_line, inline, quoted
from bullpen.team.tasks.check_rules import is_done

_SUBJECT_MAX = 200
_REPORT_MAX = 12_000
_LINES_MAX = 200
"""How many tasks are listed by name. GitHub takes no longer text."""


def night_title(night: ForgeNight, tasks: Sequence[Task], team: str) -> str:
    """Return the title of the pull request of a night."""
    if len(tasks) == 1:
        subject = defused_line(tasks[0].subject, _SUBJECT_MAX) or "No subject"
        return f"Night {night.n}: {subject}"
    return f"Night {night.n}: {len(tasks)} tasks of team {inline(team, 60)}"


def night_body(
    night: ForgeNight, tasks: Sequence[Task], made: Mapping[str, Made], mark: Mark, key: bytes
) -> str:
    """Return the text of the pull request of a night, with its marker.

    What each task is about comes first, so that it is there however long the reports are.
    """
    head = f"Night {night.n} of team {inline(mark.team, 100)}. It has the work of these tasks:"
    lines = [_line(task) for task in tasks[:_LINES_MAX]]
    if len(tasks) > _LINES_MAX:
        lines.append(f"- and {len(tasks) - _LINES_MAX} more")
    parts = [f"{head}\n\n" + "\n".join(lines)]
    for task in tasks[:_LINES_MAX]:
        parts += _section(task, made.get(task.id, Made()))
    return bounded(parts, mark, key)


def _line(task: Task) -> str:
    work = task.facts.forge
    # If a person began it again, its issue must stay open when this is merged.
    ends = work is not None and work.issue is not None and is_done(task)
    closes = f" Closes #{work.issue}" if work is not None and ends else ""
    subject = inline(task.subject, _SUBJECT_MAX) or "No subject"
    return f"- Task {inline_id(task.id)}: {subject}.{closes}"


def _section(task: Task, made: Made) -> list[str]:
    """Return the parts about one task: its checks, its report, who made it and what that cost."""
    said = [f"### Task {inline_id(task.id)}", *checks_of(task)]
    parts = ["\n\n".join(said)]
    if task.facts.report:
        parts += [quoted(task.facts.report, _REPORT_MAX)]
    commit = inline(landed_commit(task), 64)
    return [*parts, f"Made by {made_by(task, made)} Commit: {commit}"]
