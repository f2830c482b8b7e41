"""Real teams whose processes can be stopped and whose clock can be set."""

from __future__ import annotations

import os
import re
import shutil
import signal
import site
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.protocol.changes import Deliver
from bullpen.protocol.names import LEAD
from support.runs.unattended_team import git_environment

TEAM = "clocks"
WORK_S = 7
SHORTER = 10.0
"""By how much leases are divided where a process is stopped: three minutes are 18 seconds."""

_COMMAND_MS = 150_000
"""How long the command of a member may take: less than it is stopped."""

SCRIPT = """
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "TaskCreate", input = {subject = "Count", description = "x"}},
  {tool = "SpawnTeammate", input = {name = "ann", prompt = "You count."}},
  {tool = "SpawnTeammate", input = {name = "bob", prompt = "You count."}},
  {say = "They count."},
]
[[agents.team-lead.turns]]
when = "mail"
contains = "FORTY-TWO"
steps = [{tool = "Finish", input = {summary = "It is 42."}}]
"""
WORKS = """
[[agents.{name}.turns]]
when = "task"
repeat = true
steps = [
  {{tool = "Bash", input = {{command = "sh work {{task}}", timeout = {most_ms}}}}},
  {{tool = "TaskUpdate", input = {{taskId = "{{task}}", status = "completed"}}}},
  {{say = "The answer is FORTY-TWO."}},
]
[[agents.{name}.turns]]
repeat = true
steps = [{{say = "Nothing."}}]
"""
UP = f"""
[team]
name = "{TEAM}"
"""
MEMBER = """
[[member]]
name = "{name}"
driver = "scripted"
script = "script.toml"
mode = "bypassPermissions"
backend = "{backend}"
"""


@dataclass(frozen=True)
class Result:
    """What came of a team: everything that has to be the same as without a fault."""

    code: int
    tasks: list[tuple[str, str, int]]
    begun: list[str]
    done: list[str]
    # How often agents were started, tasks claimed, and the end of a turn told.
    launches: dict[str, int]
    claims: int
    reports: int
    lost: list[str]
    output: str = field(compare=False)


