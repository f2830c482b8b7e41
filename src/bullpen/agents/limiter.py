"""One limiter for each credential, shared by all processes of this machine through a file.

When the API says "too many requests" to one agent, every agent with the same key slows down:
requests go one at a time, a common delay apart, until the API takes them again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import anyio

from bullpen.agents.drivers.base import TurnFailed
from bullpen.errors import Unavailable

T = TypeVar("T")

DELAY_FIRST_S = 1.0
DELAY_MAX_S = 60.0
PATIENCE_S = 600.0
"""How long an agent goes on trying while the API says "too many requests" or "overloaded"."""

BROKEN_TRIES = 5
"""How often a request is sent when the server or the connection breaks."""

START_GAP_S = 0.1
"""First requests are at least this far apart, so that a whole team does not start at once."""

WAITING = "the model's rate limit"

_LOCK_TRIES = 500
_LOCK_EVERY_S = 0.01
_LOOK_EVERY_S = 5.0

Kind = Literal["limited", "broken", "refused", "too_long"]
Waiting: TypeAlias = Callable[[str], AbstractContextManager[None]]


class RequestFailed(Exception):
    """One attempt that failed: in the API's words, with what was said before it broke off."""

    def __init__(
        self,
        kind: Kind,
        words: str,
        *,
        remedy: str = "",
        retry_after_s: float | None = None,
        partial: str = "",
    ) -> None:
        super().__init__(words)
        self.kind = kind
        self.words = words
        self.remedy = remedy
        self.retry_after_s = retry_after_s
        self.partial = partial


@dataclass(slots=True)
class _State:
    """What the file holds. `epoch` counts the times that the delay was raised."""

    written: float = 0.0
    not_before: float = 0.0
    delay: float = 0.0
    next_start: float = 0.0
    epoch: int = 0


class Limiter:
    """The limiter of one credential, as one agent uses it. The credential itself is not stored."""

    def __init__(
        self,
        folder: Path,
        credential: str,
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        digest = hashlib.sha256(b"bullpen limiter\0" + credential.encode()).hexdigest()[:24]
        self.path = folder / f"{digest}.json"
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._started = False

    async def run(self, attempt: Callable[[], Awaitable[T]], *, waiting: Waiting) -> T:
        """Make a request: again after a failure that passes, and never faster than allowed.

        Raises:
            TurnFailed: the API refused for good, or for longer than anybody should wait.
            RequestFailed: the prompt is too long; only the caller can do something about it.
        """
        deadline = self._clock() + self._patience_s
        broken = 0
        last: RequestFailed | None = None
        while True:
            ticket = await self._turn(deadline, last, waiting)
            try:
                answer = await attempt()
            except RequestFailed as failed:
                last = failed
                if failed.kind == "limited":
                    await self._failed(ticket, failed.retry_after_s)
                    continue
                if failed.kind == "too_long":
                    raise
                broken += 1
                if failed.kind == "refused" or broken >= BROKEN_TRIES:
                    raise _for_good(failed, broken) from failed
                with waiting("the model's API to work again"):
                    await self._sleep(self._jittered(min(2.0 ** (broken - 1), 10.0)))
            else:
                await self._succeeded(ticket)
                return answer

    async def _turn(self, deadline: float, last: RequestFailed | None, waiting: Waiting) -> int:
        """Wait until a request may go. Returns the epoch in which it goes."""
        wait_s, epoch = await self._ask()
        if wait_s <= 0:
            return epoch
        with waiting(WAITING):
            while wait_s > 0:
                if self._clock() + wait_s > deadline:
                    raise self._out_of_patience(last, wait_s)
                await self._sleep(min(wait_s, _LOOK_EVERY_S))
                wait_s, epoch = await self._ask()
        return epoch

    async def _ask(self) -> tuple[float, int]:
        """How long to wait, and the epoch. With 0, the place in the line is taken."""
        async with _Held(self.path) as file:
            now = self._clock()
            state = _read(file, now)
            due = state.not_before
            if not self._started:
                due = max(due, state.next_start)
            if due > now:
                return due - now, state.epoch
            if not self._started:
                self._started = True
                state.next_start = now + START_GAP_S
            if state.delay > 0:
                state.not_before = now + self._jittered(state.delay)
            _write(file, state, now)
            return 0.0, state.epoch

    async def _failed(self, epoch: int, retry_after_s: float | None) -> None:
        async with _Held(self.path) as file:
            now = self._clock()
            state = _read(file, now)
            # Requests that were under way together and fail together are one failure.
            if epoch == state.epoch:
                state.delay = min(max(state.delay * 2, DELAY_FIRST_S), DELAY_MAX_S)
                state.epoch += 1
            wait_s = max(state.delay, retry_after_s or 0.0)
            state.not_before = max(state.not_before, now + self._jittered(wait_s))
            _write(file, state, now)

    async def _succeeded(self, epoch: int) -> None:
        async with _Held(self.path) as file:
            now = self._clock()
            state = _read(file, now)
            # What was sent before the API began to refuse says nothing about now.
            if epoch != state.epoch or state.delay == 0:
                return
            state.delay /= 2
            if state.delay < DELAY_FIRST_S:
                state.delay = 0.0
            state.not_before = now + state.delay
            _write(file, state, now)

    def _jittered(self, seconds: float) -> float:
        return seconds * (1 + 0.25 * self._chance())

    def _out_of_patience(self, last: RequestFailed | None, wait_s: float) -> TurnFailed:
        words = "" if last is None else f" It last said: {last.words}"
        return TurnFailed(
            f"The model's API takes no more requests with this key; the next may go in"
            f" {wait_s:.0f} s, and {self._patience_s:.0f} s is the longest wait.{words}",
            remedy="Give the agent another turn later, or run fewer agents with this key.",
            partial="" if last is None else last.partial,
        )


def _for_good(failed: RequestFailed, tries: int) -> TurnFailed:
    often = f" {tries} times" if failed.kind == "broken" else ""
    return TurnFailed(
        f"The model's API failed{often}: {failed.words}",
        remedy=failed.remedy or "Give the agent another turn later.",
        partial=failed.partial,
    )


class _Held:
    """The limiter's file, locked. The lock is held for a moment only, so the wait is short."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    async def __aenter__(self) -> int:
        with _told(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(_LOCK_TRIES):
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await anyio.sleep(_LOCK_EVERY_S)
                else:
                    return self._file
            raise Unavailable(
                f"Another process holds the lock of {self._path} and does not let go.",
                remedy="See which one: fuser " + str(self._path),
            )
        except BaseException:
            os.close(self._file)
            raise

    async def __aexit__(self, *args: object) -> None:
        os.close(self._file)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"Cannot open {path}, which all agents with this key share: {error.strerror}.",
            remedy="Make its directory writable.",
        ) from error


def _read(file: int, now: float) -> _State:
    """The state. What cannot be read, or is from a clock that was set back, is no penalty."""
    raw = os.pread(file, 4096, 0)
    try:
        kept = json.loads(raw)
        state = _State(**kept)
        numbers = all(isinstance(value, int | float) for value in kept.values())
        valid = numbers and 0.0 <= state.written <= now + 1.0
    except (ValueError, TypeError):
        valid = False
    return state if valid else _State()


def _write(file: int, state: _State, now: float) -> None:
    state.written = now
    raw = json.dumps(asdict(state)).encode()
    os.pwrite(file, raw, 0)
    os.ftruncate(file, len(raw))
