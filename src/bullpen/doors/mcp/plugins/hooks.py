"""What Claude Code is told when a session or a teammate goes idle or completes a task.

Nothing here refuses twice for the same reason, except a task whose checks fail: a session must
always be able to end.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.agents.system import processes
from bullpen.agents.work.proving import failures, refusal
from bullpen.doors.actions.task_by_hand import TaskCommands
from bullpen.doors.actions.task_proof import proving
from bullpen.errors import BullpenError
from bullpen.protocol.clock import now_ms
from bullpen.protocol.presence import Presence
from bullpen.store.private_folder import make_private
from bullpen.team.lookup import listed, owner_of
from bullpen.team.team import Team, Teams

BLOCK = 20
"""The exit code that asks the plugin to refuse. No error of Bullpen has it."""

_GENERATIONS = 3
"""Between a hook and the program that runs it are one or two shells."""

_KEPT_S = 7 * 24 * 3600.0
_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One call of a hook, as Claude Code describes it."""

    name: str
    session: str
    team: str = ""
    teammate: str = ""
    task: str = ""


def event_of(text: str) -> HookEvent | None:
    """The call that standard input describes; None if it is none of ours."""
    try:
        given = json.loads(text)
    except ValueError:
        return None
    if not isinstance(given, dict):
        return None

    def named(key: str) -> str:
        value = given.get(key)
        return value if isinstance(value, str) else ""

    name = named("hook_event_name")
    if name not in {"Stop", "TeammateIdle", "TaskCompleted"}:
        return None
    return HookEvent(
        name,
        named("session_id"),
        team=named("team_name"),
        teammate=named("teammate_name"),
        task=named("task_id"),
    )


def program_of_this_hook() -> list[int]:
    """The pids of the nearest ancestors: Claude Code is among them."""
    return [row.pid for row in processes.ancestors(os.getpid())[:_GENERATIONS] if row.pid > 1]


async def unread_mail(teams: Teams, event: HookEvent, pids: Sequence[int]) -> tuple[str, str]:
    """What to say of mail that the member of this session has not got yet, and the key of that.

    Both are empty if there is nothing to say. In a process that also runs teammates of Claude Code,
    the member is the session's and not theirs.
    """
    for name in await teams.names():
        team = teams.open(name)
        with suppress(BullpenError):
            for member, beat in (await team.agents.presence()).items():
                if not _is_here(beat, pids):
                    continue
                if event.name == "TeammateIdle" and event.teammate != member:
                    continue
                return await _unread_of(team, member)
    return "", ""


async def _unread_of(team: Team, member: str) -> tuple[str, str]:
    box = await team.mailbox.read(member)
    waiting = [entry for entry in box.unread if entry.state != "injected"]
    if not waiting:
        return "", ""
    senders = listed(
        dict.fromkeys(entry.message.sender for entry in waiting), shown_max=_NAMES_SHOWN
    )
    number = f"{len(waiting)} unread message{'' if len(waiting) == 1 else 's'}"
    text = (
        f"You have {number} from {senders} in Bullpen team {team.name}. Call WaitForMail of the MCP"
        " server bullpen before you stop."
    )
    return text, " ".join([team.name, member, *(entry.id for entry in waiting)])


def _is_here(beat: Presence, pids: Sequence[int]) -> bool:
    """Whether a heartbeat is that of the MCP server that one of these processes started."""
    if beat.pid is None or beat.start is None or beat.host != processes.host_name():
        return False
    if not beat.alive(now_ms()):
        return False
    row = processes.look(beat.pid)
    return row is not None and row.runs and row.start == beat.start and row.parent in pids


async def unfinished_task(team: Team, event: HookEvent) -> tuple[str, str]:
    """What to say of a task that a teammate of Claude Code leaves in progress, and its key."""
    for task in (await team.tasks.list()).tasks:
        if task.status == "in_progress" and owner_of(task, team.name) == event.teammate:
            text = (
                f"Task {task.id} ({task.subject}) is still yours and in progress. Complete it, or"
                " give it back with status pending. If you wait for an answer, say so to the lead"
                " and stop."
            )
            return text, " ".join([team.name, event.teammate, task.id, str(task.facts.attempt)])
    return "", ""


async def failed_checks(door: TaskCommands, event: HookEvent) -> str:
    """Run the checks of a task that is being completed. What failed; empty if nothing did."""
    task = await door.team.tasks.get(event.task)
    if not task.facts.checks:
        return ""
    proof = await proving(door, event.task, cwd=None, tell=lambda _: None)
    task = await proof.check(event.task)
    failed = failures(task)
    return str(refusal(task, failed)) if failed else ""


def is_first(home: Path, event: HookEvent, key: str) -> bool:
    """Whether this is said to a session for the first time; it is noted. In doubt it is not."""
    folder = Path(home, "plugins", "reminders")
    digest = hashlib.sha256(f"{event.session} {event.name} {key}".encode()).hexdigest()
    try:
        make_private(folder)
        _forget_old(folder)
        os.close(os.open(folder / digest, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True


def _forget_old(folder: Path) -> None:
    until = time.time() - _KEPT_S
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < until:
                path.unlink()
