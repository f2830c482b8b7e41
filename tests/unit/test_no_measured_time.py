"""No test of the gate judges measured time: it would fail on a busy machine, and say nothing."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from support.measured_time import judged_time

ROOT = Path(__file__).parents[2]

JUDGES = {
    "a difference": """
        def test_it():
            began = time.monotonic()
            work()
            assert time.monotonic() - began < 5
        """,
    "a lower bound": """
        def test_it():
            began = time.perf_counter()
            work()
            assert time.perf_counter() - began >= 0.5
        """,
    "between two bounds": """
        def test_it():
            began = time.monotonic()
            work()
            assert 0.2 <= time.monotonic() - began < LIMIT_S
        """,
    "a variable": """
        async def test_it():
            began = time.process_time()
            await work()
            spent = round(time.process_time() - began, 3)
            assert spent < 2, f"it took {spent} s"
        """,
    "the clock of the loop": """
        async def test_it():
            began = anyio.current_time()
            await work()
            assert anyio.current_time() - began < 30
        """,
    "a function that measures": """
        def took(work):
            began = time.monotonic()
            work()
            return time.monotonic() - began

        def test_it():
            assert took(work) < 1
        """,
    "a function that passes on what another one measured": """
        def test_it():
            assert best(work) < 1

        def best(work):
            return min(once(work) for _ in range(3))

        def once(work):
            began = time.time()
            work()
            return time.time() - began
        """,
    "a list of spans": """
        def test_it():
            delays = []
            for each in works:
                began = time.monotonic()
                each()
                delays.append(time.monotonic() - began)
            assert sorted(delays)[3] < 2.0
        """,
    "moments in a list": """
        def test_it():
            moments = []
            work(lambda: moments.append(("done", time.monotonic())))
            first, last = (at for _, at in moments)
            assert last - first >= 0.04
        """,
    "what a function elsewhere measured": """
        def test_it():
            found, took_s = played(work)
            assert took_s < 10
        """,
    "what another process measured": """
        def test_it():
            assert ask("commit")["took"] < 10
        """,
    "about as long": """
        def test_it():
            began = time.monotonic()
            work()
            took_s = time.monotonic() - began
            assert took_s == pytest.approx(1, abs=0.1)
        """,
    "a deadline that guards no loop": """
        def test_it():
            deadline = time.monotonic() + 5
            work()
            assert time.monotonic() < deadline
        """,
    "a deadline of each turn of a loop": """
        def test_it():
            for each in works:
                deadline = time.monotonic() + 5
                each()
                assert time.monotonic() < deadline
        """,
    "the age of a file": """
        def test_it():
            assert time.time() - path.stat().st_mtime < 5
        """,
    "the processor time of children": """
        def test_it():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            work()
            assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime < 5
        """,
    "compared with plain Python": """
        from support.pace import counting_s, cpu_s
        """,
}

GUARDS = {
    "a polling loop": """
        def test_it():
            deadline = time.monotonic() + 30
            while not there():
                assert time.monotonic() < deadline, "it never came"
                time.sleep(0.01)
        """,
    "a loop with a deadline": """
        def test_it():
            until = time.monotonic() + 30
            while time.monotonic() < until and not there():
                time.sleep(0.01)
            assert there()
        """,
    "a timeout": """
        async def test_it():
            with anyio.fail_after(120):
                await work()
            assert done > 3
        """,
    "simulated time": """
        from support.crews import simulate

        def test_it():
            async def body():
                began = anyio.current_time()
                await work()
                assert 20 < anyio.current_time() - began < 40

            simulate(body)
        """,
    "a moment that somebody else set": """
        def test_it():
            assert time.time() < claims["exp"] <= time.time() + 24 * 3600
        """,
    "a moment chosen by how long something takes": """
        def test_it():
            began = time.monotonic()
            work()
            usual_s = time.monotonic() - began
            code = interrupted(after_s=draw(0, usual_s))
            assert code > 2
        """,
    "durations that nobody measured": """
        def test_it():
            took = {"a.py": 10.0}
            loads = [sum(took[each] for each in shard) for shard in shards(took)]
            assert max(loads) <= 11
        """,
    "what is only printed": """
        def test_it():
            began = time.monotonic()
            found = work()
            print(time.monotonic() - began)
            assert len(found) < 3
        """,
}


def test_no_test_of_the_gate_judges_measured_time() -> None:
    """What people are promised in seconds is judged in tests/timing, played alone."""
    assert judging(ROOT) == []


def judging(root: Path) -> list[str]:
    """Where in the tests below a folder, and in the shipped suites, measured time is judged."""
    timed = root / "tests/timing"
    tests = (path for path in (root / "tests").rglob("*.py") if not path.is_relative_to(timed))
    shipped = (root / "src/bullpen/testing").rglob("*.py")
    return [
        f"{path.relative_to(root)}:{line}"
        for path in sorted([*tests, *shipped])
        for line in judged_time(path.read_text("utf-8"))
    ]


def test_only_the_tests_of_the_folder_timing_may_judge_it(tmp_path: Path) -> None:
    """Also where the repository itself lies in a folder of that name."""
    root = tmp_path / "timing"
    for place in ("tests/timing", "tests/unit", "tests/system/timing", "src/bullpen/testing"):
        (root / place).mkdir(parents=True)
        (root / place / "test_it.py").write_text(JUDGES["a difference"].strip(), "utf-8")
    assert judging(root) == [
        "src/bullpen/testing/test_it.py:4",
        "tests/system/timing/test_it.py:4",
        "tests/unit/test_it.py:4",
    ]


@pytest.mark.parametrize("kind", JUDGES)
def test_what_judges_measured_time_is_found(kind: str) -> None:
    source = dedent(JUDGES[kind])
    (line,) = judged_time(source)
    assert source.splitlines()[line - 1].lstrip().startswith(("assert ", "from support.pace "))


@pytest.mark.parametrize("kind", GUARDS)
def test_what_only_guards_against_hanging_is_not_found(kind: str) -> None:
    assert judged_time(dedent(GUARDS[kind])) == []
