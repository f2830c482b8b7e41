"""Measure what a long history costs.

    python benchmarks/history.py                      # 10,000 and 1,000,000 events
    python benchmarks/history.py --events 10000 100000 --rounds 3

The benchmark writes a team with 20 agents, 200 tasks and full inboxes, and then a history of this
many events to it with the store's own writer: turns, changes of tasks, messages that are sent, seen
and archived. The team is the same for every length; only its history is longer. It then runs each
command as a new process, and reports the best time of each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import anyio

from bullpen.protocol import json_text
from bullpen.protocol.agent import AgentFacts, AgentSpec, Usage
from bullpen.protocol.changes import Change, Deliver, Event, MarkMail, PutMember, PutTask
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from bullpen.store.contract import StoreLimits
from bullpen.store.files.disk import Disk
from bullpen.store.files.log.event_log import event_line
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.store import FileStore
from bullpen.store.files.writer import TeamFiles, Writer
from bullpen.team.team import Team, Teams
from bullpen.view.follow import TeamFollower
from machine import facts

TEAM = "long"
AGENTS, TASKS, INBOX = 20, 200, 50
TIMES_MAX = 2.0
_BATCH = 2_500
_STEP_MS = 600
_COMMANDS = {
    "start": ("team", "show"),
    "ps": ("ps",),
    "task list": ("task", "list"),
    "doctor": ("doctor",),
    "events --limit 20": ("events", "--limit", "20"),
    "summary": ("summary",),
    "send": ("send", "reader", "hello"),
    "resume": ("team", "resume"),
}


def agent(number: int, turns: int) -> Member:
    """An agent that has ended, after some turns."""
    name = f"agent{number}"
    spec = AgentSpec.new(driver="native", backend="subprocess", cwd="/", model="m-1")
    used = Usage.new(turns=turns, requests=3 * turns, input_tokens=9_000 * turns, cost_usd=0.01)
    known = AgentFacts.new(
        spec=spec.raw, nonce=f"n{number}", since_ms=1, phase="ended", end="finished",
        usage=used.raw,
    )  # fmt: skip
    return Member.new(
        name=name, agent_id=f"{name}@{TEAM}", model="m-1", cwd="/", is_active=False,
        bullpen=known.raw,
    )  # fmt: skip


def task(number: int, attempt: int) -> Task:
    """A task that was completed at some attempt."""
    made = Task.new(
        id=str(number), subject=f"Task {number}", description="Do it well. " * 20,
        status="completed", owner=f"agent{number % AGENTS}",
    )  # fmt: skip
    return made.with_facts(attempt=attempt, report=f"It took {attempt} attempts. " * 5)


async def begin(home: Path) -> None:
    """The team as it is at the end, before its history is written."""
    store = FileStore(home, fsync=False)
    await Teams(store).create(TEAM)
    changes: list[Change] = [PutMember(agent(number, 1)) for number in range(AGENTS)]
    changes += [PutTask(task(number, 1)) for number in range(1, TASKS + 1)]
    await store.commit(TEAM, lambda view: changes, actor=LEAD, op="team.fill")
    for number in range(AGENTS * INBOX):
        text = Message.new(
            sender=LEAD, text=f"Message {number}", timestamp=iso(now_ms()), msg_id=f"m-{number}"
        )
        await store.append(TEAM, f"agent{number % AGENTS}", text, actor=LEAD, fresh=True)
    await Team(store, TEAM).roster.join("reader", by=LEAD)
    await store.aclose()


def happenings(now: int) -> Iterator[tuple[str, list[Change]]]:
    """What happens again and again, without end."""
    for number in count(1):
        name = f"agent{number % AGENTS}"
        text = Message.new(
            sender=LEAD, text=f"Message {number} of the history. " * 5, timestamp=iso(now),
            msg_id=f"h-{number}", read=False,
        )  # fmt: skip
        yield "message", [Deliver(name, text)]
        yield "agent.turn", [PutMember(agent(number % AGENTS, number))]
        yield "mail.seen", [MarkMail(name, (f"h-{number}",), "seen")]
        yield "task.done", [PutTask(task(number % TASKS + 1, number))]
        yield "mail.archived", [MarkMail(name, (f"h-{number}",), "archived")]


def fill(home: Path, events: int) -> None:
    """Write a history of this many events, and the archive that belongs to it."""
    paths = TeamPaths(str(home), TEAM)
    files = TeamFiles(paths, Disk(fsync=False), now_ms, StoreLimits())
    archives: dict[str, list[bytes]] = {}
    with files.writing() as writer:
        happening = happenings(now_ms())
        while (missing := events - 1 - writer.log.head.seq) > 0:
            _append(writer, list(islice(happening, min(missing, _BATCH))), archives)
            writer.split_if_long()
        last: list[Change] = [PutMember(agent(number, 1)) for number in range(AGENTS)]
        last += [PutTask(task(number, 1)) for number in range(1, TASKS + 1)]
        _append(writer, [("team.fill", last)], archives)
    os.makedirs(paths.archive, exist_ok=True)
    for name, rows in archives.items():
        Path(paths.archived(name)).write_bytes(b"".join(rows))


def _append(
    writer: Writer, rows: list[tuple[str, list[Change]]], archives: dict[str, list[bytes]]
) -> None:
    head, begin = writer.log.head, now_ms() - 7 * 86_400_000
    lines = []
    for seq, (op, changes) in enumerate(rows, head.seq + 1):
        event = Event(seq, iso(begin + seq * _STEP_MS), LEAD, op, tuple(changes))
        lines.append(event_line(event, done=True))
        for change in changes:
            if isinstance(change, Deliver):
                row = change.message.evolve(read=True).raw
                archives.setdefault(change.to, []).append(json_text.dumps_line(row) + b"\n")
    size = writer.log.append(b"".join(lines), durable=False)
    writer.log.finish(replace(head, seq=head.seq + len(rows), size=size))


async def first_scene(home: Path) -> tuple[float, float]:
    """How long the data for the first screen takes, in a terminal or a browser."""
    store = FileStore(home)
    began, used = time.perf_counter(), time.process_time()
    scene = await TeamFollower(Team(store, TEAM)).look()
    took = time.perf_counter() - began, time.process_time() - used
    assert len(scene.tasks) == TASKS
    await store.aclose()
    return took


def command(home: Path, words: tuple[str, ...]) -> tuple[float, float]:
    """How long a command takes as a new process, and how much processor time."""
    began, used = time.perf_counter(), os.times()
    told = subprocess.run(
        [sys.executable, "-m", "bullpen", *words, "-t", TEAM],
        env={**os.environ, "BULLPEN_HOME": str(home), "BULLPEN_TEAM": ""},
        capture_output=True,
        check=False,
        timeout=600,
    )
    took, now = time.perf_counter() - began, os.times()
    if told.returncode:
        raise SystemExit(f"{words}: {told.returncode}\n{told.stdout!r}\n{told.stderr!r}")
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return took, cpu


Figures = dict[int, dict[str, tuple[float, float]]]


def measure(homes: dict[int, Path], rounds: int) -> Figures:
    """The best times of each in milliseconds: other programs only ever make it slower.

    The homes take turns, so that a busy moment of the machine meets all of them.
    """
    found: dict[int, dict[str, list[tuple[float, float]]]] = {events: {} for events in homes}
    for _ in range(rounds):
        for events, home in homes.items():
            found[events].setdefault("first screen", []).append(anyio.run(first_scene, home))
        for name, words in _COMMANDS.items():
            for events, home in homes.items():
                found[events].setdefault(name, []).append(command(home, words))
    return {
        events: {name: _best(times) for name, times in rows.items()}
        for events, rows in found.items()
    }


def _best(times: list[tuple[float, float]]) -> tuple[float, float]:
    return (
        round(min(took for took, _ in times) * 1000, 1),
        round(min(cpu for _, cpu in times) * 1000, 1),
    )


def main() -> int:
    """Measure and compare. Returns 1 if the longest history costs more than twice the shortest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="write the homes here, and leave them")
    options = parser.parse_args()
    homes: dict[int, Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        for events in options.events:
            home = (options.keep or Path(folder)) / str(events)
            if not home.exists():
                began = time.perf_counter()
                anyio.run(begin, home)
                fill(home, events)
                print(f"{events} events written in {time.perf_counter() - began:.1f} s", flush=True)
            size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
            print(f"{events} events: the home has {size / 1e6:.1f} MB", flush=True)
            homes[events] = home
        rows = measure(homes, options.rounds)
    print(json.dumps(facts(Path(tempfile.gettempdir())), indent=2))
    return report(rows)


def report(rows: Figures) -> int:
    """Print wall and processor milliseconds. Returns 1 if a long history costs too much.

    Processor time decides: it depends less on what else the machine does.
    """
    short, long = min(rows), max(rows)
    print(f"{'ms, ms of processor':20}" + "".join(f"{events:>20}" for events in rows) + "  times")
    worst = 0.0
    for name in rows[short]:
        pairs = [rows[events][name] for events in rows]
        (wall, cpu), (long_wall, long_cpu) = rows[short][name], rows[long][name]
        shown = "".join(f"{took:>11} {used:>8}" for took, used in pairs)
        print(f"{name:20}{shown}  {long_wall / wall:.2f} {long_cpu / cpu:.2f}")
        worst = max(worst, long_cpu / cpu)
    return int(worst > TIMES_MAX)


if __name__ == "__main__":
    raise SystemExit(main())
