"""Making a team out of its whole log: all its files, as if it had lived through every event.

The team is laid out under a hidden name, with the mark of a team that is being deleted, and keeps
that mark while it is given its name and its tasks, which lie in a folder of their own. To remove
the mark is the moment it happens: whoever finds the mark and gets the team lock knows that its
maker is dead, and takes the remains away as it does with a half-deleted team.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bullpen.protocol import jsontext, names
from bullpen.protocol.changes import DeleteTask, Deliver, Event, MarkMail, PutTask, encode
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.times import ms_of
from bullpen.store.files.disk import Disk
from bullpen.store.files.locks import TeamLock, strike_out, take_note
from bullpen.store.files.log import Head
from bullpen.store.files.nonce import nonce
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.plan import event_line, folders
from bullpen.store.files.records import number_of
from bullpen.store.files.writer import remove_tree
from bullpen.store.fold import Folded


@dataclass(slots=True)
class _Letter:
    """A message, how far it got, and when it got there."""

    message: Message
    state: DeliveryState
    time: str

    @property
    def row(self) -> dict[str, Any]:
        """The message as it stands in its inbox or archive."""
        if self.state in ("seen", "archived"):
            return self.message.evolve(read=True).raw
        return self.message.raw


_Boxes = dict[str, dict[str, _Letter]]
"""The letters of every mailbox, by the name of its file, in the order in which they came."""


def place(
    paths: TeamPaths,
    disk: Disk,
    events: Sequence[Event],
    folded: Folded[dict[str, Any]],
    *,
    wait_s: float,
) -> bool:
    """Make the team. False if another of that name was there first.

    The caller has seen that nothing lies in its place, and that the events are a whole log.
    """
    staging = os.path.join(paths.teams, f".{paths.name}.new-{nonce()}")
    lock = TeamLock(os.path.join(staging, os.path.relpath(paths.head, paths.root)), paths.name)
    try:
        _lay_out(paths, staging, disk, _team_files(paths, events, folded))
        # The lock belongs to the file and goes with it when the folder gets its name.
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
    """Add the tasks to a team that has its name, and take the mark off it."""
    written: list[str] = []
    try:
        disk.sync_dir(paths.teams)
        disk.ensure_dir(paths.tasks)
        with suppress(FileExistsError):
            disk.write_new(paths.tasks_lock_file, b"")
        # What a former team of that name left. Only its tasks would have been in the way.
        disk.unlink(paths.high_water)
        for path, data in tasks.items():
            written.append(path)
            disk.write_new(path, data)
        disk.sync_dir(paths.tasks)
        disk.sync_dir(paths.task_lists)
        disk.unlink(paths.deleting)
    except OSError as error:
        # A task that stood there already is another program's.
        ours = written[:-1] if isinstance(error, FileExistsError) else written
        _take_back(paths, ours)
        raise
    disk.sync_dir(paths.own)


def _take_back(paths: TeamPaths, written: Sequence[str]) -> None:
    """Remove what was made so far; what cannot be removed keeps the mark, and goes later."""
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
    log = b"".join(map(_line, events))
    head = Head(seq=folded.seq, size=len(log), high=_highest_task_id(events), rev=folded.seq)
    files = {
        paths.config: config.dump(),
        paths.events: log,
        paths.head: head.encode(),
        paths.deleting: b"restoring",
    }
    for request_id, raw in folded.requests.items():
        files[paths.request(request_id)] = jsontext.dumps(raw)
    for stem, letters in _boxes(events).items():
        files |= _mail_files(paths, stem, letters)
    return files


def _line(event: Event) -> bytes:
    return event_line(
        seq=event.seq,
        time=event.time,
        actor=event.actor,
        op=event.op,
        changes=[encode(change) for change in event.changes],
        done=True,
        observed=event.observed,
    )


def _task_files(
    paths: TeamPaths, events: Sequence[Event], folded: Folded[dict[str, Any]]
) -> dict[str, bytes]:
    files = {paths.task(task_id): jsontext.dumps(raw) for task_id, raw in folded.tasks.items()}
    changes = (change for event in events for change in event.changes)
    if any(isinstance(change, DeleteTask) for change in changes):
        files[paths.high_water] = str(_highest_task_id(events)).encode()
    return files


def _highest_task_id(events: Sequence[Event]) -> int:
    changes = (change for event in events for change in event.changes)
    return max((number_of(c.task.id) for c in changes if isinstance(c, PutTask)), default=0)


def _boxes(events: Sequence[Event]) -> _Boxes:
    boxes: _Boxes = {}
    for event in events:
        for change in event.changes:
            match change:
                case Deliver(to, message):
                    state: DeliveryState = "seen" if message.read else "stored"
                    # Names that another program gave can share a mailbox.
                    box = boxes.setdefault(names.inbox_stem(to), {})
                    box.setdefault(message.id, _Letter(message, state, event.time))
                case MarkMail(agent, ids, state):
                    _mark(boxes.get(names.inbox_stem(agent), {}), ids, state, event.time)
                case _:
                    pass
    return boxes


def _mark(box: dict[str, _Letter], ids: Sequence[str], state: DeliveryState, time: str) -> None:
    for message_id in ids:
        if state == "consumed":
            box.pop(message_id, None)
        elif message_id in box:
            box[message_id].state, box[message_id].time = state, time


def _mail_files(paths: TeamPaths, stem: str, letters: dict[str, _Letter]) -> dict[str, bytes]:
    here = [letter.row for letter in letters.values() if letter.state != "archived"]
    files = {paths.inbox(stem): jsontext.dumps(here)}
    if archive := _archive(letters):
        files[paths.archived(stem)] = archive
    injected = {
        key: ms_of(letter.time) or 0
        for key, letter in letters.items()
        if letter.state == "injected"
    }
    if injected:
        files[paths.injected(stem)] = jsontext.dumps_line(injected)
    return files


def _archive(letters: dict[str, _Letter]) -> bytes:
    """The archived letters in order; where another stood among them, that it waits."""
    lines: list[bytes] = []
    waiting: list[bytes] = []
    for key, letter in letters.items():
        if letter.state != "archived":
            waiting.append(jsontext.dumps_line({"waits": key}) + b"\n")
            continue
        lines += [*waiting, jsontext.dumps_line(letter.row) + b"\n"]
        waiting.clear()
    return b"".join(lines)
