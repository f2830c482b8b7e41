"""When a turn is ended because its model repeats itself or makes too many requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pytest

from bullpen.team.agents.turn_rules import MadeCall, TurnCalls

MOST = 40


def call(
    tool: str, given: object = "", text: str = "the same", *, failed: bool = False, kind: str = ""
) -> MadeCall:
    return MadeCall(
        tool,
        f"{tool} {given}",
        text,
        failed=failed,
        changes=kind in ("write", "run"),
        is_command=kind == "run",
    )


def refused(tool: str, given: object = "", text: str = "It is not allowed.") -> MadeCall:
    return call(tool, given, text, failed=True)


def requests(answers: Callable[[int], Iterable[MadeCall]], calls: TurnCalls | None = None) -> int:
    """How many requests a model makes that answers like this, before its turn is ended."""
    turn = calls or TurnCalls(math.inf)
    for number in range(MOST):
        turn.asks()
        if turn.stopped is not None:
            return number
        for made in answers(number):
            turn.answered(made)
    return MOST


def test_the_same_call_with_the_same_result_ends_the_turn_the_sixth_time() -> None:
    turn = TurnCalls(math.inf)
    assert requests(lambda n: [call("Read", "a.py")], turn) == 6
    assert turn.stopped is not None and turn.stopped.cause == "repeats"
    assert "Read" in turn.stopped.sentence and "6 times" in turn.stopped.sentence


def test_the_model_is_told_from_the_third_time_on() -> None:
    turn, told = TurnCalls(math.inf), []
    for _ in range(5):
        turn.asks()
        told.append(turn.answered(call("Read", "a.py")))
    assert told[:2] == [None, None]
    assert told[2] == (
        "You made this call 3 times with the same result."
        " Do something else, or end your turn and say what is missing."
    )
    assert "4 times" in str(told[3])


@pytest.mark.parametrize("many", [2, 3])
def test_some_calls_in_turn_are_a_loop_too(many: int) -> None:
    assert requests(lambda n: [call("Read", n % many)]) == many + 7
    assert requests(lambda n: [call("Edit", n % many, kind="write")]) == many + 7, "back and forth"


@pytest.mark.parametrize(
    "made",
    [
        lambda n: refused("Finish", n),
        lambda n: refused("Finish", n, f"The field 'x{n}' is not known. Say something else."),
        lambda n: refused("Finish", n, f"{'x' * n} is not allowed. (reason: denied) Do not."),
        lambda n: refused("Finish", n, f"Invalid input for Finish: {'x' * n}: not permitted."),
        lambda n: refused(f"Tool{n}", n, f"There is no tool 'Tool{n}'. Did you mean {'x' * n}?"),
    ],
)
def test_the_same_refusal_of_growing_input_ends_the_turn(made: Callable[[int], MadeCall]) -> None:
    assert requests(lambda n: [made(n)]) == 8


def test_what_brings_something_new_is_no_loop() -> None:
    assert requests(lambda n: [call("Read", n)]) == MOST
    assert requests(lambda n: [call("Read", "a.py", f"line {n}")]) == MOST, "another result"
    assert requests(lambda n: [refused("Edit", n), call("Read", n)]) == MOST
    errors = [f"Exit code 1\nno {'x' * n}" for n in range(MOST)]
    tries = [call("Bash", n, error, failed=True, kind="run") for n, error in enumerate(errors)]
    assert requests(lambda n: [tries[n]]) == MOST


def test_other_commands_that_fail_without_output_are_no_loop() -> None:
    made = [call("Bash", n, "Exit code 1", failed=True, kind="run") for n in range(MOST)]
    assert requests(lambda n: [made[n]]) == MOST


def test_a_check_may_run_after_every_change() -> None:
    def edits_and_checks(n: int) -> list[MadeCall]:
        check = call("Bash", "ruff check", "All checks passed!", kind="run")
        return [call("Edit", n // 2, kind="write") if n % 2 else check]

    assert requests(edits_and_checks) == MOST


def test_the_same_change_again_is_no_change() -> None:
    def edits_and_checks(n: int) -> list[MadeCall]:
        check = call("Bash", "ruff check", "All checks passed!", kind="run")
        return [call("Write", "a.py", kind="write") if n % 2 else check]

    assert requests(edits_and_checks) == 10


def test_times_in_a_result_make_no_difference() -> None:
    def test_run(n: int) -> list[MadeCall]:
        text = f"Exit code 1\n1 failed in {n}.{n} s"
        return [call("Bash", "pytest", text, failed=True, kind="run")]

    assert requests(test_run) == 6


def test_calls_of_one_answer_count_once() -> None:
    assert requests(lambda n: [call("Read", "a.py")] * 9) == 6
    assert requests(lambda n: [refused("Edit", f"{n} {each}") for each in range(20)]) == 8
    fresh = [refused("Edit", "a"), call("Read", 0)]
    assert requests(lambda n: [fresh[0], call("Read", n)] if n < 5 else []) == MOST


def test_waiting_calls_neither_count_nor_bring_anything_new() -> None:
    waits = MadeCall("TaskList", "TaskList", "none", waits=True)
    assert requests(lambda n: [waits]) == MOST
    assert requests(lambda n: [refused("Finish") if n % 2 else waits]) == 12


def test_without_requests_every_call_counts_as_an_answer() -> None:
    turn = TurnCalls(math.inf)
    for number in range(MOST):
        turn.answered(refused("Finish", number))
        if turn.stopped is not None:
            break
    assert number == 7


def test_a_turn_has_a_limit_of_requests() -> None:
    turn = TurnCalls(12)
    assert requests(lambda n: [call("Read", n)], turn) == 12
    assert turn.stopped is not None and turn.stopped.cause == "requests"
    assert "12 model requests" in turn.stopped.sentence
