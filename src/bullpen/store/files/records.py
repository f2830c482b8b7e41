"""Reads a team's records as they are on disk now.

Other programs write some of these files in place, so a reader can meet an incomplete file. A file
that does not parse and was just touched is read again for a moment before it counts as damaged.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

from bullpen.errors import Invalid, Unavailable, Unreadable
from bullpen.protocol import json_text, names
from bullpen.protocol.presence import Presence
from bullpen.protocol.record import Wire
from bullpen.protocol.record.note import NOTES_MAX, Note, is_note_name
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Problem
from bullpen.store.files import notes
from bullpen.store.files.disk import list_folder, read_bytes, read_with_status
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.watch.changed_names import ChangedNames
from bullpen.store.record_checks import no_team, not_asked

_PATIENCE_S = 0.3
_JUST_NOW_S = 2.0
# A file that changes twice within the clock's resolution has one mtime. So a file that was read
# this soon after it was written is read again.
_GRAIN_NS = 20_000_000
_MANY_TASKS = 100

R = TypeVar("R", bound=Wire)
N = TypeVar("N", Task, Request)


class Stamp(NamedTuple):
    """Changes whenever a file does."""

    ino: int
    size: int
    mtime_ns: int


class _Cached(NamedTuple, Generic[R]):
    stamp: Stamp
    read_ns: int
    record: R

    def is_good(self, now: os.stat_result) -> bool:
        """Return whether the file is still what was read."""
        stamp = self.stamp
        return (
            now.st_mtime_ns == stamp.mtime_ns
            and now.st_ino == stamp.ino
            and now.st_size == stamp.size
            and self.read_ns - stamp.mtime_ns > _GRAIN_NS
        )


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp in a file's status."""
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


class FileLook(NamedTuple):
    """A file just before it is read; `lasts` if any later change must change the stamp."""

    stamp: Stamp
    lasts: bool


def look_at(path: str) -> FileLook | None:
    """Return the stamp of a file, or None if there is none."""
    now = time.time_ns()
    try:
        stamp = stamp_of(os.stat(path))
    except OSError:
        return None
    return FileLook(stamp, now - stamp.mtime_ns > _GRAIN_NS)


