"""Finds and repairs damage: stale locks, unfinished commits, unreadable files, bad rows.

Nothing is thrown away: unreadable files move to `.bullpen/quarantine/` and are replaced by the last
version in the log.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Deliver, Event
from bullpen.protocol.format_version import is_newer, may_write, newer_words
from bullpen.protocol.message import Message
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Finding, Problem
from bullpen.store.events.fold import Folded, fold
from bullpen.store.files import foreign
from bullpen.store.files.disk import TEMP_SUFFIX, Disk, list_folder, nonce, read_bytes
from bullpen.store.files.doctor import log_parts, log_repair, own_files, quarantine
from bullpen.store.files.locks import STALE_S, break_if_dead, is_ours
from bullpen.store.files.log import event_log
from bullpen.store.files.mail import read_mail
from bullpen.store.files.mail.inbox_file import parse_rows
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.writer import TeamFiles, Writer, remove_tree

_TOO_DEEP_MAX = 20
"""How many times a search for messages may meet objects that nest too deeply."""


def bad_member_rows(paths: TeamPaths, config: TeamConfig) -> tuple[Problem, ...]:
    """Return the rows of a config that are not members."""
    return tuple(Problem(f"{paths.config} members[{index}]", why) for index, why in config.bad_rows)


def run(files: TeamFiles, *, fix: bool) -> list[Finding]:
    """Return everything wrong with a team's files; with `fix`, repaired where possible."""
    paths, disk = files.paths, files.disk
    head = None
    with suppress(Unreadable):  # Reported as being in the way.
        head = event_log.read_head(paths.head)
    if head is not None and not may_write(head.format):
        what = newer_words("the team", head.format)
        return [Finding("newer_format", paths.head, f"{what}: upgrade Bullpen to check it")]
    found = list(own_files.in_the_way_of_the_lock(paths, disk, fix=fix))
    try:
        if fix:
            files.ensure_own()
    except Unreadable:
        pass  # Reported below: the log does not have its content.
    if not (os.path.isdir(paths.own) and (fix or not found)):
        return [*found, *_locks(paths, disk, held=False, fix=False), *_records(files, None)]
    with files.writing(recover=False) if fix else files.examining() as writer:
        found += own_files.in_the_way(paths, disk, fix=fix)
        has_log = not any(each.where == paths.events and not each.fixed for each in found)
        # What looks damaged in a home of a newer version may only be unknown to this one.
        newer = is_newer(writer.log.head.format)
        surely = fix and not newer
        if has_log:
            found += log_repair.damaged_lines(writer, fix=surely)
            found += log_parts.check(writer, fix=surely)
        found += _locks(paths, disk, held=True, fix=fix)
        found += _temporary(paths, disk, fix=fix)
        found += _unknown(newer, _records(files, writer if surely else None))
        found += _unknown(newer, own_files.unreadable(writer, fix=surely))
        # Only now can everything be read that an unfinished commit may have to be added to.
        if has_log:
            found += log_repair.half_done(writer, fix=fix)
        if fix:
            files.digests = None
            with suppress(Unreadable):  # Damage that cannot be repaired is among the findings.
                writer.observe()
                if not newer:
                    writer.retain()
    return found


def _unknown(newer: bool, found: Iterable[Finding]) -> Iterable[Finding]:
    """Say of damage in a home of a newer version that it may be none."""
    hint = "; a newer version of Bullpen may have written it: upgrade, then run doctor again"
    return (replace(each, what=each.what + hint) if newer else each for each in found)


def _locks(paths: TeamPaths, disk: Disk, *, held: bool, fix: bool) -> Iterable[Finding]:
    for path in _entries((paths.root, paths.inboxes, paths.tasks)):
        if not path.endswith(".lock") or path == paths.tasks_lock_file:
            continue
        found = os.lstat(path)
        if (held and is_ours(found)) or time.time() - found.st_mtime > STALE_S:
            yield Finding(
                "orphan_lock",
                path,
                "the process that held it is dead",
                fixed=fix and break_if_dead(path, disk),
                action="removed it" if fix else "",
            )


def _temporary(paths: TeamPaths, disk: Disk, *, fix: bool) -> Iterable[Finding]:
    """Find temporary files of dead processes. The lock is held, so no running process has any."""
    for path in _entries(
        (
            *(paths.root, paths.inboxes, paths.tasks, paths.own, paths.parts, paths.requests),
            *(paths.notes, paths.note_records),
        )
    ):
        if path.endswith(TEMP_SUFFIX):
            if fix:
                disk.unlink(path)
            what = "left behind by a dead process"
            yield quarantine.finding("leftover", path, what, "removed it", fix=fix)


