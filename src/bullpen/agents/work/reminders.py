"""What an agent is told about tasks that it left unfinished or unreported. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bullpen.protocol.request import Request
from bullpen.protocol.task import Task


def numbers(ids: Iterable[str]) -> str:
    """Return task ids as people write them."""
    return ", ".join(f"#{task_id}" for task_id in ids)


def at_rest(ids: Iterable[str], *, interrupted: bool) -> str | None:
    """Return what people should know of an agent at rest: its tasks, and whether it waits."""
    tasks = numbers(ids)
    has = f"still has task {tasks}" if tasks else ""
    said = "interrupted" if has else "interrupted, waits for your words"
    return "; ".join(part for part in (said if interrupted else "", has) if part) or None


def unfinished(tasks: Sequence[Task], *, planning: bool, last: bool) -> str:
    """Return a reminder of tasks in progress. It shows the call: weak models copy it."""
    words = f"Task {numbers(task.id for task in tasks)} is still yours and in progress."
    if planning:
        words += " You are in plan mode: submit your plan with ExitPlanMode."
    else:
        task_id = tasks[0].id
        words += (
            f' If it is done, call TaskUpdate with {{"taskId": "{task_id}", "status":'
            f' "completed"}}, or end your answer with the line: Task #{task_id} completed\n'
            'If not, finish it first. If you cannot, set it to "pending", or ask the member you are'
            " waiting for."
        )
    return (
        f"{words} This is the last reminder: after this turn the task goes back." if last else words
    )


def says_done(text: str, task: Task) -> bool:
    """Return whether a text has the line that a reminder offers."""
    said = rf"\W*task #?{re.escape(task.id)}\W*(?:is\s+)?(?:completed|done)\W*"
    return any(re.fullmatch(said, line, re.IGNORECASE) for line in text.splitlines())


def unreported(ids: Sequence[str]) -> str:
    """Return the question after tasks that were completed without a word."""
    return (
        f"You completed task {numbers(ids)} without a report. Say in a few sentences what you did"
        " and what you found."
    )


def unanswered(requests: Sequence[Request]) -> str:
    """Return a reminder of requests that wait for an answer."""
    words = [f"{each.kind} request {each.id} from {each.sender}" for each in requests]
    return f"Waiting for your answer (SendMessage): {'; '.join(words)}."