class Records:
    """The records of one team, cached while their files do not change."""

    def __init__(self, paths: TeamPaths) -> None:
        self.paths = paths
        self._cache: dict[str, _Cached[Any]] = {}
        self._guard = threading.Lock()
        self._tasks_folder = os.path.join(paths.tasks, "")
        self._changed = ChangedNames(paths.tasks)
        # Replaced, never changed: readers have them.
        self._tasks: dict[str, Task] = {}
        self._problems: dict[str, Problem] = {}
        self._listed: list[str] = []
        self._in_order: list[str] = []
        _all_records.add(self)

    def close(self) -> None:
        """Release what tells which tasks changed."""
        with self._guard:
            self._changed.close()

    def forget(self) -> None:
        """Take no part in what the parent process was doing, in a forked child."""
        self._guard = threading.Lock()

    def config(self) -> TeamConfig:
        """Return the team. Raises NotFound if there is none."""
        config = self._load(self.paths.config, TeamConfig.parse)
        if config is None:
            raise no_team(self.paths.name)
        return config

    def task(self, task_id: str) -> Task | None:
        """Return one task."""
        return self._load(self.paths.task(task_id), _named(task_id, Task))

    def request(self, request_id: str) -> Request | None:
        """Return one request."""
        return self._load(self.paths.request(request_id), _named(request_id, Request, not_asked))

    def note(self, name: str) -> Note | None:
        """Return the last version of a note, which another program may have written just now."""
        return notes.current(name, self.noted(name), self.note_file(name))

    def noted(self, name: str) -> Note | None:
        """Return the last version of a note that has a record."""
        return self._load(self.paths.note_record(name), _named_note(name))

    def note_file(self, name: str) -> notes.NoteFile | None:
        """Return what is in a note's file. One that has not changed is not read again."""
        notes.check_folder(self.paths)
        path = self.paths.note(name)
        remembered: notes.NoteFile | None = self._remembered(path)
        if remembered is not None:
            return remembered
        look = look_at(path)
        found = notes.read_file(path)
        if look is not None and look.lasts and found is not None:
            self._cache[path] = _Cached(look.stamp, look.stamp.mtime_ns + _GRAIN_NS + 1, found)
        return found

    def notes(self) -> notes.FoundNotes:
        """Return all notes by name, what of them is new, and the files that are not notes."""
        found: dict[str, Note] = {}
        strange: list[Note] = []
        problems: list[Problem] = []
        try:
            known = [stem for stem in _stems(self.paths.note_records) if is_note_name(stem)]
            there, problems = notes.file_names(self.paths)
        except Unreadable as error:
            return notes.FoundNotes({}, [], (Problem(error.path, error.why),))
        new = [name for name in there if name not in known]
        room = max(NOTES_MAX - len(known), 0)
        problems += [
            Problem(self.paths.note(name), f"a team has at most {NOTES_MAX} notes")
            for name in new[room:]
        ]
        for name in sorted([*known, *new[:room]]):
            try:
                note = self.note(name)
                if note is not None:
                    found[name] = note
                    if note != self.noted(name):
                        strange.append(note)
            except Unreadable as error:
                problems.append(Problem(error.path, error.why))
        return notes.FoundNotes(found, strange, tuple(problems))

    def find(self, kind: str, key: str) -> Wire | None:
        """Return the task, request or member with that key, or the whole team."""
        match kind:
            case "task":
                return self.task(key)
            case "request":
                return self.request(key)
            case "note":
                return self.note(key)
            case "member":
                return self.config().member(key)
            case _:
                return self.config()

    def tasks(self) -> tuple[dict[str, Task], tuple[Problem, ...]]:
        """Return all tasks by id, in id order, and the files that are not tasks."""
        with self._guard:
            try:
                # In a short list, a look at each file costs less than being told of changes.
                changed = self._changed.take() if len(self._tasks) >= _MANY_TASKS else None
                if changed is None:
                    self._look_at_all()
                else:
                    self._look_at(changed)
            except BaseException:
                self._changed.close()  # The names that were taken still have to be looked at.
                raise
            return self._tasks, tuple(self._problems.values())

    def _look_at_all(self) -> None:
        tasks: dict[str, Task] = {}
        self._problems = {}
        stems = _stems(self.paths.tasks)
        unchanged = self._unchanged(stems) if self._cache else {}
        if self._listed != stems:
            self._listed, self._in_order = stems, sorted(stems, key=names.task_order)
        with no_collection() if len(stems) - len(unchanged) > _MANY_TASKS else nullcontext():
            for stem in self._in_order:
                task = unchanged.get(stem) or self._task_in(stem)
                if task is not None:
                    tasks[stem] = task
        self._tasks = tasks

    def _look_at(self, changed: set[str]) -> None:
        stems = [stem for name in changed if (stem := _stem(name))]
        if not stems:
            return
        tasks, self._problems = dict(self._tasks), dict(self._problems)
        last = names.task_order(next(reversed(tasks)))
        in_order = True
        for stem in sorted(stems, key=names.task_order):
            self._problems.pop(stem, None)
            task = self._task_in(stem)
            if task is None:
                tasks.pop(stem, None)
                continue
            in_order = in_order and (stem in tasks or names.task_order(stem) > last)
            tasks[stem] = task
        if not in_order:
            tasks = {key: tasks[key] for key in sorted(tasks, key=names.task_order)}
        self._tasks = tasks

    def _task_in(self, stem: str) -> Task | None:
        """Return the task in a file; None if there is none, or a problem with it."""
        path = f"{self._tasks_folder}{stem}.json"
        try:
            return self._load(path, _named(names.check_task_id(stem), Task))
        except Unreadable as error:
            self._problems[stem] = Problem(error.path, error.why)
        except Invalid:
            if os.path.lexists(path):
                self._problems[stem] = Problem(path, "its name is not a task id")
        return None

    def _unchanged(self, stems: list[str]) -> dict[str, Task]:
        """Return the tasks whose files have not changed. Reading their folder is quicker."""
        if os.stat not in os.supports_dir_fd:
            return {}
        try:
            folder = os.open(self.paths.tasks, os.O_RDONLY)
        except OSError:
            return {}
        found: dict[str, Task] = {}
        remembered, look = self._cache.get, os.stat
        before = self._tasks_folder
        try:
            for stem in stems:
                cached = remembered(f"{before}{stem}.json")
                if cached is None:
                    continue
                try:
                    now = look(f"{stem}.json", dir_fd=folder)
                except OSError:
                    continue
                if cached.is_good(now):
                    found[stem] = cached.record
        finally:
            os.close(folder)
        return found

    def requests(self) -> tuple[dict[str, Request], tuple[Problem, ...]]:
        """Return all requests by id, and the files that are not requests."""
        requests: dict[str, Request] = {}
        problems: list[Problem] = []
        for stem in sorted(_stems(self.paths.requests)):
            path = os.path.join(self.paths.requests, f"{stem}.json")
            try:
                request = self._load(path, _named(stem, Request, not_asked))
            except Unreadable as error:
                problems.append(Problem(error.path, error.why))
                continue
            if request is not None:
                requests[request.id] = request
        return requests, tuple(problems)

    def presence(self) -> dict[str, Presence]:
        """Return the last heartbeat of every agent that ever sent one."""
        found: dict[str, Presence] = {}
        for stem in sorted(_stems(self.paths.presence)):
            path = os.path.join(self.paths.presence, f"{stem}.json")
            beat: Presence | None = self._remembered(path)
            if beat is None:
                beat = self._read_beat(path)
            if beat is not None:
                found[beat.agent] = beat
        return found

    def _read_beat(self, path: str) -> Presence | None:
        try:
            read_ns, beat = time.time_ns(), read_presence(path)
            status = os.stat(path)
        except FileNotFoundError:
            self._cache.pop(path, None)
            return None
        # If it was replaced since, its time is later than when this one was read.
        self._cache[path] = _Cached(stamp_of(status), read_ns, beat)
        return beat

    def task_exists(self, number: int) -> bool:
        """Return whether there is a file for that task, readable or not."""
        return os.path.lexists(self.paths.task(str(number)))

    def highest_task_id(self) -> int:
        """Return the highest number that is or was a task's id, as far as the files tell."""
        return max([self.high_water(), *map(number_of, _stems(self.paths.tasks))])

    def high_water(self) -> int:
        """Return the number in `.highwatermark`, which is written when tasks are deleted."""
        try:
            text = read_bytes(self.paths.high_water).strip()
        except FileNotFoundError:
            return 0
        return number_of(text.decode("ascii", "replace"))

    def _remembered(self, path: str) -> Any:
        """Return the record of a file that has not changed since it was read; None to read it."""
        cached = self._cache.get(path)
        if cached is not None:
            try:
                now = os.stat(path)
            except OSError:
                return None
            if cached.is_good(now):
                return cached.record
        return None

    def _load(self, path: str, parse: Callable[[Any], R]) -> R | None:
        remembered: R | None = self._remembered(path)
        if remembered is not None:
            return remembered
        try:
            return self._read(path, parse)
        except FileNotFoundError:
            self._cache.pop(path, None)
            return None
        except OSError as error:
            raise Unavailable(
                f"Cannot read {path}: {error.strerror}.",
                remedy="Check the permissions of the file and its folder.",
            ) from error

    def _read(self, path: str, parse: Callable[[Any], R]) -> R:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            read_ns = time.time_ns()
            status, data = read_with_status(path)
            try:
                record = parse(json_text.loads(data))
            except ValueError as error:
                fresh = read_ns - status.st_mtime_ns < _JUST_NOW_S * 1e9
                if fresh and time.monotonic() < deadline:
                    time.sleep(0.01)
                    continue
                raise Unreadable(path, _why(data, error)) from None
            self._cache[path] = _Cached(stamp_of(status), read_ns, record)
            return record


