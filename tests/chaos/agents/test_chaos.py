"""Kill -9 at any moment of anything that runs; afterwards nothing of it is left.

CI runs a few rounds. The full run, and the same rounds again as in a failure:

    BULLPEN_CHAOS_ROUNDS=30 uv run pytest tests/chaos/agents/test_chaos.py
    BULLPEN_CHAOS_SEED=1234 uv run pytest tests/chaos/agents/test_chaos.py
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark
from bullpen.agents.system.transcript import rows
from bullpen.app.app import TMUX_SOCKET
from bullpen.errors import NotFound
from bullpen.protocol.agent import AgentFacts, ProcessRecord
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.store.files.disk import TEMP_SUFFIX
from bullpen.team.team import Team
from support.crews import eventually
from support.offices import Place, needs_tmux, opened

ROUNDS = int(os.environ.get("BULLPEN_CHAOS_ROUNDS") or 6)
SEED = int(os.environ.get("BULLPEN_CHAOS_SEED") or 3)

MATES = {"alice": "subprocess", "bob": "tmux", "carl": "subprocess"}
VICTIMS = ("lead", "teammate", "tmux server", "spawner", "run")
MOMENTS = ("at work", "while they start", "in a spawn")

BUSY = (
    '{tool = "Bash", may_fail = true, '
    'input = {command = "setsid sleep 9999 & sleep 9999", timeout = 600000}}'
)
TASKS = ", ".join(
    f'{{tool = "TaskCreate", input = {{subject = "Task {number}", description = "Do it"}}}}'
    for number in range(len(MATES))
)
SCRIPT = f"""
[[agents.team-lead.turns]]
when = "start"
steps = [{TASKS}, {BUSY}]
""" + "".join(
    f"[[agents.{name}.turns]]\nrepeat = true\nsteps = [{BUSY}]\n" for name in (LEAD, *MATES)
)
OF_ONE = 4
"""The processes of an agent at work: itself, the shell, its child, and one that left the group."""

pytestmark = [needs_tmux, pytest.mark.skipif(sys.platform != "linux", reason="it needs /proc")]


class Bystanders:
    """What a user has on the same machine: a tmux server with panes, and processes."""

    def __init__(self, other_home: Path) -> None:
        self._socket = f"bystander-{uuid.uuid4().hex[:8]}"
        self._tmux("new-session", "-d", "-s", "bullpen-mine", "sleep 9999")
        self._tmux("split-window", "-t", "bullpen-mine", "sleep 9999")
        self._tmux("new-window", "-t", "bullpen-mine", "-n", "alice", "sleep 9999")
        # One is an agent of another home.
        marked = {**os.environ, NONCE: f"{home_mark(other_home)}-{'0' * 24}"}
        self._own = [
            subprocess.Popen(["/bin/sleep", "9999"], env=env, start_new_session=new)
            for env, new in ((os.environ, True), (os.environ, False), (marked, True))
        ]
        self._before = self._seen()
        assert len(self._before) == 3 + len(self._own)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", os.devnull, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _seen(self) -> list[tuple[str, str | None]]:
        panes = self._tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_pid} #{window_id}")
        of_panes = [(line, processes.start_of(int(line.split()[1]))) for line in panes.splitlines()]
        own = [(str(each.pid), processes.start_of(each.pid)) for each in self._own]
        return [*of_panes, *own]

    def check(self) -> None:
        assert self._seen() == self._before
        assert all(each.poll() is None for each in self._own)

    def end(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")
        for each in self._own:
            each.kill()
            each.wait()


class Chaos:
    """One home, in which team after team is started by real commands and killed."""

    def __init__(self, place: Place, rng: random.Random, bystanders: Bystanders) -> None:
        self._place = place
        self._rng = rng
        self._bystanders = bystanders
        self._script = place.script(SCRIPT)
        self._env = {
            **{name: value for name, value in os.environ.items() if name != "TMUX"},
            "BULLPEN_HOME": str(place.home),
            TMUX_SOCKET: place.socket,
        }
        self._team_name = ""
        self._run: subprocess.Popen[bytes] | None = None
        self._spawners: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def team(self) -> Team:
        return self._place.app.teams.open(self._team_name)

    def command(self, *words: str) -> subprocess.Popen[bytes]:
        log = self._place.folder / "commands.log"
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "bullpen", *words],
                env=self._env,
                cwd=self._place.project,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    async def begin(self, name: str) -> None:
        """`bullpen run` for the lead, `bullpen spawn` for the others, all at once."""
        self._team_name = name
        await self._place.app.teams.create(name, cwd=str(self._place.project))
        free = ("--mode", "bypassPermissions")
        scripted = ("-t", name, "--driver", "scripted", "--script", self._script, *free)
        self._run = self.command("run", "Live", *scripted, "--backend", "subprocess")
        self._spawners = {
            mate: self.command("spawn", mate, *scripted, "--backend", backend, "--wait", "120")
            for mate, backend in MATES.items()
        }

    async def agents(self) -> dict[str, AgentFacts]:
        config = await self.team.agents.config()
        return {row.name: row.agent for row in config.roster if row.agent is not None}

    async def living(self) -> dict[str, AgentFacts]:
        agents = await self.agents()
        return {name: agent for name, agent in agents.items() if agent.phase != "ended"}

    async def at_work(self, names: set[str]) -> bool:
        """Whether everybody runs, with a tool and a helper, and nothing else does."""
        marked = [nonce for nonce in processes.marked().values() if self._is_ours(nonce)]
        agents = await self.agents()
        nonces = {agent.nonce for name, agent in agents.items() if name in names}
        return (
            names <= agents.keys()
            and all(agents[name].phase == "running" for name in names)
            and sorted(marked) == sorted([*nonces] * OF_ONE)
        )

    def _is_ours(self, nonce: str) -> bool:
        return nonce.startswith(f"{home_mark(self._place.home)}-")

    async def until(self, moment: str) -> None:
        """Wait for the moment of the blow."""
        if moment == "at work":
            names = {LEAD, *MATES}

            async def all_work() -> bool:
                return await self.at_work(names)

            await eventually(all_work, within_s=120)
        elif moment == "in a spawn":

            async def one_starts() -> bool:
                return any(each.phase == "starting" for each in (await self.agents()).values())

            await eventually(one_starts, within_s=60)
            await anyio.sleep(self._rng.uniform(0, 0.5))
        else:
            await anyio.sleep(self._rng.uniform(0.3, 4))

    async def strike(self, victim: str) -> None:
        """Kill -9."""
        match victim:
            case "lead":
                await self._kill_agent(LEAD)
            case "teammate":
                await self._kill_agent(self._rng.choice(list(MATES)))
            case "tmux server":
                said = self._place.tmux("display-message", "-p", "#{pid}").strip()
                _kill(int(said) if said else None)
            case "spawner":
                _kill(self._spawners[self._rng.choice(list(MATES))].pid)
            case _:
                assert self._run is not None
                _kill(self._run.pid)

    async def _kill_agent(self, name: str) -> None:
        with suppress(NotFound):
            place = (await self.team.agents.get(name))[1].process
            if place is None or place.pid is None or place.start is None:
                return
            if processes.is_alive(place.pid, place.start):
                _kill(place.pid)

    def kill_commands(self) -> None:
        """Whoever could start something again."""
        for each in (self._run, *self._spawners.values()):
            if each is not None:
                each.kill()
                each.wait()

    async def resume(self) -> None:
        """Take the team up again: the same names, each once, nothing left of the dead."""
        before = await self.agents()
        names = set(before)
        await self._let_the_dying_end(before)
        self._run = self.command("team", "resume", self._team_name)

        async def all_work() -> bool:
            return await self.at_work(names)

        await eventually(all_work, within_s=120)
        assert set(await self.agents()) == names
        for name, agent in (await self.agents()).items():
            assert agent.launch - before[name].launch in (0, 1)

    async def _let_the_dying_end(self, agents: dict[str, AgentFacts]) -> None:
        """Without their server, agents in panes end in order: that takes them a moment."""
        if self._place.panes():
            return
        for place in (agent.process for agent in agents.values()):
            if place is not None and place.pane is not None:
                await eventually(partial(_is_gone, place), within_s=30)

    async def doctor(self) -> list[dict[str, Any]]:
        """What `bullpen doctor --fix` found; all of it must be mended."""
        words = [sys.executable, "-m", "bullpen", "doctor", "--fix", "--all", "--json"]
        with anyio.fail_after(120):
            done = await anyio.run_process(words, env=self._env, check=False)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        return found

    async def settle(self) -> None:
        """Let the doctor see to it until nobody is in the middle of a start."""
        await self.doctor()
        while [each for each in (await self.living()).values() if each.phase == "starting"]:
            since = min(each.since_ms for each in (await self.living()).values())
            assert now_ms() - since < 90_000, "Somebody is starting for ever."
            await anyio.sleep(1)
            await self.doctor()

    async def check_only_the_living_are_there(self) -> None:
        living = await self.living()
        nonces = {agent.nonce for agent in living.values()}
        for agent in living.values():
            assert agent.process is not None
            assert processes.runs(agent.process)
        ours = {pid: nonce for pid, nonce in processes.marked().items() if self._is_ours(nonce)}
        strays = {pid: nonce for pid, nonce in ours.items() if nonce not in nonces}
        assert not strays, [_command_line(pid) for pid in strays]
        panes = self._place.tmux("list-panes", "-a", "-F", "#{@bullpen_nonce}").split()
        assert set(panes) <= nonces
        for task in (await self.team.tasks.list()).tasks:
            assert task.status == "pending" or task.owner in living
        lease = await self.team.agents.leader()
        assert lease is None or lease.nonce in nonces or lease.until_ms <= now_ms()

    async def end(self) -> None:
        """Kill the rest, too; then nothing at all is left, and the doctor finds nothing."""
        for name in await self.living():
            await self._kill_agent(name)
        await self.settle()
        assert await self.living() == {}
        assert self._place.processes() == []
        assert self._place.panes() == []
        assert all(task.status == "pending" for task in (await self.team.tasks.list()).tasks)
        assert _leftovers(self._place.home) == []
        assert await self.doctor() == []
        self._bystanders.check()


def _is_gone(place: ProcessRecord) -> bool:
    return not processes.runs(place)


def _kill(pid: int | None) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8").replace("\0", " ")
    return f"process {pid}"


def _leftovers(home: Path) -> list[Path]:
    """Locks that are held, and files that were being written. Spare locks lie in a folder."""
    return [
        path
        for path in home.rglob("*")
        if path.name.endswith(TEMP_SUFFIX)
        or (path.suffix == ".lock" and path.is_dir() and path.parent.name != "locks")
    ]


@asynccontextmanager
async def chaos(folder: Path, rng: random.Random) -> AsyncIterator[Chaos]:
    """A home beside somebody's own things; whatever runs is gone at the end."""
    (folder / "place").mkdir()
    bystanders = Bystanders(folder / "another-home")
    try:
        async with opened(folder / "place") as place:
            made = Chaos(place, rng, bystanders)
            try:
                yield made
            finally:
                made.kill_commands()
    finally:
        bystanders.end()


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_whatever_is_killed_nothing_is_left(tmp_path: Path, number: int) -> None:
    """R-3.2: kill -9 of lead, teammate, tmux server; `doctor --fix`; zero leftovers."""
    rng = random.Random(f"{SEED}-{number}")
    moment = MOMENTS[number % len(MOMENTS)]
    victims = {VICTIMS[number % len(VICTIMS)], *rng.sample(VICTIMS, rng.randint(0, 2))}
    print(f"round {number}: {moment}: {', '.join(sorted(victims))}")
    async with chaos(tmp_path, rng) as scene:
        await scene.begin("beta")
        await scene.until(moment)
        for victim in rng.sample(sorted(victims), len(victims)):
            await scene.strike(victim)
            await anyio.sleep(rng.choice((0, 0, 0.3)))
        scene.kill_commands()
        # Who is in the middle of a start is nobody's to take up for some seconds.
        if moment == "at work" and number % 2:
            await scene.resume()
            scene.kill_commands()
        await scene.settle()
        await scene.check_only_the_living_are_there()
        await scene.end()


