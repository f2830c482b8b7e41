"""The example of two machines, played whole: a host is lost in the middle, and the team finishes.

The machines are network namespaces; servers, keys, hosts, Goose and what is killed are real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from programs.real_programs import program

PLAY = Path(__file__).parents[3] / "examples/two-machines/play.py"
TASKS = 9
LAST_TASKS = ("7", "8", "9")
LOST_AFTER_S = 6
LONGEST_S = 240.0


def namespaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listed.stdout.splitlines()}


def why_not() -> str | None:
    """Why there can be no such machines here, if so."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "needs Linux and the command `ip`"
    name = f"bp{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        return f"needs the right to make network namespaces: {made.stderr.decode().strip()}"
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None


def carriers(folder: Path) -> list[str]:
    """The processes that have something of a folder in their environment or their words."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            about = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in about:
            found.append(process.name)
    return found


@dataclass(frozen=True)
class Played:
    """The example after its end, by what it left."""

    code: int
    shown: str
    report: dict[str, Any]
    left: list[str]

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.report["events"])

    def changes(self, kind: str) -> list[dict[str, Any]]:
        """What was changed of one kind, in order."""
        return [each for event in self.events for each in event["changes"] if each["put"] == kind]

    @cached_property
    def agents(self) -> dict[str, dict[str, Any]]:
        return {agent["name"]: agent for agent in self.report["agents"]}


def play() -> Played:
    """Run the example as a user does, but with a shorter wait for the machine that is lost."""
    goose = program("goose")
    # Sockets have short names only.
    folder = Path(tempfile.mkdtemp(prefix="two-"))
    before = namespaces()
    words = [sys.executable, str(PLAY), "--folder", str(folder), "--lost-after", str(LOST_AFTER_S)]
    try:
        run = subprocess.Popen(
            words,
            env={**os.environ, "PATH": f"{Path(goose.argv[0]).parent}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            shown, _ = run.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            # It takes its machines with it.
            run.terminate()
            shown, _ = run.communicate(timeout=60)
        report = folder / "report.json"
        assert report.exists(), shown
        left = [*carriers(folder), *sorted(namespaces() - before)]
        return Played(run.returncode, shown, json.loads(report.read_text("utf-8")), left)
    finally:
        shutil.rmtree(folder)


def test_a_team_on_two_machines_finishes_though_one_is_killed() -> None:
    """One run, because it is long: two drivers, one of them a program of another vendor."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    played = play()
    every_task_is_done_once(played)
    no_task_begins_before_those_that_it_waits_for(played)
    both_teammates_were_at_work_and_went_on_elsewhere(played)
    every_message_is_read_once(played)
    nothing_is_left(played)


def every_task_is_done_once(played: Played) -> None:
    assert played.report["trouble"] == "", played.shown
    assert played.code == 0, played.shown
    tasks = played.report["tasks"]
    assert [task["status"] for task in tasks] == ["completed"] * TASKS, played.shown
    done = Counter(
        change["task"]["id"]
        for event in played.events
        if event["op"] == "task.done"
        for change in event["changes"]
        if change["put"] == "task" and change["task"]["status"] == "completed"
    )
    assert done == {task["id"]: 1 for task in tasks}


def no_task_begins_before_those_that_it_waits_for(played: Played) -> None:
    status: dict[str, str] = {}
    for change in played.changes("task"):
        task = change["task"]
        status[task["id"]] = task["status"]
        if task["status"] == "in_progress":
            assert {status[each] for each in task["blockedBy"]} <= {"completed"}, task


def both_teammates_were_at_work_and_went_on_elsewhere(played: Played) -> None:
    drivers = {name: agent["driver"] for name, agent in played.agents.items()}
    assert drivers == {"team-lead": "scripted", "ann": "scripted", "gus": "goose"}
    assert played.report["left_behind"].keys() == {"ann", "gus"}
    where = {name: agent["place"]["host"] for name, agent in played.agents.items()}
    assert where == {"team-lead": "h1", "ann": "h3", "gus": "h3"}
    assert [agent["launch"] for agent in played.agents.values()] == [1, 2, 2]
    lost = [event for event in played.events if "its host h2 is lost" in json.dumps(event)]
    assert [event["op"] for event in lost if event["op"] == "agent.end"] == ["agent.end"] * 2


def every_message_is_read_once(played: Played) -> None:
    """Only what the lost machine had before it, and nobody had answered, is read again."""
    told, seen = played.report["told"], Counter[str]()
    for change in played.changes("mail_state"):
        seen.update(change["ids"] if change["state"] == "seen" else ())
    sent = {change["id"]: change for change in played.changes("message")}
    assert set(told) <= set(sent)
    for message, machines in told.items():
        assert machines in (["h1"], ["h2"], ["h3"], ["h2", "h3"]), sent[message]
    assert set(seen.values()) == {1}
    early = sent_before_the_last_tasks(played)
    assert [sent[message] for message in early if not (told.get(message) and seen[message])] == []
    assert sum("is done, says" in sent[message]["message"]["text"] for message in early) >= 4


def sent_before_the_last_tasks(played: Played) -> list[str]:
    """What everybody had the time to read: who is stopped at the end may leave something."""
    messages: list[str] = []
    for event in played.events:
        for change in event["changes"]:
            if change["put"] == "message":
                messages.append(change["id"])
            elif change["put"] == "task" and is_last_and_begun(change["task"]):
                return messages
    return messages


def is_last_and_begun(task: dict[str, Any]) -> bool:
    return task["id"] in LAST_TASKS and task["status"] == "in_progress"


def nothing_is_left(played: Played) -> None:
    states = {host["name"]: host["state"] for host in played.report["hosts"]}
    assert states == {"h1": "ready", "h2": "lost", "h3": "ready"}
    assert played.report["running_on_h2"] == []
    assert {agent["state"] for agent in played.agents.values()} == {"stopped"}
    assert played.left == []
