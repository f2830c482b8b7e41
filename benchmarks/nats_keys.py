"""Measure what operations on a team cost over NATS with the key of a host, beside another commit.

    python benchmarks/nats_keys.py [--nodes 3] [--before PATH_TO_SRC_OF_ANOTHER_COMMIT]

Each side is a process with servers of its own, whose keys its own code made. With --before, both
commits take turns, round by round, so that noise affects them equally. Measured are the key of a
host for all teams of a tenant, one that is bound to teams, and an administrator's. The last is in
the account of the streams on both sides, so its ratio is what else differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

SRC = Path(__file__).parents[1] / "src"
TARGET = 1.1
"""How many times the processor time of before an operation may take."""

KEYS = ("unbound", "bound", "admin")
CALLS = {
    "send": "send a message, one commit",
    "work": "add, claim, complete and delete a task, four commits",
    "read": "list the tasks, asking the servers each time, no commit",
}
WRITERS = 8
_TENANT = "acme"
_TEXT = "The parser reads nested lists now; the tests of the printer still fail."
_BELIEVE_S = 1.0
"""How old the servers' last answer may be for a host's reads, as in a running host."""

_TICKS = os.sysconf("SC_CLK_TCK")

Act = Callable[[], Awaitable[object]]
Round = dict[str, float]
Found = dict[tuple[str, str, int], dict[str, list[Round]]]


def teams_of(key: str) -> tuple[str, ...]:
    """Return one team for each writer."""
    return tuple(f"{key}-{number}" for number in range(WRITERS))


async def side(folder: Path, nodes: int) -> None:
    """Run servers; do a round for each line of the input: the key, the call, writers, seconds."""
    from bullpen.fleet.auth.resolver import include_text
    from bullpen.fleet.auth.roles import Role
    from bullpen.fleet.auth.vault import Vault
    from bullpen.fleet.servers.server_process import Cluster
    from bullpen.store.nats.client.connection import Endpoint
    from bullpen.store.nats.store import NatsStore
    from bullpen.team.team import Teams

    class KeyedCluster(Cluster):
        def _launch(self, index: int, *, binary: Path | None = None) -> None:
            accounts = self.nodes[index].directory / "accounts"
            self.extra = include_text(vault.directory, resolver=accounts)
            super()._launch(index, binary=binary)

    vault = Vault(folder / "keys")
    vault.create()
    vault.add_tenant(_TENANT)
    vault.mint(_TENANT, "unbound", Role.HOST)
    vault.mint(_TENANT, "bound", Role.HOST, teams=teams_of("bound"))
    creds = vault.directory / "tenants" / _TENANT / "creds"
    async with KeyedCluster(folder / "servers", nodes, sync="2m") as cluster:
        await _prepare(vault, Endpoint(tuple(cluster.urls), creds / "admin.creds"), nodes)
        # One server, so that every round takes the same route.
        url = cluster.urls[0]
        stores, opened = [], {}
        for key in KEYS:
            endpoint = Endpoint((url,), creds / f"{key}.creds")
            host, asking = NatsStore(endpoint, host=key, believe_s=_BELIEVE_S), NatsStore(endpoint)
            stores += [host, asking]
            opened[key] = {"send": Teams(host), "work": Teams(host), "read": Teams(asking)}
            for team in teams_of(key):
                await _create(Teams(host), team)
        pids = [cluster.pid(index) for index in range(nodes)]
        print("ready", flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).split():
            key, call, writers, seconds = line[0], line[1], int(line[2]), float(line[3])
            teams = [opened[key][call].open(team) for team in teams_of(key)[:writers]]
            found = await _round([_ACTS[call](team) for team in teams], pids, seconds)
            print(json.dumps(found), flush=True)
        for store in stores:
            await store.aclose()


async def _prepare(vault: Any, endpoint: Any, nodes: int) -> None:
    from bullpen.errors import Unavailable
    from bullpen.store.nats.client import streams
    from bullpen.store.nats.client.connection import NatsConnection

    link = NatsConnection(endpoint)
    deadline = time.monotonic() + 30
    while True:
        try:
            await streams.prepare(await link.client(), partitions=2, replicas=nodes)
            break
        except Unavailable:
            # A cluster may not have made the folders of the account yet.
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
    give_own = getattr(streams, "give_own", None)
    if give_own is not None:
        for team, partition in vault.tenant(_TENANT).own.items():
            await give_own(await link.client(), team, partition)
    await link.aclose()


async def _create(teams: Any, name: str) -> None:
    from bullpen.protocol.agent import AgentSpec, ProcessRecord
    from bullpen.protocol.names import LEAD

    await teams.create(name)
    team = teams.open(name)
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/")
    place = ProcessRecord.new(backend="subprocess", host="here", pid=1, start="1")
    for agent in ("ann", "bob"):
        await team.agents.register(agent, spec, by=LEAD, nonce=f"nonce-{agent}")
        await team.agents.ready(agent, nonce=f"nonce-{agent}", place=place)


def _send(team: Any) -> Act:
    sent: list[str] = []

    async def send() -> None:
        message = await team.mailbox.send("bob", _TEXT, sender="ann")
        sent.append(message.id)
        if len(sent) == 50:
            # An inbox that only grows would measure something else.
            await team.mailbox.mark("bob", sent, "seen")
            sent.clear()

    return send


def _work(team: Any) -> Act:
    from bullpen.protocol.names import LEAD

    async def work() -> None:
        task = await team.tasks.add("Write a part of the parser", by=LEAD)
        await team.tasks.claim(task.id, by="ann")
        await team.tasks.done(task.id, by="ann")
        await team.tasks.delete(task.id, by="ann")

    return work


def _read(team: Any) -> Act:
    return team.tasks.list  # type: ignore[no-any-return]


_ACTS = {"send": _send, "work": _work, "read": _read}


async def _round(acts: list[Act], pids: list[int], seconds: float) -> Round:
    """Let each writer act again and again."""
    times: list[float] = []

    async def write(act: Act) -> None:
        while (begin := time.perf_counter()) < end:
            await act()
            times.append(time.perf_counter() - begin)

    servers, client = sum(map(_cpu_s, pids)), time.process_time()
    begin = time.perf_counter()
    end = begin + seconds
    await asyncio.gather(*map(write, acts))
    took = time.perf_counter() - begin
    return {
        "per_s": len(times) / took,
        "p50_ms": statistics.median(times) * 1e3,
        "client_us": (time.process_time() - client) / len(times) * 1e6,
        "servers_us": (sum(map(_cpu_s, pids)) - servers) / len(times) * 1e6,
    }


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Side:
    """The servers and the client of one commit."""

    def __init__(self, src: Path, folder: Path, nodes: int) -> None:
        folder.mkdir()
        argv = [sys.executable, __file__, "--part", str(folder), "--nodes", str(nodes)]
        env = {**os.environ, "PYTHONPATH": str(src)}
        self._process = subprocess.Popen(
            argv, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._read("ready")

    def _read(self, expected: str = "") -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line or not line.startswith(expected):
            raise SystemExit(f"a side ended: {line!r}")
        return line

    def round(self, key: str, call: str, writers: int, seconds: float) -> Round:
        """Return the figures of one round."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{key} {call} {writers} {seconds}\n")
        self._process.stdin.flush()
        found: Round = json.loads(self._read())
        return found

    def end(self) -> None:
        """End the client, and with it its servers."""
        self._process.communicate(timeout=60)


