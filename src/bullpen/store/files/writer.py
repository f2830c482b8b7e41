"""One team in the hands of the process that holds its lock: everything that writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any

from bullpen.errors import Conflict, Unavailable
from bullpen.protocol.changes import Change, Deliver, MarkMail, PutTask, encode
from bullpen.protocol.message import Message
from bullpen.protocol.times import iso
from bullpen.store.base import Committed, Decide, Mark, Stored, StoreLimits
from bullpen.store.checks import check_change
from bullpen.store.clock import Clock
from bullpen.store.files import foreign, ledger, mailbox, place
from bullpen.store.files.disk import Disk, temp_of
from bullpen.store.files.locks import FileLocks, TeamLock, strike_out, sweep, take_note
from bullpen.store.files.log import Log
from bullpen.store.files.mail import Inbox
from bullpen.store.files.nonce import nonce
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.plan import (
    FileView,
    Plan,
    already_there,
    event_line,
    folders,
    lock_files,
    make_plan,
)
from bullpen.store.files.records import Records, Stamp, number_of


class TeamFiles:
    """What a store keeps of one team between two operations."""

    def __init__(self, paths: TeamPaths, disk: Disk, clock: Clock, limits: StoreLimits) -> None:
        self.paths, self.disk, self.clock, self.limits = paths, disk, clock, limits
        self.records = Records(paths)
        self.lock = TeamLock(paths.head, paths.name)
        self.ledger: ledger.Ledger | None = None
        self._inboxes: dict[str, Inbox] = {}
        # The inboxes in which the log last missed nothing, as they were then.
        self.looked: dict[str, Stamp] = {}

    def inbox(self, agent: str) -> Inbox:
        """The inbox of an agent; made once, because its paths are checked and joined each time."""
        inbox = self._inboxes.get(agent)
        if inbox is None:
            inbox = self._inboxes[agent] = Inbox(self.paths, agent, self.disk)
        return inbox

    def ensure_own(self) -> None:
        """Make our folder in a team that another program made."""
        if not os.path.isdir(self.paths.own):
            self.records.config()  # No team, no folder of ours in it.
            with disk_errors(self.paths.name):
                self.disk.ensure_dir(self.paths.own)

    @contextmanager
    def writing(self, *, recover: bool = True) -> Iterator[Writer]:
        """Hold the team; what a dead holder left half done is finished first.

        Without `recover` the team is taken as it lies, to be looked at or deleted.

        Raises:
            NotFound: there is no such team.
            Unavailable: the lock cannot be had, or the disk refuses.
        """
        self.ensure_own()
        with disk_errors(self.paths.name), self.lock.held(self.limits.lock_wait_s) as head_fd:
            died = take_note(head_fd)
            writer = Writer(self, Log(self.paths.events, head_fd, self.disk))
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
            finally:
                with suppress(OSError):
                    strike_out(head_fd)


@contextmanager
def disk_errors(team: str) -> Iterator[None]:
    """Turn what the operating system refuses into an error that says so."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"Team {team!r} could not be written: {error.strerror or error}"
            f" ({error.filename or 'unknown file'}).",
            remedy="Nothing was lost; mend the cause and try again.",
        ) from error


