"""Finding and mending damage: orphan locks, half-done commits, unreadable files, bad rows.

Nothing is thrown away: what cannot be read moves to `.bullpen/quarantine/`, and the last version
the log knows takes its place.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import jsontext
from bullpen.protocol.changes import Deliver, Event
from bullpen.protocol.message import Message
from bullpen.protocol.roster import TeamConfig
from bullpen.store.base import Finding, Problem
from bullpen.store.files import checkup_log, checkup_own, foreign, log, mailbox, quarantine
from bullpen.store.files.disk import TEMP_SUFFIX, Disk, list_folder, read_bytes
from bullpen.store.files.locks import STALE_S, break_if_dead, is_ours
from bullpen.store.files.mail import parse_rows
from bullpen.store.files.nonce import nonce
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.writer import TeamFiles, Writer, remove_tree
from bullpen.store.fold import Folded, fold

_TOO_DEEP_MAX = 20
"""How often a search for messages may run into objects that nest too deeply."""


def bad_member_rows(paths: TeamPaths, config: TeamConfig) -> tuple[Problem, ...]:
    """The rows of a config that are no members."""
    return tuple(Problem(f"{paths.config} members[{index}]", why) for index, why in config.bad_rows)


def run(files: TeamFiles, *, fix: bool) -> list[Finding]:
    """Everything wrong with a team's files; mended where `fix` says so."""
    paths, disk = files.paths, files.disk
    found = list(checkup_own.in_the_way_of_the_lock(paths, disk, fix=fix))
    try:
        if fix:
            files.ensure_own()
    except Unreadable:
        pass  # Reported below: no log of ours knows what was in it.
    if not (os.path.isdir(paths.own) and (fix or not found)):
        return [*found, *_locks(paths, disk, held=False, fix=False), *_records(files, None)]
    with files.writing(recover=False) as writer:
        found += checkup_own.in_the_way(paths, disk, fix=fix)
        has_log = not any(each.where == paths.events and not each.fixed for each in found)
        if has_log:
            found += checkup_log.damaged_lines(writer, fix=fix)
        found += _locks(paths, disk, held=True, fix=fix)
        found += _temporary(paths, disk, fix=fix)
        found += _records(files, writer if fix else None)
        found += checkup_own.unreadable(writer, fix=fix)
        # Only now can everything be read that a half-done commit may have to be added to.
        if has_log:
            found += checkup_log.half_done(writer, fix=fix)
        if fix:
            files.ledger = None
            with suppress(Unreadable):  # What cannot be mended is among the findings.
                writer.observe()
    return found


def _locks(paths: TeamPaths, disk: Disk, *, held: bool, fix: bool) -> Iterable[Finding]:
    for path in _entries((paths.root, paths.inboxes, paths.tasks)):
        if not path.endswith(".lock") or path == paths.tasks_lock_file:
            continue
        found = os.lstat(path)
        if (held and is_ours(found)) or time.time() - found.st_mtime > STALE_S:
            yield Finding(
                "orphan_lock",
                path,
                "its holder is dead",
                fixed=fix and break_if_dead(path, disk),
                action="removed it" if fix else "",
            )


def _temporary(paths: TeamPaths, disk: Disk, *, fix: bool) -> Iterable[Finding]:
    """Files that a dead process was about to put in place. The lock is held: nobody's alive are."""
    for path in _entries((paths.root, paths.inboxes, paths.tasks, paths.own, paths.requests)):
        if path.endswith(TEMP_SUFFIX):
            if fix:
                disk.unlink(path)
            yield Finding(
                "leftover", path, "a dead process left it", fixed=fix, action="removed it" * fix
            )


