"""Backlogs: what their sources say, what cannot be a task, and what is new when read again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.task import Task
from bullpen.runs.teamfile.backlog import command, entries
from bullpen.runs.teamfile.backlog.backlog import Item, new_drafts, read_backlog
from bullpen.runs.teamfile.backlog.markdown_list import entries_of, ticked
from bullpen.runs.teamfile.tables import BacklogTable
from support.rows import each_row
from support.steps import growth

LIST = """\
---
labels:
  - none of this
---
# Ideas

- something else

## Now

- [ ] Write the parser (id: parser) (effort: large)
  It must be quick.

  ```
  - [ ] only code
  ```
  - [ ] a part of it
- [x] Choose a name
* [ ] Test the parser (needs: tests, python) (after: parser, Choose a name)
still the test
1. [ ] Write it down (after: Write the Parser)
- [-] Never mind

<!-- - [ ] not
- [ ] this -->

Words between.

### Below

- [ ] Last

## Later

- [ ] Test the parser
"""


async def items_in(folder: Path, **table: Any) -> list[Item]:
    return await read_backlog(BacklogTable(**table), folder, environ=os.environ)


def kept(items: list[Item], first: int = 1) -> list[Task]:
    """The tasks that items become."""
    return [
        Task.new(id=str(number), subject=item.subject, description="").with_facts(
            source=item.source
        )
        for number, item in enumerate(items, first)
    ]


async def markdown(folder: Path, text: str, heading: str | None = None) -> list[Item]:
    (folder / "B.md").write_text(text, encoding="utf-8")
    return await items_in(folder, markdown="B.md", heading=heading)


async def test_open_items_below_a_heading_are_tasks(tmp_path: Path) -> None:
    parser, test, down, last = await markdown(tmp_path, LIST, "now")

    assert (parser.source, parser.subject, parser.effort) == (
        "markdown:B.md#parser",
        "Write the parser",
        "large",
    )
    assert parser.description == (
        "It must be quick.\n\n```\n- [ ] only code\n```\n- [ ] a part of it"
    )
    assert (test.subject, test.needs, test.description) == (
        "Test the parser",
        ("tests", "python"),
        "still the test",
    )
    assert test.after == (parser.source,), "what is done is not waited for"
    assert (down.subject, down.after) == ("Write it down", (parser.source,))
    assert last.subject == "Last"
    assert parser.where == f"{tmp_path / 'B.md'}:11"


async def test_without_a_heading_the_whole_file_counts(tmp_path: Path) -> None:
    subjects = [item.subject for item in await markdown(tmp_path, LIST)]
    assert subjects == [
        "Write the parser",
        "Test the parser",
        "Write it down",
        "Last",
        "Test the parser",
    ]


async def test_without_any_box_every_item_is_a_task(tmp_path: Path) -> None:
    items = await markdown(tmp_path, "# A\n- one\n   more\n* two\n\n3) three\n> - quoted\n")
    assert [item.subject for item in items] == ["one", "two", "three"]
    assert items[0].description == "more"


async def test_the_same_words_twice_are_two_tasks_under_any_heading(tmp_path: Path) -> None:
    text = "# A\n- [x] Add tests\n- [ ] Add tests\n# B\n- [ ] Add  TESTS\n"
    whole = await markdown(tmp_path, text)
    below = await markdown(tmp_path, text, "B")
    assert len({item.source for item in whole}) == 2
    assert below[0].source == whole[1].source, "which part is read does not change what it is"


async def test_read_again_only_what_is_new_is_added(tmp_path: Path) -> None:
    before = await markdown(tmp_path, "- [ ] One\n  old words\n- [ ] Two (needs: x)\n")
    tasks = kept(before)
    after = await markdown(
        tmp_path, "- [ ] Zero\n- [ ] two (effort: small)\n- [ ] One\n  new words\n"
    )

    assert [draft.subject for draft in new_drafts(after, tasks)] == ["Zero"]
    assert new_drafts(before, tasks) == []


async def test_what_an_item_waits_for_may_be_a_task_already(tmp_path: Path) -> None:
    text = "- [ ] B (after: a)\n- [ ] A (id: a)\n- [ ] C (after: A, manual)\n"
    items = await markdown(tmp_path, text)
    manual = Item("task:manual", "Write the manual")
    drafts = new_drafts([*items, manual], [])
    assert [(draft.subject, list(draft.blocked_by)) for draft in drafts] == [
        ("A", []),
        ("B", ["@0"]),
        ("Write the manual", []),
        ("C", ["@0", "@2"]),
    ]
    tasks = kept([items[1], manual], first=7)
    later = new_drafts(items, tasks)
    assert [list(draft.blocked_by) for draft in later] == [["7"], ["7", "8"]]


async def test_an_item_that_is_gone_leaves_its_task_and_who_waits_for_it(tmp_path: Path) -> None:
    tasks = kept(await markdown(tmp_path, "- A (id: a)\n"))
    (b,) = await markdown(tmp_path, "- B (after: a)\n")
    with pytest.raises(Invalid, match=r"B\.md:1: it depends on 'a', which is neither an entry"):
        new_drafts([b], [])
    directory = Item("markdown:B.md#b", "B", after=("markdown:B.md#a",))
    assert list(new_drafts([directory], tasks)[0].blocked_by) == ["1"]


def test_items_that_wait_for_each_other_are_refused() -> None:
    items = [
        Item("a", "A", after=("c",), where="B.md:1"),
        Item("b", "B", after=("a",), where="B.md:2"),
        Item("c", "C", after=("b",), where="B.md:3"),
        Item("d", "D", after=("a",)),
    ]
    with pytest.raises(Invalid, match=r"B\.md:1: these tasks depend on each other in a circle"):
        new_drafts(items, [])


def a_chain(length: int) -> list[Item]:
    items = [Item(str(n), f"task {n}", after=(str(n + 1),)) for n in range(length - 1)]
    return [*items, Item(str(length - 1), "last")]


def test_a_long_chain_is_no_trouble() -> None:
    chains = {length: a_chain(length) for length in (500, 1000, entries.ENTRIES_MAX)}
    longest = chains[entries.ENTRIES_MAX]
    assert new_drafts(longest, kept(longest[:1]))[0].subject == "last"
    assert growth(lambda length: new_drafts(chains[length], kept(longest[:1])), 500) < 2.2


WRONG_LISTS = [
    ("- [ ] One\n- [ ]\n", ":2: the entry has no subject"),
    ("- a\n- b (effort: huge)\n", ":2: effort: 'huge' is not one of 'small', 'medium', 'large'"),
    ("- a (id: x)\n\n- b (id: x)\n", ":3: .*:1 has the same id 'x'"),
    ("- a (needs: )\n", ":1: needs has no value"),
    ("- a (id: x) (id: y)\n", ":1: id is given twice"),
    ("- a\n\n```\n- b\n", ":3: this block is never closed"),
    ("- a\n<!--\n- b\n", ":2: this block is never closed"),
    ("- a\x1b[31m\n", r":1: the character U\+001B is not allowed in a task"),
    ("- a\n  b\u202ec\n", r":1: the character U\+202E is not allowed in a task"),
    ("- a\x0bb\n", r":1: the character U\+000B is not allowed in a task"),
    (f"- {'x' * 600}\n", ":1: the subject has 600 characters"),
    (f"- a\n  {'x' * 30_000}\n", ":2: the line is longer than"),
    ("- a\n" + "  xxxxxxxxx\n" * 12_000, ":1: the description has"),
]


@each_row(("text", "why"), WRONG_LISTS, ids=[why for _, why in WRONG_LISTS])
async def test_a_list_with_an_entry_that_is_none_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(Invalid, match=rf"B\.md{why}"):
        await markdown(tmp_path, text)


async def test_a_wrong_entry_that_is_done_is_no_trouble(tmp_path: Path) -> None:
    items = await markdown(tmp_path, "- [x] a (effort: huge)\n- [x]\n- [ ] b\n")
    assert [item.subject for item in items] == ["b"]


async def test_a_heading_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"no heading 'Next' \(available: 'Ideas', 'Now'"):
        await markdown(tmp_path, LIST, "Next")


async def test_an_unreadable_source_is_never_empty(tmp_path: Path) -> None:
    (tmp_path / "B.md").write_bytes(b"- a\xff\n")
    (tmp_path / "blob").write_bytes(b"- a\0\n")
    os.mkfifo(tmp_path / "pipe")
    for name in ("B.md", "blob", "pipe", "none.md", ".", "no\0name"):
        with pytest.raises(Unavailable):
            await items_in(tmp_path, markdown=name)
    for name in ("B.md", "none"):
        with pytest.raises(Unavailable):
            await items_in(tmp_path, directory=name)


def _task_files(folder: Path) -> Path:
    todo = folder / "todo"
    (todo / "sub").mkdir(parents=True)
    (todo / "b.md").write_text("# Second\n\nWith words.\n", encoding="utf-8")
    (todo / "a.md").write_text(
        "---\nneeds: docs\neffort: small\nafter: [b]\nchecks: [make test]\n---\n\nFirst\nrest\n",
        encoding="utf-8",
    )
    (todo / ".hidden").write_text("no", encoding="utf-8")
    (todo / "c.md~").write_text("no", encoding="utf-8")
    (todo / "picture.png").write_bytes(b"\x89PNG\0\0")
    (todo / "sub" / "d.md").write_text("no", encoding="utf-8")
    return todo


async def test_each_file_of_a_folder_is_a_task(tmp_path: Path) -> None:
    _task_files(tmp_path)
    first, second = await items_in(tmp_path, directory="todo/")

    assert (first.source, first.subject, first.description) == (
        "directory:todo#a.md",
        "First",
        "rest",
    )
    assert (first.needs, first.effort) == (("docs",), "small")
    assert [(check.kind, check.run) for check in first.checks] == [("command", "make test")]
    assert (second.subject, second.description) == ("Second", "With words.")
    assert first.after == (second.source,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no subject"),
        ("---\nneed: x\n---\nA\n", r"there is no key 'need' \(did you mean 'needs'\?\)"),
        ("---\n- x\n---\nA\n", "not a table of keys and values"),
        ("---\na: [\n---\nA\n", "are not valid YAML"),
        ("---\nchecks: [{kind: command}]\n---\nA\n", "Check 'command'"),
        ("---\nchecks: [{kind: nothing}]\n---\nA\n", "check 1: kind: 'nothing' is not one of"),
    ],
)
async def test_a_file_that_cannot_be_a_task_is_named(tmp_path: Path, text: str, why: str) -> None:
    (_task_files(tmp_path) / "z.md").write_text(text, encoding="utf-8")
    with pytest.raises(Invalid, match=rf"todo/z\.md: .*{why}"):
        await items_in(tmp_path, directory="todo")


_WORDS = st.text(st.sampled_from("ab -*[]x()#`>:\n\t1.<!"), max_size=80)


@settings(max_examples=300, deadline=None)
@given(text=_WORDS)
def test_any_text_is_a_list_or_is_refused_by_its_line(text: str) -> None:
    try:
        found = entries_of(text, "B.md")
    except Invalid as error:
        assert error.message.startswith("B.md:")
        return
    lines = text.split("\n")
    for entry in found:
        number = int(entry.where.rpartition(":")[2])
        assert entry.subject in " ".join(lines[number - 1].split("\t")).strip() or "\t" in text


def test_a_line_of_a_command_has_a_greatest_length() -> None:
    line = json.dumps({"id": "1", "subject": "Paint"}).encode()
    longest = line + b" " * (command._LINE_BYTES_MAX - len(line))
    assert command._entry(longest, "line 1").subject == "Paint"
    with pytest.raises(Invalid, match="longer"):
        command._entry(longest + b" ", "line 1")


def test_a_ticked_entry_is_closed_and_every_other_stays_as_it_is() -> None:
    before = entries_of(LIST, "f")
    for entry in before:
        text = ticked(LIST, entry.key)
        # Code, nested items, plain items and closed boxes cannot be ticked.
        boxed = any(f"[ ] {entry.subject}" in line for line in LIST.splitlines())
        assert (text is not None) == boxed, entry
        if text is not None:
            changed = [(a, b) for a, b in zip(LIST, text, strict=True) if a != b]
            assert changed == [(" ", "x")]
            now = {each.key: each.state for each in entries_of(text, "f")}
            assert now == {each.key: each.state for each in before} | {entry.key: "closed"}
            assert ticked(text, entry.key) is None


def test_what_is_not_there_or_not_sure_is_not_ticked() -> None:
    twice = "- [ ] a (id: k)\n- [ ] b (id: k)\n"
    assert ticked(twice, "k") is None
    assert ticked("- [ ] a (id: k)\n```\nnever closed", "k") is None
    assert ticked("- a (id: k)\n", "k") is None
    assert ticked("text\n", "k") is None
    same = "- [ ] same\n- [ ] same\n"
    first, second = (entry.key for entry in entries_of(same, "f"))
    assert ticked(same, second) == "- [ ] same\n- [x] same\n"
    assert ticked(ticked(same, first) or "", second) == "- [x] same\n- [x] same\n"
