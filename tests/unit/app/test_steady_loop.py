"""A process that was stopped: its timeouts count only the time in which it could run."""

from __future__ import annotations

import pytest

from bullpen.app.steady_loop import LateSelector


class Clock:
    def __init__(self, *times_s: float) -> None:
        self._times_s = list(times_s)

    def __call__(self) -> float:
        return self._times_s.pop(0)


@pytest.mark.parametrize(
    ("times_s", "lost_s"),
    [
        ((0.0, 0.01, 0.02, 0.03), 0.0),
        # Stopped while it waits, while it works, and both.
        ((0.0, 180.0, 180.1, 180.2), 180.0),
        ((0.0, 0.0, 180.0, 180.1), 180.0),
        ((0.0, 60.0, 180.0, 180.1), 180.0),
        # A busy machine is no stop.
        ((0.0, 9.0, 18.0, 27.0), 0.0),
    ],
)
def test_the_time_in_which_it_was_stopped_is_counted(
    times_s: tuple[float, ...], lost_s: float
) -> None:
    selector = LateSelector(Clock(*times_s))
    for _ in range(2):
        selector.select(0)
    assert selector.lost_s == pytest.approx(lost_s)
    selector.close()


def test_a_long_wait_without_a_timeout_is_no_stop() -> None:
    selector = LateSelector(Clock(0.0, 0.0, 0.0, 3600.0))
    selector.select(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LateSelector.__bases__[0], "select", lambda *_: [])
        selector.select(None)
    assert selector.lost_s == 0
    selector.close()
