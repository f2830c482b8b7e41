"""One limiter for a credential, over all processes: no request goes faster than the API allows."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.native.limiter import (
    DELAY_MAX_S,
    DELAY_OVERLOAD_S,
    RETRY_S,
    START_GAP_S,
    WAITING,
    WAITING_OVERLOAD,
    Limiter,
    RequestFailed,
)
from bullpen.protocol.agent import Failure


class Clock:
    """A clock that only sleeping moves; all sleepers share it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        until = self.now + seconds
        await anyio.lowlevel.checkpoint()
        self.now = max(self.now, until)


class Api:
    """An API that refuses until a time, or until told otherwise; keeps when it was asked."""

    def __init__(
        self,
        clock: Clock,
        *,
        open_at: float,
        retry_after_s: float | None = None,
        kind: Failure = "rate_limit",
    ) -> None:
        self.clock = clock
        self.kind = kind
        self.open_at = open_at
        self.retry_after_s = retry_after_s
        self.asked: list[float] = []

    async def __call__(self) -> str:
        self.asked.append(self.clock.now)
        await anyio.lowlevel.checkpoint()
        if self.clock.now < self.open_at:
            raise RequestFailed(self.kind, "Too many requests", retry_after_s=self.retry_after_s)
        return "answer"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Callable[..., Limiter]:
    def one(credential: str = "key", patience_s: float = 600.0) -> Limiter:
        return Limiter(
            tmp_path / "limits",
            credential,
            patience_s=patience_s,
            clock=clock,
            sleep=clock.sleep,
            chance=lambda: 0.5,
        )

    return one


def waits() -> tuple[list[str], Callable[[str], object]]:
    told: list[str] = []

    @contextmanager
    def waiting(on: str) -> Iterator[None]:
        told.append(on)
        yield

    return told, waiting


async def run(limiter: Limiter, api: Callable[[], Awaitable[str]]) -> str:
    _, waiting = waits()
    return await limiter.run(api, waiting=waiting)  # type: ignore[arg-type]


