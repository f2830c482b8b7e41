"""A real Claude Code, through files, on a team that lives on NATS. Its model is a mock.

It takes a chair of the team: it is started as a teammate is, under the name of its member, the
lead's too. No version leads a team of its own that somebody else has made.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark
from bullpen.fleet.servers.server_process import Cluster
from bullpen.protocol.names import LEAD
from bullpen.testing.models import Reply
from programs.real_lead import MODEL, NEWEST, START_S, STEP_S, RealLead, model_for, real_lead
from programs.real_programs import CLAUDE_CODE_VERSIONS, program
from support.store.nats_parts import servers

SCRIPT = """
[[agents.bob.turns]]
when = "mail"
contains = "Are you there"
steps = [
  {tool = "SendMessage", input = {to = "team-lead", summary = "I am", message = "Bob is here."}},
  {say = "Answered the lead."},
]
[[agents.bob.turns]]
when = "mail"
contains = "And now"
steps = [
  {tool = "SendMessage", input = {to = "team-lead", summary = "I am", message = "Bob is here."}},
]
[[agents.bob.turns]]
when = "mail"
contains = "Count the files"
steps = [
  {tool = "TaskUpdate", input = {taskId = "1", status = "in_progress"}},
  {tool = "TaskUpdate", input = {taskId = "1", status = "completed"}},
  {say = "There are 3 files."},
]
"""


@pytest.fixture(scope="module")
def one() -> Iterator[Cluster]:
    with servers(1) as cluster:
        yield cluster


class Site:
    """A machine with a Claude Code on it: the team is on servers, and is mirrored into its home."""

    def __init__(self, claude: RealLead, store: str, team: str) -> None:
        self.claude, self.team = claude, team
        self.home = claude.folder / "bullpen"
        self._env = {
            "PATH": os.environ["PATH"],
            "BULLPEN_WARM_START": "off",
            "HOME": str(claude.folder / "home"),
            "LANG": "C.UTF-8",
            "BULLPEN_HOME": str(self.home),
            "BULLPEN_STORE": store,
            "BULLPEN_TEAM": team,
        }
        self._mirrors: list[subprocess.Popen[bytes]] = []
        self.bullpen("team", "create", team)

    def bullpen(self, *words: str) -> Any:
        """Run a command on the team where it lives; its answer."""
        done = subprocess.run(
            [sys.executable, "-m", "bullpen", *words, "--json"],
            cwd=self.claude.project,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def spawn_bob(self) -> None:
        """Start an agent of ours, who knows nothing of the mirrored files."""
        script = self.claude.folder / "script.toml"
        script.write_text(SCRIPT, "utf-8")
        played = ("--driver", "scripted", "--script", str(script), "--no-claim")
        self.bullpen("spawn", "bob", *played, "--wait", f"{START_S:.0f}")

    def mirror(self, member: str) -> subprocess.Popen[bytes]:
        """Start a mirror, and wait until the files are there."""
        with (self.claude.folder / "mirror.txt").open("ab") as output:
            into = ("--into", str(self.claude.config_dir), "--member", member)
            words = [sys.executable, "-m", "bullpen", "team", "mirror", self.team, *into]
            mirror = subprocess.Popen(
                words, env=self._env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._mirrors.append(mirror)
        self.claude.until(lambda: self.claude.member(member), f"files for {member}")
        return mirror

    def sit_down(self, member: str, model: str = MODEL) -> None:
        """Start the Claude Code in the chair of a member."""
        self.claude.start(
            *("--agent-id", f"{member}@{self.team}", "--agent-name", member),
            *("--team-name", self.team, "--agent-color", "blue"),
            *("--parent-session-id", str(uuid.uuid4()), "--agent-type", "general-purpose"),
            model=model,
        )

    def until(self, look: Callable[[], object], what: str) -> None:
        """Look again and again until something is so; else tell what the mirror said."""
        try:
            self.claude.until(look, what)
        except TimeoutError as error:
            said = (self.claude.folder / "mirror.txt").read_text("utf-8")
            raise TimeoutError(f"{error}\nThe mirror said:\n{said}") from error

    @property
    def task_files(self) -> dict[str, dict[str, Any]]:
        """The tasks as Claude Code sees them."""
        folder = self.claude.config_dir / "tasks" / self.team
        return {path.stem: json.loads(path.read_bytes()) for path in folder.glob("*.json")}

    def tasks(self) -> dict[str, tuple[str, str | None]]:
        """The status and owner of each task, where the team lives."""
        listed = self.bullpen("task", "list")["tasks"]
        return {task["id"]: (task["status"], task.get("owner")) for task in listed}

    def mail(self, to: str) -> list[tuple[str, str]]:
        """Every message that ever came to a member, by the team's log: from whom, and its text."""
        return [
            (change["message"]["from"], change["message"]["text"])
            for event in self.bullpen("events")["events"]
            for change in event["changes"]
            if change["put"] == "message" and change["to"] == to
        ]

    def heard(self, text: str) -> int:
        """In how many turns of its conversation the model of Claude Code was told something."""
        said = [turn.text for turn in self.claude.models.requests[-1].turns if turn.role == "user"]
        return sum(text in each for each in said)

    def close(self) -> None:
        for mirror in self._mirrors:
            mirror.kill()
            mirror.wait()
        mark = f"{home_mark(self.home)}-"
        for pid, nonce in processes.marked().items():
            if nonce.startswith(mark):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def version() -> str:
    return NEWEST


