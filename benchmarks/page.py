"""Write docs/benchmarks.md from the benchmarks.

    python benchmarks/page.py                    # everything, under 15 minutes on a quiet machine
    python benchmarks/page.py --quick            # small counts, a few minutes
    python benchmarks/page.py --only agents run  # measure these again, and keep the others
    python benchmarks/page.py --only             # write the page again, without measuring

A part is a script here that prints Markdown tables and, with `--json FILE`, writes its rows, each
with name, unit, figure, n, spread, load, goal and verdict (`figures.measured`): the page begins
with all rows that have a goal. What was measured is kept in `results/page.json`.
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import machine
from figures import Figure, spread

_HERE = Path(__file__).parent
_PAGE = _HERE.parent / "docs" / "benchmarks.md"
_RESULTS = _HERE / "results"
_SAVED = _RESULTS / "page.json"
_COMMON = ("name", "unit", "figure", "n", "spread", "load", "goal", "verdict")
_CLEAN_UP_S = 30.0


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark on the page, and the seconds that it may take."""

    script: str
    title: str
    about: str
    limit_s: float
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()


SECTIONS = (
    Section(
        "commands",
        "Commands",
        "What the most common commands take, each a new process, beside programs that everybody"
        " knows.",
        240,
        quick=("--rounds", "3", "--tasks", "1000"),
    ),
    Section(
        "tokens",
        "Tokens",
        "What a teammate pays for, by the size of its team. *Cache-priced*: what is read from a"
        " cache costs a tenth, what is new is written to it for 1.25.",
        180,
        quick=("--turns", "5"),
    ),
    Section(
        "growth",
        "Growth",
        "What operations cost in teams with many tasks (T), members (M) and messages (N).",
        400,
        quick=("--repeats", "3", "--only", "T100", "T10,000", "M200"),
    ),
    Section(
        "screens",
        "Screens",
        "Processor time of `bullpen tui` until the first picture, and of `bullpen web` until its"
        " address is printed and while nobody does anything.",
        400,
        quick=("--rounds", "1", "--only", "small"),
    ),
    Section(
        "native_spawn",
        "Starting a native agent",
        "From `bullpen spawn` to an agent that is ready, and its memory while it waits. *Warm*"
        " agents are forked from a process that has everything loaded, *cold* ones are not; the"
        " *first* one starts that process.",
        300,
        full=("--rounds", "3"),
        quick=("--rounds", "1"),
    ),
    Section(
        "agents",
        "Many native agents",
        "50 native agents on one machine, each a process. Messages go to one of them at random,"
        " one at a time, from a process that stays, while all are idle. The time runs from the call"
        " of `send` until the mark `injected` is stored: the message is in the agent's turn. The"
        " model server is our own, so no time of a model is in these figures.",
        300,
        quick=("--agents", "20", "--messages", "20", "--seconds", "3"),
    ),
    Section(
        "run",
        "The file store",
        "The file store beside other ways to do the same work;"
        " [the columns](../benchmarks/README.md#columns) say which.",
        600,
        quick=("--quick",),
    ),
    Section(
        "fleet",
        "The NATS store",
        "Three servers on this machine, beside the bare client. They share its cores with the"
        " benchmark. [The rows](../benchmarks/README.md#the-fleet) say more.",
        500,
        full=("--only", "a,c,d,f"),
        quick=("--quick", "--only", "a,c,d,f"),
    ),
    Section(
        "peers",
        "Other programs",
        "The same work with programs for teams of agents, in turn with Bullpen. They have"
        " strengths: ClawTeam is quicker at a bare send and at creating a task: each message"
        " and each task is a small file of its own; in small teams the others are about as quick at"
        " the rest. Neither of them syncs to disk, so what was sent can be lost when the power"
        " fails: compare them with the column without fsync. Bullpen also logs every change.",
        400,
        quick=("--quick",),
    ),
)


@dataclass(frozen=True, slots=True)
class Output:
    """What a benchmark printed and wrote, and when."""

    script: str
    command: str
    text: str
    rows: Sequence[Mapping[str, Any]]
    load: float
    took_s: float
    at: str
    is_quick: bool = False
    failed: str = ""


