"""Rules for guarded paths: a person approves each change to one before it is merged. Pure.

What counts is the content of commits, never a worktree: git can hide files of an index from it.
An approval is a person's answer to a request that lists each file with its mode and its blob. It
covers exactly these, for every task and for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from typing import Any

from bullpen.errors import Refused
from bullpen.protocol.guarded_paths import WHY, Kind, guarded, leads_to_guarded
from bullpen.protocol.request import Request
from bullpen.protocol.team import TeamConfig

TOOL = "HandIn"
"""What the request of a hand-in asks to use."""

WAITS = "waits for a person to approve its changes to guarded paths"
"""Why a task is given up while its work waits for an answer."""

CHANGES_MAX = 200
"""How many changes to guarded paths one request may ask for."""

_SHOWN_MAX = 8
_GONE, _LINK, _MODULE = "000000", "120000", "160000"


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A change to one path between two commits. `link` is what a symbolic link points to."""

    path: str
    before: str
    mode: str
    blob: str
    link: str | None = None


@dataclass(frozen=True, slots=True)
class GuardedChange:
    """What a guarded path becomes: its mode and its blob."""

    path: str
    mode: str
    blob: str
    # What happens to it and why it is guarded, in words.
    what: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What is approved."""
        return self.path, self.mode, self.blob

    @property
    def row(self) -> dict[str, str]:
        """The change as it is stored in a request."""
        return {"path": self.path, "mode": self.mode, "blob": self.blob, "what": self.what}


@dataclass(frozen=True, slots=True)
class Guard:
    """What a team guards, and which changes people have approved."""

    more: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    approved: tuple[frozenset[tuple[str, str, str]], ...] = ()

    def changes(self, found: Iterable[TreeChange]) -> list[GuardedChange]:
        """The changes to guarded paths, by path."""
        made = {change.key: change for each in found if (change := self._guarded(each)) is not None}
        return [made[key] for key in sorted(made)]

    def approves(self, changes: Sequence[GuardedChange]) -> bool:
        """Whether a person approved all of these changes together."""
        wanted = {change.key for change in changes}
        return not wanted or any(wanted <= approved for approved in self.approved)

    def _guarded(self, found: TreeChange) -> GuardedChange | None:
        kind = guarded(found.path, self.more, self.allow)
        why = None if kind is None else WHY[kind]
        if found.mode == _MODULE and found.before != _MODULE:
            why = why or "it is another repository inside of this one"
        if found.mode == _LINK and why is None:
            why = self._link(found)
        if why is None:
            return None
        return GuardedChange(found.path, found.mode, found.blob, f"{_verb(found)}; {why}")

    def _link(self, found: TreeChange) -> str | None:
        """Why a symbolic link is guarded, if it is."""
        target = normpath(join(dirname(found.path), found.link or ""))
        kind: Kind | None = guarded(target, self.more)
        if kind is not None:
            return f"where it points to, {WHY[kind]}"
        return "guarded files can be below it" if leads_to_guarded(found.path) else None


def guard_of(team: TeamConfig, requests: Iterable[Request]) -> Guard:
    """What a team guards, and what people have approved."""
    settings = team.facts.merge
    return Guard(
        () if settings is None else tuple(settings.guarded),
        () if settings is None else tuple(settings.unguarded),
        tuple(_keys(each) for each in requests if _is_approval(each)),
    )


def is_hand_in(request: Request) -> bool:
    """Whether a request asks to hand in changes to guarded paths."""
    return request.kind == "permission" and request.subject.get("toolName") == TOOL


def _is_approval(request: Request) -> bool:
    changed = (request.answer or {}).get("updatedInput") is not None
    return (
        is_hand_in(request)
        and request.approver == "human"
        and (request.state, request.voice) == ("approved", "human")
        and not changed
    )


def _keys(request: Request) -> frozenset[tuple[str, str, str]]:
    """What a request lists: a person saw exactly this."""
    given = request.subject.get("input")
    rows = given.get("changes") if isinstance(given, dict) else None
    return frozenset(
        (str(row.get("path")), str(row.get("mode")), str(row.get("blob")))
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    )


def asked_before(changes: Sequence[GuardedChange], requests: Iterable[Request]) -> Request | None:
    """The newest request for exactly these changes that is pending or that a person denied."""
    wanted = {change.key for change in changes}
    asked = [
        each
        for each in requests
        if is_hand_in(each) and each.state in ("pending", "denied") and _keys(each) == wanted
    ]
    return max(asked, key=lambda each: (each.created_ms, each.id), default=None)


def task_of_request(request: Request) -> str | None:
    """The task whose hand-in a request asks for."""
    given = request.subject.get("input")
    task = given.get("task") if is_hand_in(request) and isinstance(given, dict) else None
    return task if isinstance(task, str) else None


def request_input(
    task: str, changes: Sequence[GuardedChange], *, diff: str, look: str
) -> Mapping[str, Any]:
    """What a person sees and approves."""
    return {
        "task": task,
        "changes": [change.row for change in changes],
        "diff": diff,
        "look": look,
    }


def refuse_too_many(changes: Sequence[GuardedChange]) -> None:
    """Refuse a request that nobody would read. Raises Refused: guarded_paths."""
    if len(changes) > CHANGES_MAX:
        raise Refused(
            f"The work changes {len(changes)} guarded paths, and a person can be asked about at"
            f" most {CHANGES_MAX}: {named(changes)}.",
            reason="guarded_paths",
            remedy="Undo these changes and say in your report what a person has to change.",
        )


def refusal(
    task: str, changes: Sequence[GuardedChange], request: Request, *, parked: bool
) -> Refused:
    """The refusal of work that a person has not approved."""
    denied = request.state == "denied"
    words = (request.answer or {}).get("feedback") if denied else None
    asked = f"request {request.id}"
    if denied:
        state = f"A person denied this ({asked}){f': {words}' if words else ''}".rstrip(".")
    else:
        state = f"A person must approve exactly this content first ({asked})"
    then = (
        f"Task #{task} is no longer yours; your work is saved. Go on with other work."
        if parked
        else "Undo these changes and complete the task again, or end your turn: you get a message"
        " when a person has answered. Do not work around this."
    )
    return Refused(
        f"Task #{task} is not done: its work changes files that other programs run or obey: "
        f"{named(changes)}. {state}.",
        reason="guarded_paths",
        remedy=then,
    )


def park_reason(request: Request) -> str:
    """Why a task is given up whose owner handed in again what nobody approved."""
    if request.state == "denied":
        return f"a person denied its changes to guarded paths (request {request.id})"
    return f"{WAITS}: bullpen approve {request.id}"


def named(changes: Sequence[GuardedChange]) -> str:
    """The first paths, in words."""
    paths = list(dict.fromkeys(change.path for change in changes))
    more = len(paths) - _SHOWN_MAX
    return ", ".join(paths[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def answer_text(request: Request) -> str:
    """What the asker reads when a person has answered."""
    task, answer = task_of_request(request), request.answer or {}
    if request.state == "approved":
        return (
            f"A person approved the changes to guarded paths of task #{task}. If the task is"
            " yours, complete it again with exactly these changes."
        )
    words = f": {answer['feedback']}" if answer.get("feedback") else "."
    return (
        f"A person denied the changes to guarded paths of task #{task}{words}\n"
        "If the task is yours, undo these changes and complete it again."
    )


def _verb(found: TreeChange) -> str:
    if found.mode == _GONE:
        return "removed"
    if found.mode == _LINK:
        return f"a link to {found.link}"
    if found.mode == _MODULE:
        return "a submodule"
    return "added" if found.before == _GONE else "changed"
