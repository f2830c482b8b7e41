"""The team as Claude Code sees it: its config directory, in which the runner plays all others.

Everything here is in the layout, the shapes and under the locks of the program itself. It is a
copy: what the program reads was put here, and what it writes here counts for nothing until the
runner has passed it on under the agent's own name.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bullpen.errors import Unavailable
from bullpen.protocol import jsontext
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task

LEAD_SESSION = "00000000-0000-4000-8000-000000000001"
"""The session that the program takes for its lead's. There is none."""

COLOR = "blue"

_OF_THE_USER = (".credentials.json", "settings.json", "CLAUDE.md", "agents", "skills", "commands")
_ACCOUNT = ("oauthAccount", "userID")
_KEY_END = 20
_LOCK_WAIT_S = 5.0
_LOCK_STALE_S = 10.0


class Mirror:
    """The config directory of one Claude Code, for one member of one team."""

    def __init__(self, root: Path, team: str, agent: str) -> None:
        self.root = root
        self._agent = agent
        self._name = team
        self._team = root / "teams" / team
        self._boxes = self._team / "inboxes"
        self._tasks = root / "tasks" / team

    @property
    def plans(self) -> Path:
        """Where the program has its plans written."""
        return self.root / "plans"

    def furnish(self, cwd: str, env: Mapping[str, str]) -> None:
        """Make it a place that its user has worked in before: no questions at the start."""
        for folder in (self._boxes, self._tasks):
            folder.mkdir(parents=True, exist_ok=True)
        self._break_locks()
        # A program that was killed may have begun a turn with mail that it had not removed yet.
        _replace(self._box(self._agent), b"[]")
        users = Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or "/") / ".claude")
        for name in _OF_THE_USER if users != self.root else ():
            link = self.root / name
            if not os.path.lexists(link) and (users / name).exists():
                link.symlink_to(users / name)
        account = _json_of(users / ".claude.json") or _json_of(Path(f"{users}.json"))
        told = _json_of(self.root / ".claude.json")
        told |= {key: account[key] for key in _ACCOUNT if key in account and key not in told}
        told |= {"hasCompletedOnboarding": True, "theme": told.get("theme") or "dark"}
        projects = dict(told.get("projects") or {})
        for place in {cwd, os.path.realpath(cwd)}:
            known = dict(projects.get(place) or {})
            trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
            projects[place] = known | trusted
        told["projects"] = projects
        if key := env.get("ANTHROPIC_API_KEY"):
            told["customApiKeyResponses"] = {"approved": [key[-_KEY_END:]], "rejected": []}
        _replace(self.root / ".claude.json", jsontext.dumps(told))

    def keep(self, name: str, told: Mapping[str, Any]) -> str:
        """Put something for the program into a file that is this user's alone; its path."""
        path = self.root / name
        path.touch(mode=0o600)
        path.write_bytes(jsontext.dumps(told))
        return str(path)

    def _break_locks(self) -> None:
        """Remove what a program that was killed still held: nobody else takes locks here."""
        for folder in (self._team, self._boxes, self._tasks):
            for lock in folder.glob("*.lock"):
                # One name is also that of a file, which is none.
                with suppress(OSError):
                    lock.rmdir()

    def seat(self, members: Sequence[Member], *, cwd: str, plan: bool) -> None:
        """Write who is in the team. What the program noted about itself stays."""
        path = self._team / "config.json"
        with _locked(path):
            before = _json_of(path)
            own: dict[str, Any] = next(
                (row for row in before.get("members") or () if row.get("name") == self._agent), {}
            )
            rows = [self._row(member, cwd) for member in members if member.name != self._agent]
            mine = next((member for member in members if member.name == self._agent), None)
            joined = None if mine is None else mine.joined_at
            rows.append(self._own_row(joined, cwd, plan=plan) | own)
            config = TeamConfig.new(
                name=self._name,
                created_at=before.get("createdAt") or _now_ms(),
                lead_agent_id=f"{LEAD}@{self._name}",
                lead_session_id=LEAD_SESSION,
                members=rows,
            )
            _replace(path, jsontext.dumps(config.raw))

    def _row(self, member: Member, cwd: str) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "agent_id": f"{member.name}@{self._name}",
            "name": member.name,
            "agent_type": LEAD if member.is_lead else "general-purpose",
            "joined_at": member.joined_at or _now_ms(),
            "tmux_pane_id": "leader" if member.is_lead else "",
            "cwd": cwd,
            "subscriptions": [],
        }
        if not member.is_lead:
            fields |= {"color": member.color, "plan_mode_required": False, "backend_type": "tmux"}
        return Member.new(**fields).raw

    def _own_row(self, joined_at: int | float | None, cwd: str, *, plan: bool) -> dict[str, Any]:
        return Member.new(
            agent_id=f"{self._agent}@{self._name}",
            name=self._agent,
            agent_type="general-purpose",
            color=COLOR,
            plan_mode_required=plan,
            joined_at=joined_at or _now_ms(),
            tmux_pane_id="%0",
            cwd=cwd,
            subscriptions=[],
            backend_type="tmux",
        ).raw

    # Mail

    def put(self, messages: Iterable[Message]) -> None:
        """Put messages into the program's inbox, together: it reads them as one turn."""
        path = self._box(self._agent)
        with _locked(path):
            unread = [row for row in _rows_of(path) if not row.get("read")]
            rows = [*unread, *(message.raw for message in messages)]
            _replace(path, jsontext.dumps(rows))

    def has_taken(self, ids: Collection[str]) -> bool:
        """Whether the program has read these messages: newer versions remove, older ones mark."""
        rows = _rows_of(self._box(self._agent))
        return not any(row.get("msg_id") in ids and not row.get("read") for row in rows)

    def withdraw(self, ids: Collection[str]) -> None:
        """Take messages back. It may have begun a turn with them all the same."""
        path = self._box(self._agent)
        with _locked(path):
            kept = [row for row in _rows_of(path) if row.get("msg_id") not in ids]
            _replace(path, jsontext.dumps(kept))

    def collect(self) -> list[str]:
        """Empty the inboxes of all others; returns what the program wrote to its lead.

        What it wrote to anybody by SendMessage was passed on before: this is only its copy.
        """
        texts: list[str] = []
        for path in sorted(self._boxes.glob("*.json")):
            if path == self._box(self._agent) or path.stat().st_size <= len("[]"):
                continue
            with _locked(path):
                rows = _rows_of(path)
                _replace(path, b"[]")
            if path == self._box(LEAD):
                texts += [str(row.get("text")) for row in rows]
        return texts

    def drop_own_notices(self) -> None:
        """Remove what it wrote to itself: a task that it took would give it another turn."""
        path = self._box(self._agent)
        if not any(row.get("from") == self._agent for row in _rows_of(path)):
            return
        with _locked(path):
            kept = [row for row in _rows_of(path) if row.get("from") != self._agent]
            _replace(path, jsontext.dumps(kept))

    def _box(self, name: str) -> Path:
        return self._boxes / f"{name}.json"

    # Tasks

    def show(self, tasks: Sequence[Task]) -> None:
        """Make its task list the team's."""
        wanted = {f"{task.id}.json": jsontext.dumps(_as_seen(task)) for task in tasks}
        for path in self._tasks.glob("*.json"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)
        for name, data in wanted.items():
            path = self._tasks / name
            if _bytes_of(path) != data:
                _replace(path, data)

    def expect(self, task_id: str) -> None:
        """Have the next task that the program makes get this id."""
        if task_id.isdecimal():
            # Its ids go on from the highest that there is or was.
            (self._tasks / f"{task_id}.json").unlink(missing_ok=True)
            _replace(self._tasks / ".highwatermark", str(int(task_id) - 1).encode())


def _as_seen(task: Task) -> dict[str, Any]:
    metadata = {key: value for key, value in (task.metadata or {}).items() if key != "bullpen"}
    return task.evolve(metadata=metadata or None).raw


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the program's lock of a file. It does so for milliseconds only.

    Raises:
        Unavailable: it was held all the while.
    """
    lock = Path(f"{path}.lock")
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - lock.stat().st_mtime > _LOCK_STALE_S:
                    lock.rmdir()
                    continue
        if time.monotonic() > deadline:
            raise Unavailable(f"Claude Code holds the lock {lock}.", remedy="Try again.")
        time.sleep(0.005)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.rmdir()


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    beside.write_bytes(data)
    os.replace(beside, path)


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _json_of(path: Path) -> dict[str, Any]:
    """A file of the program as an object; an old version can leave one empty for good."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _rows_of(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        # Missing, or in the middle of being written in place: nothing that could be acted on.
        return []
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
