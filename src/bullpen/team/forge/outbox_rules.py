"""Rules for writes to a forge: each is recorded before it is made, and made once. Pure.

A write has a kind and a key, which is what causes it. A cause has one write of a kind, ever: a
second wish for it returns the first record, due again if it was dropped. Its number is in the
marker of the text that it writes, so that after a kill whoever makes it looks for the marker first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from bullpen.errors import Invalid, Refused
from bullpen.protocol.forge import WRITES_MAX, ForgeWork, ForgeWrite, WriteKind
from bullpen.protocol.task import Task

_ORDER: tuple[WriteKind, ...] = (
    "push",
    "pull",
    "reply",
    "answer",
    "resolve",
    "state",
    "merge",
    "close_pull",
    "close",
    "delete",
)
"""A branch before its pull request, an answer before its thread is resolved, and the end last."""

_NO_USE_AFTER_THE_END = frozenset({"push", "merge"})

_FOR_THE_END = frozenset({"state", "close_pull", "close", "delete"})

_RESERVED = 20
"""How many of the writes of a task are kept for its end."""

_TEXT_MAX = 8_000


@dataclass(frozen=True, slots=True)
class Wish:
    """A write that is wanted: what, because of what, about what, and with which words."""

    kind: WriteKind
    key: str
    target: str | None = None
    text: str | None = None


def digest_of(*parts: object) -> str:
    """Return a short digest of some words, to know them again."""
    joined = "\0".join(f"{len(str(part))}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def work_of(task: Task) -> ForgeWork:
    """Return what is known of a task on the forge.

    Raises:
        Refused: not_on_forge.
    """
    work = task.facts.forge
    if work is None:
        raise Refused(
            f"Task {task.id!r} has no work on a forge.",
            reason="not_on_forge",
            remedy="Show what is there: bullpen forge status",
        )
    return work


def push_of(work: ForgeWork, attempt: int, commit: str) -> Wish:
    """Return the wish to push the commit of an attempt."""
    return Wish("push", f"{work.life}:{attempt}:{commit}", commit)


def attempt_of(write: ForgeWrite) -> int | None:
    """Return the attempt whose work a push is."""
    parts = write.key.split(":")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else None


def write_of(work: ForgeWork, kind: WriteKind, key: str) -> ForgeWrite | None:
    """Return the write of this kind that this cause has, if it has one."""
    return next((each for each in work.writes if (each.kind, each.key) == (kind, key)), None)


def is_full(work: ForgeWork) -> bool:
    """Return whether only the writes for its end are left to a task."""
    return len(work.writes) >= WRITES_MAX - _RESERVED


def can_answer(work: ForgeWork, words: int) -> bool:
    """Return whether so many words can still be answered: each by two writes, after a push."""
    return len(work.writes) + 2 * words < WRITES_MAX - _RESERVED


def begun(work: ForgeWork, wishes: Iterable[Wish], *, now_ms: int) -> ForgeWork:
    """Return the work with these writes due. One that its cause has already is not added.

    Raises:
        Refused: too_many_writes.
        Invalid: a wish has no key.
    """
    writes, number = list(work.writes), work.next
    known = {(each.kind, each.key) for each in writes}
    for wish in wishes:
        if not wish.key:
            raise Invalid(f"A write of kind {wish.kind!r} has no cause.", remedy="Give its key.")
        if (wish.kind, wish.key) in known:
            writes = [_revived(each, wish, now_ms) for each in writes]
            continue
        room = WRITES_MAX if wish.kind in _FOR_THE_END else WRITES_MAX - _RESERVED
        if len(writes) >= room:
            raise Refused(
                "The task made too many writes to the forge.",
                reason="too_many_writes",
                remedy="Go on by hand on the forge.",
            )
        known.add((wish.kind, wish.key))
        if wish.kind == "push":
            # Work that was replaced before it was pushed.
            writes = [_superseded(each, now_ms) for each in writes]
        text = wish.text if wish.text is None else wish.text[:_TEXT_MAX]
        writes.append(
            ForgeWrite.new(
                kind=wish.kind,
                key=wish.key,
                n=number,
                target=wish.target,
                text=text,
                at_ms=now_ms,
            )
        )
        number += 1
    return work if writes == work.writes else work.evolve(writes=writes, next=number)


def _superseded(write: ForgeWrite, now_ms: int) -> ForgeWrite:
    if (write.kind, write.state) != ("push", "due"):
        return write
    return write.evolve(state="dropped", at_ms=now_ms)


def _revived(write: ForgeWrite, wish: Wish, now_ms: int) -> ForgeWrite:
    """Return a dropped write as due again: it was never made."""
    if (write.kind, write.key, write.state) != (wish.kind, wish.key, "dropped"):
        return write
    return write.evolve(state="due", target=wish.target, text=wish.text, at_ms=now_ms)


def finished(
    work: ForgeWork, n: int, *, there: str | None, digest: str | None, now_ms: int
) -> ForgeWork:
    """Return the work with a write done. A done write keeps its first id; its digest may change.

    Raises:
        Refused: no_such_write.
    """
    write = numbered(work, n)
    if write.state == "done":
        if digest is None or digest == write.digest:
            return work
        return _with(work, write.evolve(digest=digest, at_ms=now_ms))
    done = write.evolve(state="done", id=there, digest=digest, text=None, at_ms=now_ms)
    return _with(work, done)


def dropped(work: ForgeWork, n: int, *, now_ms: int) -> ForgeWork:
    """Return the work with a due write that is not wanted any more. A done one stays done."""
    write = numbered(work, n)
    if write.state != "due":
        return work
    return _with(work, write.evolve(state="dropped", text=None, at_ms=now_ms))


def ended(work: ForgeWork, *, now_ms: int) -> ForgeWork:
    """Return the work without due writes that have no use after its end."""
    for write in work.writes:
        if write.state == "due" and write.kind in _NO_USE_AFTER_THE_END:
            work = dropped(work, write.n, now_ms=now_ms)
    return work


def numbered(work: ForgeWork, n: int) -> ForgeWrite:
    """Return the write with that number. Raises Refused (no_such_write)."""
    found = next((each for each in work.writes if each.n == n), None)
    if found is None:
        raise Refused(
            f"No write to the forge has the number {n}.",
            reason="no_such_write",
            remedy="Begin it first.",
        )
    return found


def next_due(work: ForgeWork) -> ForgeWrite | None:
    """Return the write that is to be made now. The order is that of their kinds, then of time."""
    waiting = [each for each in work.writes if each.state == "due"]
    return min(waiting, key=lambda each: (_ORDER.index(each.kind), each.n), default=None)


def only_looked_for(work: ForgeWork, write: ForgeWrite) -> bool:
    """Return whether a due write must not be made any more, but may have been made before.

    If it is found on the forge it is finished with its id, and otherwise dropped.
    """
    return work.outcome is not None and write.kind == "pull"


def made(work: ForgeWork, kind: WriteKind, key: str) -> bool:
    """Return whether a cause has its write of this kind, and it is done."""
    write = write_of(work, kind, key)
    return write is not None and write.state == "done"


def _with(work: ForgeWork, write: ForgeWrite) -> ForgeWork:
    return work.evolve(writes=[write if each.n == write.n else each for each in work.writes])
