"""Writes to one team, for the process that holds its lock."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from bullpen.errors import Conflict, Unavailable, Unreadable
from bullpen.protocol.changes import Change, Deliver, Event, MarkMail, PutNote, PutTask
from bullpen.protocol.clock import Clock, iso
from bullpen.protocol.format_version import is_newer, may_write, refuse_newer
from bullpen.protocol.message import Message
from bullpen.protocol.record.note import Note
from bullpen.store.contract import Committed, Decide, Mark, Stored, StoreLimits
from bullpen.store.events.fold import digest
from bullpen.store.files import foreign, notes, swap
from bullpen.store.files.commit_plan import (
    CommitPlan,
    FileView,
    already_there,
    folders,
    lock_files,
    make_plan,
)
from bullpen.store.files.disk import Disk, nonce, temp_of
from bullpen.store.files.locks import FileLocks, TeamLock, strike_out, sweep, take_note
from bullpen.store.files.log import digests
from bullpen.store.files.log.event_log import Head, Log, event_line, read_head
from bullpen.store.files.log.retention import retain
from bullpen.store.files.log.split import PartSize, is_due, split
from bullpen.store.files.mail import read_mail
from bullpen.store.files.mail.inbox_file import Inbox
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Records, number_of
from bullpen.store.mail_states import without_repeats
from bullpen.store.record_checks import check_change


class TeamFiles:
    """What a store keeps of one team between two operations."""

    def __init__(
        self,
        paths: TeamPaths,
        disk: Disk,
        clock: Clock,
        limits: StoreLimits,
        part_size: PartSize = PartSize(),  # noqa: B008 - frozen
    ) -> None:
        self.paths, self.disk, self.clock, self.limits = paths, disk, clock, limits
        self.part_size = part_size
        # A log that could not be split is not tried again before it is much longer.
        self.no_split_below = 0
        self.records = Records(paths)
        self.lock = TeamLock(paths.head, paths.name)
        self.digests: digests.Digests | None = None
        self._inboxes: dict[str, Inbox] = {}

    def close(self) -> None:
        """Close the lock file and what watches the tasks."""
        self.lock.close()
        self.records.close()

    def inbox(self, agent: str) -> Inbox:
        """Return the inbox of an agent. Created once, because checking its paths takes time."""
        inbox = self._inboxes.get(agent)
        if inbox is None:
            inbox = self._inboxes[agent] = Inbox(self.paths, agent, self.disk)
        return inbox

    def ensure_own(self) -> None:
        """Create Bullpen's folder in a team that another program created."""
        if not os.path.isdir(self.paths.own):
            self.records.config()  # There is no team to create a folder in.
            with disk_errors(self.paths.name):
                self.disk.ensure_dir(self.paths.own)

    @contextmanager
    def writing(self, *, recover: bool = True) -> Iterator[Writer]:
        """Hold the team, after finishing what a dead holder left unfinished.

        Without `recover`, the team is taken as it is, to be inspected or deleted. Raises NotFound,
        or Unavailable if the lock was not free in time or the disk failed.
        """
        self.ensure_own()
        with disk_errors(self.paths.name), self.lock.held(self.limits.lock_wait_s) as head_fd:
            writer = Writer(self, Log(self.paths.events, head_fd, self.disk))
            refuse_newer(f"Team {self.paths.name!r}", writer.log.head.format)
            died = take_note(head_fd)
            if recover and os.path.lexists(self.paths.deleting):
                writer.finish_delete()
                self.records.config()
            if recover:
                if died:
                    # Other programs would wait for 10 s, or give up, at a lock that it left.
                    sweep((self.paths.root, self.paths.inboxes, self.paths.tasks), self.disk)
                writer.redone = writer.log.catch_up(writer.redo)
            try:
                yield writer
                if recover:
                    writer.split_if_long()
            finally:
                with suppress(OSError):
                    strike_out(head_fd)

    @contextmanager
    def examining(self) -> Iterator[Writer]:
        """Hold the team as it is, only to look at it: also one that cannot be written."""
        if not os.path.lexists(self.paths.head):
            yield Writer(self, Log(self.paths.events, None, self.disk))
            return
        wait_s = self.limits.lock_wait_s
        with disk_errors(self.paths.name), self.lock.held(wait_s, read_only=True) as head_fd:
            yield Writer(self, Log(self.paths.events, head_fd, self.disk))

    def is_read_only(self) -> bool:
        """Return whether the team can only be read: a copy, or of a newer major version."""
        paths = self.paths
        there = [path for path in (paths.own, paths.head) if os.path.lexists(path)]
        if not all(os.access(path, os.W_OK) for path in there or [paths.root]):
            return True
        head = read_head(paths.head)
        return head is not None and not may_write(head.format)


