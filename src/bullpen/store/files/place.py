"""Putting files in place without losing what another program wrote there at that very moment.

Version 2.1.41 of the real program changes tasks and configs without any lock, so a look under our
locks proves nothing about the moment after it. The new file therefore changes places with the old
one in one step, and what came out is compared with what was expected there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.protocol import jsontext
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    PutMember,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.store.files import foreign
from bullpen.store.files.disk import Disk, read_bytes
from bullpen.store.files.plan import Plan, change_config

_PATIENCE_S = 0.3

_CONFIG_CHANGES = (PutMember, RemoveMember, PutTeam)


def swap(disk: Disk, temp: str, path: str, *, keep: bool) -> bytes | None:
    """Put `temp` in the place of `path`, or nothing unless `keep`; what was there."""
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
    """A file's content; one that was just truncated is about to be written."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (data := read_bytes(path)) and time.monotonic() < deadline:
        time.sleep(0.005)
    return data


@dataclass(frozen=True, slots=True)
class Surprise:
    """What another program wrote while we did, and what becomes of it."""

    theirs: tuple[Change, ...]
    ours: tuple[Change, ...]
    files: dict[str, bytes]


def surprise(plan: Plan, path: str, found: bytes | None) -> Surprise | None:
    """Compare what came out of a file's place with what the plan expected there."""
    before = plan.expected[path]
    try:
        theirs = None if found is None else jsontext.loads(found)
        if theirs == before:
            return None
        if path == plan.paths.config:
            return _in_config(plan, before or {}, theirs)
        return _in_task(plan, os.path.basename(path)[:-5], before, theirs)
    except ValueError:
        return None  # Half a file, of a program that died over it: nothing to keep.


def _in_task(plan: Plan, task_id: str, before: dict[str, Any] | None, theirs: Any) -> Surprise:
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


def _in_config(plan: Plan, before: dict[str, Any], theirs: Any) -> Surprise:
    after = TeamConfig.parse(theirs)
    seen = foreign.config_changes(TeamConfig.parse(before), after)
    ours: Sequence[Change] = [each for each in plan.changes if isinstance(each, _CONFIG_CHANGES)]
    for change in ours:
        assert isinstance(change, _CONFIG_CHANGES)
        after = change_config(Plan(plan.paths, ()), after, change)
    return Surprise(tuple(seen), tuple(ours), {plan.paths.config: after.dump()})
