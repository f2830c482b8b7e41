"""Play the scenario whose traces are in `recorded`, with the Python of the commit to record.

    cd tests/system
    python -m compat.record ROOT              # the home is in ROOT/home afterwards
    python -m compat.record ROOT nats.jsonl   # the same on a server, whose streams are written

ROOT must not exist. It is in the records: choose a name that says nothing about the machine.
Only the command line and the public Python API are used.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import bullpen
from bullpen.app.settings import settings_from
from bullpen.testing.nats import running

from .streams import dump

HOST = "recorded-host"
DEADLINE_S = 120
LONG_S = "3000000000"

SCRIPT = """
[[agents.cook.turns]]
when = "task"
repeat = true
steps = [
  {tool = "Read", input = {file_path = "README.md"}},
  {usage = {input_tokens = 1200, output_tokens = 80, cache_read_tokens = 300, cost_usd = 0.0125}},
  {tool = "Write", input = {file_path = "done/{task}.txt", content = "Task {task}, by {agent}\\n"}},
  {tool = "SendMessage", input = {to = "clerk", summary = "Cooked", message = "{task} is cooked."}},
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
  {say = "Cooked task {task}."},
]

[[agents.clerk.turns]]
when = "task"
repeat = true
steps = [
  {tool = "Write", input = {file_path = "done/{task}.txt", content = "Task {task}, by {agent}\\n"}},
  {tool = "TaskUpdate", input = {taskId = "{task}", status = "completed"}},
  {say = "Wrote for task {task}."},
]

[[agents.pia.turns]]
when = "start"
steps = [
  {tool = "Bash", input = {command = "touch allowed"}},
  {tool = "Bash", input = {command = "touch denied"}, may_fail = true},
  {tool = "Bash", input = {command = "touch waiting"}, may_fail = true},
]

[[agents.max.turns]]
when = "start"
steps = [{tool = "ExitPlanMode", input = {plan = "1. Touch a file."}}, {say = "Planned."}]

[[agents.max.turns]]
when = "any"
steps = [{tool = "ExitPlanMode", input = {plan = "1. Touch two files."}}, {say = "Planned anew."}]

[[agents.max.turns]]
when = "any"
repeat = true
steps = [{say = "Did as planned."}]

[[agents.eve.turns]]
when = "start"
steps = [{fail = "the model said 500"}]

[[agents.kai.turns]]
when = "start"
steps = [{say = "I am about to be killed."}, {exit = 9}]

[[agents.ida.turns]]
when = "any"
repeat = true
steps = [{say = "Idle."}]
"""

TEAM_FILE = """
[team]
name = "shop"

[budget]
turns = 100
usd = 5.0

[unattended]
stall_minutes = 10

[workspace]
kind = "worktree"
dirty = "leave"

[merge]
target = "main"
gate = ["test ! -e broken"]

[[member]]
name = "cook"
driver = "scripted"
script = "SCRIPT"
skills = ["kitchen"]
mode = "acceptEdits"

[[member]]
name = "clerk"
driver = "scripted"
script = "SCRIPT"
skills = ["letters"]
mode = "acceptEdits"

[[task]]
id = "soup"
subject = "Cook the soup"
needs = ["kitchen"]
effort = "small"

[[task]]
id = "bread"
subject = "Bake the bread"
needs = ["kitchen"]
blocked_by = ["soup"]