def run(section: Section, more: Sequence[str], at: str, *, is_quick: bool) -> Output:
    """Run a benchmark; one that fails says so on the page."""
    words = [*(section.quick if is_quick else section.full), *more]
    load, begin = machine.load(), time.monotonic()
    print(f"{section.script}: load {load:.1f}", file=sys.stderr)
    # On the disk of the other benchmarks, and removed also after one that was killed.
    with tempfile.TemporaryDirectory(dir=_RESULTS, ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "rows.json"
        script = str(_HERE / f"{section.script}.py")
        kept = ("--json", str(file), "--dir", folder)
        text, failed = _printed([sys.executable, script, *words, *kept], section.limit_s)
        rows = list(_rows(file))
    took_s = time.monotonic() - begin
    print(f"{section.script}: {took_s:.0f} s {failed}", file=sys.stderr)
    command = " ".join(["python", f"benchmarks/{section.script}.py", *words])
    return Output(section.script, command, text, rows, load, took_s, at, is_quick, failed)


def _printed(command: Sequence[str], limit_s: float) -> tuple[str, str]:
    """What a program printed, and why it failed if it did."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            text, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _stop(process)
            return "", f"It did not end within {limit_s:g} s."
    # A target that was missed is on the page, also if the script makes it its exit code.
    is_done = process.returncode == 0 or "| ---" in text
    last = (errors.strip().splitlines() or ["no output"])[-1]
    return text, "" if is_done else last


def _stop(process: subprocess.Popen[str]) -> None:
    """Let a program end what it started; asked again, it does not wait for its own workers."""
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=_CLEAN_UP_S)
        except subprocess.TimeoutExpired:
            continue
        return
    process.kill()


def _rows(file: Path) -> Iterable[Mapping[str, Any]]:
    """The rows of a file that are in the common shape."""
    raw = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for row in raw.get("rows", ()) if isinstance(raw, dict) else ():
        if isinstance(row, dict) and row.keys() >= set(_COMMON):
            yield {name: row[name] for name in _COMMON}


# What was measured before


def saved(file: Path) -> dict[str, Output]:
    """The parts that were measured before, by name."""
    raw = json.loads(file.read_text("utf-8")) if file.exists() else []
    return {each["script"]: Output(**each) for each in raw}


def save(file: Path, outputs: Iterable[Output]) -> None:
    """Keep what was measured."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([asdict(each) for each in outputs], indent=1) + "\n", "utf-8")


# The page


def page(outputs: Mapping[str, Output], about: Mapping[str, str]) -> str:
    """The whole page."""
    intro = (
        "`python benchmarks/page.py` wrote this page: do not edit it. At a load over"
        f" {machine.LOAD_MAX:g}, times are printed and not judged. [How the benchmarks"
        " measure](../benchmarks/README.md) says more, and has those that are not here."
    )
    if any(output.is_quick for output in outputs.values()):
        intro += " Some parts are quick runs: they do less than the goals are for."
    found = [(each, outputs[each.script]) for each in SECTIONS if each.script in outputs]
    missing = [each.title for each in SECTIONS if each.script not in outputs]
    parts = [
        "# Benchmarks",
        intro,
        "\n".join(f"- {name}: {fact}" for name, fact in about.items()),
        f"Not measured: {', '.join(missing)}." if missing else "",
        _goals([row for _, output in found for row in output.rows]),
    ]
    for section, output in found:
        head = f"## {section.title}\n\n{section.about}"
        how = (
            f"`{output.command}`, {output.at}, load {output.load:.1f} before it,"
            f" {output.took_s:.0f} s."
        )
        failed = f"It could not be measured here: `{output.failed}`"
        parts += [head, how, failed if output.failed else _body(output.text)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _goals(rows: Sequence[Mapping[str, Any]]) -> str:
    judged = [row for row in rows if row["goal"] != "-"]
    if not judged:
        return ""
    lines = [("work", "measured", "goal", "verdict", "n", "spread", "load"), ("---",) * 7]
    for row in judged:
        figure = Figure(row["figure"], row["unit"]).text
        how = (str(row["n"]), spread(row["spread"]), f"{row['load']:.1f}")
        lines.append((row["name"], figure, row["goal"], row["verdict"], *how))
    verdicts = [row["verdict"] for row in judged]
    reached, missed = verdicts.count("PASS"), verdicts.count("FAIL")
    unknown = len(judged) - reached - missed
    sums = f"Of {len(judged)} goals, {reached} were reached, {missed} missed, {unknown} not judged."
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## Goals\n\n{sums}\n\n{table}"


def _body(text: str) -> str:
    """What a benchmark printed, without its headings and what the page says once."""
    told = ("# ", *(f"- {name}:" for name in machine.FACTS))
    lines = [line for line in text.strip().splitlines() if not line.startswith(told)]
    return "\n".join(lines).strip()


def _facts(folder: Path) -> dict[str, str]:
    found = dict(machine.facts(folder))
    found["file system"] = machine.file_system(folder)
    found["bullpen"] = version("bullpen")
    found["libc"] = " ".join(platform.libc_ver())
    return found


def _now() -> str:
    """The day, and the commit that is measured."""
    commit = subprocess.run(
        ["git", "-C", str(_HERE), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{day} at commit {commit}" if commit else day


def main() -> None:
    """Run the benchmarks and write the page."""
    parser = argparse.ArgumentParser(description="Write docs/benchmarks.md from the benchmarks.")
    names = [each.script for each in SECTIONS]
    parser.add_argument("--quick", action="store_true", help="small counts")
    parser.add_argument(
        "--only", choices=names, nargs="*", metavar="PART", help="keep what was measured of others"
    )
    parser.add_argument("--claude-teams", type=Path, metavar="FOLDER", help="for peers.py")
    parser.add_argument("--saved", type=Path, default=_SAVED, help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=_PAGE, help="default: %(default)s")
    options = parser.parse_args()
    is_whole = options.only is None
    outputs = {} if is_whole else saved(options.saved)
    _RESULTS.mkdir(exist_ok=True)
    about, at, failed = _facts(_RESULTS), _now(), False
    was_quiet = machine.is_quiet()
    for section in SECTIONS:
        if is_whole or section.script in options.only:
            checkout = options.claude_teams if section.script == "peers" else None
            more = ["--claude-teams", str(checkout)] if checkout else []
            # The load of the part before would be counted as that of other programs.
            machine.settled_load(was_quiet=was_quiet)
            output = run(section, more, at, is_quick=options.quick)
            failed = failed or bool(output.failed)
            if output.failed and section.script in outputs:
                print(f"{section.script}: kept what was measured before", file=sys.stderr)
                continue
            outputs[section.script] = output
            # One that hangs later must not cost what is there by now.
            save(options.saved, outputs.values())
    options.out.write_text(page(outputs, about), "utf-8")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