@pytest.fixture
def site(tmp_path: Path, one: Cluster, version: str) -> Iterator[Site]:
    argv = program(f"claude-code-{version}").argv
    with real_lead(tmp_path, argv) as claude:
        site = Site(claude, one.url, f"team-{uuid.uuid4().hex[:8]}")
        try:
            yield site
        finally:
            site.close()


def message(version: str, to: str, text: str) -> Reply:
    if version == "2.1.41":
        old = {"type": "message", "recipient": to, "content": text, "summary": "a summary"}
        return Reply.call("SendMessage", **old)
    return Reply.call("SendMessage", to=to, summary="a summary", message=text)


def create(subject: str) -> Reply:
    return Reply.call("TaskCreate", subject=subject, description="All of it.")


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_a_real_lead_and_an_agent_on_nats_work_together_through_files(
    site: Site, version: str
) -> None:
    lead = site.claude
    site.spawn_bob()
    site.mirror(LEAD)
    site.sit_down(LEAD, model_for(version))

    lead.play("asking", message(version, "bob", "Are you there, bob?"))
    site.until(lambda: "@bob" in lead.screen(), "message on the screen")
    lead.show_transcript(shown=True)
    site.until(lambda: "Bob is here." in lead.screen(), "answer on the screen")
    lead.show_transcript(shown=False)

    lead.play(
        "assigning",
        create("Count the files"),
        create("Think about them"),
        Reply.call("TaskUpdate", taskId="1", owner="bob"),
    )
    site.until(lambda: site.task_files["1"]["status"] == "completed", "done task in the files")
    site.until(lambda: site.heard("There are 3 files."), "idle notice")

    assert site.tasks() == {"1": ("completed", "bob"), "2": ("pending", None)}
    assert (site.heard("Bob is here."), site.heard("There are 3 files.")) == (1, 1)
    to_bob = site.mail("bob")
    assert len(to_bob) == 2
    assert to_bob[0] == (LEAD, "Are you there, bob?")
    assert '"task_assignment"' in to_bob[1][1]
    assert [sender for sender, _ in site.mail(LEAD)] == ["bob"] * 3


def test_a_real_teammate_works_for_a_lead_elsewhere(site: Site, version: str) -> None:
    ann = site.claude
    ann.parts.steps["working"] = [
        Reply.call("TaskUpdate", taskId="1", status="in_progress"),
        Reply.call("TaskUpdate", taskId="1", status="completed"),
        message(version, LEAD, "The wall is blue."),
        Reply("Painted."),
    ]
    site.bullpen("member", "add", "ann")
    site.bullpen("task", "add", "Paint the wall")
    site.bullpen("send", "ann", "Please play working.")
    site.mirror("ann")
    site.sit_down("ann")
    site.until(lambda: ann.has_played("working", 3), "end of its work")
    site.until(lambda: any("Painted." in text for _, text in site.mail(LEAD)), "idle notice")
    assert site.tasks() == {"1": ("completed", "ann")}
    # It gives itself another turn for a task that it took, with a notice of its own.
    to_lead = [text for _, text in site.mail(LEAD) if '"result":"Noted."' not in text]
    assert len(to_lead) == 2
    assert to_lead[0] == "The wall is blue."
    assert '"idle_notification"' in to_lead[1]
    assert ann.parts.played.count(("working", 0)) == 1
