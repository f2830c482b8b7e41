"""What came of a call, in a few words."""

from __future__ import annotations

import pytest

from bullpen.agents.system.transcript import RESULT_CHARS_MAX, recorded_result
from bullpen.view.calls.call_line import call_line
from bullpen.view.calls.call_outcome import call_outcome, output_of, summary_of_tests
from support.rows import each_row


@each_row(
    ("output", "said"),
    [
        ("....\n12 passed in 0.30s", "12 passed"),
        ("F.\n==== 1 failed, 11 passed, 2 warnings in 61.2s (0:01:01) ==", "1 failed, 11 passed"),
        ("=== 2 errors in 0.1s ===", "2 errors"),
        ("1 passed, 1 error in 0.1s", "1 error, 1 passed"),
        (
            (
                "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n"
                "test result: FAILED. 2 passed; 1 failed; 0 ignored"
            ),
            "1 failed, 5 passed, 1 skipped",
        ),
        ("--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\tx\t0.1s", "1 failed, 1 passed"),
        ("ok  \tx/a\t0.1s\nok  \tx/b\t(cached)", "packages 2 passed"),
        ("# tests 4\n# pass 3\n# fail 1", "1 failed, 3 passed"),
        ("ℹ pass 3\nℹ fail 0", "3 passed"),
        ("Tests:       1 failed, 11 passed, 12 total\nTime: 2 s", "1 failed, 11 passed"),
        ("      Tests  12 passed (12)", "12 passed"),
        ("  5 passing (20ms)\n  1 failing", "1 failed, 5 passed"),
        ("Ran 3 tests in 0.001s\n\nFAILED (failures=1)", "1 failed, 2 passed"),
        ("Ran 3 tests in 0.001s\n\nOK", "3 passed"),
        ("\x1b[32m\x1b[1m12 passed\x1b[0m\x1b[32m in 0.3s\x1b[0m", "12 passed"),
        ("the review is passed in 3 rounds", ""),
        ("", ""),
    ],
)
def test_a_test_run_is_summed_up(output: str, said: str) -> None:
    assert summary_of_tests(output) == said


@pytest.mark.parametrize(
    ("name", "output", "failed", "said"),
    [
        ("Bash", "a\nb\nc\n", False, "3 lines"),
        ("Bash", "(no output)", False, "no output"),
        ("Bash", "Exit code 2\nls: no such file", True, "exit code 2"),
        ("Bash", "Exit code 1\n1 failed in 0.1s", True, "1 failed"),
        ("Read", "     1\tone", False, "1 line"),
        ("TaskUpdate", "Updated task #1", False, ""),
        ("TaskUpdate", "There is no task #9.\nUse TaskList.", True, "There is no task #9."),
    ],
)
def test_a_call_is_summed_up(name: str, output: str, failed: bool, said: str) -> None:
    assert call_outcome(name, output, failed=failed) == said


def test_the_end_of_a_long_output_is_recorded_and_its_lines_are_counted() -> None:
    """The summary of a test run is in its last line."""
    long = "\n".join([*(f"test {n} {'.' * 80}" for n in range(500)), "500 passed in 9.0s"])
    recorded = recorded_result(long)
    assert len(recorded) < RESULT_CHARS_MAX + 200
    assert summary_of_tests(recorded) == "500 passed"
    lines = "\n".join(f"line {n} {'.' * 80}" for n in range(500))
    assert call_outcome("Bash", recorded_result(lines), failed=False) == "500 lines"
    assert recorded_result("short\n") == "short\n"


def test_output_that_a_program_reports_as_json_is_read() -> None:
    assert output_of('{"stdout":"3 passed in 1s","stderr":"","interrupted":false}') == (
        "3 passed in 1s"
    )
    assert output_of('{"file":{"content":"x"}}') == "x"
    assert output_of('{"a": 1}') == '{"a": 1}'
    assert output_of("{broken") == "{broken"


def test_what_is_said_of_a_call_is_cut_after_a_word() -> None:
    words = "cannot be found " * 20
    for said in (call_line("Bash", {"command": words}), call_outcome("Read", words, failed=True)):
        assert said.endswith((" cannot…", " be…", " found…"))


def test_the_answer_to_a_question_is_what_came_of_it() -> None:
    answered = "A person answered: Red, and keep the tests."

    assert call_outcome("AskUserQuestion", answered, failed=False) == (
        "you answered: Red, and keep the tests."
    )
    unanswered = "Nobody answered in time. Go on."
    assert call_outcome("AskUserQuestion", unanswered, failed=False) == unanswered
