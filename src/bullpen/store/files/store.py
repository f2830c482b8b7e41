"""The store that keeps teams as plain files, in the layout of Claude Code's agent teams."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import anyio.lowlevel
import anyio.to_thread

from bullpen.errors import BullpenError, Conflict, NotFound, Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import Clock, iso, now_ms
from bullpen.protocol.format_version import FORMAT, refuse_newer
from bullpen.protocol.message import Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import (
    Committed,
    Decide,
    Finding,
    Mailbox,
    Mark,
    Store,
    Stored,
    StoreLimits,
    TeamState,
)
from bullpen.store.events.whole_log import check_history
from bullpen.store.files import restore
from bullpen.store.files.disk import Disk, nonce
from bullpen.store.files.doctor import checkup
from bullpen.store.files.log import event_log, parts
from bullpen.store.files.log.event_log import Head, event_line
from bullpen.store.files.log.split import PartSize
from bullpen.store.files.mail import read_mail
from bullpen.store.files.mail.read_cache import ReadCache
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import no_collection
from bullpen.store.files.watch import watch as watching
from bullpen.store.files.writer import TeamFiles, Writer, disk_errors, remove_tree
from bullpen.store.record_checks import (
    check_config,
    check_message,
    creation_of,
    no_team,
    team_taken,
)

T = TypeVar("T")

_READ_ATTEMPTS = 5


class FileStore(Store):
    """Teams under `home/teams` and `home/tasks`. Safe for many processes and for Claude Code."""

    def __init__(
        self,
        home: Path,
        *,
        clock: Clock = now_ms,
        limits: StoreLimits = StoreLimits(),  # noqa: B008 - frozen
        fsync: bool = True,
        disk: Disk | None = None,
        part_size: PartSize = PartSize(),  # noqa: B008 - frozen
    ) -> None:
        try:
            self.home = os.path.abspath(home)
        except FileNotFoundError:
            raise Unavailable(
                f"{str(home)!r} is in the current directory, which was deleted.",
                remedy="Change to another directory, or give the full path of the home.",
            ) from None
        self._clock, self._limits, self._part_size = clock, limits, part_size
        self._disk = disk or Disk(fsync=fsync)
        self._teams: dict[str, TeamFiles] = {}
        self._boxes: dict[str, ReadCache] = {}

    def _files(self, team: str) -> TeamFiles:
        """Return what is kept of a team that exists."""
        files = self._teams.get(team)
        if files is None:
            paths = TeamPaths(self.home, team)
            files = self._teams.setdefault(
                team, TeamFiles(paths, self._disk, self._clock, self._limits, self._part_size)
            )
        return files

    def _existing(self, team: str) -> TeamFiles:
        files = self._files(team)
        if not os.path.lexists(files.paths.config) or os.path.lexists(files.paths.deleting):
            raise no_team(team)
        return files

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        """Create a team in a hidden folder, then rename the folder."""
        await _in_thread(lambda: self._create(team, config, actor))

    def _create(self, team: str, config: TeamConfig, actor: str) -> None:
        paths, disk = TeamPaths(self.home, team), self._disk
        check_config(config)
        with disk_errors(team):
            self._make_room(paths)
            disk.ensure_dir(paths.tasks)
            if not os.path.lexists(paths.tasks_lock_file):
                with suppress(FileExistsError):
                    disk.write_new(paths.tasks_lock_file, b"")
            staging = os.path.join(paths.teams, f".{team}.new-{nonce()}")
            try:
                self._fill(staging, config, actor)
                disk.rename(staging, paths.root)
            except (FileExistsError, NotADirectoryError, OSError) as error:
                remove_tree(staging, Disk(fsync=False))
                if os.path.lexists(paths.root):
                    raise team_taken(team) from error
                raise
            disk.sync_dir(paths.teams)
            disk.sync_dir(paths.task_lists)

    def _make_room(self, paths: TeamPaths) -> None:
        """Check that a new team's place is free, or remove what died half-way there."""
        if os.path.lexists(paths.deleting):
            self._finish_deletion(paths.name)
        if os.path.lexists(paths.root) and os.listdir(paths.root):
            raise team_taken(paths.name)
        _refuse_leftover_tasks(paths)
        for folder in (paths.teams, paths.task_lists):
            self._disk.ensure_dir(folder)

    def _finish_deletion(self, team: str) -> None:
        """Remove a team that has the mark, unless the process creating or deleting it is alive.

        The mark is valid only under the lock: a process that restores a team holds it until it is
        done.
        """
        files = self._files(team)
        with suppress(NotFound):
            try:
                with files.writing():
                    pass
            finally:
                self._forget(team, files)

    def _forget(self, team: str, files: TeamFiles) -> None:
        self._teams.pop(team, None)
        self._boxes.pop(team, None)
        files.close()

    def _fill(self, staging: str, config: TeamConfig, actor: str) -> None:
        own = os.path.join(staging, ".bullpen")
        for folder in (staging, os.path.join(staging, "inboxes"), own):
            self._disk.mkdir(folder)
        changes = tuple(creation_of(config))
        event = Event(1, iso(self._clock()), actor, "team.create", changes)
        line = event_line(event, done=True)
        self._disk.write_new(os.path.join(staging, "config.json"), config.dump())
        self._disk.write_new(os.path.join(own, "events.jsonl"), line)
        head = Head(seq=1, size=len(line), rev=1, more={"format": FORMAT})
        self._disk.write_new(os.path.join(own, "head"), head.encode())
        self._disk.sync_dir(own)
        self._disk.sync_dir(staging)

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        await _in_thread(lambda: self._restore(team, events))

    def _restore(self, team: str, events: Sequence[Event]) -> None:
        paths = TeamPaths(self.home, team)
        folded = check_history(team, events)
        with disk_errors(team):
            self._make_room(paths)
            wait_s = self._limits.lock_wait_s
            if not restore.place(paths, self._disk, events, folded, wait_s=wait_s):
                raise team_taken(team)

    async def delete(self, team: str, *, actor: str) -> bool:
        """Delete a team. A damaged one can be deleted too."""
        return await _in_thread(lambda: self._delete(team, actor))

    def _delete(self, team: str, actor: str) -> bool:
        files = self._files(team)
        paths = files.paths
        if not os.path.lexists(paths.root):
            return False
        with disk_errors(team):
            self._disk.ensure_dir(paths.own)
        try:
            with files.writing(recover=False) as writer:
                if not os.path.lexists(paths.deleting):
                    self._disk.write_new(paths.deleting, actor.encode("utf-8", "replace"))
                    self._disk.sync_dir(paths.own)
                writer.finish_delete()
        except NotFound:
            return False
        finally:
            self._forget(team, files)
        return True

    async def teams(self) -> list[str]:
        """Return all folders that have a team's config."""
        return await _in_thread(self._list)

    def _list(self) -> list[str]:
        teams = os.path.join(self.home, "teams")
        try:
            names = os.listdir(teams)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unavailable(
                f"Cannot list {teams}: {error.strerror}.",
                remedy="Check the permissions of the folder.",
            ) from error
        return sorted(
            name
            for name in names
            if not name.startswith(".")
            and os.path.lexists(os.path.join(teams, name, "config.json"))
            and not os.path.lexists(os.path.join(teams, name, ".bullpen", "deleting"))
        )

    async def config(self, team: str) -> TeamConfig:
        return await _in_thread(lambda: self._existing(team).records.config())

    async def read(self, team: str) -> TeamState:
        """Return the whole team, without a lock unless commits leave no gap."""
        return await _in_thread(lambda: self._read(team))

    def _read(self, team: str) -> TeamState:
        files = self._existing(team)
        for attempt in range(_READ_ATTEMPTS):
            before = self._settled(files)
            if before is not None:
                state = self._read_once(files, before.seq)
                after = self._settled(files)
                if after is not None and after.rev == before.rev:
                    if not files.records.notes().strange or files.is_read_only():
                        return state
                    break
            time.sleep(0.002 * 2**attempt)
        if files.is_read_only():
            with files.examining() as writer:
                return self._read_once(files, writer.log.head.seq)
        with files.writing() as writer:
            if strange := files.records.notes().strange:
                writer.take_up(strange)
            return self._read_once(files, writer.log.head.seq)

    def _settled(self, files: TeamFiles) -> Head | None:
        """Return the head, if no commit is in progress."""
        head = event_log.read_head(files.paths.head)
        size = event_log.size_of(files.paths.events)
        if head is None:
            return Head() if size == 0 else None
        # If the log is longer than the head says, a commit is in progress or its process died.
        return head if head.size == size else None

    def _read_once(self, files: TeamFiles, seq: int) -> TeamState:
        config = files.records.config()
        tasks, bad_tasks = files.records.tasks()
        requests, bad_requests = files.records.requests()
        notes, _, bad_notes = files.records.notes()
        rows = checkup.bad_member_rows(files.paths, config)
        problems = (*rows, *bad_tasks, *bad_requests, *bad_notes)
        return TeamState(config, tasks, requests, seq, problems, notes)

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        """Decide and write, one commit to a team after another."""
        return await self._write(team, lambda writer: writer.commit(decide, actor=actor, op=op))

    async def _write(self, team: str, work: Callable[[Writer], T]) -> T:
        def run() -> T:
            with self._existing(team).writing() as writer:
                return work(writer)

        return await _in_thread(run)

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        check_message(message, self._limits)
        return await self._write(
            team, lambda writer: writer.append(to, message, actor=actor, fresh=fresh)
        )

    async def mailbox(
        self, team: str, agent: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        """Return an inbox and, if wanted, its archive."""
        paths = self._existing(team).paths
        if after is not None or history:
            return await _in_thread(
                lambda: read_mail.read(paths, agent, after=after, history=history)
            )
        boxes = self._boxes_of(paths)
        await anyio.lowlevel.checkpoint()
        # Not in a thread: switching threads costs far more than this check.
        unchanged = boxes.unchanged(agent)
        return await _in_thread(lambda: boxes.read(agent)) if unchanged is None else unchanged

    def _boxes_of(self, paths: TeamPaths) -> ReadCache:
        boxes = self._boxes.get(paths.name)
        if boxes is None:
            boxes = self._boxes[paths.name] = ReadCache(paths)
        return boxes

    async def unread(self, team: str, agents: Sequence[str]) -> Mapping[str, int | BullpenError]:
        """Count unread mail. An inbox is read only if its count was not kept."""
        boxes = self._boxes_of(self._existing(team).paths)
        return await _in_thread(lambda: {agent: _count(boxes, agent) for agent in agents})

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        return await self._write(
            team, lambda writer: writer.acknowledge(agent, ids, state, actor=actor)
        )

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return the log, after checking what other programs changed."""
        return await _in_thread(lambda: self._events(team, after, limit))

    async def recent_events(self, team: str) -> list[Event]:
        return await _in_thread(lambda: self._events(team, None, None))

    def _events(self, team: str, after: int | None, limit: int | None) -> list[Event]:
        """Return the events after a number; None for those of the newest part."""
        files = self._existing(team)
        if files.is_read_only():
            with files.examining() as writer:
                log = writer.log.opened()
        else:
            with files.writing() as writer:
                writer.observe()
                log = writer.log.opened()
        with closing(log), no_collection():
            old = []
            if after is not None and after < log.begin:
                old = parts.older(files.paths.parts, log.begin)
            start = after or 0
            # Without older parts, the log is searched for the event: it may be long.
            newest = log.lines_after(max(start, old[-1].last if old else 0))
            lines = chain(parts.lines_after(old, start), newest)
            return [event_log.decoded(raw) for raw in islice(lines, limit)]

    def watch(
        self, team: str, *, every_s: float | None = None, agent: str | None = None
    ) -> AsyncGenerator[int, None]:
        """Follow a team's files."""
        files = self._existing(team)
        return watching.follow(files.paths, lambda: self._existing(team), every_s, agent)

    async def beat(self, team: str, presence: Presence) -> None:
        """Replace an agent's last heartbeat. Not synced: the next one comes soon.

        Not in a thread either: switching threads costs an idle agent more than everything else, and
        these few system calls do not wait for the disk.
        """
        await anyio.lowlevel.checkpoint()
        files = self._existing(team)
        if (head := event_log.read_head(files.paths.head)) is not None:
            refuse_newer(f"Team {team!r}", head.format)
        path, data = files.paths.beat(presence.agent), json_text.dumps_line(presence.raw)
        quick = Disk(fsync=False)
        with disk_errors(team):
            try:
                quick.replace(path, data, nonce=nonce())
            except FileNotFoundError:
                files.ensure_own()
                quick.ensure_dir(files.paths.presence)
                quick.replace(path, data, nonce=nonce())

    async def presence(self, team: str) -> Mapping[str, Presence]:
        return await _in_thread(lambda: self._existing(team).records.presence())

    async def checkup(self, team: str | None, *, fix: bool) -> list[Finding]:
        """Look for damaged files and leftovers."""
        if team is None:
            return await _in_thread(lambda: checkup.leftovers(self.home, self._disk, fix=fix))
        files = self._existing(team)
        return await _in_thread(lambda: checkup.run(files, fix=fix))

    async def aclose(self) -> None:
        """Close the lock files."""
        # A thread that still writes is waited for.
        with anyio.CancelScope(shield=True):
            for files in list(self._teams.values()):
                await _in_thread(files.close)
        self._teams.clear()
        self._boxes.clear()


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await anyio.to_thread.run_sync(work)
    except OSError as error:
        raise _unusable(error) from error


def _unusable(error: OSError) -> Unavailable:
    return Unavailable(
        f"The store's files could not be used: {error.strerror or error} "
        f"({error.filename or 'unknown file'}).",
        remedy="Fix the cause, then try again.",
    )


def _count(boxes: ReadCache, agent: str) -> int | BullpenError:
    try:
        return boxes.unread(agent)
    except OSError as error:
        return _unusable(error)
    except BullpenError as error:
        return error


def _refuse_leftover_tasks(paths: TeamPaths) -> None:
    """Refuse if tasks of an earlier team with that name would appear in the new one."""
    with suppress(FileNotFoundError):
        if any(name.endswith(".json") for name in os.listdir(paths.tasks)):
            raise Conflict(
                f"{paths.tasks} has tasks of an earlier team {paths.name!r}.",
                remedy="Move that folder away, or choose another name.",
            )
