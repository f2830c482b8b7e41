"""What the processes of a chaos run write down: each line after the thing it tells of."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bullpen.protocol.changes import Change, encode
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Committed, Decide, Mark, Store
from bullpen.store.nats.store import NatsStore
from bullpen.testing.sample_records import member

SHARED = "shared"
"""The team whose tasks all hosts claim, and which all of them count in."""

POST = "post"
"""The team in which all hosts write to each other."""

ENDINGS = ("stop", "drain", "settle")
"""The signs that a run gives its hosts one after another, and waits for all to have seen."""

Note = dict[str, Any]


class Diary:
    """Lines that survive a kill -9 of the writer: each is one write to an open file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, kind: str, **facts: Any) -> None:
        line = json.dumps({"kind": kind, "at": time.monotonic(), **facts})
        os.write(self._descriptor, line.encode() + b"\n")


def notes_in(folder: Path, pattern: str = "*.diary") -> list[Note]:
    """All notes, in the order in which they were written on this machine."""
    found: list[Note] = []
    for path in folder.glob(pattern):
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [{**json.loads(line), "life": path.stem} for line in lines]
    return sorted(found, key=lambda note: float(note["at"]))


def digest(changes: Sequence[Change]) -> str:
    """What tells one commit from another in a few letters."""
    rows = json.dumps([encode(change) for change in changes], sort_keys=True)
    return hashlib.blake2b(rows.encode(), digest_size=8).hexdigest()


class NotedStore(NatsStore):
    """Writes down everything that it was told is durable."""

    diary: Diary

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        committed = await super().commit(team, decide, actor=actor, op=op)
        if committed.changes:
            self.diary.note(
                "commit",
                team=team,
                seq=committed.seq,
                op=op,
                actor=actor,
                digest=digest(committed.changes),
            )
        return committed

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        moved = await super().acknowledge(team, agent, ids, state, actor=actor)
        self.diary.note("marked", team=team, agent=agent, ids=list(ids), state=state, moved=moved)
        return moved


def teams_of(hosts: int) -> list[str]:
    return [SHARED, POST, *map(own_team, range(hosts))]


def own_team(host: int) -> str:
    return f"own-{host}"


def reader_of(host: int) -> str:
    return f"reader-{host}"


def worker_of(host: int, number: int) -> str:
    return f"worker-{host}-{number}"


def config_of(team: str, hosts: int) -> TeamConfig:
    """A team whose members are the agents of all hosts."""
    names = [LEAD, *map(reader_of, range(hosts))]
    names += [worker_of(host, number) for host in range(hosts) for number in range(2)]
    rows = [member(name).raw for name in names]
    return TeamConfig.parse({"name": team, "createdAt": 1, "members": rows})


async def portrait(store: Store, team: str) -> Note:
    """All that a store shows of a team, as JSON."""
    state = await store.read(team)
    assert state.problems == (), state.problems
    boxes = {row.name: await store.mailbox(team, row.name) for row in state.team.roster}
    return {
        "seq": state.seq,
        "team": state.team.header,
        "members": [row.raw for row in state.team.roster],
        "tasks": {key: task.raw for key, task in state.tasks.items()},
        "requests": {key: each.raw for key, each in state.requests.items()},
        "mail": {
            name: [[entry.id, entry.state, entry.message.text] for entry in box.entries]
            for name, box in boxes.items()
            if box.entries
        },
    }
