"""Play a part of the tests, play again what failed, and say what that means.

    python .ci/gate.py gate|pages|programs|macos|timing
    python .ci/gate.py night [--shard I/N]
    python .ci/gate.py durations    # the last run says in which order the next plays the files

A failed test is played again once, alone, right after the run, and has its own verdict, whatever
else failed. What is marked `no_loss` has one try. What passed only alone is written into a ledger;
twice in its last twenty runs puts a test into tests/quarantine.txt, whose tests are played and
named, and fail nothing. The last line is that of one pytest over all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.gate.pool import DURATIONS, durations, shard  # noqa: E402
from support.gate.written import WRITTEN  # noqa: E402

PYTEST = [sys.executable, "-m", "pytest", "-ra", "--color=no"]
OFFLINE = ["bash", ".ci/offline", *PYTEST]
# Many tests wait for processes: three at a time keep one core busy.
POOL = ["--pool", "-n", str(3 * (os.cpu_count() or 2)), "--durations=15"]
TIERS = ["tests/unit", "tests/contract", "tests/system", "tests/chaos", "tests/docs"]
AGAIN_MAX = 20
"""Of more failures than these, the others are not played again: something is broken."""
AGAIN_S = 600
QUARANTINE = ROOT / "tests" / "quarantine.txt"
LEDGER_RUNS, LEDGER_TIMES = 20, 2
KEPT_S = 3.0
"""Files that take less are not worth a line in tests/durations.json."""
_SECONDS = ROOT / ".pytest_cache" / "seconds.json"
_SUMMARY = re.compile(r"^=+ (.*) in [\d.]+s\b.*=+$")
_COUNT = re.compile(r"(\d+) (\w+)")
_ORDER = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")


@dataclass(frozen=True)
class Job:
    """One pytest."""

    words: list[str]
    env: Mapping[str, str] = field(default_factory=dict)

    def alone(self, test: str) -> list[str]:
        """The words that play one of its tests with nothing beside it."""
        start = self.words[: self.words.index("pytest") + 1]
        return [*start, "-ra", "--color=no", "-q", "-n", "0", test]


@dataclass
class Played:
    """How tests ended."""

    code: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, bool] = field(default_factory=dict)
    """Each failed test, and whether it has one try."""
    alone: list[str] = field(default_factory=list)
    """Those that passed when they were played again."""

    def add(self, other: Played) -> None:
        """Count another run, too."""
        # 5 says that no test was asked for: a shard may have none of a kind.
        self.code = max(self.code, 0 if other.code == 5 else other.code)
        self.counts.update(other.counts)
        self.seconds.update(other.seconds)
        self.failed.update(other.failed)
        self.alone += other.alone


PARTS = {
    "gate": [Job([*PYTEST, *POOL, "-m", "not pages", *TIERS])],
    "pages": [Job([*PYTEST, *POOL, "-m", "pages", "tests/docs"])],
    "programs": [Job([*OFFLINE, *POOL, "tests/programs"])],
    # What does not need Linux's own sandbox, namespaces and control groups.
    "macos": [Job([*PYTEST, *POOL, "tests/unit", "tests/contract/backend", "tests/chaos/files"])],
    # Alone, so that what is judged is not the load.
    "timing": [Job([*PYTEST, "-n", "0", "tests/timing"])],
}


def compile_tests(words: list[str]) -> None:
    """Let one process rewrite the assertions of new test files, before all workers do."""
    start = words[: words.index("pytest") + 1]
    paths = [word for word in words if word.startswith("tests/")]
    collect = [*start, "-qq", "--collect-only", "-p", "no:cacheprovider", *paths]
    subprocess.run(collect, stdout=subprocess.DEVNULL, check=False)


def play(job: Job) -> Played:
    """Run a pytest, and read what it wrote down. What failed is played again at once."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "written.json"
        environment = {**os.environ, **job.env, WRITTEN: str(path)}
        with subprocess.Popen(
            job.words, stdout=subprocess.PIPE, text=True, env=environment, errors="replace"
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                if summary := _SUMMARY.match(line.strip()):
                    found = _COUNT.findall(summary[1])
                    counts = Counter({_plural(word): int(count) for count, word in found})
        written = json.loads(path.read_text("utf-8")) if path.exists() else {}
    played = Played(process.returncode, counts, **written)
    played.alone = play_again(job, played.failed)
    return played


def _plural(word: str) -> str:
    return f"{word}s" if word in {"error", "warning"} else word


def play_again(job: Job, failed: Mapping[str, bool]) -> list[str]:
    """Play failed tests once more, each alone; those that passed then."""
    passed = []
    for test in [test for test, one_try in failed.items() if not one_try][:AGAIN_MAX]:
        print(f"\n== again, alone: {test}", flush=True)
        with suppress(subprocess.TimeoutExpired):
            env = {**os.environ, **job.env}
            done = subprocess.run(job.alone(test), env=env, timeout=AGAIN_S, check=False)
            if done.returncode == 0:
                passed.append(test)
    return passed


def in_quarantine() -> dict[str, str]:
    """The tests whose failures count for nothing, each with the reason."""
    rows = (line.partition("#") for line in QUARANTINE.read_text("utf-8").splitlines())
    return {test.strip(): why.strip() for test, _, why in rows if test.strip()}


def ledger() -> Path:
    """The file with a line for each run: what passed only alone."""
    chosen = os.environ.get("BULLPEN_TESTS_CACHE")
    folder = Path(chosen) if chosen else Path.home() / ".cache" / "bullpen-tests"
    return folder / "gate-ledger.jsonl"


def remember(alone: Iterable[str]) -> list[str]:
    """Add a run to the ledger; the tests that its last runs send into quarantine now."""
    path = ledger()
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "alone": sorted(alone)}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    rows = path.read_text("utf-8").splitlines()[-LEDGER_RUNS:]
    times = Counter(test for row in rows for test in json.loads(row)["alone"])
    known = in_quarantine()
    moved = sorted(test for test, n in times.items() if n >= LEDGER_TIMES and test not in known)
    with QUARANTINE.open("a", encoding="utf-8") as file:
        file.writelines(f"{test}  # passed only alone {times[test]} times\n" for test in moved)
    return moved


