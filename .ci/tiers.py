"""Run the tiers of tests one after another, say how long each took, and sum them up.

The last line is that of one pytest over all of them. `programs` runs where there is no network.

The tests of a tier run side by side, so one can be too late on a busy machine. If only a few
failed, they run again at the end, alone, and must pass two times of three. Those that do are
counted as passed and as rerun, and named. What proves that nothing is lost has one try: a second
would hide the one loss in a hundred. Tests with real servers and programs, whose elections and
starts may take longer than any limit on a busy machine, have a second try there too.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

PYTEST = ["uv", "run", "--no-sync", "pytest", "-ra", "--durations=15", "--color=no"]
OFFLINE = ["bash", ".ci/offline", "uv", "run", "--no-sync", "--offline", *PYTEST[3:]]
# Units use the cores; the others mostly wait for processes, so that several at a time take little
# more of the machine. Files stay together until a worker has nothing left to do: what the tests of
# one share is set up once.
WAITING = ["-n", "4", "--dist", "worksteal"]
TIERS = {
    "unit": [*PYTEST, "-n", "2"],
    "contract": [*PYTEST, *WAITING],
    "system": [*PYTEST, *WAITING],
    "chaos": [*PYTEST, *WAITING],
    "docs": [*PYTEST, "-n", "4"],
    "programs": [*OFFLINE, "-n", "4"],
}
ONE_TRY = ("tests/unit/store/", "tests/unit/team/", "tests/contract/", "tests/chaos/")
SECOND_TRY = (
    "tests/contract/forge/",
    *(
        f"tests/chaos/{kind}/"
        for kind in ("agents", "forge", "fuzz", "mirror", "nats", "night", "servers", "time")
    ),
)
"""They wait for processes and servers. The rest of their tier looks for losses in files."""
MOST_AGAIN = 8
"""Failures in more files than these, in all tiers, are no accident. The tests of one file may share
what failed."""
TIMES_AGAIN = 3
PASSES_NEEDED = 2
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
_SUMMARY = re.compile(r"^=+ (.*) in [\d.]+s\b.*=+$")
_COUNT = re.compile(r"(\d+) (\w+)")
_ORDER = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")


def run(words: list[str]) -> tuple[int, Counter[str]]:
    """Run a pytest; its exit code and its counts."""
    found: Counter[str] = Counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if summary := _SUMMARY.match(line.strip()):
                counts = _COUNT.findall(summary[1])
                found = Counter({_plural(word): int(count) for count, word in counts})
    return process.returncode, found


def failed_in(tier: str) -> list[str]:
    """The tests of a tier that failed, as pytest remembers them."""
    if not LAST_FAILED.exists():
        return []
    tests: dict[str, bool] = json.loads(LAST_FAILED.read_text("utf-8"))
    return [test for test in tests if test.startswith(f"tests/{tier}/")]


def may_be_accidents(failed: dict[str, list[str]], codes: dict[str, int]) -> bool:
    """Whether what failed is a few tests that may have a second try, and nothing else."""
    tests = [test for tier in failed for test in failed[tier]]
    only_tests = all(code == 0 or (code == 1 and failed[tier]) for tier, code in codes.items())
    files = {test.partition("::")[0] for test in tests}
    return only_tests and len(files) <= MOST_AGAIN and all(map(_has_second_try, tests))


def _has_second_try(test: str) -> bool:
    return test.startswith(SECOND_TRY) or not test.startswith(ONE_TRY)


def passes_alone(tier: str, tests: list[str]) -> bool:
    """Play the tests one after another, with nothing beside them."""
    words = [*TIERS[tier], "-n", "0", *tests]
    passed = 0
    for left in reversed(range(TIMES_AGAIN)):
        passed += run(words)[0] == 0
        if passed == PASSES_NEEDED or passed + left < PASSES_NEEDED:
            break
    return passed == PASSES_NEEDED


def _processor_s() -> float:
    """Processor time of all processes that ended as ours so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _plural(word: str) -> str:
    return f"{word}s" if word in {"error", "warning"} else word


def main(tiers: list[str]) -> int:
    """Run these tiers; 0 if all of them passed."""
    counts: dict[str, Counter[str]] = {}
    codes: dict[str, int] = {}
    failed: dict[str, list[str]] = {}
    took, computed = {}, {}
    LAST_FAILED.unlink(missing_ok=True)
    for tier in tiers:
        print(f"\n== tests: {tier}", flush=True)
        began, before = time.monotonic(), _processor_s()
        codes[tier], counts[tier] = run([*TIERS[tier], f"tests/{tier}"])
        failed[tier] = failed_in(tier) if codes[tier] else []
        took[tier], computed[tier] = time.monotonic() - began, _processor_s() - before
    if any(codes.values()) and may_be_accidents(failed, codes):
        began = time.monotonic()
        for tier in [tier for tier in tiers if codes[tier]]:
            print(f"\n== tests: {tier}, {len(failed[tier])} again", flush=True)
            if passes_alone(tier, failed[tier]):
                codes[tier] = 0
                counts[tier].update(failed=-counts[tier]["failed"], errors=-counts[tier]["errors"])
                counts[tier].update(passed=len(failed[tier]), rerun=len(failed[tier]))
        took["again"] = time.monotonic() - began
    print("\n== time of each tier")
    for tier in tiers:
        verdict = "  FAILED" if codes[tier] else ""
        print(f"{tier:10} {took[tier]:7.0f} s, processor {computed[tier]:7.0f} s{verdict}")
        for test in failed[tier]:
            print(f"           {'failed' if codes[tier] else 'passed only alone'}: {test}")
    total = sum(counts.values(), Counter())
    words = [*_ORDER, *sorted(set(total) - set(_ORDER))]
    said = ", ".join(f"{total[word]} {word}" for word in words if total[word])
    print(f"{f' {said} in {sum(took.values()):.2f}s ':=^80}", flush=True)
    return max(codes.values(), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
