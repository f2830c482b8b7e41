"""Do the same work with Bullpen and with other programs, side by side.

    python benchmarks/peers.py [--quick] [--json FILE] [--claude-teams FOLDER]

The others are installed from the package index into environments that are removed afterwards. If
one is not there, the output says so. `--claude-teams` is a checkout of claude-code-teams-mcp to run
instead. The programs take turns with every piece of work. The figures are the processor time of one
piece: the median, in milliseconds.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import machine
from figures import Figure, figure_of, measured, spread, write_rows
from report import options_parser, scratch

_WORKER = Path(__file__).with_name("peer_worker.py")
_INSTALL_S = 300.0
_WORK_S = 300.0
_OURS = ("bullpen", "bullpen-no-fsync")
NAMES = {
    "bullpen": "Bullpen",
    "bullpen-no-fsync": "Bullpen without fsync",
    "clawteam": "ClawTeam",
    "claude-teams": "claude-code-teams-mcp",
}
# What an environment needs for a program: from the index, or to run a checkout.
_PACKAGES = {"clawteam": ["clawteam"], "claude-teams": ["claude-code-teams-mcp"]}
_NEEDED_BY_CHECKOUT = ["pydantic", "filelock"]


@dataclass(frozen=True, slots=True)
class Size:
    """How many messages and tasks there are, and how often each piece of work is done."""

    messages: int
    tasks: int
    times: int


FULL = (Size(100, 100, 15), Size(1_000, 1_000, 9), Size(10_000, 0, 7))
QUICK = (Size(20, 20, 3), Size(50, 50, 3))


@dataclass(slots=True)
class Peer:
    """A program that can be measured, or why it cannot."""

    name: str
    python: str = sys.executable
    environ: dict[str, str] = field(default_factory=dict)
    version: str = ""
    failed: str = ""


class Worker:
    """A process that works with one program."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._process = subprocess.Popen(
            [peer.python, str(_WORKER), peer.name, str(folder)],
            env=peer.environ or None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def do(self, work: str, times: int = 1) -> float:
        """The processor seconds of some work."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([work, times]) + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _WORK_S)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            raise RuntimeError(f"A worker ended or hangs: {self._process.args!r}")
        return line.strip()


# Installing


def installed(name: str, folder: Path, checkout: Path | None) -> Peer:
    """A program in an environment of its own."""
    place = folder / name
    python = str(place / "bin" / "python")
    packages = _PACKAGES[name] if checkout is None else _NEEDED_BY_CHECKOUT
    peer = Peer(name, python)
    for command in (
        ["uv", "venv", "--quiet", "--python", sys.executable, str(place)],
        ["uv", "pip", "install", "--quiet", "--python", python, *packages],
    ):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_INSTALL_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            peer.failed = str(error)
            return peer
        if done.returncode:
            peer.failed = " ".join(done.stderr.split())
            return peer
    if checkout is None:
        peer.version = _version(python, _PACKAGES[name][0])
    else:
        peer.environ = {"PYTHONPATH": str(checkout.resolve() / "src")}
        peer.version = _commit(checkout)
    return peer


def _version(python: str, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.check_output([python, "-c", code], text=True).strip()


def _commit(checkout: Path) -> str:
    done = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"commit {done.stdout.strip()}" if done.returncode == 0 else "a checkout"


# Measuring


@contextmanager
def workers(peers: Sequence[Peer], folder: Path) -> Iterator[dict[str, Worker]]:
    """A worker for each program, with a new team."""
    with ExitStack() as stack:
        found = {}
        for peer in peers:
            found[peer.name] = Worker(peer, folder / "data" / peer.name)
            stack.callback(found[peer.name].end)
        yield found


def measure(peers: Sequence[Peer], folder: Path, sizes: Sequence[Size]) -> dict[str, Any]:
    """The figures by work and program."""
    figures: dict[str, dict[str, Figure]] = {}
    messages = tasks = 0
    with workers(peers, folder) as found:
        for size in sizes:
            for worker in found.values():
                worker.do("fill", size.messages - messages)
                if size.tasks > tasks:
                    worker.do("create", size.tasks - tasks)
            messages, tasks = size.messages, max(tasks, size.tasks)
            figures[f"send at {messages:,} messages"] = _turns(found, "send", size.times)
            if size.tasks:
                for work, words in (
                    ("create", f"create a task at {tasks:,}"),
                    ("list", f"list {tasks:,} tasks"),
                    ("claim", f"claim and complete at {tasks:,} tasks"),
                ):
                    figures[words] = _turns(found, work, size.times)
    return figures


def _turns(found: Mapping[str, Worker], work: str, times: int) -> dict[str, Figure]:
    """Each program does a piece of work, then each the next one."""
    took: dict[str, list[float]] = {name: [] for name in found}
    for number in range(times + 1):
        for name in sorted(found, reverse=bool(number % 2)):
            took[name].append(found[name].do(work) * 1e3)
    # The first of each pays for what is read once.
    return {name: figure_of(values[1:], "ms") for name, values in took.items()}


# Saying


def table(figures: Mapping[str, Mapping[str, Figure]], peers: Sequence[Peer]) -> str:
    """The figures as a Markdown table."""
    names = [peer.name for peer in peers]
    lines = [["work, processor ms", *(NAMES[name] for name in names), "n"]]
    lines.append(["---"] * len(lines[0]))
    for work, row in figures.items():
        cells = [f"{row[name].value:.3g} ({spread(row[name].spread)})" for name in names]
        lines.append([work, *cells, str(next(iter(row.values())).n)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Install, measure, print and clean up."""
    parser = options_parser("Compare Bullpen with other programs.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--claude-teams", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    with scratch(options, "peers") as folder:
        about, load = machine.facts(folder), machine.load()
        others = [
            installed(name, folder, options.claude_teams if name == "claude-teams" else None)
            for name in _PACKAGES
        ]
        peers = [*map(Peer, _OURS), *(peer for peer in others if not peer.failed)]
        figures = measure(peers, folder, QUICK if options.quick else FULL)
    lines = [f"- load: {load:.1f}; in brackets: the lowest and the highest"]
    for peer in others:
        told = f"not measured: {peer.failed}" if peer.failed else peer.version
        lines.append(f"- {NAMES[peer.name]}: {told}")
    text = "\n".join([*lines, "", table(figures, peers)])
    print(text)
    if options.json:
        rows = [
            measured(f"{NAMES[name]}: {work}", figure, load)
            for work, row in figures.items()
            for name, figure in row.items()
        ]
        write_rows(options.json, about, rows, text=text)


if __name__ == "__main__":
    main()