@contextmanager
def disk_errors(team: str) -> Iterator[None]:
    """Turn errors of the operating system into Bullpen's errors."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"Team {team!r} could not be written: {error.strerror or error}"
            f" ({error.filename or 'unknown file'}).",
            remedy="Nothing was lost. Fix the cause, then try again.",
        ) from error


class Writer:
    """The team lock is held and the whole log is carried out."""

    def __init__(self, files: TeamFiles, log: Log) -> None:
        self.files, self.log = files, log
        self.paths, self.disk, self.records = files.paths, files.disk, files.records
        self.redone = 0

    def commit(self, decide: Decide, *, actor: str, op: str) -> Committed:
        """Run `decide` and apply its changes; run it again if another program was faster."""
        for _ in range(self.files.limits.attempts_max):
            view = FileView(self.records, self.log.head.high, self.take_up)
            changes = tuple(decide(view))
            if not changes:
                return Committed(self.log.head.seq, ())
            for change in changes:
                check_change(change, self.files.limits)
            for change in changes:
                if isinstance(change, Deliver):
                    self.inbox(change.to).ensure()
            files = lock_files(self.paths, changes)
            with self.file_locks(files) as locks:
                if lock_files(self.paths, changes) != files:
                    continue  # Another program created a task with the next id.
                changes = tuple(without_repeats(changes, self._holds))
                if not changes:
                    return Committed(self.log.head.seq, ())
                plan = make_plan(self.records, changes, high=self.log.head.high)
                keys = [*plan.before, *([("team", "")] if self.paths.config in plan.files else [])]
                if view.holds(keys):
                    self._carry_out(plan, locks, actor=actor, op=op)
                    return Committed(self.log.head.seq, changes)
        raise Conflict(
            f"Team {self.paths.name!r} changed during every attempt to commit.",
            remedy="Try again in a moment.",
        )

    def _holds(self, deliver: Deliver) -> bool:
        return not deliver.fresh and self.inbox(deliver.to).holds(deliver.message.id)

    def file_locks(self, files: Sequence[str]) -> AbstractContextManager[FileLocks]:
        """Return other programs' locks on some files."""
        return FileLocks(self.disk, self.paths.spare_locks, self.files.limits.lock_wait_s).held(
            files
        )

    def inbox(self, agent: str) -> Inbox:
        """Return the inbox of an agent."""
        return self.files.inbox(agent)

    def _carry_out(self, plan: CommitPlan, locks: FileLocks, *, actor: str, op: str) -> None:
        observed = foreign.unlogged(self.known(), plan) if any(plan.before.values()) else []
        mark = nonce()
        staged: list[str] = []
        try:
            for path, data in plan.files.items():
                if data is not None:
                    self.disk.ensure_dir(os.path.dirname(path))
                    staged.append(temp_of(path, mark))
                    self.disk.write_new(staged[-1], data)
            mail = [
                (self.inbox(agent), self.inbox(agent).stage(rows))
                for agent, rows in plan.mail.items()
            ]
            lines, seq = self._lines(plan, observed, actor=actor, op=op)
            size = self.log.append(lines, durable=True)
        except BaseException:
            for path in staged:
                with suppress(OSError):
                    os.unlink(path)
            raise
        # From here on the commit has happened.
        surprises = []
        for path, data in plan.files.items():
            locks.refresh()
            temp = temp_of(path, mark)
            if os.path.dirname(path) == self.paths.notes:
                found = swap.swap_note(self.disk, temp, path, keep=data is not None)
                surprises.append(swap.surprise(plan, path, found))
                # The record, which comes next, must not outlive a text that a power cut undoes.
                if data is not None or found is not None:
                    self.disk.sync_dir(self.paths.notes)
            elif path in plan.expected:
                found = swap.swap(self.disk, temp, path, keep=data is not None)
                surprises.append(swap.surprise(plan, path, found))
            elif data is None:
                self.disk.unlink(path)
            else:
                self.disk.rename(temp, path)
        for inbox, ready in mail:
            locks.refresh()
            inbox.publish(ready)
        self._sync([*plan.files, *(inbox.path for inbox, _ in mail)])
        more = notes.format_of(self.log.head.more, plan.changes)
        self.log.finish(Head(seq, size, plan.high, seq, more))
        for each in filter(None, surprises):
            self._reconcile(each, actor=actor, op=op)

    def _reconcile(self, surprise: swap.Surprise, *, actor: str, op: str) -> None:
        """Log what another program wrote at the same time, and merge both."""
        for path, data in surprise.files.items():
            self.disk.replace(path, data, nonce=nonce())
        self._sync(list(surprise.files))
        self._log_observed(surprise.theirs)
        seq = self.note(op, surprise.ours, actor=actor) if surprise.ours else self.log.head.seq
        self.log.finish(replace(self.log.head, rev=seq))

    def _lines(
        self, plan: CommitPlan, observed: list[Change], *, actor: str, op: str
    ) -> tuple[bytes, int]:
        seq, time = self.log.head.seq + 1, iso(self.files.clock())
        lines = b""
        if observed:
            lines += event_line(_observation(seq, time, observed), done=True)
            seq += 1
        event = Event(seq, time, actor, op, plan.changes)
        return lines + event_line(event, base=plan.base), seq

    def _sync(self, paths: Sequence[str]) -> None:
        for folder in folders(paths):
            self.disk.sync_dir(folder)

    def note(self, op: str, changes: Sequence[Change], *, actor: str) -> int:
        """Log what is already on disk. Not synced, because the disk has it anyway."""
        seq, time = self.log.head.seq + 1, iso(self.files.clock())
        self._note(Event(seq, time, actor, op, tuple(changes)))
        return seq

    def _note(self, event: Event) -> None:
        size = self.log.append(event_line(event, done=True), durable=False)
        tasks = [change.task for change in event.changes if isinstance(change, PutTask)]
        high = max([self.log.head.high, *(number_of(task.id) for task in tasks)])
        more = notes.format_of(self.log.head.more, event.changes)
        self.log.finish(replace(self.log.head, seq=event.seq, size=size, high=high, more=more))

    def append(self, to: str, message: Message, *, actor: str, fresh: bool) -> Stored:
        """Put a message into an inbox, then into the log."""
        inbox = self.inbox(to)
        inbox.ensure()
        with self.file_locks([inbox.path]):
            if not fresh and inbox.holds(message.id):
                return Stored(message.id, self.log.head.seq, 0, duplicate=True)
            staged = inbox.stage([message])
            inbox.publish(staged)
        # The rest only needs the team lock: other programs, which soon give up, may continue.
        self.disk.sync_dir(self.paths.inboxes)
        seq = self.note("message", [Deliver(to, message)], actor=actor)
        return Stored(message.id, seq, staged.unread_before)

    def acknowledge(self, agent: str, ids: Sequence[str], state: Mark, *, actor: str) -> int:
        """Move messages forward to a state."""
        inbox = self.inbox(agent)
        if not os.path.lexists(inbox.path):
            return 0
        with self.file_locks([inbox.path]):
            moved, old = read_mail.move_forward(
                inbox,
                ids,
                state,
                clock=self.files.clock,
                seen_kept=self.files.limits.seen_kept,
                log_first=partial(self._log_strangers, agent),
            )
        changes: list[Change] = [MarkMail(agent, moved, state)]
        if old:
            changes.append(MarkMail(agent, old, "archived"))
        if moved:
            self.note(f"mail.{state}", changes, actor=actor)
        return len(moved)

    def known(self) -> digests.Digests:
        """Return what the log says about every record up to now."""
        known, head = self.files.digests, self.log.head
        size = head.size
        if known is None or known.size > size or known.begin != head.begin:
            known = self.files.digests = digests.load(self.paths.digests, self.log)
        behind = size - known.size
        events = known.follow(self.paths.events, size)
        if events >= digests.CHECKPOINT_EVERY or behind >= digests.CHECKPOINT_BYTES:
            digests.save(known, self.paths.digests, self.disk, nonce=nonce())
        return known

    def split_if_long(self) -> None:
        """Move the older half of a long log into a part. If that fails, it is tried again later."""
        files, log = self.files, self.log
        if not is_due(log, files.part_size) or log.head.size < files.no_split_below:
            return
        known, before = files.digests, log.head
        try:
            done = split(log, self.paths, self.disk, files.part_size)
        except (OSError, Unreadable):
            done = False
        if not done:
            files.no_split_below = 2 * before.size
        elif known is not None and (known.size, known.begin) == (before.size, before.begin):
            known.size, known.begin = log.head.size, log.head.begin
        if done:
            with suppress(OSError, Unreadable):
                self.retain()

    def retain(self) -> int:
        """Remove old parts as the team's settings say. Returns how many."""
        rule = self.records.config().facts.retention
        if rule is None:
            return 0
        return retain(self.log, self.paths, self.disk, rule, self.files.clock())

    def observe(self) -> int:
        """Log everything other programs changed since the last check. Returns how many changes."""
        is_first, known = self.files.digests is None, self.known()
        before = set(known.looked.items())
        changes = foreign.all_unlogged(self.records, known)
        self._keep_notes([change.note for change in changes if isinstance(change, PutNote)])
        read = sum(stamp.size for _, stamp in known.looked.items() - before)
        if is_first and read >= digests.CHECKPOINT_BYTES:
            # The next process need not read these inboxes again.
            digests.save(known, self.paths.digests, self.disk, nonce=nonce())
        self._log_observed(changes)
        return len(changes)

    def take_up(self, strange: Sequence[Note]) -> None:
        """Log versions of notes that another program wrote, so that their numbers are theirs."""
        known = self.known().notes
        unlogged = [note for note in strange if digest(note.raw) != known.get(note.name)]
        self._keep_notes(strange)
        self._log_observed([PutNote(note) for note in unlogged])
        self.log.finish(replace(self.log.head, rev=self.log.head.seq))

    def _keep_notes(self, strange: Sequence[Note]) -> None:
        for note in strange:
            if self.records.noted(note.name) != note:
                self.disk.ensure_dir(self.paths.note_records)
                path = self.paths.note_record(note.name)
                self.disk.replace(path, note.dump(), nonce=nonce())
                self.disk.sync_dir(self.paths.note_records)

    def _log_strangers(self, agent: str, messages: Sequence[Message]) -> None:
        """Log messages that leave an inbox before the log has them."""
        known = self.known().mail.get(agent, {})
        self._log_observed([Deliver(agent, each) for each in messages if each.id not in known])

    def _log_observed(self, changes: Sequence[Change]) -> None:
        if changes:
            seq, time = self.log.head.seq + 1, iso(self.files.clock())
            self._note(_observation(seq, time, changes))

    def redo(self, raw: dict[str, Any]) -> None:
        """Carry out what a dead process logged but did not finish.

        A record that is neither what it was before nor what it should be was changed by another
        program since: it is kept, and observed later.
        """
        redo = foreign.redo_plan(
            self.records, raw, high=self.log.head.high, newer=is_newer(self.log.head.format)
        )
        with self.file_locks(lock_files(self.paths, redo.changes)):
            for path, data in redo.files.items():
                if already_there(path, data):
                    continue
                if data is None:
                    self.disk.unlink(path)
                else:
                    self.disk.ensure_dir(os.path.dirname(path))
                    self.disk.replace(path, data, nonce=nonce())
            for agent, messages in redo.mail.items():
                inbox = self.inbox(agent)
                inbox.ensure()
                missing = [message for message in messages if not inbox.holds(message.id)]
                if missing:
                    inbox.publish(inbox.stage(missing))
            self._sync([*redo.files, *(self.paths.inbox(agent) for agent in redo.mail)])
        self.log.head = replace(self.log.head, high=max(self.log.head.high, redo.high))

    def finish_delete(self) -> None:
        """Delete the team, as its mark says."""
        mark = nonce()
        for folder, parent in (
            (self.paths.tasks, self.paths.task_lists),
            (self.paths.root, self.paths.teams),
        ):
            if os.path.lexists(folder):
                self.disk.rename(folder, os.path.join(parent, f".{self.paths.name}.gone-{mark}"))
                self.disk.sync_dir(parent)
        remove_gone(self.paths, self.disk)


def _observation(seq: int, time: str, changes: Sequence[Change]) -> Event:
    """Return one event with everything other programs did."""
    return Event(seq, time, "foreign", "observed", tuple(changes), observed=True)


def remove_gone(paths: TeamPaths, disk: Disk) -> list[str]:
    """Remove what deletions moved out of the way. Returns the folders."""
    removed = []
    for parent in (paths.teams, paths.task_lists):
        with suppress(FileNotFoundError):
            for name in os.listdir(parent):
                if name.startswith(".") and ".gone-" in name:
                    path = os.path.join(parent, name)
                    remove_tree(path, disk)
                    removed.append(path)
    return removed


def remove_tree(path: str, disk: Disk) -> None:
    """Remove a folder and everything in it, never following a link."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path, disk)
            else:
                disk.unlink(entry.path)
        disk.rmdir(path)
