"""What evals say about the shapes of work."""

from __future__ import annotations

import pytest

from bullpen.runs.eval.past_shapes import measured_shapes
from bullpen.runs.eval.statistics import Judged, Measures, Verdict


def trials(
    arm: str, passed: int, tasks: int, *, repeat: int = 1, usd: float = 1.0, unpriced: int = 0
) -> list[Judged]:
    verdicts: list[Verdict] = ["passed" if at < passed else "failed" for at in range(tasks)]
    measures = Measures(usd=usd, unpriced=unpriced)
    return [Judged(f"t{at}", arm, each, measures) for at, each in enumerate(verdicts)] * repeat


def test_each_arm_of_agents_is_the_shape_of_its_name() -> None:
    found = measured_shapes(
        [
            *(trials("solo", 15, 20, usd=0.5) + trials("team", 5, 20)),
            *trials("solo+review", 10, 20),
            *trials("oracle", 20, 20),
        ]
    )
    shown = {
        shape: (round(seen.low, 3), round(seen.high, 3), seen.usd) for shape, seen in found.items()
    }
    assert shown == {
        "solo": (0.531, 0.888, 10 / 15),
        "solo+review": (0.299, 0.701, 2.0),
        "team": (0.112, 0.469, 4.0),
    }


def test_few_tasks_say_nothing_however_often_they_were_repeated() -> None:
    assert measured_shapes(trials("solo", 9, 9) + trials("team", 0, 9)) == {}
    assert measured_shapes(trials("solo", 9, 9, repeat=50) + trials("team", 0, 9, repeat=50)) == {}


def test_repeating_a_task_does_not_make_the_interval_smaller() -> None:
    once = measured_shapes(trials("solo", 8, 12) + trials("team", 4, 12))
    often = measured_shapes(trials("solo", 8, 12, repeat=30) + trials("team", 4, 12, repeat=30))
    for shape, seen in often.items():
        assert (seen.low, seen.high) == pytest.approx((once[shape].low, once[shape].high))


def test_shapes_are_compared_on_tasks_that_all_were_judged_on() -> None:
    """The eval was stopped: the team has only the ten easy tasks."""
    found = measured_shapes(trials("solo", 10, 30) + trials("team", 10, 10))
    assert found["solo"] == found["team"]


def test_a_shape_that_was_hardly_tried_is_left_out() -> None:
    found = measured_shapes(
        trials("solo", 10, 20) + trials("team", 10, 20) + trials("solo+review", 2, 2)
    )
    assert set(found) == {"solo", "team"}


def test_trials_that_could_not_be_run_count_for_no_shape() -> None:
    errors = [Judged(f"t{at}", "team", "error", Measures()) for at in range(20)]
    assert set(measured_shapes(trials("solo", 10, 20) + errors)) == {"solo"}


@pytest.mark.parametrize(("usd", "unpriced"), [(0.0, 0), (1.0, 1)])
def test_a_price_that_is_not_known_is_no_price(usd: float, unpriced: int) -> None:
    found = measured_shapes(
        trials("solo", 10, 20, usd=usd, unpriced=unpriced) + trials("team", 10, 20)
    )
    assert (found["solo"].usd, found["team"].usd) == (None, 2.0)