def run(jobs: Iterable[Job]) -> int:
    """Play all of it and sum it up; 0 if nothing failed that counts."""
    began = time.monotonic()
    played = Played()
    for job in jobs:
        if "--pool" in job.words:
            compile_tests(job.words)
        played.add(play(job))
    known = in_quarantine()
    excused = {*played.alone, *known}
    counting = [test for test in played.failed if test not in excused]
    moved = remember(played.alone)
    _keep_seconds(played.seconds)
    print("\n== where the time went")
    _say_times(played.seconds)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = time.monotonic() - began
    print(f"in all {took:.0f} s, processor {used.ru_utime + used.ru_stime:.0f} s")
    for test in counting:
        print(f"FAILED: {test}")
    for test in played.alone:
        print(f"passed only alone: {test}")
    for test in [test for test in played.failed if test in known and test not in played.alone]:
        print(f"failed in quarantine ({known[test]}): {test}")
    for test in moved:
        print(f"moved to {QUARANTINE.relative_to(ROOT)}, mend it: {test}")
    counts = _summed(played, counting)
    said = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
    print(f"{f' {said} in {took:.2f}s ':=^80}", flush=True)
    if counting or not counts["passed"]:
        return 1
    # What failed was excused; what broke off was not.
    return 0 if played.code == 1 and played.failed else played.code


def _summed(played: Played, counting: list[str]) -> dict[str, int]:
    """The counts of the last line: what was excused has not failed."""
    counts = Counter(played.counts)
    if len(counting) < len(played.failed):
        # A test that could not be prepared counted as an error.
        counts.update(failed=len(counting) - counts["failed"], errors=-counts["errors"])
        counts.update(passed=len(played.alone), rerun=len(played.alone))
        counts["quarantined"] = len(played.failed) - len(counting) - len(played.alone)
    return {word: counts[word] for word in (*_ORDER, *sorted(set(counts) - set(_ORDER)))}


def _say_times(seconds: Mapping[str, float]) -> None:
    """Print how much of a run each folder was, and which files were longest."""
    folders = _added(seconds, _folder)
    cases = Counter(map(_folder, seconds))
    for folder in sorted(folders, key=folders.__getitem__, reverse=True):
        print(f"{folder:18} {cases[folder]:6} cases {folders[folder]:7.0f} s of workers")
    files = _added(seconds, _file)
    for file in sorted(files, key=files.__getitem__, reverse=True)[:12]:
        print(f"    {files[file]:6.1f} s {file}")


def _added(seconds: Mapping[str, float], place: Callable[[str], str]) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for test, took in seconds.items():
        sums[place(test)] += took
    return sums


def _file(test: str) -> str:
    return test.partition("::")[0]


def _folder(test: str) -> str:
    return "/".join(test.split("/")[:2])


def _keep_seconds(seconds: Mapping[str, float]) -> None:
    _SECONDS.parent.mkdir(exist_ok=True)
    _SECONDS.write_text(json.dumps(_added(seconds, _file)), "utf-8")


def keep_durations() -> None:
    """Make what the last run took the order of the next."""
    took = durations() | json.loads(_SECONDS.read_text("utf-8"))
    kept = {
        file: round(took[file], 1)
        for file in sorted(took)
        if took[file] >= KEPT_S and (ROOT / file).exists()
    }
    DURATIONS.write_text(json.dumps(kept, indent=0) + "\n", "utf-8")
    print(f"{len(kept)} files in {DURATIONS.relative_to(ROOT)}")


def main(arguments: list[str]) -> int:
    """Play what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=[*PARTS, "night", "durations"])
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    asked = parser.parse_args(arguments)
    # A shell ignores Ctrl-C for what it starts in the background, and programs that tests interrupt
    # would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked.part == "durations":
        keep_durations()
        return 0
    if asked.part == "night":
        number, of = map(int, asked.shard.split("/"))
        return run(night(number, of))
    return run(PARTS[asked.part])


def night(number: int, of: int) -> list[Job]:
    """What the gate leaves out, or plays at a small size: one of so many equal parts."""
    whole = {"BULLPEN_NIGHTLY": "1"}
    found = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    mine = shard(found, number, of, durations())
    programs = [file for file in mine if file.startswith("tests/programs/")]
    others = [file for file in mine if file.startswith(tuple(f"{tier}/" for tier in TIERS))]
    # Without a path, pytest would play all there is.
    jobs = [Job([*PYTEST, *POOL, "--left-out", *others], whole)] if others else []
    jobs += [Job([*OFFLINE, *POOL, *programs], whole)] if programs else []
    listed = tomllib.loads((ROOT / "tests" / "full_size.toml").read_text("utf-8"))["suite"]
    jobs += [
        Job([*PYTEST, *POOL, *suite["tests"]], {**whole, **suite["env"]})
        for suite in listed[number - 1 :: of]
    ]
    return jobs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
