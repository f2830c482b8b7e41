"""Which notices are due when: kinds, quiet hours, the morning's digest, and new tries. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from bullpen.runs.watch.quiet_hours import is_quiet
from bullpen.view.notable_events import Happening, Kind

BLOCKED: tuple[Kind, ...] = ("asked", "failed")
"""What a person alone can go on with."""

PINGS: tuple[Kind, ...] = (*BLOCKED, "ended")
"""What is sent to a person unless they want more: "blocked on you" and "done"."""

WAITING_MAX = 200
"""How many notices wait for one target; beyond that the oldest are dropped."""

SENT_MAX = 1_000
"""How many causes are remembered as sent."""

DIGEST_FROM = 5
"""From how many notices on that are due together they are sent as one."""

_PAUSE_MS = 5_000
_PAUSE_MAX_MS = 15 * 60_000
_DOUBLINGS_MAX = 20


@dataclass(frozen=True, slots=True)
class WaitingNotice:
    """A happening that waits to be sent to one target."""

    cause: str
    happening: Happening
    heard_ms: int
    # Whether it came up in quiet hours: then it is part of a digest.
    held: bool = False
    tries: int = 0
    next_ms: int = 0
    # The browsers that have it already, if the target is all of them.
    got: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """What to send now, all of it as one notice, or how long there is nothing to do."""

    notices: tuple[WaitingNotice, ...] = ()
    # None: until something happens.
    wait_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """What waits for one target, and the causes of what it got, oldest first."""

    waiting: tuple[WaitingNotice, ...] = ()
    sent: tuple[str, ...] = ()
    dropped: int = field(default=0, compare=False)


def cause_of(happening: Happening) -> str:
    """What a notice is about. Of one cause, only one notice is sent."""
    about = happening.request or (happening.at if happening.seq is None else str(happening.seq))
    return f"{happening.kind}:{about}:{happening.task or ''}:{happening.agent or ''}"


def heard(line: Line, happening: Happening, *, now_ms: int, quiet: bool) -> Line:
    """The line after a happening, which waits once."""
    cause = cause_of(happening)
    if cause in line.sent or any(each.cause == cause for each in line.waiting):
        return line
    waiting = (*line.waiting, WaitingNotice(cause, happening, now_ms, held=quiet))
    over = max(0, len(waiting) - WAITING_MAX)
    return replace(line, waiting=waiting[over:], dropped=line.dropped + over)


def settled(line: Line, causes: Sequence[str]) -> Line:
    """The line after notices were sent, or need not be sent any more."""
    left = tuple(each for each in line.waiting if each.cause not in causes)
    return replace(line, waiting=left, sent=(*line.sent, *causes)[-SENT_MAX:])


def failed(line: Line, causes: Sequence[str], *, now_ms: int) -> Line:
    """The line after notices could not be sent: they are tried again, after a longer pause."""
    return replace(
        line,
        waiting=tuple(
            replace(each, tries=each.tries + 1, next_ms=now_ms + pause_ms(each.tries + 1))
            if each.cause in causes
            else each
            for each in line.waiting
        ),
    )


def held_over(line: Line) -> Line:
    """The line in quiet hours: whatever waits becomes part of the digest."""
    if all(each.held for each in line.waiting):
        return line
    return replace(line, waiting=tuple(replace(each, held=True) for each in line.waiting))


def reached(line: Line, causes: Sequence[str], place: str) -> Line:
    """The line after one of several places of a target got notices."""
    return replace(
        line,
        waiting=tuple(
            replace(each, got=(*each.got, place)) if each.cause in causes else each
            for each in line.waiting
        ),
    )


def pause_ms(tries: int) -> int:
    """How long to wait after this many tries."""
    return min(_PAUSE_MAX_MS, _PAUSE_MS << min(tries - 1, _DOUBLINGS_MAX))


def due(line: Line, *, now_ms: int, quiet: bool, at_once: bool = False) -> Due:
    """What to send now. In quiet hours that is nothing; after them, one digest of what was held.

    With `at_once`, pauses do not count: the run ends, and this is the last moment.
    """
    if quiet or not line.waiting:
        return Due()
    ready = [each for each in line.waiting if at_once or each.next_ms <= now_ms]
    if not ready:
        return Due(wait_ms=min(each.next_ms for each in line.waiting) - now_ms)
    held = tuple(each for each in ready if each.held)
    if held:
        return Due(held)
    return Due(tuple(ready) if len(ready) >= DIGEST_FROM else (ready[0],))


def is_quiet_at(span: str | None, at: datetime) -> bool:
    """Whether a target is not disturbed at a local time."""
    return span is not None and is_quiet([span], at)


def quiet_ends_ms(span: str | None, at: datetime) -> int | None:
    """In how many milliseconds quiet hours end or begin; None without quiet hours."""
    if span is None:
        return None
    now = is_quiet([span], at)
    # A minute is the smallest step, and at most a day has to be looked at.
    moment = at.replace(second=0, microsecond=0)
    for minutes in range(1, 24 * 60 + 1):
        later = moment + timedelta(minutes=minutes)
        if is_quiet([span], later) != now:
            return int((later - at).total_seconds() * 1000)
    return None
