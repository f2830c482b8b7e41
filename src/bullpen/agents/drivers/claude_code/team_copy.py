"""The team copy: Claude Code's private config directory, in which the runner acts for all others.

It has the layout, the file formats and the locks of Claude Code. What the program reads was put
here, and what it writes here has no effect until the runner passes it on in the agent's name.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.clock import now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig

LEAD_SESSION = "00000000-0000-4000-8000-000000000001"
"""The id of the lead's session, as the program sees it. There is no such session."""

COLOR = "blue"

_TEAMMATE: dict[str, Any] = {"agent_type": "general-purpose", "backend_type": "tmux"}

_OF_THE_USER = (".credentials.json", "settings.json", "CLAUDE.md", "agents", "skills", "commands")
_ACCOUNT = ("oauthAccount", "userID")
_KEY_END = 20
_LOCK_WAIT_S = 5.0
_LOCK_STALE_S = 10.0


class Mirror:
    """The config directory of one Claude Code process, for one member of one team."""

    def __init__(self, root: Path, team: str, agent: str) -> None:
        self.root = root
        self._agent = agent
        self._name = team
        self._team = root / "teams" / team
        self._boxes = self._team / "inboxes"
        self._tasks = root / "tasks" / team
        self._projects = root / "projects"
        self._kept: set[str] = set()

    @property
    def directories(self) -> list[str]:
        """Every directory that both sides use, outermost first."""
        own = (self.root, self._team.parent, self._team, self._boxes)
        others = (self._tasks.parent, self._tasks, self._projects, self.plans)
        return [str(path) for path in (*own, *others)]

    @property
    def kept(self) -> list[str]:
        """The files of ours that the program only reads."""
        return [str(self.root / name) for name in self._kept]

    def users_files(self, env: Mapping[str, str]) -> list[str]:
        """The user's own files, to which the links in the directory lead."""
        return [str((self._users(env) / name).resolve()) for name in _OF_THE_USER]

    @property
    def plans(self) -> Path:
        """The folder of the program's plan files."""
        return self.root / "plans"

    def furnish(self, cwd: str, env: Mapping[str, str]) -> None:
        """Prepare the directory as if the user had worked in it: no questions at the start."""
        for folder in (self._boxes, self._tasks, self._projects, self.plans):
            folder.mkdir(parents=True, exist_ok=True)
        self._break_locks()
        # A killed program may have started a turn with mail that it had not removed yet.
        _replace(self._box(self._agent), b"[]")
        users = self._users(env)
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
        _replace(self.root / ".claude.json", json_text.dumps(told))

    def keep(self, name: str, told: Mapping[str, Any]) -> str:
        """Write a private file for the program. Returns its path."""
        self._kept.add(name)
        path = self.root / name
        _replace(path, json_text.dumps(told))
        return str(path)

    def _users(self, env: Mapping[str, str]) -> Path:
        """The user's own directory."""
        return Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME") or "/") / ".claude")

    def _break_locks(self) -> None:
        """Remove the locks of a killed program: nobody else takes locks here."""
        for folder in (self._team, self._boxes, self._tasks):
            for lock in folder.glob("*.lock"):
                # A file can have the same name; it is not a lock.
                with suppress(OSError):
                    lock.rmdir()

    def seat(self, members: Sequence[Member], *, cwd: str, plan: bool) -> None:
        """Write the team's members. What the program wrote about itself stays."""
        path = self._team / "config.json"
        with _locked(path):
            before = _json_of(path)
            own: dict[str, Any] = next(
                (row for row in before.get("members") or () if row.get("name") == self._agent), {}
            )
            mine = next((member for member in members if member.name == self._agent), None)
            rows = [self._row(member, cwd) for member in members if member is not mine]
            joined_at = None if mine is None else mine.joined_at
            terminal = {"color": COLOR, "plan_mode_required": plan, "tmux_pane_id": "%0"}
            rows.append(self._new_row(self._agent, joined_at, cwd, **_TEAMMATE, **terminal) | own)
            config = TeamConfig.new(
                name=self._name,
                created_at=before.get("createdAt") or now_ms(),
                lead_agent_id=f"{LEAD}@{self._name}",
                lead_session_id=LEAD_SESSION,
                members=rows,
            )
            _replace(path, json_text.dumps(config.raw))

    def _row(self, member: Member, cwd: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"agent_type": LEAD, "tmux_pane_id": "leader"}
        if not member.is_lead:
            terminal = {"color": member.color, "plan_mode_required": False, "tmux_pane_id": ""}
            fields = {**_TEAMMATE, **terminal}
        return self._new_row(member.name, member.joined_at, cwd, **fields)

    def _new_row(
        self, name: str, joined_at: int | float | None, cwd: str, **fields: Any
    ) -> dict[str, Any]:
        fields |= {"joined_at": joined_at or now_ms(), "cwd": cwd, "subscriptions": []}
        return Member.new(agent_id=f"{name}@{self._name}", name=name, **fields).raw

    # Mail

    def put(self, messages: Iterable[Message]) -> None:
        """Put messages into the program's inbox together, so that it reads them in one turn."""
        path = self._box(self._agent)
        with _locked(path):
            unread = [row for row in _rows_of(path) if not row.get("read")]
            rows = [*unread, *(message.raw for message in messages)]
            _replace(path, json_text.dumps(rows))

    def has_taken(self, ids: Collection[str]) -> bool:
        """Whether the program has read these messages: it removes or marks them."""
        rows = _rows_of(self._box(self._agent))
        return not any(row.get("msg_id") in ids and not row.get("read") for row in rows)

    def withdraw(self, ids: Collection[str]) -> None:
        """Remove messages again. The program may already have started a turn with them."""
        path = self._box(self._agent)
        with _locked(path):
            kept = [row for row in _rows_of(path) if row.get("msg_id") not in ids]
            _replace(path, json_text.dumps(kept))

    def collect(self) -> list[str]:
        """Empty the inboxes of all others: copies of sent mail. Returns the texts to the lead."""
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
        """Remove its messages to itself: a note about a task it took would start another turn."""
        path = self._box(self._agent)
        if not any(row.get("from") == self._agent for row in _rows_of(path)):
            return
        with _locked(path):
            kept = [row for row in _rows_of(path) if row.get("from") != self._agent]
            _replace(path, json_text.dumps(kept))

    def _box(self, name: str) -> Path:
        return self._boxes / f"{name}.json"

    # Tasks

    def show(self, tasks: Sequence[Task]) -> None:
        """Write the team's tasks into its task list."""
        wanted = {f"{task.id}.json": json_text.dumps(_as_seen(task)) for task in tasks}
        for path in self._tasks.glob("*.json"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)
        for name, data in wanted.items():
            path = self._tasks / name
            if _bytes_of(path) != data:
                _replace(path, data)

    def expect(self, task_id: str) -> None:
        """Make the program use this id for the next task it creates."""
        if task_id.isdecimal():
            # Its ids continue from the highest that ever existed.
            (self._tasks / f"{task_id}.json").unlink(missing_ok=True)
            _replace(self._tasks / ".highwatermark", str(int(task_id) - 1).encode())