async def test_five_minutes_of_429_end_well_with_few_requests(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    """R-3.7."""
    told, waiting = waits()
    api = Api(clock, open_at=clock.now + 300)
    began = clock.now
    assert await make().run(api, waiting=waiting) == "answer"  # type: ignore[arg-type]
    assert 300 <= clock.now - began < 300 + 2 * DELAY_MAX_S
    assert len(api.asked) <= 12
    gaps = [later - sooner for sooner, later in zip(api.asked, api.asked[1:], strict=False)]
    assert gaps == sorted(gaps), "the delay grows"
    assert max(gaps) <= DELAY_MAX_S * 1.25
    assert WAITING in told


async def test_all_agents_with_one_key_wait_together(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    api = Api(clock, open_at=clock.now + 300)
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(run, make(), api)
    # Eight first requests; after that, one request for each delay, whoever sends it.
    refused = [at for at in api.asked if at < api.open_at]
    assert len(refused) <= 8 + 12
    assert len(api.asked) - len(refused) == 8


async def test_requests_that_fail_together_raise_the_delay_once(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    gate = anyio.Event()
    together: list[float] = []

    async def api() -> str:
        together.append(clock.now)
        if len(together) <= 8:
            if len(together) == 8:
                gate.set()
            await gate.wait()
            raise RequestFailed("rate_limit", "Too many requests")
        return "answer"

    began = clock.now
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(run, make(), api)
    # Doubled for each of the eight, the first of these waits would be a minute.
    assert together[8] - began < 3.0


async def test_a_wait_that_the_api_asks_for_is_kept(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    api = Api(clock, open_at=clock.now + 1, retry_after_s=37.0)
    await run(make(), api)
    first, second = api.asked
    assert 37.0 <= second - first <= 37.0 * 1.25


async def test_successes_bring_back_the_full_speed(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    limiter = make()
    await run(limiter, Api(clock, open_at=clock.now + 100))
    free = Api(clock, open_at=0)
    for _ in range(12):
        await run(limiter, free)
    gaps = [later - sooner for sooner, later in zip(free.asked, free.asked[1:], strict=False)]
    assert gaps[0] > 5.0
    assert gaps[-3:] == [0.0, 0.0, 0.0]


async def test_another_key_is_not_slowed_down(make: Callable[..., Limiter], clock: Clock) -> None:
    with pytest.raises(TurnFailed):
        await run(make(patience_s=20.0), Api(clock, open_at=clock.now + 1000))
    other = Api(clock, open_at=0)
    began = clock.now
    await run(make("another key"), other)
    assert clock.now == began


async def test_patience_ends_with_the_apis_last_words(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    began = clock.now
    with pytest.raises(TurnFailed, match="Too many requests") as caught:
        await run(make(), Api(clock, open_at=clock.now + 10_000))
    assert clock.now - began <= 600
    assert caught.value.remedy


async def test_a_wait_longer_than_the_patience_fails_at_once(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    began = clock.now
    api = Api(clock, open_at=clock.now + 10_000, retry_after_s=7200)
    with pytest.raises(TurnFailed, match="Too many requests"):
        await run(make(), api)
    assert clock.now - began < 10
    assert len(api.asked) == 1


async def test_first_requests_of_a_team_that_starts_at_once_are_staggered(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    api = Api(clock, open_at=0)
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(run, make(), api)
    gaps = [later - sooner for sooner, later in zip(api.asked, api.asked[1:], strict=False)]
    assert min(gaps) >= START_GAP_S * 0.99


async def test_the_key_is_nowhere_on_disk(make: Callable[..., Limiter], clock: Clock) -> None:
    limiter = make("sk-very-secret")
    await run(limiter, Api(clock, open_at=clock.now + 2))
    assert "very-secret" not in str(limiter.path)
    assert b"very-secret" not in limiter.path.read_bytes()
    assert limiter.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[1]", b'{"delay": "x"}', b'{"written": 9e18, "not_before": 9e18}']
)
async def test_a_damaged_file_or_a_clock_set_back_stops_nobody(
    make: Callable[..., Limiter], clock: Clock, damage: bytes
) -> None:
    limiter = make()
    limiter.path.parent.mkdir()
    limiter.path.write_bytes(damage)
    began = clock.now
    assert await run(limiter, Api(clock, open_at=0)) == "answer"
    assert clock.now - began < 1


async def test_an_overload_backs_off_longer_than_a_rate_limit_and_is_told_as_such(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    told, waiting = waits()
    api = Api(clock, open_at=clock.now + 1, kind="overload")
    assert await make().run(api, waiting=waiting) == "answer"  # type: ignore[arg-type]
    first, second = api.asked
    assert DELAY_OVERLOAD_S <= second - first <= 1.25 * DELAY_OVERLOAD_S
    assert WAITING_OVERLOAD in told and WAITING not in told
    with pytest.raises(TurnFailed, match="is overloaded") as caught:
        await run(make(), Api(clock, open_at=clock.now + 10_000, kind="overload"))
    assert caught.value.failure == "overload"


async def test_a_broken_connection_is_tried_again_quickly_then_slower(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    api = Api(clock, open_at=clock.now + 10_000, kind="network")
    with pytest.raises(TurnFailed, match=r"The connection to .* failed 5 times") as caught:
        await run(make(), api)
    gaps = [later - sooner for sooner, later in zip(api.asked, api.asked[1:], strict=False)]
    assert gaps[0] < 0.5 and gaps == sorted(gaps) and gaps[-1] >= 12
    assert (caught.value.failure, caught.value.for_good) == ("network", False)


async def test_a_server_that_says_when_to_come_back_is_obeyed(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    api = Api(clock, open_at=clock.now + 1, kind="server", retry_after_s=30.0)
    assert await run(make(), api) == "answer"
    assert api.asked[1] - api.asked[0] == 30.0
    with pytest.raises(TurnFailed, match="wait 7200 s"):
        await run(make(), Api(clock, open_at=clock.now + 9, kind="server", retry_after_s=7200.0))


async def test_an_old_rate_limit_slows_nobody_down_and_hides_no_other_cause(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    with pytest.raises(TurnFailed):
        await run(make(), Api(clock, open_at=clock.now + 10_000))
    clock.now += 3_600
    told, waiting = waits()
    api, began = Api(clock, open_at=clock.now + 10_000, kind="network"), clock.now
    with pytest.raises(TurnFailed, match="The connection to") as caught:
        await make().run(api, waiting=waiting)  # type: ignore[arg-type]
    assert caught.value.failure == "network"
    assert clock.now - began < 30 and WAITING not in told


async def test_setting_the_clock_changes_no_delay(tmp_path: Path) -> None:
    """The delays that processes share are of the machine's own clock, which nobody sets."""
    assert Limiter(tmp_path, "key")._clock is time.monotonic


async def test_after_a_rate_limit_another_failure_is_what_the_agent_waits_for(
    make: Callable[..., Limiter], clock: Clock
) -> None:
    limited = Api(clock, open_at=clock.now + 30)
    await run(make(), limited)
    told, waiting = waits()
    with pytest.raises(TurnFailed, match="The connection to"):
        await make().run(
            Api(clock, open_at=clock.now + 3600, kind="network"),
            waiting=waiting,  # type: ignore[arg-type]
        )
    failed = told[told.index("the connection to the model's API") :]
    assert len(failed) > len(RETRY_S["network"]), "some waits are for the limit"
    assert set(failed) == {"the connection to the model's API"}
