"""Backlogs: what their sources say, what cannot be a task, and what is new when read again."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import Invalid, Unavailable
from bullpen.runs.teamfile.backlog.backlog import Item, new_drafts, read_backlog
from bullpen.runs.teamfile.tables import BacklogTable


async def items_in(folder: Path, **table: Any) -> list[Item]:
    return await read_backlog(BacklogTable(**table), folder, environ=os.environ)


def printing(*rows: object, then: str = "") -> str:
    lines = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    return f"printf '%s\\n' {shlex.quote(lines)}; {then}"


async def test_a_command_prints_a_task_a_line(tmp_path: Path) -> None:
    command = printing(
        {"id": 12, "subject": "Two", "after": [7], "description": None, "budget": {"usd": 1.5}},
        "",
        {"id": 7, "subject": "One", "needs": ["x"], "checks": ["make", {"kind": "report"}]},
        {"id": 13, "subject": "Three", "after": [99], "description": "a\r\nb"},
    )
    items = await items_in(tmp_path, command=command, effort="small", needs=["y"])
    two, one, three = items

    assert (one.needs, two.needs, one.effort) == (("x",), ("y",), "small")
    assert [check.kind for check in one.checks] == ["command", "report"]
    assert two.after == (one.source,)
    assert two.budget is not None
    assert two.budget["usd"] == 1.5
    assert three.description == "a\nb"
    drafts = new_drafts(items, [])
    assert [(each.subject, list(each.blocked_by)) for each in drafts] == [
        ("One", []),
        ("Two", ["@0"]),
        # What a command does not print any more is done.
        ("Three", []),
    ]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (printing({"id": 1, "subject": "a"}, "{"), "line 2: it is not valid JSON"),
        (printing("[]"), "line 1: its fields are not a table of keys and values"),
        (printing({"subject": "a"}), "line 1: id is missing"),
        (printing({"id": 1}), "line 1: subject: it is missing"),
        (printing({"id": 1, "subject": "a", "afer": []}), "no key 'afer' .did you mean 'after'"),
        (printing({"id": 1, "subject": " "}), "line 1: the entry has no subject"),
        (printing({"id": 1, "subject": "a"}, {"id": "1", "subject": "b"}), "has the same id '1'"),
        (printing({"id": 1, "subject": "a\u0000b"}), r"U\+0000"),
        (printing({"id": True, "subject": "a"}), "line 1: id: "),
    ],
)
async def test_a_line_that_is_no_task_is_named_and_nothing_is_added(
    tmp_path: Path, command: str, why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        await items_in(tmp_path, command=command)


async def test_a_command_that_fails_is_no_empty_backlog(tmp_path: Path) -> None:
    failing = printing({"id": 1, "subject": "a"}, then="echo no network >&2; exit 3")
    with pytest.raises(Unavailable, match="failed with 3: no network"):
        await items_in(tmp_path, command=failing)
    with pytest.raises(Unavailable, match="printed more than"):
        await items_in(tmp_path, command="head -c 9000000 /dev/zero")
    assert await items_in(tmp_path, command="true") == []


async def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(
    tmp_path: Path,
) -> None:
    script = "import os,time;open('pid','w').write(str(os.getpid()));time.sleep(600)"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} & wait"
    with pytest.raises(Unavailable, match=r"took longer than 1\.5 s"):
        await items_in(tmp_path, command=command, timeout_s=1.5)
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    assert _is_gone(pid)


def _is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            return True
        if stat.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False
