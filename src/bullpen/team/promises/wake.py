"""The messages that wake those who rely on a promise, and nobody else. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable

from bullpen.protocol.changes import Change, Deliver, PutTask
from bullpen.protocol.record.promise import Promise
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import View
from bullpen.team.lookup import owner_of
from bullpen.team.mail.operations import new_message
from bullpen.team.promises.rules import Standing, ended, reliers

_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "urn:bullpen:promise-word")
_THEN = (
    "Look whether your work on it still fits. Then rely on it as it is now, or drop it: until then "
    "your task cannot be completed."
)


def word_to_owner(
    team: TeamConfig, task: Task, text: str, *, sender: str, now_ms: int
) -> list[Deliver]:
    """Return the message to the owner of a task whose promises somebody else changed."""
    owner = owner_of(task, team.name)
    if owner is None or owner == sender or team.member(owner) is None:
        return []
    key = json.dumps([team.name, task.id, owner, text, now_ms])
    message = new_message(
        text, team=team, sender=sender, message_id=str(uuid.uuid5(_IDS, key)), now_ms=now_ms
    )
    return [Deliver(owner, message, fresh=True)]


def word_to_reliers(
    team: TeamConfig,
    promise: Promise,
    tasks: Iterable[Task],
    text: str,
    *,
    sender: str,
    now_ms: int,
) -> list[Deliver]:
    """Return one message for each member whose unfinished tasks rely on a promise.

    Its id is made of what it says, so that a decision that is run again says it once.
    """
    relying: dict[str, list[str]] = {}
    for task in tasks:
        owner = owner_of(task, team.name)
        if owner is not None and owner != sender and team.member(owner) is not None:
            relying.setdefault(owner, []).append(task.id)
    found = []
    for owner, ids in relying.items():
        key = json.dumps([team.name, promise.id, promise.version, owner, text, now_ms])
        numbers = ", ".join(f"#{task_id}" for task_id in ids)
        message = new_message(
            f"{text} You rely on it with {numbers}.",
            team=team,
            sender=sender,
            message_id=str(uuid.uuid5(_IDS, key)),
            now_ms=now_ms,
        )
        found.append(Deliver(owner, message, fresh=True))
    return found


def end_with(view: View, task: Task, reason: str, *, by: str, now_ms: int) -> list[Change]:
    """Return the changes with which a task is given up: its promises end, and who relies on them
    is told.
    """
    after, over = ended(task, reason)
    changes: list[Change] = [] if view.task(task.id) == after else [PutTask(after)]
    return [*changes, *_words_of_end(view, task, over, by=by, now_ms=now_ms)]


def words_of_deletion(view: View, task: Task, *, by: str, now_ms: int) -> list[Deliver]:
    """Return the messages to those who rely on the promises of a task that is deleted."""
    over = [each for each in task.facts.promises or () if each.withdrawn is None]
    return _words_of_end(view, task, over, by=by, now_ms=now_ms)


def _words_of_end(
    view: View, task: Task, over: Iterable[Promise], *, by: str, now_ms: int
) -> list[Deliver]:
    return [
        word
        for promise in over
        for word in word_to_reliers(
            view.team,
            promise,
            reliers(view.tasks().values(), promise.id),
            f"Promise {promise.id} ({promise.text!r}) ended: task #{task.id} was given up. "
            "Drop it, or agree on it anew: until then your task cannot be completed.",
            sender=by,
            now_ms=now_ms,
        )
    ]


def changed_text(before: Standing, after: Promise) -> str:
    """Return what those who rely on a promise read when it says something else."""
    now = Standing(after, before.task, before.owner)
    says = f"it now says {after.text!r} ({now.what})"
    return f"Promise {after.id} was changed. It was {before.what}; {says}. {_THEN}"


def withdrawn_text(before: Standing, reason: str) -> str:
    """Return what those who rely on a promise read when it is withdrawn."""
    why = f": {' '.join(reason.split())}" if reason.strip() else ""
    return f"Withdrawn: {before.named}{why}. {_THEN}"


def broken_text(standing: Standing, found: str) -> str:
    """Return what those who rely on a promise read when work was handed in that breaks it."""
    return (
        f"The work of task #{standing.task.id} breaks {standing.named}: {found}. It was not taken, "
        "and its owner knows. You hear again if the promise is changed."
    )