def _as_seen(task: Task) -> dict[str, Any]:
    metadata = {key: value for key, value in (task.metadata or {}).items() if key != "bullpen"}
    return task.evolve(metadata=metadata or None).raw


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the program's lock of a file for milliseconds. Raises Unavailable."""
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
            raise Unavailable(f"Claude Code does not release the lock {lock}.", remedy="Try again.")
        time.sleep(0.005)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.rmdir()


# The program writes in this directory, perhaps from a sandbox: a link that it puts in the place of
# a file must lead the runner nowhere else.


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    beside.unlink(missing_ok=True)
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(beside, new, 0o600), "wb") as file:
        file.write(data)
    os.replace(beside, path)


def _bytes_of(path: Path) -> bytes | None:
    try:
        with open_plain(path) as file:
            return file.read()
    except OSError:
        return None


def _json_of(path: Path) -> dict[str, Any]:
    found = _loaded(path)
    return found if isinstance(found, dict) else {}


def _rows_of(path: Path) -> list[dict[str, Any]]:
    found = _loaded(path)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _loaded(path: Path) -> Any:
    """The JSON in a file; None if it is missing, empty or being written right now."""
    try:
        with open_plain(path) as file:
            return json.loads(file.read())
    except (OSError, ValueError):
        return None


def open_plain(path: Path) -> BinaryIO:
    """Open a file that the program may have written. Raises OSError if it is a link or no file."""
    found = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return open(found, "rb")