def _entries(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        # What is no folder is reported as being in the way.
        with suppress(Unreadable):
            yield from (os.path.join(folder, name) for name in sorted(list_folder(folder)))


def _records(files: TeamFiles, writer: Writer | None) -> Iterable[Finding]:
    """Files and rows that cannot be read; mended if there is a writer."""
    paths = files.paths
    known = _Known(writer)
    try:
        yield from _bad_rows(files, files.records.config(), writer)
    except Unreadable as error:
        yield _restore(writer, paths.config, error.why, known.config)
    for problem in _problems(files.records.tasks):
        task_id = os.path.basename(problem.where)[:-5]
        yield _restore(writer, problem.where, problem.why, partial(known.task, task_id))
    for problem in _problems(files.records.requests):
        request_id = os.path.basename(problem.where)[:-5]
        yield _restore(writer, problem.where, problem.why, partial(known.request, request_id))
    for path in _entries((paths.inboxes,)):
        if foreign.is_inbox(os.path.basename(path)):
            yield from _inbox(path, writer, known)


def _problems(read: Callable[[], tuple[object, tuple[Problem, ...]]]) -> tuple[Problem, ...]:
    with suppress(Unreadable):
        return read()[1]
    return ()  # The folder is none, which is reported as being in the way.


class _Known:
    """The records as the log last had them; read only when something must be restored."""

    def __init__(self, writer: Writer | None) -> None:
        self._writer = writer
        self._folded: Folded[dict[str, Any]] | None = None
        self._events: list[Event] = []

    def _fold(self) -> Folded[dict[str, Any]]:
        if self._folded is None and self._writer is not None:
            path, stop = self._writer.paths.events, self._writer.log.head.size
            lines = log.lines_after(path, 0, stop) if stop else ()
            self._events = [Event.decode(raw) for raw in lines]
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
        raw = self._fold().tasks.get(task_id)
        return jsontext.dumps(raw) if raw is not None else None

    def request(self, request_id: str) -> bytes | None:
        raw = self._fold().requests.get(request_id)
        return jsontext.dumps(raw) if raw is not None else None

    def mail(self, path: str) -> dict[str, tuple[Message, bool]]:
        """The messages that were ever delivered to an inbox, and whether they lie there unread."""
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


def _restore(
    writer: Writer | None, path: str, why: str, known: Callable[[], bytes | None]
) -> Finding:
    if writer is None:
        return Finding("unreadable", path, why)
    text = known()
    if text is None and path == writer.paths.config:
        return Finding("unreadable", path, f"{why}; the log does not know this team either")
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
    action = "moved it to the quarantine"
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
            taken = jsontext.dumps([rows[index] for index in sorted(bad)])
            quarantine.keep(files.paths, writer.disk, files.paths.config, taken)
            kept = [row for index, row in enumerate(rows) if index not in bad]
            text = config.with_rows(kept).dump()
            writer.disk.replace(files.paths.config, text, nonce=nonce())
            writer.disk.sync_dir(files.paths.root)
    for problem in bad_member_rows(files.paths, config):
        fixed = writer is not None
        action = "moved it to the quarantine" if fixed else ""
        yield Finding("bad_row", problem.where, problem.why, fixed=fixed, action=action)


def _inbox(path: str, writer: Writer | None, known: _Known) -> Iterable[Finding]:
    try:
        rows = mailbox.read_rows(path)
        bad = [row for row in rows if not _is_message(row)]
        if not bad:
            return
        what = f"{len(bad)} row(s) are no messages"
    except Unreadable as error:
        what = error.why
    kind = "bad_row" if what.endswith("no messages") else "unreadable"
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
        writer.disk.replace(path, jsontext.dumps(rows), nonce=nonce())
        writer.disk.sync_dir(os.path.dirname(path))
    action = f"kept {len(good)} message(s), moved the rest to the quarantine"
    if lost:
        action += f", restored {len(lost)} unread message(s) from the log"
    yield Finding(kind, path, what, fixed=True, action=action)


def _unspoilt(row: dict[str, Any], logged: Mapping[str, tuple[Message, bool]]) -> dict[str, Any]:
    """A message out of a damaged file, with the words that the log has of it."""
    message = Message.parse(row)
    known = logged.get(message.id)
    return row if known is None else known[0].evolve(read=message.read).raw


def _taken_apart(path: str, writer: Writer) -> list[Any]:
    """The messages of an inbox; all the rest of it is in the quarantine then."""
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
    quarantine.keep(writer.paths, writer.disk, path, jsontext.dumps(bad))
    return [row for row in rows if _is_message(row)]


def _is_message(row: Any) -> bool:
    try:
        Message.parse(row)
    except ValueError:
        return False
    return not jsontext.too_deep(row, jsontext.DEPTH_MAX - 1)


def _salvaged(data: bytes) -> list[Any]:
    """Every whole message that can still be found in a damaged array."""
    text = data.decode("utf-8", "replace")
    decoder, rows, at, too_deep = json.JSONDecoder(), [], 0, 0
    while (at := text.find("{", at)) >= 0 and too_deep < _TOO_DEEP_MAX:
        try:
            row, end = decoder.raw_decode(text, at)
        except ValueError:
            at += 1
        except RecursionError:
            # Nobody nests messages: go on where the first of all these objects ends.
            too_deep += 1
            at = text.find("}", at) if "}" in text[at:] else len(text)
        else:
            if _is_message(row):
                rows.append(row)
            at = end if _is_message(row) else at + 1
    return rows


def leftovers(home: str, disk: Disk, *, fix: bool) -> list[Finding]:
    """The remains of teams that were made or deleted by halves."""
    found = []
    for path in _entries((os.path.join(home, "teams"), os.path.join(home, "tasks"))):
        name = os.path.basename(path)
        if not name.startswith("."):
            continue
        half_made = ".new-" in name and time.time() - os.lstat(path).st_mtime > 60
        if half_made or ".gone-" in name:
            if fix:
                remove_tree(path, disk)
            what = "a team that was never finished" if half_made else "a team that was deleted"
            found.append(Finding("leftover", path, what, fixed=fix, action="removed it" * fix))
    return found