async def test_an_agent_that_waited_for_somebody_goes_on_with_its_task_after_a_kill(
    place: Place,
) -> None:
    """R-11a: what it waited for may be gone with its process, so it is reminded at once."""
    script = """
    [[agents.alice.turns]]
    when = "task"
    steps = [
      {tool = "SendMessage", input = {to = "team-lead", summary = "How?", message = "How?"}},
      {say = "I wait for an answer."},
    ]
    [[agents.alice.turns]]
    steps = [
      {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
      {say = "I knew it after all."},
    ]
    """
    await place.team.tasks.add("Write", by=LEAD)
    await place.spawn("alice", script, claims=True)

    async def waits() -> bool:
        found = rows(await place.supervisor.transcript("alice"))
        return any(
            row.get("text") == "I wait for an answer." for row in found if row["kind"] == "end"
        )

    await eventually(waits, within_s=30)
    where = (await place.team.agents.get("alice"))[1].process
    assert where is not None
    _kill(where.pid)
    await eventually(partial(_is_gone, where), within_s=30)
    await place.supervisor.resume(by=LEAD)

    async def completed() -> bool:
        return (await place.team.tasks.get("1")).status == "completed"

    await eventually(completed, within_s=30)
    assert (await place.team.tasks.get("1")).owner == "alice"
