"""The reader of command lines against the real bash.

    export BULLPEN_BASH_LINES=20000 BULLPEN_BASH_SEED=$RANDOM
    pytest tests/system/agents/permissions/test_shell_like_bash.py

Lines are made by the thousand, and those that the reader is sure of are run. The programs in them
only write down their words. What ran, and what was written, has to be in what was read.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bullpen.agents.permissions.shell.parse import split
from support.hostile.bash_runs import Bench, unforeseen
from support.hostile.lines_of_bash import PROGRAMS, TOKENS, LineMaker

LINES = int(os.environ.get("BULLPEN_BASH_LINES", "300"))
SEED = int(os.environ.get("BULLPEN_BASH_SEED", "4"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Programs that write down their words."""
    made = Bench(tmp_path_factory.mktemp("bench"))
    made.add(PROGRAMS)
    return made


def test_bash_runs_nothing_that_the_reader_did_not_see(bench: Bench) -> None:
    """R-4.1: a rule is asked about every program that a command line really runs."""
    maker = LineMaker(random.Random(SEED))
    makers = (maker.line, maker.damaged, maker.heap)
    sure = tried = programs = 0
    while sure < LINES:
        command = makers[tried % len(makers)]()
        tried += 1
        line = split(command)
        if line.opaque is not None or not line.parts:
            continue
        sure += 1
        run = bench.run(command)
        bench.clear()
        programs += len(run.programs)
        assert unforeseen(line, run) is None, f"seed {SEED}, {command!r}: {line.parts}"
    # Else the test would be about nothing: few lines read, or none of them run.
    assert tried < 6 * sure
    assert programs > 2 * sure


@settings(
    max_examples=max(60, LINES // 5),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from(TOKENS), max_size=8).map(lambda tokens: "a " + "".join(tokens)))
def test_any_heap_of_tokens_is_read_as_bash_does(bench: Bench, command: str) -> None:
    """R-4.1: the same, with the smallest line that shows it when it fails."""
    line = split(command)
    if line.opaque is None:
        run = bench.run(command)
        bench.clear()
        assert unforeseen(line, run) is None


@pytest.mark.parametrize(
    "command",
    [
        "b $(a <<'E'\nE\nc ; dd x)",
        "b >& '$(a)'",
        "b >& '`a`'",
        "b >& \\$\\(a\\)",
        "b >&-x",
        "b ${x:='y[$(a)]'} $((x))",
        "b ${x:='$(a)'} \"${x@P}\"",
        "b ${x:='y[$(a)]'} ${!x}",
        "b $[$(a)]",
        "{f}> f b",
    ],
)
def test_where_bash_surprises_the_reader_is_not_sure(bench: Bench, command: str) -> None:
    """R-4.1: bash does more here than the words show, so no rule may allow it."""
    run = bench.run(command)
    bench.clear()
    assert run.programs
    assert split(command).opaque is not None


def test_the_bench_sees_what_was_not_read(tmp_path: Path) -> None:
    """The comparison itself bites: for a program, for a word, and for a file."""
    bench = Bench(tmp_path)
    bench.add(PROGRAMS)
    run = bench.run("a x; b > f")
    assert unforeseen(split("a x; b > f"), run) is None
    assert unforeseen(split("a x"), run) is not None
    assert unforeseen(split("a y; b > f"), run) is not None
    assert unforeseen(split("a x; b"), run) is not None
