"""One rate limiter per credential, shared by all processes of this machine through a file.

When the API answers "too many requests" to one agent, all agents with the same key slow down:
requests are sent one at a time, with a shared delay, until the API accepts them again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import anyio

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.errors import Unavailable
from bullpen.store.private_folder import make_private

T = TypeVar("T")

DELAY_FIRST_S = 1.0
DELAY_MAX_S = 60.0
PATIENCE_S = 600.0
"""How long an agent retries while the API answers "too many requests" or "overloaded"."""

BROKEN_TRIES = 5
"""How often a request is tried if the server or the connection fails."""

START_GAP_S = 0.1
"""The least time between first requests, so that a whole team does not start at once."""

WAITING = "the model's rate limit"

_LOCK_TRIES = 500
_LOCK_EVERY_S = 0.01
_LOOK_EVERY_S = 5.0

Kind = Literal["limited", "broken", "refused", "too_long"]
Waiting: TypeAlias = Callable[[str], AbstractContextManager[None]]


class RequestFailed(Exception):
    """A failed attempt: the API's message, and the partial response before it failed."""

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
    """The content of the file. `epoch` counts how often the delay was raised."""

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
        """Make a request within the rate limit, and retry temporary failures.

        Raises TurnFailed for permanent failures, and RequestFailed if the prompt is too long.
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
                with waiting("the model's API to recover"):
                    await self._sleep(self._jittered(min(2.0 ** (broken - 1), 10.0)))
            else:
                await self._succeeded(ticket)
                return answer

    async def _turn(self, deadline: float, last: RequestFailed | None, waiting: Waiting) -> int:
        """Wait until a request may be sent. Returns its epoch."""
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
        """How long to wait, and the epoch. 0 means that the slot is now taken."""
        async with _held(self.path) as file:
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
        async with _held(self.path) as file:
            now = self._clock()
            state = _read(file, now)
            # Requests that were sent together and fail together count as one failure.
            if epoch == state.epoch:
                state.delay = min(max(state.delay * 2, DELAY_FIRST_S), DELAY_MAX_S)
                state.epoch += 1
            wait_s = max(state.delay, retry_after_s or 0.0)
            state.not_before = max(state.not_before, now + self._jittered(wait_s))
            _write(file, state, now)

    async def _succeeded(self, epoch: int) -> None:
        async with _held(self.path) as file:
            now = self._clock()
            state = _read(file, now)
            # Success of a request from before the API refused says nothing about now.
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
        words = "" if last is None else f" Its last error was: {last.words}"
        return TurnFailed(
            f"The model's API is rate limited: the next request would have to wait {wait_s:.0f} s,"
            f" longer than the limit of {self._patience_s:.0f} s.{words}",
            remedy="Try again later, or run fewer agents with this API key.",
            partial="" if last is None else last.partial,
        )


def _for_good(failed: RequestFailed, tries: int) -> TurnFailed:
    often = f" {tries} times" if failed.kind == "broken" else ""
    return TurnFailed(
        f"The model's API failed{often}: {failed.words}",
        remedy=failed.remedy or "Try again later.",
        partial=failed.partial,
    )


@asynccontextmanager
async def _held(path: Path) -> AsyncIterator[int]:
    """Yield the limiter's file, locked. Hold it only briefly."""
    try:
        make_private(path.parent)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(
            f"Cannot open {path}, which all agents with this key share: {error.strerror}.",
            remedy="Make its directory writable.",
        ) from error
    try:
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(_LOCK_EVERY_S)
        else:
            raise Unavailable(
                f"Another process holds the lock of {path} and does not release it.",
                remedy=f"Find the process with `fuser {path}`.",
            )
        yield file
    finally:
        os.close(file)


def _read(file: int, now: float) -> _State:
    """The state; without a delay if it cannot be read or the clock was set back."""
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
