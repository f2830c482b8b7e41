"""Backlogs: the tasks that lists, folders and commands name, and which of them are new.

Every entry has a key that stays, so that reading a source again adds only what is new in it. An
entry that is gone, or that says something else now, leaves its task alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from bullpen.errors import Invalid, Unreadable
from bullpen.protocol.task import Check, Effort, Task
from bullpen.team.check_rules import stated
from bullpen.team.drafts import Draft
from bullpen.teamfile.entries import REMEDY, Entry, checked, wrong
from bullpen.teamfile.markdown_list import entries_of
from bullpen.teamfile.tables import BacklogTable, as_checks
from bullpen.teamfile.task_command import entries_by
from bullpen.teamfile.task_files import entries_in, read_text

TASK = "task:"
"""What the source of a task begins with that stands in a team file itself; its id follows."""


@dataclass(frozen=True, slots=True)
class Item:
    """A task that a file or backlog names. `source` is what it is known by for good."""

    source: str
    subject: str
    description: str = ""
    needs: tuple[str, ...] = ()
    effort: Effort | None = None
    checks: tuple[Check, ...] = ()
    # The sources of those that it waits for.
    after: tuple[str, ...] = ()
    budget: Mapping[str, float | None] | None = None
    owner: str | None = None
    # Its place, for messages.
    where: str = ""
    # What it waits for may be gone from its source, because it is done.
    may_be_gone: bool = False


async def read_backlog(
    table: BacklogTable, folder: Path, *, environ: Mapping[str, str]
) -> list[Item]:
    """The open entries of one source, in its order. Paths in the table are relative to `folder`.

    Raises:
        Unavailable: the source cannot be read, or its command failed.
        Invalid: an entry is not one that can be a task; the text says which.
    """
    prefix, entries = await _entries(table, folder, environ)
    keys: dict[str, Entry] = {}
    for entry in entries:
        before = keys.setdefault(entry.key, entry)
        if before is not entry:
            raise wrong(entry.where, f"{before.where} has the same id {entry.key!r}")
    names = _names(entries)
    closed = {entry.key for entry in entries if entry.state == "closed"}
    items = []
    for entry in entries:
        if entry.state == "open":
            checked(entry)
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
    """The items that are no task yet, each after those that it waits for.

    Raises:
        Invalid: an item waits for what is nowhere, or some wait for each other in a circle.
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
            )
        )
    return drafts


async def _entries(
    table: BacklogTable, folder: Path, environ: Mapping[str, str]
) -> tuple[str, list[Entry]]:
    """What the sources of a table's tasks begin with, and its entries."""
    if table.markdown is not None:
        path = folder / table.markdown
        text = await anyio.to_thread.run_sync(read_text, path)
        if text is None:
            raise Unreadable(str(path), "it is no text", remedy="Name a Markdown file.")
        found = entries_of(text, str(path), table.heading)
        return f"markdown:{table.markdown}#", found
    if table.directory is not None:
        where = folder / table.directory
        listed = await anyio.to_thread.run_sync(entries_in, where, str(where))
        return f"directory:{table.directory.rstrip('/')}#", listed
    command = table.command or ""
    mark = hashlib.sha256(command.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    printed = await entries_by(command, folder, environ=environ, timeout_s=table.timeout_s)
    return f"command:{mark}#", printed


def _names(entries: Sequence[Entry]) -> dict[str, str]:
    """The keys of the entries, by all that others may call them: key, file, words."""
    names: dict[str, str] = {}
    for entry in reversed(entries):
        names[_plain(entry.subject)] = entry.key
    for entry in entries:
        names.setdefault(_plain(entry.key.rpartition(".")[0] or entry.key), entry.key)
    return names | {_plain(entry.key): entry.key for entry in entries}


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _elsewhere(name: str, prefix: str, table: BacklogTable) -> str:
    """The source that is meant by a name that no entry beside it has."""
    if table.command is not None:
        return f"{prefix}{name}"
    return f"{TASK}{name}"


def _item(table: BacklogTable, entry: Entry, prefix: str, after: Sequence[str]) -> Item:
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
    """The sources that an item waits for, of those that are a task or will be one."""
    waits = [each for each in item.after if each in there or each in new]
    missing = [each for each in item.after if each not in waits]
    if missing and not item.may_be_gone:
        name = missing[0].removeprefix(TASK)
        raise Invalid(
            f"{item.where or item.source}: it is to come after {name!r}, which is no entry beside"
            " it and no [[task]].",
            remedy=REMEDY,
        )
    return waits


def _in_order(waits: Mapping[str, Sequence[str]], new: Mapping[str, Item]) -> list[str]:
    """The sources, each after those that it waits for, else in the order in which they stand."""
    ordered: dict[str, None] = {}
    on_the_way: dict[str, None] = {}
    for start in waits:
        # Not by recursion: chains may be as long as lists.
        stack = [start]
        while stack:
            source = stack[-1]
            left = [each for each in waits[source] if each in waits and each not in ordered]
            if source in ordered or not left:
                ordered[source] = None
                on_the_way.pop(source, None)
                stack.pop()
                continue
            on_the_way[source] = None
            circle = [each for each in left if each in on_the_way]
            if circle:
                path = list(on_the_way)
                names = ", ".join(repr(new[each].subject) for each in path[path.index(circle[0]) :])
                raise Invalid(
                    f"{new[circle[0]].where or circle[0]}: these wait for each other in a circle:"
                    f" {names}.",
                    remedy=REMEDY,
                )
            stack.append(left[0])
    return list(ordered)