@contextmanager
def no_collection() -> Iterator[None]:
    """Let no garbage be looked for: reading makes none, and each look goes through all records."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _why(data: bytes, error: ValueError) -> str:
    if not data.strip():
        return "it is empty"
    try:
        json_text.loads(data)
    except ValueError:
        return f"it is not JSON ({error})"
    return str(error)


def _named(
    record_id: str, kind: type[N], lacks: Callable[[N], str] = lambda record: ""
) -> Callable[[Any], N]:
    """Return a parser that accepts a record only under its own name, and if it lacks nothing."""

    def parse(raw: Any) -> N:
        record = kind.parse(raw)
        if record.id != record_id:
            raise ValueError(f"its id is {record.id!r}")
        if lacking := lacks(record):
            raise ValueError(lacking)
        return record

    return parse


def _named_note(name: str) -> Callable[[Any], Note]:
    def parse(raw: Any) -> Note:
        note = Note.parse(raw)
        if note.name != name:
            raise ValueError(f"its name is {note.name!r}")
        return note

    return parse


def read_presence(path: str) -> Presence:
    """Return the last heartbeat of an agent."""
    try:
        return Presence.parse(json_text.loads(read_bytes(path)))
    except ValueError as error:
        raise Unreadable(path, str(error)) from None


def _stems(folder: str) -> list[str]:
    return [stem for name in list_folder(folder) if (stem := _stem(name))]


def _stem(name: str) -> str:
    """Return the name of a record's file without its ending; empty if it is another file."""
    return name[:-5] if name.endswith(".json") and not name.startswith(".") else ""


_all_records: weakref.WeakSet[Records] = weakref.WeakSet()


def _forget_all() -> None:
    for records in list(_all_records):
        records.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def number_of(task_id: str) -> int:
    """Return a task id as a number, to compute the next one; 0 if it is too large to count from."""
    counts = task_id.isascii() and task_id.isdigit() and len(task_id) < 16
    return int(task_id) if counts else 0
