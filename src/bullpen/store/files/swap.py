"""Puts files in place without losing what another program wrote at that very moment.

Claude Code 2.1.41 changes tasks and configs without any lock, so a check under Bullpen's locks
proves nothing about the moment after it. So the new file is swapped with the old one in one step,
and the file that came out is compared with what was expected.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import json_text
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    PutMember,
    PutNote,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.clock import now_ms
from bullpen.protocol.record.note import NOTE_BYTES_MAX, Note
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.files import foreign, notes
from bullpen.store.files.commit_plan import CommitPlan, change_config
from bullpen.store.files.disk import Disk, read_bytes

_PATIENCE_S = 0.3

_CONFIG_CHANGES = (PutMember, RemoveMember, PutTeam)


def swap(disk: Disk, temp: str, path: str, *, keep: bool) -> bytes | None:
    """Put `temp` in the place of `path`, or nothing unless `keep`. Returns what was there."""
    try:
        if not keep:
            disk.rename(path, temp)
        elif not disk.exchange(temp, path):
            found = read_bytes(path)
            disk.rename(temp, path)
            return found
    except FileNotFoundError:
        if keep:
            disk.rename(temp, path)
        return None
    found = _settled(temp)
    disk.unlink(temp)
    return found


def _settled(path: str) -> bytes:
    """Return a file's content; one that was just truncated is about to be written."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (data := read_bytes(path)) and time.monotonic() < deadline:
        time.sleep(0.005)
    return data


def swap_note(disk: Disk, temp: str, path: str, *, keep: bool) -> bytes | None:
    """Put a note's file in place. What was there and cannot be a note is removed."""
    try:
        return swap(disk, temp, path, keep=keep)
    except Unreadable:
        notes.remove_swapped(disk, temp, path)
        return None


@dataclass(frozen=True, slots=True)
class Surprise:
    """What another program wrote at the same time, and what happens to it."""

    theirs: tuple[Change, ...]
    ours: tuple[Change, ...]
    files: dict[str, bytes]


def surprise(plan: CommitPlan, path: str, found: bytes | None) -> Surprise | None:
    """Compare what was replaced with what the plan expected."""
    before = plan.expected[path]
    if os.path.dirname(path) == plan.paths.notes:
        return _in_note(plan, os.path.basename(path)[:-3], before, found)
    try:
        theirs = None if found is None else json_text.loads(found)
        if theirs == before:
            return None
        if path == plan.paths.config:
            return _in_config(plan, before or {}, theirs)
        return _in_task(plan, os.path.basename(path)[:-5], before, theirs)
    except ValueError:
        return None  # An incomplete file from a program that died writing it: nothing to keep.


def _in_task(
    plan: CommitPlan, task_id: str, before: dict[str, Any] | None, theirs: Any
) -> Surprise:
    seen: Change = DeleteTask(task_id) if theirs is None else PutTask(Task.parse(theirs))
    path = plan.paths.task(task_id)
    (last,) = [
        change
        for change in plan.changes
        if (isinstance(change, PutTask) and change.task.id == task_id)
        or (isinstance(change, DeleteTask) and change.task_id == task_id)
    ][-1:]
    if before is None or theirs is None or isinstance(last, DeleteTask):
        return Surprise((seen,), (last,), {})
    assert isinstance(last, PutTask)
    merged = dict(theirs)
    ours = last.task.raw
    for key in {**before, **ours}:
        if ours.get(key) != before.get(key):
            merged[key] = ours.get(key)
            if key not in ours:
                del merged[key]
    task = Task.parse(merged)
    return Surprise((seen,), (PutTask(task),), {path: task.dump()})


def _in_note(
    plan: CommitPlan, name: str, before: dict[str, Any] | None, found: bytes | None
) -> Surprise | None:
    """Keep both: what another program saved is the next version, because it cannot be told."""
    (ours,) = [
        change.note
        for change in plan.changes
        if isinstance(change, PutNote) and change.note.name == name
    ][-1:]
    if found is None or len(found) > NOTE_BYTES_MAX:
        return None
    try:
        text = found.decode()
    except UnicodeDecodeError:
        return None
    if not text.strip() or text in ("" if before is None else before["text"], ours.text):
        return None
    theirs = notes.current(name, ours, notes.NoteFile(text, now_ms()))
    assert isinstance(theirs, Note)
    files = {path: data for path, data in notes.files_of(plan.paths, theirs).items() if data}
    return Surprise((PutNote(theirs),), (), files)


def _in_config(plan: CommitPlan, before: dict[str, Any], theirs: Any) -> Surprise:
    after = TeamConfig.parse(theirs)
    seen = foreign.config_changes(TeamConfig.parse(before), after)
    ours: Sequence[Change] = [each for each in plan.changes if isinstance(each, _CONFIG_CHANGES)]
    for change in ours:
        assert isinstance(change, _CONFIG_CHANGES)
        after = change_config(CommitPlan(plan.paths, ()), after, change)
    return Surprise(tuple(seen), tuple(ours), {plan.paths.config: after.dump()})