[[task]]
id = "card"
subject = "Write the menu"
needs = ["letters"]
blocked_by = ["soup"]
"""

FOREIGN = {
    "name": "foreign",
    "description": "Written by another program",
    "createdAt": 1760000000000,
    "leadAgentId": "team-lead@foreign",
    "leadSessionId": "5f0c2c5e-0000-4000-8000-000000000001",
    "leadProcess": {"pid": 4, "pidSpace": "x", "claimedAt": 1760000000001, "procStart": "5"},
    "hiddenPaneIds": ["%7"],
    "laterField": {"kept": [1, 2.5, None, "é"]},
    "members": [
        {"agentId": "team-lead@foreign", "name": "team-lead", "agentType": "team-lead",
         "joinedAt": 1760000000000, "tmuxPaneId": "leader", "cwd": "/srv/project",
         "subscriptions": [], "backendType": "in-process"},
        {"agentId": "ann@foreign", "name": "ann", "agentType": "writer", "model": "m-1",
         "prompt": "Write", "color": "blue", "planModeRequired": True,
         "joinedAt": 1760000000002, "tmuxPaneId": "%1", "cwd": "/srv/project",
         "subscriptions": [], "backendType": "tmux", "isActive": True, "mode": "plan",
         "worktreePath": "/srv/tree", "allowedTools": ["Read"], "disallowedTools": ["Bash"],
         "laterField": 1},
    ],
}  # fmt: skip


class Scene:
    """One home, one project, and the commands that are run there."""

    def __init__(self, root: Path, store: str | None) -> None:
        self.home, self.project = root / "home", root / "project"
        self.project.mkdir(parents=True)
        self.script = root / "script.toml"
        self.script.write_text(SCRIPT, encoding="utf-8")
        self.team_file = root / "shop.toml"
        self.team_file.write_text(TEAM_FILE.replace("SCRIPT", str(self.script)), encoding="utf-8")
        kept = {"PATH": os.environ["PATH"], "HOME": str(root), "LANG": "C.UTF-8"}
        self.env = kept | {"BULLPEN_HOME": str(self.home), "BULLPEN_HOST": HOST}
        for who in ("AUTHOR", "COMMITTER"):
            self.env |= {f"GIT_{who}_NAME": "ann", f"GIT_{who}_EMAIL": "ann@example.invalid"}
        if store is not None:
            self.env["BULLPEN_STORE"] = store
        self.files = store is None

    def run(self, *words: str, code: int = 0) -> Any:
        """What a command answers as JSON."""
        print("$", *words, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "bullpen", *words, "--json"],
            cwd=self.project, env=self.env, capture_output=True, text=True, check=False,
            timeout=DEADLINE_S,
        )  # fmt: skip
        if done.returncode != code:
            raise SystemExit(f"{done.returncode}: {done.stdout}\n{done.stderr}")
        try:
            return json.loads(done.stdout)
        except ValueError:
            return done.stdout

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.project, env=self.env, check=True)

    def spawn(self, name: str, *options: str, code: int = 0) -> None:
        """Start an agent that plays its part of the script."""
        self.run(
            "spawn", name, f"You are {name}.", "--driver", "scripted", "--backend", "subprocess",
            "--script", str(self.script), "--no-claim", "-t", "desk", *options, code=code,
        )  # fmt: skip

    def waiting(self, agent: str) -> str:
        """The request of an agent that waits for an answer."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            for each in self.run("requests", "-t", "desk")["requests"]:
                if each["from"] == agent:
                    return str(each["id"])
            time.sleep(0.3)
        raise SystemExit(f"{agent} asked nothing")

    def until_ended(self, *names: str) -> None:
        """Wait until agents have ended."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            config = asyncio.run(self._config())
            ended = {
                row.name
                for row in config.roster
                if row.raw.get("bullpen", {}).get("phase") == "ended"
            }
            if ended >= set(names):
                return
            time.sleep(0.3)
        raise SystemExit(f"{names} have not ended")

    async def _config(self) -> Any:
        async with bullpen.open_teams(settings_from(self.env)) as teams:
            return (await teams.open("desk").snapshot()).team


def play_shop(scene: Scene) -> None:
    """A team that a file describes, with trees of its own and a merge queue, to its end."""
    scene.run("up", str(scene.team_file), "--timeout", "90")
    scene.run("team", "limits", "-t", "shop", "--turns", "300", "--memory-mb", "9000")


def play_tasks(scene: Scene) -> None:
    """Tasks in every state, with everything that a task can have."""
    team = ("-t", "desk")
    scene.run("team", "create", "desk", "--description", "Answer letters")
    scene.run("member", "add", "ann", "--type", "writer", "--model", "m-1", "--prompt", "Write",
              "--plan-mode", *team)  # fmt: skip
    scene.run("member", "add", "bob", *team)
    scene.run("member", "add", "gone", *team)
    add = ("task", "add")
    scene.run(*add, "Open the letters", "--description", "All of them", "--active-form",
              "Opening the letters", "--owner", "ann", *team)  # fmt: skip
    scene.run(*add, "Read the letters", "--blocked-by", "1", "--check", "ok=true",
              "--check-file", "README.md", "--needs-report", *team)  # fmt: skip
    scene.run(*add, "Answer the letters", "--blocked-by", "2", "--budget-turns", "9",
              "--budget-tokens", "5000", "--budget-usd", "0.5", *team)  # fmt: skip
    for subject in ("Impossible", "Deleted", "Forced", "Handed back", "Checked in vain"):
        scene.run(*add, subject, *team)
    scene.run("task", "edit", "8", "--check", "no=false", "--check-commit", "main", *team)
    scene.run("task", "claim", "1", "--as", "ann", *team)
    scene.run("task", "done", "1", "--as", "ann", "--report", "Opened.", *team)
    scene.run("task", "claim", "2", "--as", "bob", *team)
    scene.run("task", "done", "2", "--as", "bob", "--report", "Read, all of them: é 字", *team)
    scene.run("task", "give-up", "4", "Nobody can do it", *team)
    scene.run("task", "delete", "5", *team)
    scene.run("task", "edit", "6", "--needs-report", *team)
    scene.run("task", "claim", "6", "--as", "gone", *team)
    scene.run("task", "done", "6", "--force", "My word", *team)
    scene.run("task", "claim", "7", "--as", "gone", *team)
    scene.run("task", "release", "7", "--as", "gone", "--reason", "Too hard", *team)
    scene.run("task", "claim", "8", "--as", "bob", *team)
    scene.run("task", "check", "8", "--as", "bob", *team, code=1)
    scene.run("member", "remove", "gone", *team)
    scene.run(
        "team", "limits", "-t", "desk", "--usd", "3", "--seconds", LONG_S, "--tokens", "99999"
    )


def play_mail(scene: Scene) -> None:
    """Mail to one, to all, with a key, in reply; seen and unseen."""
    team = ("-t", "desk")
    first = scene.run("send", "ann", "The first letter", "--summary", "First", *team)
    scene.run("send", "ann", "Once only", "--key", "k1", "--as", "bob", *team)
    scene.run("send", "ann", "Once only", "--key", "k1", "--as", "bob", *team)
    scene.run("send", "@team", "To everybody", *team)
    scene.run("inbox", "ann", "--mark-seen", *team)
    reply = ("--reply-to", first["id"])
    scene.run("send", "team-lead", "Not yet read", "--as", "ann", *reply, *team)


def play_agents(scene: Scene) -> None:
    """Agents that ask, plan, fail, die and are stopped; requests in every state."""
    team = ("-t", "desk")
    human = ("--mode", "default", "--approver", "human", "--deadline", LONG_S, "--sandbox")
    scene.spawn(
        "pia", *human[:-1], "--allow", "Read", "--deny", "Read(.env)", "--ask", "Bash(rm:*)",
        "--dir", "/srv", "--env", "LANG", "--skill", "asking", "--key", "pia-1", "--budget-usd",
        "2", "--budget-tokens", "100000", "--budget-seconds", LONG_S, "--turns", "50",
    )  # fmt: skip
    scene.run("approve", scene.waiting("pia"), "--always", "--message", "Go on", *team)
    scene.run("deny", scene.waiting("pia"), "Not this one", *team)
    scene.waiting("pia")
    scene.spawn("max", "--mode", "plan", "--plan-approver", "human")
    scene.run("deny", scene.waiting("max"), "Touch two", *team)
    scene.run("approve", scene.waiting("max"), "--mode", "default", *team)
    scene.spawn("ida")
    scene.run("stop", "ida", "--ask", "--grace", "5", "--reason", "Nothing to do", *team)
    scene.spawn("kai", "--turns", "2")
    scene.until_ended("ida")
    scene.run("stop", "--all", "--reason", "Recorded", *team)
    scene.until_ended("pia", "max", "ida")


async def play_python(scene: Scene) -> None:
    """More seen mail than stays in a mailbox: one command for each takes too long."""
    async with bullpen.open_teams(settings_from(scene.env)) as teams:
        team = teams.open("post")
        for number in range(405):
            await team.mailbox.send(sender="team-lead", to="ann", text=f"Letter {number}")
        box = await team.mailbox.read("ann")
        await team.mailbox.mark("ann", [entry.id for entry in box.entries], "seen")
        for text in ("One more", "And one"):
            await team.mailbox.send(sender="team-lead", to="ann", text=text)


def play_foreign(scene: Scene) -> None:
    """A team that another program began."""
    folder = scene.home / "teams" / "foreign"
    folder.mkdir(parents=True)
    text = json.dumps(FOREIGN, indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text, encoding="utf-8")
    scene.run("member", "add", "bob", "-t", "foreign")
    scene.run("send", "ann", "Welcome", "-t", "foreign")
    scene.run("task", "add", "Write", "--owner", "ann", "-t", "foreign")
    # What the other program did is noted in the log when somebody first looks there.
    scene.run("events", "-t", "foreign")


def play(root: Path, store: str | None) -> None:
    """The whole scenario."""
    scene = Scene(root, store)
    scene.git("init", "-q", "-b", "main")
    (scene.project / "README.md").write_text("A shop.\n", encoding="utf-8")
    scene.git("add", ".")
    scene.git("commit", "-qm", "Begin")
    if store is not None:
        scene.run("server", "prepare", "--partitions", "2")
    play_shop(scene)
    play_tasks(scene)
    play_mail(scene)
    play_agents(scene)
    scene.run("team", "create", "post", "--description", "Much mail")
    scene.run("member", "add", "ann", "-t", "post")
    asyncio.run(play_python(scene))
    if scene.files:
        play_foreign(scene)


async def play_on_server(root: Path) -> list[dict[str, Any]]:
    """The scenario on a server of its own; what that holds afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder, "nats")) as cluster:
            await asyncio.to_thread(play, root, cluster.urls[0])
            return await dump(cluster.urls[0])


def main() -> None:
    root, *rest = map(Path, sys.argv[1:])
    if rest:
        rows = asyncio.run(play_on_server(root))
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        rest[0].write_text("".join(lines), encoding="utf-8")
    else:
        play(root, None)


if __name__ == "__main__":
    main()
