"""One rate limiter per credential, shared by all processes of this machine through a file.

When the API answers "too many requests" or "overloaded" to one agent, all agents with the same key
slow down: requests are sent one at a time, with a shared delay, until the API accepts them again.
Broken connections and server errors are retried by each agent alone. A refusal that a retry cannot
change ends the turn at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.errors import Unavailable
from bullpen.protocol.agent import REFUSALS, Failure
from bullpen.store.private_folder import make_private

T = TypeVar("T")

DELAY_FIRST_S = 1.0
DELAY_OVERLOAD_S = 5.0
"""The first delay after "overloaded": an overload takes longer to pass than a rate limit."""

DELAY_MAX_S = 60.0
PATIENCE_S = 600.0
"""How long an agent retries while the API answers "too many requests" or "overloaded"."""

RETRY_S: dict[str, tuple[float, ...]] = {
    "network": (0.2, 1.0, 4.0, 12.0),
    "server": (1.0, 2.0, 4.0, 8.0),
}
"""The pauses before a request is sent again after the connection or the server failed.

A connection that broke often works again at once.
"""

START_GAP_S = 0.1
"""The least time between first requests, so that a whole team does not start at once."""

WAITING = "the model's rate limit"
WAITING_OVERLOAD = "the model's API, which is overloaded"

_FORGET_S = 300.0
"""After so long without a request, an earlier limit no longer slows anybody down."""

_LOCK_TRIES = 500
_LOCK_EVERY_S = 0.01
_LOOK_EVERY_S = 5.0

_WORDS: dict[Failure, str] = {
    "rate_limit": "{api} limits the rate of requests",
    "overload": "{api} is overloaded",
    "network": "the connection to {api} failed",
    "server": "{api} failed with an error of its own",
    "key": "{api} does not accept the API key",
    "permission": "{api} does not allow the request",
    "credit": "{api} says that the account has no credit left",
    "model": "{api} does not know the model",
    "rejected": "{api} does not accept the request",
    "too_long": "{api} says that the prompt is too long",
    "endless": "{api} sent an answer without an end",
}

Waiting: TypeAlias = Callable[[str], AbstractContextManager[None]]


class RequestFailed(Exception):
    """A failed attempt: the API's message, and the partial response before it failed."""

    def __init__(
        self,
        kind: Failure,
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
    """The content of the file. `epoch` counts how often the delay was raised.

    Times are of the machine's monotonic clock: setting the clock changes no delay.
    """

    written: float = 0.0
    not_before: float = 0.0
    delay: float = 0.0
    next_start: float = 0.0
    epoch: int = 0
    overloaded: bool = False


class Limiter:
    """The limiter of one credential, as one agent uses it. The credential itself is not stored."""

    def __init__(
        self,
        folder: Path,
        credential: str,
        *,
        api: str = "the model's API",
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        digest = hashlib.sha256(b"bullpen limiter\0" + credential.encode()).hexdigest()[:24]
        self.path = folder / f"{digest}.json"
        self._api = api
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._started = False

    async def run(self, attempt: Callable[[], Awaitable[T]], *, waiting: Waiting) -> T:
        """Make a request within the rate limit, and retry temporary failures.

        Raises TurnFailed when retries do not help, and RequestFailed if the API does not accept the
        conversation, which the caller may be able to change.
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
                if failed.kind in ("rate_limit", "overload"):
                    await self._failed(ticket, failed)
                    continue
                if failed.kind in ("too_long", "rejected"):
                    raise
                pauses = RETRY_S.get(failed.kind, ())
                if broken >= len(pauses):
                    raise self._gave_up(failed, broken + 1) from failed
                pause_s = max(self._jittered(pauses[broken]), failed.retry_after_s or 0.0)
                if self._clock() + pause_s > deadline:
                    raise self._out_of_patience(failed, pause_s) from failed
                broken += 1
                with waiting(self._awaited(failed.kind)):
                    await self._sleep(pause_s)
            else:
                await self._succeeded(ticket)
                return answer

    async def _turn(self, deadline: float, last: RequestFailed | None, waiting: Waiting) -> int:
        """Wait until a request may be sent. Returns its epoch."""
        wait_s, state = await self._ask()
        if wait_s <= 0:
            return state.epoch
        limit = WAITING_OVERLOAD if state.overloaded else WAITING
        with waiting(limit if last is None else self._awaited(last.kind)):
            while wait_s > 0:
                if self._clock() + wait_s > deadline:
                    why: Failure = "overload" if state.overloaded else "rate_limit"
                    told = last or RequestFailed(why, "an agent with the same key was told so")
                    raise self._out_of_patience(told, wait_s)
                await self._sleep(min(wait_s, _LOOK_EVERY_S))
                wait_s, state = await self._ask()
        return state.epoch

    async def _ask(self) -> tuple[float, _State]:
        """How long to wait, and the shared state. 0 means that the slot is now taken."""
        async with _held(self.path) as file:
            now = self._clock()
            state = _read(file, now)
            due = state.not_before
            if not self._started:
                due = max(due, state.next_start)
            if due > now:
                return due - now, state
            if not self._started:
                self._started = True
                state.next_start = now + START_GAP_S
            if state.delay > 0:
                state.not_before = now + self._jittered(state.delay)
            _write(file, state, now)
            return 0.0, state

    async def _failed(self, epoch: int, failed: RequestFailed) -> None:
        async with _held(self.path) as file:
            now = self._clock()
            state = _read(file, now)
            # Requests that were sent together and fail together count as one failure.
            if epoch == state.epoch:
                state.overloaded = failed.kind == "overload"
                first_s = DELAY_OVERLOAD_S if state.overloaded else DELAY_FIRST_S
                state.delay = min(max(state.delay * 2, first_s), DELAY_MAX_S)
                state.epoch += 1
            wait_s = max(state.delay, failed.retry_after_s or 0.0)
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

    def _awaited(self, kind: Failure) -> str:
        """What an agent waits for after a failure. The API's words are not in it."""
        if kind == "rate_limit":
            return WAITING
        if kind == "overload":
            return WAITING_OVERLOAD
        return f"the connection to {self._api}" if kind == "network" else self._api

    def _out_of_patience(self, last: RequestFailed, wait_s: float) -> TurnFailed:
        return TurnFailed(
            f"{self._words(last.kind)}: the next request would have to wait"
            f" {wait_s:.0f} s, longer than the limit of {self._patience_s:.0f} s. The last error"
            f" was: {last.words}",
            remedy="Try again later, or run fewer agents with this API key.",
            partial=last.partial,
            failure=last.kind,
        )

    def _gave_up(self, failed: RequestFailed, tries: int) -> TurnFailed:
        often = f" {tries} times" if tries > 1 else ""
        return TurnFailed(
            f"{self._words(failed.kind)}{often}: {failed.words}",
            remedy=failed.remedy or "Try again later.",
            partial=failed.partial,
            for_good=failed.kind in REFUSALS,
            failure=failed.kind,
        )

    def _words(self, kind: Failure) -> str:
        words = _WORDS[kind].format(api=self._api)
        return words[:1].upper() + words[1:]


def limits_in(env: Mapping[str, str], desk: Desk) -> Path:
    """The folder in which the agents of this machine share their rate limits."""
    if home := env.get("BULLPEN_HOME"):
        return Path(home) / "limits"
    if home := env.get("HOME"):
        return Path(home) / ".bullpen" / "limits"
    return desk.folder.parent / "limits"


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
    if not valid:
        return _State()
    if now > max(state.written, state.not_before) + _FORGET_S:
        state.delay = 0.0
    return state


def _write(file: int, state: _State, now: float) -> None:
    state.written = now
    raw = json.dumps(asdict(state)).encode()
    os.pwrite(file, raw, 0)
    os.ftruncate(file, len(raw))
