"""Write docs/benchmarks.md from one run of the benchmarks.

    python benchmarks/page.py                    # everything; on a quiet machine, half an hour
    python benchmarks/page.py --quick            # small counts, a few minutes
    python benchmarks/page.py --only peers       # a page of some of them

A benchmark is a script here that prints Markdown tables. With `--json FILE` it may also write its
rows, each with name, unit, figure, n, spread, load, goal and verdict (`figures.measured`): the page
begins with all rows that have a goal.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import machine
from figures import Figure, spread

_HERE = Path(__file__).parent
_PAGE = _HERE.parent / "docs" / "benchmarks.md"
_COMMON = {"name", "unit", "figure", "n", "spread", "load", "goal", "verdict"}
_RUN_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark on the page."""

    script: str
    title: str
    about: str
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()


SECTIONS = (
    Section(
        "commands",
        "Commands",
        "What the most common commands take, beside programs that everybody knows.",
        quick=("--rounds", "3", "--tasks", "1000"),
    ),
    Section(
        "native_spawn",
        "Starting native agents",
        "From `bullpen spawn` to an agent that is ready, and its memory while it waits.",
        quick=("--rounds", "1", "--agents", "3"),
    ),
    Section(
        "tokens",
        "Tokens",
        "What a teammate pays for, by the size of its team.",
        quick=("--turns", "5"),
    ),
    Section(
        "screens",
        "Screens",
        "Processor time of `bullpen tui` and `bullpen web`.",
        quick=("--rounds", "1"),
    ),
    Section(
        "growth",
        "Growth",
        "What operations cost in teams with many tasks (T), members (M) and messages (N).",
        quick=("--repeats", "3"),
    ),
    Section(
        "run",
        "The file store",
        "The file store beside other ways to do the same work;"
        " [the columns](../benchmarks/README.md#columns) say which.",
        quick=("--quick",),
    ),
    Section(
        "idle",
        "Waiting",
        "Processes that wait for mail as an agent does between two turns.",
        full=("--agents", "50", "--seconds", "30"),
        quick=("--agents", "5", "--seconds", "6", "--messages", "20"),
    ),
    Section(
        "peers",
        "Other programs",
        "The same work with programs for teams of agents, in turn with Bullpen. They have"
        " strengths: ClawTeam is quicker at a bare send and at creating a task: each message"
        " and each task is a small file of its own; in small teams the others are about as quick at"
        " the rest. Neither of them syncs to disk, so what was sent can be lost when the power"
        " fails: compare them with the column without fsync. Bullpen also logs every change.",
    ),
)


@dataclass(frozen=True, slots=True)
class Output:
    """What a benchmark printed and wrote."""

    section: Section
    command: str
    text: str
    rows: Sequence[Mapping[str, Any]]
    load: float
    took_s: float
    failed: str = ""


def run(section: Section, folder: Path, words: Sequence[str]) -> Output:
    """Run a benchmark; one that fails says so on the page."""
    script, file = _HERE / f"{section.script}.py", folder / f"{section.script}.json"
    told = ["--json", str(file)] if '"--json"' in script.read_text("utf-8") else []
    load, begin = machine.load(), time.monotonic()
    print(f"{section.script}: load {load:.1f}", file=sys.stderr)
    try:
        done = subprocess.run(
            [sys.executable, str(script), *words, *told],
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            check=False,
        )
        # A target that was missed is on the page, also if the script makes it its exit code.
        failed = "" if "| ---" in done.stdout or done.returncode == 0 else done.stderr.strip()
        text = done.stdout
    except subprocess.TimeoutExpired:
        failed, text = f"It did not end within {_RUN_S:g} s.", ""
    command = " ".join(["python", f"benchmarks/{section.script}.py", *words])
    took_s = time.monotonic() - begin
    return Output(section, command, text, list(_rows(file)), load, took_s, failed)