class Writer:
    """The team lock is held and the log is carried out to its end."""

    def __init__(self, files: TeamFiles, log: Log) -> None:
        self.files, self.log = files, log
        self.paths, self.disk, self.records = files.paths, files.disk, files.records
        self.redone = 0

    def commit(self, decide: Decide, *, actor: str, op: str) -> Committed:
        """Run `decide` and carry its changes out; again if another program was faster."""
        for _ in range(self.files.limits.attempts_max):
            view = FileView(self.records, self.log.head.high)
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
                    continue  # Another program made a task that we thought new.
                changes = self._without_repeats(changes)
                if not changes:
                    return Committed(self.log.head.seq, ())
                plan = make_plan(self.paths, self.records, changes, high=self.log.head.high)
                keys = [*plan.before, *([("team", "")] if self.paths.config in plan.files else [])]
                if all(view.still_true(*key) for key in keys):
                    self._carry_out(plan, locks, actor=actor, op=op)
                    return Committed(self.log.head.seq, changes)
        raise Conflict(
            f"Team {self.paths.name!r} changed under every attempt to commit.",
            remedy="Try again in a moment.",
        )

    def _without_repeats(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes without messages that their inboxes have already."""
        kept: list[Change] = []
        delivered: set[tuple[str, str]] = set()
        for change in changes:
            if isinstance(change, Deliver):
                address = (change.to, change.message.id)
                known = not change.fresh and self.inbox(change.to).holds(change.message.id)
                if known or address in delivered:
                    continue
                delivered.add(address)
            kept.append(change)
        return tuple(kept)

    def file_locks(self, files: Sequence[str]) -> AbstractContextManager[FileLocks]:
        """Other programs' locks on some files."""
        return FileLocks(self.disk, self.paths.spare_locks, self.files.limits.lock_wait_s).held(
            files
        )

    def inbox(self, agent: str) -> Inbox:
        """The inbox of an agent."""
        return self.files.inbox(agent)

    def _carry_out(self, plan: Plan, locks: FileLocks, *, actor: str, op: str) -> None:
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
            if path in plan.expected:
                found = place.swap(self.disk, temp, path, keep=data is not None)
                surprises.append(place.surprise(plan, path, found))
            else:
                self.disk.rename(temp, path)
        for inbox, ready in mail:
            locks.refresh()
            inbox.publish(ready)
        self._sync([*plan.files, *(inbox.path for inbox, _ in mail)])
        self.log.finish(replace(self.log.head, seq=seq, size=size, high=plan.high, rev=seq))
        for each in filter(None, surprises):
            self._reconcile(each, actor=actor, op=op)

    def _reconcile(self, surprise: place.Surprise, *, actor: str, op: str) -> None:
        """Log what another program wrote while we did, and make the best of both."""
        for path, data in surprise.files.items():
            self.disk.replace(path, data, nonce=nonce())
        self._sync(list(surprise.files))
        self._log_observed(surprise.theirs)
        seq = self.note(op, surprise.ours, actor=actor)
        self.log.finish(replace(self.log.head, rev=seq))

    def _lines(
        self, plan: Plan, observed: list[Change], *, actor: str, op: str
    ) -> tuple[bytes, int]:
        seq, time = self.log.head.seq, iso(self.files.clock())
        lines = b""
        if observed:
            seq += 1
            lines += observed_line(seq, time, observed)
        lines += event_line(
            seq=seq + 1,
            time=time,
            actor=actor,
            op=op,
            changes=[encode(change) for change in plan.changes],
            base=plan.base,
        )
        return lines, seq + 1

    def _sync(self, paths: Sequence[str]) -> None:
        for folder in folders(paths):
            self.disk.sync_dir(folder)

    def note(self, op: str, changes: Sequence[Change], *, actor: str) -> int:
        """Log what is on disk already; not synced, because the disk has it anyway."""
        seq = self.log.head.seq + 1
        line = event_line(
            seq=seq,
            time=iso(self.files.clock()),
            actor=actor,
            op=op,
            changes=[encode(change) for change in changes],
            done=True,
        )
        size = self.log.append(line, durable=False)
        self.log.finish(replace(self.log.head, seq=seq, size=size))
        return seq

    def append(self, to: str, message: Message, *, actor: str, fresh: bool) -> Stored:
        """Put a message into an inbox, then into the log."""
        inbox = self.inbox(to)
        inbox.ensure()
        with self.file_locks([inbox.path]):
            if not fresh and inbox.holds(message.id):
                return Stored(message.id, self.log.head.seq, 0, duplicate=True)
            staged = inbox.stage([message])
            inbox.publish(staged)
        # The rest needs the team lock only: other programs, which soon give up, may go on.
        self.disk.sync_dir(self.paths.inboxes)
        seq = self.note("message", [Deliver(to, message)], actor=actor)
        return Stored(message.id, seq, staged.unread_before)

    def acknowledge(self, agent: str, ids: Sequence[str], state: Mark, *, actor: str) -> int:
        """Move messages forward to a state."""
        inbox = self.inbox(agent)
        if not os.path.lexists(inbox.path):
            return 0
        with self.file_locks([inbox.path]):
            moved, old = mailbox.move_forward(self, inbox, agent, ids, state)
        changes: list[Change] = [MarkMail(agent, moved, state)]
        if old:
            changes.append(MarkMail(agent, old, "archived"))
        if moved:
            self.note(f"mail.{state}", changes, actor=actor)
        return len(moved)

    def known(self) -> ledger.Ledger:
        """What the log says of every record, up to now."""
        known, size = self.files.ledger, self.log.head.size
        if known is None or known.size > size:
            known = self.files.ledger = ledger.load(self.paths.ledger, self.paths.events, size)
        if known.follow(self.paths.events, size) >= ledger.CHECKPOINT_EVERY:
            ledger.save(known, self.paths.ledger, self.disk, nonce=nonce())
        return known

    def observe(self) -> int:
        """Log everything other programs changed since it was last logged; how many changes."""
        changes = foreign.all_unlogged(self)
        self._log_observed(changes)
        return len(changes)

    def log_strangers(self, agent: str, messages: Sequence[Message]) -> None:
        """Log messages that are about to leave an inbox before the log has heard of them."""
        known = self.known().mail.get(agent, {})
        self._log_observed([Deliver(agent, each) for each in messages if each.id not in known])

    def _log_observed(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        seq = self.log.head.seq + 1
        line = observed_line(seq, iso(self.files.clock()), changes)
        size = self.log.append(line, durable=False)
        numbers = [number_of(change.task.id) for change in changes if isinstance(change, PutTask)]
        high = max([self.log.head.high, *numbers])
        self.log.finish(replace(self.log.head, seq=seq, size=size, high=high))

    def redo(self, raw: dict[str, Any]) -> None:
        """Carry out an event that a dead process had logged, as far as it did not itself.

        A record that is neither what it was before nor what it should be was changed by another
        program since: it stays, and is observed later.
        """
        redo = foreign.redo_plan(self, raw)
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
        """Take the team away, as the mark of a deletion demands."""
        mark = nonce()
        for folder, parent in (
            (self.paths.tasks, self.paths.task_lists),
            (self.paths.root, self.paths.teams),
        ):
            if os.path.lexists(folder):
                self.disk.rename(folder, os.path.join(parent, f".{self.paths.name}.gone-{mark}"))
                self.disk.sync_dir(parent)
        remove_gone(self.paths, self.disk)


def observed_line(seq: int, time: str, changes: Sequence[Change]) -> bytes:
    """What other programs did, as one event."""
    return event_line(
        seq=seq,
        time=time,
        actor="foreign",
        op="observed",
        changes=[encode(change) for change in changes],
        done=True,
        observed=True,
    )


def remove_gone(paths: TeamPaths, disk: Disk) -> list[str]:
    """Remove what deletions have moved out of the way; which folders those were."""
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
    """Remove a folder with all that is in it, never following a link."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path, disk)
            else:
                disk.unlink(entry.path)
        disk.rmdir(path)