def measure(sides: dict[str, Side], rounds: int, seconds: float) -> Found:
    """Return all rounds of each side, in turns; the first of each is not counted."""
    found: Found = {}
    for call in CALLS:
        for writers in (1, WRITERS):
            for key in KEYS:
                rows = found[key, call, writers] = {name: [] for name in sides}
                for number in range(rounds + 1):
                    names = list(sides)
                    for name in names if number % 2 else reversed(names):
                        row = sides[name].round(key, call, writers, seconds)
                        if number:
                            rows[name].append(row)
    return found


def _line(name: str, rows: list[Round]) -> str:
    per_s, p50, client, servers = (
        [row[key] for row in rows] for key in ("per_s", "p50_ms", "client_us", "servers_us")
    )
    middle = statistics.median
    return (
        f"  {name:7} {middle(per_s):7.0f}/s (best {max(per_s):.0f}), "
        f"p50 {middle(p50):.2f} ms (best {min(p50):.2f}), "
        f"client {middle(client):.0f} us (best {min(client):.0f}), "
        f"servers {middle(servers):.0f} us (best {min(servers):.0f})"
    )


def _ratios(rows: dict[str, list[Round]]) -> str:
    def ratio(key: str, pick: Callable[[list[float]], float]) -> float:
        now, before = ([row[key] for row in rows[name]] for name in ("now", "before"))
        return pick(now) / pick(before)

    def both(row: Round) -> float:
        return row["client_us"] + row["servers_us"]

    cpu = [statistics.median(map(both, rows[name])) for name in ("now", "before")]
    best = [min(map(both, rows[name])) for name in ("now", "before")]
    return (
        f"  ratio   {ratio('per_s', statistics.median):7.2f}   "
        f"(best {ratio('per_s', max):.2f}), "
        f"p50 {ratio('p50_ms', statistics.median):.2f} (best {ratio('p50_ms', min):.2f}), "
        f"processor time of client and servers {cpu[0] / cpu[1]:.2f} "
        f"(best {best[0] / best[1]:.2f}; at most {TARGET})"
    )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seconds", type=float, default=1.0)
    options.add_argument("--nodes", type=int, default=1, choices=[1, 3])
    options.add_argument("--before", type=Path)
    options.add_argument("--part", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part is not None:
        asyncio.run(side(given.part, given.nodes))
        return
    with tempfile.TemporaryDirectory(prefix="bp-") as folder:
        sources = {"now": SRC} if given.before is None else {"before": given.before, "now": SRC}
        sides = {name: Side(src, Path(folder) / name, given.nodes) for name, src in sources.items()}
        found = measure(sides, given.rounds, given.seconds)
        for each in sides.values():
            each.end()
    print(f"{given.nodes} servers, load {os.getloadavg()[0]:.1f} at the end")
    for (key, call, writers), rows in found.items():
        print(f"{key} key, {writers} at once: {CALLS[call]}")
        for name, row in rows.items():
            print(_line(name, row))
        if "before" in rows:
            print(_ratios(rows))


if __name__ == "__main__":
    main()
