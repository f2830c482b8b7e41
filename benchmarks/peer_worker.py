"""Does the same work with Bullpen or with another program, one piece at a time, for `peers.py`.

    python peer_worker.py bullpen|bullpen-no-fsync|clawteam|claude-teams FOLDER

It runs in the environment of that program and gets lines such as `["send", 1]` on its standard
input: a piece of work and how often to do it. It answers each with the processor seconds of all.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

TEAM, LEAD, READER = "alpha", "team-lead", "ann"
TEXT = "x" * 300


class Program(Protocol):
    """What a program can do here."""

    def send(self) -> object:
        """Send a message of 300 bytes to the same member."""

    def create(self) -> object:
        """Create a task."""

    def list(self) -> object:
        """List all tasks."""

    def claim(self) -> object:
        """Take the first task that nobody has, and complete it."""

    def fill(self, messages: int) -> object:
        """Put that many messages into the inbox, in any way."""


class Bullpen:
    """Bullpen on files; without fsync it does as the others do."""

    def __init__(self, folder: Path, *, fsync: bool) -> None:
        team = importlib.import_module("bullpen.team.team")
        store = importlib.import_module("bullpen.store.files.store").FileStore
        self._runner = asyncio.Runner()
        self._run = self._runner.run
        self._fast = team.Team(store(folder, fsync=False), TEAM)
        self._run(team.Teams(store(folder, fsync=False)).create(TEAM))
        self._run(self._fast.roster.join(READER, by=LEAD))
        self._team = team.Team(store(folder, fsync=fsync), TEAM)

    def send(self) -> None:
        self._run(self._team.mailbox.send(READER, TEXT, sender=LEAD))

    def create(self) -> None:
        self._run(self._team.tasks.add("Do it", by=LEAD))

    def list(self) -> None:
        self._run(self._team.tasks.list())

    def claim(self) -> None:
        task = self._run(self._team.tasks.claim_next(by=READER))
        self._run(self._team.tasks.done(task.id, by=READER))

    def fill(self, messages: int) -> None:
        for _ in range(messages):
            self._run(self._fast.mailbox.send(READER, TEXT, sender=LEAD))


class ClawTeam:
    """ClawTeam, by the classes that its commands use."""

    def __init__(self, folder: Path) -> None:
        os.environ["CLAWTEAM_DATA_DIR"] = str(folder)
        manager = importlib.import_module("clawteam.team.manager").TeamManager
        manager.create_team(TEAM, LEAD, "1")
        manager.add_member(TEAM, READER, "2")
        self._status = importlib.import_module("clawteam.team.models").TaskStatus
        self._mail = importlib.import_module("clawteam.team.mailbox").MailboxManager(TEAM)
        self._tasks = importlib.import_module("clawteam.team.tasks").TaskStore(TEAM)

    def send(self) -> None:
        self._mail.send(LEAD, READER, TEXT)

    def create(self) -> None:
        self._tasks.create("Do it")

    def list(self) -> None:
        self._tasks.list_tasks()

    def claim(self) -> None:
        task = self._tasks.list_tasks(status=self._status.pending)[0]
        self._tasks.update(task.id, self._status.in_progress, owner=READER, caller=READER)
        self._tasks.update(task.id, self._status.completed, caller=READER)

    def fill(self, messages: int) -> None:
        for _ in range(messages):
            self.send()


class ClaudeTeams:
    """claude-code-teams-mcp, by the functions behind its tools."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "tasks").mkdir(parents=True)
        importlib.import_module("claude_teams.teams").create_team(TEAM, "1", base_dir=folder)
        self._messages = importlib.import_module("claude_teams.messaging")
        self._tasks = importlib.import_module("claude_teams.tasks")

    def send(self) -> None:
        self._messages.send_plain_message(TEAM, LEAD, READER, TEXT, "", base_dir=self._folder)

    def create(self) -> None:
        self._tasks.create_task(TEAM, "Do it", "", base_dir=self._folder)

    def list(self) -> Any:
        return self._tasks.list_tasks(TEAM, base_dir=self._folder)

    def claim(self) -> None:
        free = next(task for task in self.list() if task.status == "pending" and not task.owner)
        for change in ({"status": "in_progress", "owner": READER}, {"status": "completed"}):
            self._tasks.update_task(TEAM, free.id, **change, base_dir=self._folder)

    def fill(self, messages: int) -> None:
        # One by one takes minutes: each send rewrites all of them.
        self.send()
        path = self._messages.inbox_path(TEAM, READER, self._folder)
        rows = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(rows + rows[:1] * (messages - 1)), "utf-8")


def opened(name: str, folder: Path) -> Program:
    """A program with a new team."""
    match name:
        case "clawteam":
            return ClawTeam(folder)
        case "claude-teams":
            return ClaudeTeams(folder)
        case _:
            return Bullpen(folder, fsync=name == "bullpen")


def main() -> None:
    """Do what is asked until the input ends."""
    program = opened(sys.argv[1], Path(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        work, times = json.loads(line)
        begin = time.process_time()
        if work == "fill":
            program.fill(times)
        else:
            for _ in range(times):
                getattr(program, work)()
        print(json.dumps(time.process_time() - begin), flush=True)


if __name__ == "__main__":
    main()