class Stage:
    """A folder in which real commands run, each with a Python whose clock is the test's."""

    def __init__(self, folder: Path, *, leases: float = 1.0, work_s: float = WORK_S) -> None:
        self.folder = folder
        self.work_s = work_s
        self._leases = leases
        self._site = (
            folder
            / "python"
            / "lib"
            / f"python{sys.version_info.major}.{sys.version_info.minor}"
            / "site-packages"
        )
        self._make_python()
        (self._site / "off").write_text("0")
        if leases != 1.0:
            (self._site / "leases").write_text(str(leases))
        self.project = folder / "project"
        self.project.mkdir()
        self._popen: subprocess.Popen[str] | None = None

    def _make_python(self) -> None:
        """An interpreter of its own: every process of the team is started with it."""
        place = self.folder / "python"
        (place / "bin").mkdir(parents=True)
        self._site.mkdir(parents=True)
        self.python = place / "bin" / "python"
        self.python.symlink_to(sys.executable)
        (place / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
        there = [folder for folder in site.getsitepackages() if Path(folder).is_dir()]
        lines = [f"import site; site.addsitedir({folder!r})" for folder in there]
        (self._site / "there.pth").write_text("\n".join(lines) + "\n")
        shutil.copy(Path(__file__).with_name("other_clock.py"), self._site / "sitecustomize.py")

    # The team

    def start_run(self, *, backend: str) -> None:
        """`bullpen run`: a lead that spawns two teammates and ends when it has the answer."""
        self._write_script()
        self._start(
            *("run", "Count", "--team", TEAM, "--driver", "scripted", "--script", "script.toml"),
            *("--backend", backend, "--timeout", "900", "--mode", "bypassPermissions"),
        )

    def start_up(self, *, backend: str) -> None:
        """`bullpen up`: two members without a lead, and three tasks."""
        self._write_script()
        members = "".join(MEMBER.format(name=name, backend=backend) for name in ("ann", "bob"))
        tasks = "".join(
            f'[[task]]\nid = "t{number}"\nsubject = "Task {number}"\n' for number in (1, 2, 3)
        )
        (self.project / "TEAM.toml").write_text(UP + members + tasks, "utf-8")
        self._start("up", "TEAM.toml", "--timeout", "900")

    def _write_script(self) -> None:
        most_ms = round(_COMMAND_MS / self._leases)
        lines = f"echo $1 >> begun; sleep {self.work_s}; echo $1 >> done"
        (self.project / "work").write_text(lines, "utf-8")
        works = "".join(WORKS.format(name=name, most_ms=most_ms) for name in ("ann", "bob"))
        (self.project / "script.toml").write_text(SCRIPT + works, "utf-8")

    def _start(self, *words: str) -> None:
        clean = {key: val for key, val in os.environ.items() if not key.startswith("BULLPEN_")}
        self._popen = subprocess.Popen(
            [str(self.python), "-m", "bullpen", *words],
            cwd=self.project,
            env={**clean, **git_environment(), "BULLPEN_HOME": str(self.folder / "home")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def until_begun(self, count: int = 1) -> None:
        """Wait until somebody works, and both members are ready."""
        process = self._popen
        assert process is not None
        deadline = time.monotonic() + 60
        while len(self._lines("begun")) < count or self._ready() < 2:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "it did not begin"
            time.sleep(0.05)

    def _ready(self) -> int:
        """How many members have started: one that has not cannot be ready in time if stopped."""
        paths = [*self.folder.glob("home/**/ann/transcript.jsonl")]
        paths += self.folder.glob("home/**/bob/transcript.jsonl")
        return sum('"ready"' in path.read_text("utf-8") for path in paths)

    async def result(self, *, within_s: float = 300.0) -> Result:
        """Wait for the end."""
        assert self._popen is not None
        try:
            output, _ = self._popen.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            output, _ = self._popen.communicate()
            raise AssertionError(f"it did not end: {output}") from None
        finally:
            self.kill()
        settings = Settings(home=self.folder / "home", team=None, agent=LEAD)
        async with App(settings, os.environ) as app:
            team = app.teams.open(TEAM)
            tasks = (await team.tasks.list()).tasks
            config = await team.agents.config()
            events = await team.events()
        ops = [event.op for event in events]
        reports = [
            change.message.sender
            for event in events
            for change in event.changes
            if isinstance(change, Deliver) and "FORTY-TWO" in change.message.text
        ]
        return Result(
            self._popen.returncode,
            [(task.subject, task.status, task.facts.attempt) for task in tasks],
            sorted(self._lines("begun")),
            sorted(self._lines("done")),
            {each.name: each.agent.launch for each in config.roster if each.agent is not None},
            ops.count("task.claim"),
            len(reports),
            [
                op
                for op in ops
                if op in ("task.expire", "task.relieve", "task.nudge", "task.release")
            ],
            output,
        )

    def _lines(self, name: str) -> list[str]:
        path = self.project / name
        return path.read_text().split() if path.exists() else []

    # Faults

    def set_clock(self, seconds: int) -> None:
        """Set the clock of all processes: later, or earlier."""
        path = self._site / "off"
        now = int(path.read_text())
        path.with_name("off.new").write_text(str(now + seconds))
        path.with_name("off.new").rename(path)

    def sleep(self, seconds: int, *, really_s: float = 1.0) -> None:
        """Let the machine sleep: nothing runs, and when it wakes the clock shows a later time."""
        pids = self.all_processes()
        _signal(pids, signal.SIGSTOP)
        time.sleep(really_s)
        self.set_clock(max(0, seconds - round(really_s)))
        _signal(pids, signal.SIGCONT)

    def stop(self, pid: int, seconds: float) -> None:
        """Stop one process for so long."""
        _signal([pid], signal.SIGSTOP)
        time.sleep(seconds)
        # A team that is done ends a member also while it is stopped.
        _signal([pid], signal.SIGCONT)

    def pythons(self) -> dict[str, int]:
        """The processes of Bullpen by what they are: `watcher`, or the name of an agent."""
        found: dict[str, int] = {}
        for pid, words in _commands().items():
            if words and words[0] == str(self.python) and "bullpen" in words:
                name = _agent(pid) if "agent" in words else "watcher"
                found.setdefault(name, pid)
        return found

    def worker(self) -> str:
        """The member whose command runs."""
        commands = _commands()
        names = {pid: name for name, pid in self.pythons().items()}
        above = {pid: _parent(pid) for pid in commands}
        for pid, words in commands.items():
            if words[-3:-1] == ["sh", "work"]:
                # The nearest: agents may be below the process that spawned them.
                while pid and pid not in names:
                    pid = above.get(pid, 0)
                if pid:
                    return names[pid]
        raise AssertionError(f"nobody works: {names}")

    def all_processes(self) -> list[int]:
        """All processes of the team, and what they started."""
        parents = {pid: _parent(pid) for pid in _commands()}
        wanted = set(self.pythons().values())
        while more := {pid for pid, above in parents.items() if above in wanted} - wanted:
            wanted |= more
        return sorted(wanted)

    def close(self) -> None:
        """Leave nothing behind, also when a test failed."""
        self.kill()
        if self._popen is not None:
            self._popen.wait(timeout=30)
            if self._popen.stdout is not None:
                self._popen.stdout.close()

    def kill(self) -> None:
        """End what is left, in whatever state."""
        _signal(self.all_processes(), signal.SIGKILL)


def _commands() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                words = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found[int(entry)] = [os.fsdecode(word) for word in words if word]
    return found


def _agent(pid: int) -> str:
    environ = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    named = [row for row in environ if row.startswith(b"BULLPEN_AGENT=")]
    return os.fsdecode(named[0].partition(b"=")[2]) if named else f"agent-{pid}"


def _parent(pid: int) -> int:
    try:
        text = Path("/proc", str(pid), "stat").read_text("utf-8")
    except OSError:
        return 0
    return int(re.sub(r".*\) ", "", text, flags=re.DOTALL).split()[1])


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