def _entries(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        # Anything that is not a folder is reported as blocking one.
        with suppress(Unreadable):
            yield from (os.path.join(folder, name) for name in sorted(list_folder(folder)))


def _records(files: TeamFiles, writer: Writer | None) -> Iterable[Finding]:
    """Find files and rows that cannot be read. They are repaired if there is a writer."""
    paths = files.paths
    known = _Known(writer)
    try:
        yield from _bad_rows(files, files.records.config(), writer)
    except Unreadable as error:
        yield _restore(writer, paths.config, error.why, known.config)
    for read, last in (
        (files.records.tasks, known.task),
        (files.records.requests, known.request),
    ):
        for problem in _problems(read):
            key = os.path.basename(problem.where)[:-5]
            yield _restore(writer, problem.where, problem.why, partial(last, key))
    for problem in files.records.notes().problems:
        if problem.where != paths.notes:
            yield _restore(writer, problem.where, problem.why, partial(known.note, problem.where))
    for path in _entries((paths.inboxes,)):
        if foreign.is_inbox(os.path.basename(path)):
            yield from _inbox(path, writer, known)


def _problems(read: Callable[[], tuple[object, tuple[Problem, ...]]]) -> tuple[Problem, ...]:
    with suppress(Unreadable):
        return read()[1]
    return ()  # It is not a folder, which is reported as blocking one.


class _Known:
    """The records as the log last had them, read only when something must be restored."""

    def __init__(self, writer: Writer | None) -> None:
        self._writer = writer
        self._folded: Folded[dict[str, Any]] | None = None
        self._events: list[Event] = []

    def _fold(self) -> Folded[dict[str, Any]]:
        if self._folded is None and self._writer is not None:
            path, stop = self._writer.paths.events, self._writer.log.head.size
            lines = event_log.lines_after(path, 0, stop) if stop else ()
            self._events = [event_log.decoded(raw) for raw in lines]
            self._folded = fold(self._events)
        return self._folded or Folded()

    def config(self) -> bytes | None:
        folded = self._fold()
        raw = {**folded.team, "members": list(folded.members.values())}
        try:
            return TeamConfig.parse(raw).dump()
        except ValueError:
            return None

    def task(self, task_id: str) -> bytes | None:
        return _text(self._fold().tasks.get(task_id))

    def request(self, request_id: str) -> bytes | None:
        return _text(self._fold().requests.get(request_id))

    def note(self, path: str) -> bytes | None:
        """Return a note's file, or its record."""
        name, ending = os.path.splitext(os.path.basename(path))
        raw = self._fold().notes.get(name)
        if raw is None or ending == ".json":
            return _text(raw)
        return str(raw["text"]).encode() or None

    def mail(self, path: str) -> dict[str, tuple[Message, bool]]:
        """Return all messages ever delivered to an inbox, and whether they are unread in it."""
        folded = self._fold()
        return {
            change.message.id: (
                change.message,
                folded.mail.get(change.to, {}).get(change.message.id) in ("stored", "injected"),
            )
            for event in self._events
            for change in event.changes
            if isinstance(change, Deliver)
            and os.path.basename(path) == f"{foreign.stem_of(change.to)}.json"
        }


def _text(raw: dict[str, Any] | None) -> bytes | None:
    return json_text.dumps(raw) if raw is not None else None


def _restore(
    writer: Writer | None, path: str, why: str, known: Callable[[], bytes | None]
) -> Finding:
    if writer is None:
        return Finding("unreadable", path, why)
    text = known()
    if text is None and path == writer.paths.config:
        return Finding("unreadable", path, f"{why}; the log does not have this team either")
    with writer.file_locks([path]):
        if quarantine.is_file(path):
            quarantine.keep(writer.paths, writer.disk, path, read_bytes(path))
        else:
            quarantine.move(writer.paths, writer.disk, path)
        if text is None:
            writer.disk.unlink(path)
        else:
            writer.disk.replace(path, text, nonce=nonce())
        writer.disk.sync_dir(os.path.dirname(path))
    action = "moved it to quarantine"
    if text is not None:
        action += " and restored the last version in the log"
    return Finding("unreadable", path, why, fixed=True, action=action)


def _bad_rows(files: TeamFiles, config: TeamConfig, writer: Writer | None) -> Iterable[Finding]:
    if not config.bad_rows:
        return
    if writer is not None:
        with writer.file_locks([files.paths.config]):
            config = files.records.config()
            bad = {index for index, _ in config.bad_rows}
            rows = list(config.members)
            taken = json_text.dumps([rows[index] for index in sorted(bad)])
            quarantine.keep(files.paths, writer.disk, files.paths.config, taken)
            kept = [row for index, row in enumerate(rows) if index not in bad]
            text = config.with_rows(kept).dump()
            writer.disk.replace(files.paths.config, text, nonce=nonce())
            writer.disk.sync_dir(files.paths.root)
    for problem in bad_member_rows(files.paths, config):
        where, why, action = problem.where, problem.why, "moved it to quarantine"
        yield quarantine.finding("bad_row", where, why, action, fix=writer is not None)


def _inbox(path: str, writer: Writer | None, known: _Known) -> Iterable[Finding]:
    try:
        rows = read_mail.read_rows(path)
        bad = [row for row in rows if not _is_message(row)]
        if not bad:
            return
        what = f"{len(bad)} row(s) are not messages"
    except Unreadable as error:
        what = error.why
    kind = "bad_row" if what.endswith("are not messages") else "unreadable"
    if writer is None:
        yield Finding(kind, path, what)
        return
    with writer.file_locks([path]):
        good = _taken_apart(path, writer)
        here = {Message.parse(row).id for row in good}
        logged = known.mail(path) if kind == "unreadable" else {}
        good = [_unspoilt(row, logged) for row in good]
        lost = [m for m, unread in logged.values() if unread and m.id not in here]
        rows = [*good, *(message.raw for message in lost)]
        writer.disk.replace(path, json_text.dumps(rows), nonce=nonce())
        writer.disk.sync_dir(os.path.dirname(path))
    action = f"kept {len(good)} message(s), moved the rest to quarantine"
    if lost:
        action += f", restored {len(lost)} unread message(s) from the log"
    yield Finding(kind, path, what, fixed=True, action=action)


def _unspoilt(row: dict[str, Any], logged: Mapping[str, tuple[Message, bool]]) -> dict[str, Any]:
    """Return a message from a damaged file, with its text from the log."""
    message = Message.parse(row)
    known = logged.get(message.id)
    return row if known is None else known[0].evolve(read=message.read).raw


def _taken_apart(path: str, writer: Writer) -> list[Any]:
    """Return the messages of an inbox, and move everything else to quarantine."""
    if not quarantine.is_file(path):
        quarantine.move(writer.paths, writer.disk, path)
        return []
    data = read_bytes(path)
    try:
        rows = parse_rows(data, path)
    except Unreadable:
        quarantine.keep(writer.paths, writer.disk, path, data)
        return _salvaged(data)
    bad = [row for row in rows if not _is_message(row)]
    quarantine.keep(writer.paths, writer.disk, path, json_text.dumps(bad))
    return [row for row in rows if _is_message(row)]


def _is_message(row: Any) -> bool:
    try:
        Message.parse(row)
    except ValueError:
        return False
    return not json_text.too_deep(row, json_text.DEPTH_MAX - 1)


def _salvaged(data: bytes) -> list[Any]:
    """Return every complete message that can still be found in a damaged array."""
    text = data.decode("utf-8", "replace")
    decoder, rows, at, too_deep = json.JSONDecoder(), [], 0, 0
    while (at := text.find("{", at)) >= 0 and too_deep < _TOO_DEEP_MAX:
        try:
            row, end = decoder.raw_decode(text, at)
        except ValueError:
            at += 1
        except RecursionError:
            # Messages are not nested: continue after the end of the outermost object.
            too_deep += 1
            at = text.find("}", at) if "}" in text[at:] else len(text)
        else:
            if _is_message(row):
                rows.append(row)
            at = end if _is_message(row) else at + 1
    return rows


def leftovers(home: str, disk: Disk, *, fix: bool) -> list[Finding]:
    """Find the remains of partly created or partly deleted teams."""
    found = []
    for path in _entries((os.path.join(home, "teams"), os.path.join(home, "tasks"))):
        name = os.path.basename(path)
        if not name.startswith("."):
            continue
        half_made = ".new-" in name and time.time() - os.lstat(path).st_mtime > 60
        if half_made or ".gone-" in name:
            if fix:
                remove_tree(path, disk)
            state = "whose creation did not finish" if half_made else "that was deleted"
            what = f"a team {state}"
            found.append(quarantine.finding("leftover", path, what, "removed it", fix=fix))
    return found