def _rows(file: Path) -> Iterable[Mapping[str, Any]]:
    """The rows of a file that are in the common shape."""
    raw = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for row in raw.get("rows", ()) if isinstance(raw, dict) else ():
        if isinstance(row, dict) and row.keys() >= _COMMON:
            yield row


# The page


def page(outputs: Sequence[Output], about: Mapping[str, str], command: str) -> str:
    """The whole page."""
    intro = (
        f"One run of `{command}` wrote this page: do not edit it. At a load over"
        f" {machine.LOAD_MAX:g}, times are printed and not judged. [How the benchmarks"
        " measure](../benchmarks/README.md) says more, and has those that are not here."
    )
    parts = [
        "# Benchmarks",
        intro,
        "\n".join(f"- {name}: {fact}" for name, fact in about.items()),
        _goals([row for output in outputs for row in output.rows]),
    ]
    for output in outputs:
        head = f"## {output.section.title}\n\n{output.section.about}"
        how = f"`{output.command}`, load {output.load:.1f} before it, {output.took_s:.0f} s."
        parts += [head, how, _failure(output.failed) if output.failed else _body(output.text)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _goals(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [("work", "measured", "goal", "verdict", "n", "spread", "load"), ("---",) * 7]
    for row in rows:
        if row["goal"] != "-":
            figure = Figure(row["figure"], row["unit"]).text
            how = (str(row["n"]), spread(row["spread"]), f"{row['load']:.1f}")
            lines.append((row["name"], figure, row["goal"], row["verdict"], *how))
    if len(lines) == 2:
        return ""
    return "## Goals\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _body(text: str) -> str:
    """What a benchmark printed, without its headings and what the page says once."""
    told = ("# ", "- cores:", "- kernel:", "- file system:", "- python:", "- one call, p50:")
    lines = [line for line in text.strip().splitlines() if not line.startswith(told)]
    return "\n".join(lines).strip()


def _failure(why: str) -> str:
    last = why.splitlines()[-1] if why else "no output"
    return f"It could not be measured here: `{last}`"


def _facts(folder: Path) -> dict[str, str]:
    found = dict(machine.facts(folder))
    found["file system"] = machine.file_system(folder)
    commit = subprocess.run(
        ["git", "-C", str(_HERE), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    at = f" at commit {commit}" if commit else ""
    found["bullpen"] = f"{version('bullpen')}{at}"
    found["libc"] = " ".join(platform.libc_ver())
    found["measured on"] = time.strftime("%Y-%m-%d", time.gmtime())
    return found


def main() -> None:
    """Run the benchmarks and write the page."""
    parser = argparse.ArgumentParser(description="Write docs/benchmarks.md from one run.")
    there = [each for each in SECTIONS if (_HERE / f"{each.script}.py").exists()]
    names = [each.script for each in there]
    parser.add_argument("--quick", action="store_true", help="small counts")
    parser.add_argument("--only", choices=names, nargs="+", default=names)
    parser.add_argument("--claude-teams", type=Path, metavar="FOLDER", help="for peers.py")
    parser.add_argument("--out", type=Path, default=_PAGE, help="default: %(default)s")
    options = parser.parse_args()
    outputs = []
    with tempfile.TemporaryDirectory(prefix="bench-page-") as folder:
        (_HERE / "results").mkdir(exist_ok=True)
        about = _facts(_HERE / "results")
        for section in there:
            if section.script in options.only:
                words = [*(section.quick if options.quick else section.full)]
                if section.script == "peers" and options.claude_teams:
                    words += ["--claude-teams", str(options.claude_teams)]
                outputs.append(run(section, Path(folder), words))
    words = ["--quick"] if options.quick else []
    words += ["--only", *options.only] if options.only != names else []
    command = " ".join(["python", "benchmarks/page.py", *words])
    options.out.write_text(page(outputs, about, command), "utf-8")


if __name__ == "__main__":
    main()
