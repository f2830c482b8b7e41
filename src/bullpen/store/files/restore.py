"""Creates a team's files from its whole log.

The team is built under a hidden name with the mark of a deleted team, and keeps that mark while it
gets its name and its tasks, which are in a separate folder. Removing the mark is the moment the
team exists. A process that finds the mark and gets the team lock knows that the creator is dead,
and removes the remains like those of a partly deleted team.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bullpen.protocol import json_text, names
from bullpen.protocol.changes import DeleteTask, Deliver, Event, MarkMail, PutTask
from bullpen.protocol.clock import ms_of
from bullpen.protocol.format_version import FORMAT
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.team import TeamConfig
from bullpen.store.events.checkpoint import is_begin
from bullpen.store.events.fold import Folded
from bullpen.store.files.commit_plan import folders
from bullpen.store.files.disk import Disk, nonce
from bullpen.store.files.locks import TeamLock, strike_out, take_note
from bullpen.store.files.log.event_log import Head, event_line
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import number_of
from bullpen.store.files.writer import remove_tree


@dataclass(slots=True)
class _MailEntry:
    """A message, its delivery state, and since when."""

    message: Message
    state: DeliveryState
    time: str

    @property
    def row(self) -> dict[str, Any]:
        """Return the message as it appears in its inbox or archive."""
        if self.state in ("seen", "archived"):
            return self.message.evolve(read=True).raw
        return self.message.raw


_Boxes = dict[str, dict[str, _MailEntry]]
"""The messages of every mailbox by file name, in order of arrival."""


def place(
    paths: TeamPaths,
    disk: Disk,
    events: Sequence[Event],
    folded: Folded[dict[str, Any]],
    *,
    wait_s: float,
) -> bool:
    """Create the team. False if another team with that name was there first.

    The caller has checked that nothing is in its place, and that the events are a whole log.
    """
    staging = os.path.join(paths.teams, f".{paths.name}.new-{nonce()}")
    lock = TeamLock(os.path.join(staging, os.path.relpath(paths.head, paths.root)), paths.name)
    try:
        _lay_out(paths, staging, disk, _team_files(paths, events, folded))
        # The lock belongs to the file and stays with it when the folder is renamed.
        with lock.held(wait_s) as head_fd:
            take_note(head_fd)
            disk.rename(staging, paths.root)
            _complete(paths, disk, _task_files(paths, events, folded))
            strike_out(head_fd)
    except OSError:
        if not os.path.lexists(staging):
            raise
        remove_tree(staging, Disk(fsync=False))
        if os.path.lexists(paths.root):
            return False
        raise
    finally:
        lock.close()
    return True


def _lay_out(paths: TeamPaths, staging: str, disk: Disk, files: Mapping[str, bytes]) -> None:
    inside = {staging + path[len(paths.root) :]: data for path, data in files.items()}
    empty = staging + paths.inboxes[len(paths.root) :]
    made = sorted({staging, empty, *folders(list(inside))})
    for folder in made:
        disk.mkdir(folder)
    for path, data in inside.items():
        disk.write_new(path, data)
    for folder in made:
        disk.sync_dir(folder)


def _complete(paths: TeamPaths, disk: Disk, tasks: Mapping[str, bytes]) -> None:
    """Add the tasks to a team that has its name, and remove the mark."""
    written: list[str] = []
    try:
        disk.sync_dir(paths.teams)
        disk.ensure_dir(paths.tasks)
        with suppress(FileExistsError):
            disk.write_new(paths.tasks_lock_file, b"")
        # Left by an earlier team with that name. Only its tasks would have been in the way.
        disk.unlink(paths.high_water)
        for path, data in tasks.items():
            written.append(path)
            disk.write_new(path, data)
        disk.sync_dir(paths.tasks)
        disk.sync_dir(paths.task_lists)
        disk.unlink(paths.deleting)
    except OSError as error:
        # A task that was already there belongs to another program.
        ours = written[:-1] if isinstance(error, FileExistsError) else written
        _take_back(paths, ours)
        raise
    disk.sync_dir(paths.own)


def _take_back(paths: TeamPaths, written: Sequence[str]) -> None:
    """Remove what was created so far. Anything that cannot be removed keeps the mark."""
    quick = Disk(fsync=False)
    with suppress(OSError):
        for path in written:
            quick.unlink(path)
        gone = os.path.join(paths.teams, f".{paths.name}.gone-{nonce()}")
        quick.rename(paths.root, gone)
        remove_tree(gone, quick)


def _team_files(
    paths: TeamPaths, events: Sequence[Event], folded: Folded[dict[str, Any]]
) -> dict[str, bytes]:
    config = TeamConfig.parse({**folded.team, "members": list(folded.members.values())})
    log = b"".join(event_line(event, done=True) for event in events)
    more: dict[str, Any] = {"format": FORMAT}
    if is_begin(events[0], 0):
        # There is nothing before it here.
        begin, base = events[0].seq, len(event_line(events[0], done=True))
        more = {**more, "begin": begin, "base": base, "kept": begin + 1}
    head = Head(
        seq=folded.seq,
        size=len(log),
        high=_highest_task_id(events),
        rev=folded.seq,
        more=more,
    )
    files = {
        paths.config: config.dump(),
        paths.events: log,
        paths.head: head.encode(),
        paths.deleting: b"restoring",
    }
    for request_id, raw in folded.requests.items():
        files[paths.request(request_id)] = json_text.dumps(raw)
    for name, raw in folded.notes.items():
        files[paths.note_record(name)] = json_text.dumps(raw)
        if raw["text"]:
            files[paths.note(name)] = str(raw["text"]).encode()
    for stem, entries in _boxes(events).items():
        files |= _mail_files(paths, stem, entries)
    return files


def _task_files(
    paths: TeamPaths, events: Sequence[Event], folded: Folded[dict[str, Any]]
) -> dict[str, bytes]:
    files = {paths.task(task_id): json_text.dumps(raw) for task_id, raw in folded.tasks.items()}
    changes = (change for event in events for change in event.changes)
    if any(isinstance(change, DeleteTask) for change in changes):
        files[paths.high_water] = str(_highest_task_id(events)).encode()
    return files


def _highest_task_id(events: Sequence[Event]) -> int:
    """Return the highest id ever used; a log that begins later says which one was deleted."""
    highest = 0
    for event in events:
        for change in event.changes:
            match change:
                case PutTask(task):
                    highest = max(highest, number_of(task.id))
                case DeleteTask(task_id):
                    highest = max(highest, number_of(task_id))
                case _:
                    pass
    return highest


def _boxes(events: Sequence[Event]) -> _Boxes:
    boxes: _Boxes = {}
    for event in events:
        for change in event.changes:
            match change:
                case Deliver(to, message):
                    state: DeliveryState = "seen" if message.read else "stored"
                    # Names given by another program can share a mailbox.
                    box = boxes.setdefault(names.inbox_stem(to), {})
                    box.setdefault(message.id, _MailEntry(message, state, event.time))
                case MarkMail(agent, ids, state):
                    _mark(boxes.get(names.inbox_stem(agent), {}), ids, state, event.time)
                case _:
                    pass
    return boxes


def _mark(box: dict[str, _MailEntry], ids: Sequence[str], state: DeliveryState, time: str) -> None:
    for message_id in ids:
        if state == "consumed":
            box.pop(message_id, None)
        elif message_id in box:
            box[message_id].state, box[message_id].time = state, time


def _mail_files(paths: TeamPaths, stem: str, entries: dict[str, _MailEntry]) -> dict[str, bytes]:
    here = [entry.row for entry in entries.values() if entry.state != "archived"]
    files = {paths.inbox(stem): json_text.dumps(here)}
    if archive := _archive(entries):
        files[paths.archived(stem)] = archive
    injected = {
        key: ms_of(entry.time) or 0 for key, entry in entries.items() if entry.state == "injected"
    }
    if injected:
        files[paths.injected(stem)] = json_text.dumps_line(injected)
    return files


def _archive(entries: dict[str, _MailEntry]) -> bytes:
    """Return the archived messages in order, with placeholders for those still in the inbox."""
    lines: list[bytes] = []
    waiting: list[bytes] = []
    for key, entry in entries.items():
        if entry.state != "archived":
            waiting.append(json_text.dumps_line({"waits": key}) + b"\n")
            continue
        lines += [*waiting, json_text.dumps_line(entry.row) + b"\n"]
        waiting.clear()
    return b"".join(lines)
