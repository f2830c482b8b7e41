"""Reads backlogs, and finds the entries that are not tasks yet.

Every entry has a permanent key, so reading a source again adds only new entries. A task stays as it
is when its entry changes or disappears.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import anyio

from bullpen.errors import Invalid, Unreadable
from bullpen.protocol.task import Check, Effort, Shaped, Task
from bullpen.runs.teamfile.backlog.command import entries_by
from bullpen.runs.teamfile.backlog.entries import BacklogEntry, check_entry, wrong
from bullpen.runs.teamfile.backlog.files import entries_in, read_text
from bullpen.runs.teamfile.backlog.markdown_list import entries_of
from bullpen.runs.teamfile.tables import BacklogTable, as_checks
from bullpen.team.tasks.check_rules import stated
from bullpen.team.tasks.drafts import Draft

MARKDOWN = "markdown:"
"""The prefix of the source of an item of a Markdown list; its file, `#` and its key follow."""

TASK = "task:"
"""The prefix of the source of a task in the team file itself; its id follows."""


@dataclass(frozen=True, slots=True)
class Item:
    """A task of a team file or backlog. `source` is its permanent key."""

    source: str
    subject: str
    description: str = ""
    needs: tuple[str, ...] = ()
    effort: Effort | None = None
    checks: tuple[Check, ...] = ()
    # The sources of the tasks that it depends on.
    after: tuple[str, ...] = ()
    budget: Mapping[str, float | None] | None = None
    owner: str | None = None
    # Its place, for errors.
    where: str = ""
    # Whether a dependency may be missing from its source, because it is done.
    may_be_gone: bool = False
    shape: Shaped | None = None


async def read_backlog(
    table: BacklogTable, folder: Path, *, environ: Mapping[str, str]
) -> list[Item]:
    """Return the open entries of one source, in order. Paths are relative to `folder`.

    Raises:
        Unavailable: the source cannot be read, or its command failed.
        Invalid: an entry cannot be a task; the text says which.
    """
    prefix, entries = await _entries(table, folder, environ)
    keys: dict[str, BacklogEntry] = {}
    for entry in entries:
        before = keys.setdefault(entry.key, entry)
        if before is not entry:
            raise wrong(entry.where, f"{before.where} has the same id {entry.key!r}")
    names = _names(entries)
    closed = {entry.key for entry in entries if entry.state == "closed"}
    items = []
    for entry in entries:
        if entry.state == "open":
            check_entry(entry)
            known = {
                each: names[_plain(each)] for each in entry.fields.after if _plain(each) in names
            }
            after = [
                f"{prefix}{known[each]}" if each in known else _elsewhere(each, prefix, table)
                for each in entry.fields.after
                if known.get(each) not in closed
            ]
            items.append(_item(table, entry, prefix, after))
    return items


def new_drafts(items: Sequence[Item], tasks: Iterable[Task]) -> list[Draft]:
    """Return the items that are not tasks yet, each after those that it depends on.

    Raises:
        Invalid: an item depends on something unknown, or some depend on each other in a circle.
    """
    there = {task.facts.source: task.id for task in tasks if task.facts.source is not None}
    new = {item.source: item for item in items if item.source not in there}
    waits = {item.source: _waits(item, there, new) for item in new.values()}
    places: dict[str, str] = {}
    drafts: list[Draft] = []
    for source in _in_order(waits, new):
        item = new[source]
        places[source] = f"@{len(drafts)}"
        drafts.append(
            Draft(
                item.subject,
                item.description,
                blocked_by=[there.get(each) or places[each] for each in waits[source]],
                owner=item.owner,
                checks=item.checks,
                needs=item.needs,
                effort=item.effort,
                source=source,
                budget=item.budget,
                shape=item.shape,
            )
        )
    return drafts


async def _entries(
    table: BacklogTable, folder: Path, environ: Mapping[str, str]
) -> tuple[str, list[BacklogEntry]]:
    """Return the prefix of the sources of a table's tasks, and its entries."""
    if table.markdown is not None:
        path = folder / table.markdown
        text = await anyio.to_thread.run_sync(read_text, path)
        if text is None:
            raise Unreadable(str(path), "it is not a text file", remedy="Name a Markdown file.")
        found = entries_of(text, str(path), table.heading)
        return f"{MARKDOWN}{table.markdown}#", found
    if table.directory is not None:
        where = folder / table.directory
        listed = await anyio.to_thread.run_sync(entries_in, where, str(where))
        return f"directory:{table.directory.rstrip('/')}#", listed
    command = table.command or ""
    mark = hashlib.sha256(command.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    printed = await entries_by(command, folder, environ=environ, timeout_s=table.timeout_s)
    return f"command:{mark}#", printed


def _names(entries: Sequence[BacklogEntry]) -> dict[str, str]:
    """Return the keys of the entries by all names for them: key, file, subject."""
    names: dict[str, str] = {}
    for entry in reversed(entries):
        names[_plain(entry.subject)] = entry.key
    for entry in entries:
        names.setdefault(_plain(entry.key.rpartition(".")[0] or entry.key), entry.key)
    return names | {_plain(entry.key): entry.key for entry in entries}


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _elsewhere(name: str, prefix: str, table: BacklogTable) -> str:
    """Return the source for a name that no entry of this backlog has."""
    if table.command is not None:
        return f"{prefix}{name}"
    return f"{TASK}{name}"


def _item(table: BacklogTable, entry: BacklogEntry, prefix: str, after: Sequence[str]) -> Item:
    fields = entry.fields
    given = table.checks if fields.checks is None else fields.checks
    checks = tuple(as_checks(given))
    try:
        stated(checks)
    except Invalid as error:
        raise Invalid(f"{entry.where}: {error.message}", remedy=error.remedy) from None
    budget = fields.budget or table.budget
    return Item(
        source=f"{prefix}{entry.key}",
        subject=entry.subject,
        description=entry.description,
        needs=tuple(table.needs if fields.needs is None else fields.needs),
        effort=fields.effort or table.effort,
        checks=checks,
        after=tuple(dict.fromkeys(after)),
        budget=None if budget is None else budget.model_dump(),
        where=entry.where,
        may_be_gone=table.command is not None,
    )


def _waits(item: Item, there: Mapping[str, str], new: Mapping[str, Item]) -> list[str]:
    """Return the sources that an item depends on and that are or become tasks."""
    waits = [each for each in item.after if each in there or each in new]
    missing = [each for each in item.after if each not in waits]
    if missing and not item.may_be_gone:
        name = missing[0].removeprefix(TASK)
        raise wrong(
            item.where or item.source,
            f"it depends on {name!r}, which is neither an entry of this backlog nor a [[task]]",
        )
    return waits


def circle_in(waits: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of a circle in which each waits for the next, or an empty list."""
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        circle = error.args[1][:0:-1]
        first = min(map(list(waits).index, circle))
        start = circle.index(list(waits)[first])
        return [*circle[start:], *circle[:start]]
    return []


def _in_order(waits: Mapping[str, Sequence[str]], new: Mapping[str, Item]) -> list[str]:
    """Return the sources, each after those that it waits for, else in their order."""
    if circle := circle_in(waits):
        names = ", ".join(repr(new[each].subject) for each in circle)
        raise wrong(
            new[circle[0]].where or circle[0],
            f"these tasks depend on each other in a circle: {names}",
        )
    ordered: dict[str, None] = {}
    for start in waits:
        # Without recursion: a chain can be as long as a list.
        stack = [start]
        while stack:
            left = [each for each in waits[stack[-1]] if each in waits and each not in ordered]
            if left:
                stack.append(left[0])
            else:
                ordered[stack.pop()] = None
    return list(ordered)
