"""A real Claude Code at a terminal of its own, leading a team, with a model that plays parts.

The terminal is a window of a private tmux server. What the model does is said in parts: whoever
reads `play NAME` plays that part, a reply for each request, the program and its teammates alike.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from bullpen.testing.models import Call, MockModels, ModelRequest, Reply

T = TypeVar("T")
Step = Reply | Callable[[ModelRequest], Reply]
"""What the model answers, or how it finds that in what it was told."""

NEWEST = "2.1.325"
START_S = 120.0
STEP_S = 120.0
MODEL = "claude-sonnet-4-5"
"""A model for which every version has the tools for tasks."""

_OLD_MODEL = "claude-opus-4-6"
_LOOK_S = 0.1
_TYPED_S = 8.0
_PART = re.compile(r"play ([a-z][a-z0-9-]*)")
_BUSY = "esc to interrupt"
_DIALOG = "Do you want to proceed?"
_TRANSCRIPT = "Showing detailed transcript"


class Parts:
    """The model: everybody who was told to play a part plays it, step by step."""

    def __init__(self) -> None:
        self.steps: dict[str, Sequence[Step]] = {}
        self.played: list[tuple[str, int]] = []

    def __call__(self, request: ModelRequest) -> Reply:
        """The step that is due in the conversation of this request."""
        said = 0
        for turn in reversed(request.turns):
            if turn.role == "assistant":
                said += 1
                continue
            found = _PART.findall(turn.text)
            if found and found[-1] in self.steps and request.tools:
                return self._step(found[-1], said, request)
            if turn.text.strip() and not turn.results and "<teammate-message" in turn.text:
                # Mail without a part begins another turn: the part before is over.
                break
        return Reply("Noted.")

    def _step(self, name: str, number: int, request: ModelRequest) -> Reply:
        steps = self.steps[name]
        if number >= len(steps):
            return Reply("Noted.")
        self.played.append((name, number))
        step = steps[number]
        step = step(request) if callable(step) else step
        # A part can be played more than once, and no two calls may have the same id.
        calls = [Call(call.name, call.input) for call in step.calls]
        return Reply(step.text, calls, delay_s=step.delay_s)


class RealLead:
    """One session of the program, from its start to the end of its terminal."""

    def __init__(self, folder: Path, short: Path, argv: Sequence[str], models: MockModels) -> None:
        self.folder = folder
        self.parts = Parts()
        models.brain = self.parts
        self.models = models
        self.config_dir = folder / "claude"
        self.project = folder / "project"
        self._short = short
        self._argv = tuple(argv)
        self._socket = f"bullpen-test-{secrets.token_hex(4)}"
        for each in (self.config_dir, self.project, folder / "home", folder / "tmp"):
            each.mkdir(parents=True)
        self._let_in()

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of the program."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "CLAUDE_CONFIG_DIR": str(self.config_dir),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "TMPDIR": str(self.folder / "tmp"),
            "CLAUDE_CODE_TMPDIR": str(self.folder / "tmp"),
            "XDG_RUNTIME_DIR": str(self._short),
            "TMUX_TMPDIR": str(self._short),
            "ANTHROPIC_API_KEY": "mock-key",
            "ANTHROPIC_BASE_URL": self.models.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
        }

    def _let_in(self) -> None:
        """Answer beforehand what the program would ask at its first start."""
        answers = {
            "hasCompletedOnboarding": True,
            "lastOnboardingVersion": "2.1.325",
            "theme": "dark",
            "numStartups": 3,
            "customApiKeyResponses": {"approved": ["mock-key"], "rejected": []},
            "bypassPermissionsModeAccepted": True,
            "projects": {
                str(self.project): {
                    "hasTrustDialogAccepted": True,
                    "hasCompletedProjectOnboarding": True,
                    "allowedTools": [],
                }
            },
        }
        (self.config_dir / ".claude.json").write_text(json.dumps(answers), "utf-8")

    def start(self, *flags: str, model: str = MODEL, **more_env: str) -> None:
        """Start it, and wait until it takes prompts."""
        env = {**self.env, **more_env}
        command = shlex.join([*self._argv, "--model", model, *flags])
        # The server starts without the environment of this process: panes inherit its own.
        words = ["new-session", "-d", "-s", "main", "-x", "200", "-y", "50", f"exec {command}"]
        self._run(["tmux", "-L", self._socket, "-f", "/dev/null", *words], env=env)
        self.until(lambda: "❯" in self.screen(), "the prompt", within_s=START_S)

    def tmux(self, *words: str) -> str:
        """What a command of the private server prints."""
        return self._run(["tmux", "-L", self._socket, *words], env=self.env)

    def _run(self, argv: Sequence[str], env: Mapping[str, str]) -> str:
        done = subprocess.run(
            argv, cwd=self.project, env=dict(env), capture_output=True, text=True, check=False
        )
        return done.stdout

    def screen(self, pane: str = "main:0.0") -> str:
        """What the terminal shows."""
        lines = self.tmux("capture-pane", "-p", "-t", pane).splitlines()
        return "\n".join(line.rstrip() for line in lines).strip("\n")

    def scrollback(self, pane: str = "main:0.0") -> str:
        """What the terminal shows, and what went out of it at the top."""
        return self.tmux("capture-pane", "-p", "-S", "-500", "-t", pane)

    def say(self, text: str) -> None:
        """Type a line."""
        self.tmux("send-keys", "-t", "main:0.0", "-l", text)
        time.sleep(0.35)  # A paste and its Enter at once are taken for one text of two lines.
        self.tmux("send-keys", "-t", "main:0.0", "Enter")

    def play(self, name: str, *steps: Step) -> None:
        """Have the lead play a part, and wait until it has played all of it."""
        self.parts.steps[name] = [*steps, Reply(f"Part {name} is over.")]
        self.until(lambda: _BUSY not in self.screen(), "the lead to rest")
        for _ in range(4):
            self.say(f"play {name}")
            try:
                self.until(lambda: self.has_played(name, 0), "a request", within_s=_TYPED_S)
                break
            except TimeoutError:
                # A machine that stalls can swallow what is typed.
                continue
        self.until(lambda: self.has_played(name, len(steps)), f"part {name}")

    def answer(self, key: str) -> None:
        """Press a key in a dialog until that is gone."""
        self._press(key, lambda: _DIALOG not in self.screen(), "end of the dialog")

    def show_transcript(self, *, shown: bool) -> None:
        """Open or close the detailed transcript."""
        what = "detailed transcript" if shown else "end of the transcript"
        self._press("C-o", lambda: (_TRANSCRIPT in self.screen()) is shown, what)

    def _press(self, key: str, is_done: Callable[[], bool], what: str) -> None:
        """Press a key until something is so. What comes too soon the program does not hear."""
        for _ in range(10):
            self.tmux("send-keys", "-t", "main:0.0", key)
            with suppress(TimeoutError):
                self.until(is_done, what, within_s=3)
                return
        raise TimeoutError(f"No {what}. The screen:\n{self.screen()}")

    def has_played(self, name: str, number: int) -> bool:
        """Whether that step of a part was played."""
        return (name, number) in self.parts.played

    def until(self, look: Callable[[], T], what: str, *, within_s: float = STEP_S) -> T:
        """Look again and again until there is something."""
        end = time.monotonic() + within_s
        while True:
            try:
                found = look()
            except (OSError, ValueError, LookupError):
                found = None
            if found:
                return found
            if time.monotonic() > end:
                raise TimeoutError(f"No {what} in {within_s:.0f} s. The screen:\n{self.screen()}")
            time.sleep(_LOOK_S)

    @property
    def team(self) -> str:
        """The name of the team that it leads. Raises LookupError while there is none."""
        for folder in (self.config_dir / "teams").iterdir():
            if ".deleted" not in folder.name:
                return folder.name
        raise LookupError("no team yet")

    def config(self) -> dict[str, Any]:
        """The team's file. Raises ValueError while it is being written."""
        path = self.config_dir / "teams" / self.team / "config.json"
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found

    def member(self, name: str) -> dict[str, Any] | None:
        """The row of a member."""
        rows: list[dict[str, Any]] = self.config()["members"]
        return next((row for row in rows if row["name"] == name), None)

    def inbox(self, name: str) -> list[dict[str, Any]]:
        """The messages in an inbox file."""
        path = self.config_dir / "teams" / self.team / "inboxes" / f"{name}.json"
        found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
        return found

    def task(self, number: str) -> dict[str, Any]:
        """A task file."""
        path = self.config_dir / "tasks" / self.team / f"{number}.json"
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found

    def close(self) -> None:
        """End the terminal and everything in it."""
        panes = self.tmux("list-panes", "-a", "-F", "#{pane_pid}").split()
        self.tmux("kill-server")
        end = time.monotonic() + 10
        while any(Path("/proc", pid).exists() for pid in panes) and time.monotonic() < end:
            time.sleep(_LOOK_S)


@contextmanager
def real_lead(folder: Path, argv: Sequence[str]) -> Iterator[RealLead]:
    """A lead that is not started yet; nothing of it is left at the end."""
    # Short: the path of a socket has room for some 100 bytes.
    short = Path("/tmp", f"bp-{secrets.token_hex(4)}")
    short.mkdir(mode=0o700)
    try:
        with MockModels(Parts()) as models:
            lead = RealLead(folder, short, argv, models)
            try:
                yield lead
            finally:
                lead.close()
    finally:
        shutil.rmtree(short, ignore_errors=True)


def spawns(version: str, name: str, prompt: str, team: str | None = None) -> Reply:
    """The call with which a lead of that version starts a teammate."""
    given = {
        "description": f"{name} works",
        "prompt": prompt,
        "name": name,
        "subagent_type": "general-purpose",
    }
    if team is not None:
        given["team_name"] = team
    return Reply(calls=[Call("Task" if version == "2.1.41" else "Agent", given)])


def model_for(version: str) -> str:
    """A model that the version knows, with which it has every tool."""
    return _OLD_MODEL if version == "2.1.41" else MODEL
