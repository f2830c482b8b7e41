"""Measure what following a big team costs.

    python benchmarks/view.py         # 200 agents, 5,000 tasks, 50,000 messages
    python benchmarks/view.py --agents 20 --tasks 500 --messages 2000

The benchmark creates the team from a log, in files. `first` is the time to the first scene, as when
a screen is opened; `message` and `task` are the times from the start of a commit to the scene that
shows it, for a reader that waits for changes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import anyio

import machine
from bullpen.protocol.agent import AgentFacts, AgentSpec, ProcessRecord, Usage
from bullpen.protocol.changes import Change, Deliver, Event, PutMember, PutTask, PutTeam
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import COLORS, LEAD
from bullpen.protocol.presence import Presence
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams
from bullpen.view.follow import TeamFollower
from bullpen.view.scene import Scene
from figures import NO_GOAL, Row, below, figure_of
from report import options_parser, report

_CHAIN = 10
_ROUNDS = 10
_WAIT_S = 30.0
TEAM = "big"
FIRST_MS = 2_000.0
SHOWN_MS = 300.0


def history(agents: int, tasks: int, messages: int) -> list[Event]:
    """The log of a team with this many agents, tasks in chains, and messages."""
    now = now_ms()
    header = {"name": TEAM, "createdAt": now, "leadAgentId": f"{LEAD}@{TEAM}"}
    lead = Member.new(name=LEAD, agent_id=f"{LEAD}@{TEAM}", agent_type=LEAD, cwd="/")
    changes: list[list[Change]] = [[PutTeam(header), PutMember(lead)]]
    changes += [[PutMember(_agent(number, now))] for number in range(agents)]
    for number in range(1, tasks + 1):
        chained = number % _CHAIN != 1
        task = Task.new(
            id=str(number),
            subject=f"Task {number}",
            description="",
            blocked_by=[str(number - 1)] if chained else [],
            blocks=[str(number + 1)] if number % _CHAIN and number < tasks else [],
        )
        changes.append([PutTask(task)])
    for number in range(messages):
        text = Message.new(
            sender=LEAD, text=f"Message {number}", timestamp=iso(now), msg_id=f"m-{number}"
        )
        changes.append([Deliver(f"agent{number % agents}", text)])
    return [
        Event(seq, iso(now), LEAD, "team.create" if seq == 1 else "test", tuple(each))
        for seq, each in enumerate(changes, start=1)
    ]


def _agent(number: int, now: int) -> Member:
    name = f"agent{number}"
    spec = AgentSpec.new(driver="native", backend="subprocess", cwd="/", model="m-1")
    place = ProcessRecord.new(backend="subprocess", host="elsewhere", pid=1, start="1-1")
    used = Usage.new(turns=3, requests=9, input_tokens=9_000, output_tokens=900, cost_usd=0.2)
    agent = AgentFacts.new(
        spec=spec.raw, nonce=f"n-{number}", phase="running", since_ms=now, process=place.raw,
        usage=used.raw,
    )  # fmt: skip
    return Member.new(
        name=name, agent_id=f"{name}@{TEAM}", color=COLORS[number % len(COLORS)], cwd="/",
        bullpen=agent.raw,
    )  # fmt: skip


async def make(store: FileStore, *, agents: int, tasks: int, messages: int) -> Team:
    """The team in a store, each agent with a heartbeat."""
    await store.restore(TEAM, history(agents, tasks, messages))
    now = now_ms()
    for number in range(agents):
        await store.beat(
            TEAM,
            Presence.new(
                agent=f"agent{number}", state="working", since_ms=now, beat_ms=now,
                ttl_ms=3_600_000, host="elsewhere", nonce=f"n-{number}", actions=["read", "edit"],
            ),
        )  # fmt: skip
    return Teams(store).open(TEAM)


async def _shown(scenes: AsyncGenerator[Scene, None], seq: int) -> None:
    with anyio.fail_after(_WAIT_S):
        async for scene in scenes:
            if scene.seq >= seq:
                return


async def _latencies(
    scenes: AsyncGenerator[Scene, None], store: FileStore, act: Callable[[int], Awaitable[object]]
) -> list[float]:
    found = []
    for number in range(_ROUNDS):
        seq = (await store.read(TEAM)).seq
        begun = time.perf_counter()
        await act(number)
        await _shown(scenes, seq + 1)
        found.append((time.perf_counter() - begun) * 1000)
        await anyio.sleep(0.2)
    return found


async def measure(agents: int, tasks: int, messages: int) -> list[Row]:
    """Milliseconds for each piece of work, and the maximum allowed."""
    load = machine.load()
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(Path(folder))
        team = await make(store, agents=agents, tasks=tasks, messages=messages)
        # Store the summary of the log beside it, as in a team that was really run.
        await team.events()
        await store.aclose()
        store = FileStore(Path(folder))
        team = Teams(store).open(TEAM)
        begun = time.perf_counter()
        await store.read(TEAM)
        bare = (time.perf_counter() - begun) * 1000
        following = TeamFollower(team)
        begun = time.perf_counter()
        await following.look()
        first = (time.perf_counter() - begun) * 1000
        looks = []
        for _ in range(_ROUNDS):
            begun = time.perf_counter()
            await following.look()
            looks.append((time.perf_counter() - begun) * 1000)
        async with aclosing(following.scenes()) as scenes:
            await _shown(scenes, 1)
            mail = await _latencies(
                scenes,
                store,
                lambda n: team.mailbox.send(f"agent{n % agents}", "Hello", sender=LEAD),
            )
            moved = await _latencies(scenes, store, lambda n: team.tasks.add(f"More {n}", by=LEAD))
        await store.aclose()
    found: tuple[tuple[str, list[float], float | None], ...] = (
        ("read of the store alone", [bare], None),
        ("first scene", [first], FIRST_MS),
        ("another look, nothing new", looks, None),
        ("a message, from commit to scene, median", mail, SHOWN_MS),
        ("a task, from commit to scene, median", moved, SHOWN_MS),
    )
    figures = [(work, figure_of(times, "ms"), most) for work, times, most in found]
    return [
        Row(number, work, ours, NO_GOAL if most is None else below(ours, most), load=load)
        for number, (work, ours, most) in enumerate(figures, start=1)
    ]


def main() -> None:
    """Measure, print a table, and write the figures if requested."""
    parser = options_parser("Measure what following a big team costs.")
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=50_000)
    given = parser.parse_args()
    rows = anyio.run(measure, given.agents, given.tasks, given.messages)
    report(given, rows)
    sys.exit(1 if any(row.verdict == "FAIL" for row in rows) else 0)


if __name__ == "__main__":
    main()
