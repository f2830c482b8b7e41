"""Mistakes in a team file are told with the line that they are on, wherever that is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bullpen.errors import Invalid
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.teamfile.toml_lines import line_of, lines_of
from support.rows import each_row
from support.runs.whole_file import WHOLE, pairs


def told(folder: Path, text: str) -> tuple[int, str]:
    """The line that a mistake is said to be on, and what is said of it."""
    path = folder / "TEAM.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Invalid) as refused:
        read_team_file(path)
    found = re.match(rf"{re.escape(str(path))}:(\d+): (.*)", refused.value.message, re.DOTALL)
    assert found, refused.value.message
    return int(found[1]), found[2]


def _is_toml(text: str) -> bool:
    try:
        return bool(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return False


def test_the_file_to_be_broken_is_right(tmp_path: Path) -> None:
    path = tmp_path / "TEAM.toml"
    path.write_text(WHOLE, encoding="utf-8")
    file = read_team_file(path)
    assert [member.name for member in file.members] == ["team-lead", "ann-1", "ann-2", "bob"]
    assert len(pairs(WHOLE)) > 40


@each_row("number", pairs(WHOLE))
def test_a_value_of_the_wrong_kind_is_found_on_its_line(tmp_path: Path, number: int) -> None:
    lines = WHOLE.split("\n")
    key = lines[number].split(" = ")[0]
    # No key takes a date. A value may go on over several lines.
    end = next(e for e in range(number + 1, len(lines)) if _is_toml("\n".join(lines[number:e])))
    text = "\n".join([*lines[:number], f"{key} = 1979-05-27", *lines[end:]])
    line, words = told(tmp_path, text)
    assert line == number + 1
    assert key.split(".")[-1] in words


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_misspelled_key_is_found_on_its_line_whatever_is_around(
    tmp_path: Path, data: st.DataObject
) -> None:
    number = data.draw(st.sampled_from(pairs(WHOLE)))
    lines = WHOLE.split("\n")
    key = lines[number].split(" = ")[0]
    lines[number] = lines[number].replace(f"{key} = ", f"{key}x = ")
    noise = st.lists(st.sampled_from(["", "# [[member]]", "  # name = 'x'", "\t"]), max_size=3)
    shown: list[str] = []
    wanted = 0
    pieces = pairs("\n".join(lines))
    for index, line in enumerate(lines):
        if index in pieces:
            shown += data.draw(noise)
        if index == number:
            wanted = len(shown) + 1
        shown.append(line)
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    line_told, words = told(tmp_path, end.join(shown))
    assert (line_told, f"{key.split('.')[-1]}x" in words) == (wanted, True), words


ELSEWHERE = [
    ("[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'x'\n\n[[member]]\n\n\nname = 'x'\n", 10),
    ("[team]\nname = 'a'\n\n\n[[task]]\nid = 'i'\nsubject = 's'\n", 1),
    ("[team]\nname = 'a'\ngoal = 'b'\n\n[merge]\n", 5),
    ("[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'team-lead'\ncount = 2\n", 6),
    (
        (
            "[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'x'\ncount = 3\n"
            "[[member]]\nname = 'x-2'\n"
        ),
        6,
    ),
    (
        (
            "[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'x'\nskills = ['docs']\n"
            "[[task]]\nid = 'i'\nsubject = 's'\nneeds = [\n  'docs',\n  'doc',\n]\n"
        ),
        12,
    ),
    (
        (
            "[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'x'\nskills = ['docs']\n"
            "[[member]]\nname = 'y'\n"
            "[[task]]\nid = 'i'\nsubject = 's'\nneeds = ['docs']\nowner = 'y'\n"
        ),
        13,
    ),
    ("[team]\nname = 'a'\ngoal = 'b'\n[[backlog]]\nmarkdown = 'x'\ncommand = 'y'\n", 4),
    ("[team]\nname = 'a'\ngoal = 'b'\n[[backlog]]\nmarkdown = 'x'\nevery_s = 1\n", 6),
    ("[team]\nname = 'a'\ngoal = 'b'\n[unattended]\nquiet = [\n'01:00-02:00',\n'1-2']\n", 5),
    ("[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'x'\nrole = 'roles/x.md'\n", 6),
    ("[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'x'\ntools = ['Read',\n'Raed']\n", 7),
    (
        (
            "[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'x'\n[member.rules]\n"
            "allow = [\n  'Bash(git:*)',\n  'Bsh(x)',\n]\n"
        ),
        9,
    ),
    (
        (
            "[team]\nname = 'a'\ngoal = 'b'\n[[task]]\nid = 'i'\nsubject = 's'\n"
            "checks = [\n  {kind = 'file', path = 'x'},\n  {kind = 'command'},\n]\n"
        ),
        9,
    ),
    ("[team]\nname = 'a'\ngoal = 'b'\n[workspace]\nremote = 'origin'\n", 5),
    ("[team]\nname = 'a'\ngoal = 'b'\n[[member]]\nname = 'x'\ncommand = ['x']\n", 6),
]


@each_row(("text", "line"), ELSEWHERE)
def test_what_tables_contradict_each_other_in_is_found_on_its_line(
    tmp_path: Path, text: str, line: int
) -> None:
    found, words = told(tmp_path, text)
    assert found == line, words


def test_a_circle_is_told_on_the_line_where_it_begins(tmp_path: Path) -> None:
    tasks = "".join(
        f"[[task]]\nid = '{each}'\nsubject = 's'\nblocked_by = ['{after}']\n"
        for each, after in (("a", "b"), ("b", "c"), ("c", "b"))
    )
    line, words = told(tmp_path, "[team]\nname = 'a'\ngoal = 'b'\n" + tasks)
    assert (line, words) == (
        11,
        "task 2 (b): blocked_by: these tasks depend on each other in a circle: 'b', 'c'.",
    )


def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    assert told(tmp_path, "[team]\nname = 'a'\ngoal = \n")[0] == 3
    assert told(tmp_path, "[team]\nname = 'a'\ngoal = [1,\n")[0] == 3
    path = tmp_path / "TEAM.toml"
    path.write_bytes(b"[team]\nname = '\xff'\n")
    with pytest.raises(Invalid, match=r"TEAM\.toml:2: it is not valid UTF-8"):
        read_team_file(path)


# Any TOML: what the standard library finds, the lines are known of.

_KEY = st.sampled_from(["a", "b1", "c_d", "e-f", '"q.r"', "'s t'", '"\\u00e9"'])
_TEXT = st.sampled_from(
    ['"x"', "'y'", '"""\n[a]\nb = 1 \\" """', "'''\nc = 2\n'''", '"a # b"', '"""q""""', "true"]
)
_SCALAR = st.one_of(_TEXT, st.sampled_from(["1", "-2.5", "1979-05-27", "07:32:00", "0x1F", "nan"]))
_VALUE: st.SearchStrategy[str] = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda rows: "[\n" + ",  # , ]\n".join(rows) + "\n]"),
        st.lists(inner, max_size=3).map(lambda rows: "[ " + ", ".join(rows) + " ]"),
        st.dictionaries(_KEY, _SCALAR.filter(lambda text: "\n" not in text), max_size=3).map(
            lambda rows: "{ " + ", ".join(f"{key} = {value}" for key, value in rows.items()) + " }"
        ),
    ),
    max_leaves=6,
)
_LINE = st.one_of(
    st.tuples(st.lists(_KEY, min_size=1, max_size=3), _VALUE).map(
        lambda pair: f"{' . '.join(pair[0])} = {pair[1]} # z"
    ),
    st.lists(_KEY, min_size=1, max_size=2).map(lambda keys: f"[ {'.'.join(keys)} ]"),
    st.lists(_KEY, min_size=1, max_size=2).map(lambda keys: f"[[{'.'.join(keys)}]]"),
    st.just("# comment"),
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in rows:
        yield (*path, key)
        if isinstance(below, (dict, list)):
            yield from places(below, (*path, key))


@settings(max_examples=300, deadline=None)
@given(rows=st.lists(_LINE, max_size=12))
def test_the_line_of_every_key_of_any_toml_is_known(rows: list[str]) -> None:
    text = ""
    starts = []
    for row in rows:
        try:
            tables = tomllib.loads(f"{text}{row}\n")
        except tomllib.TOMLDecodeError:
            continue
        starts.append(text.count("\n") + 1)
        text = f"{text}{row}\n"
    tables = tomllib.loads(text)
    lines = lines_of(text)
    assert set(lines) == set(places(tables))
    for path, line in lines.items():
        shown = text.split("\n")[line - 1]
        key = path[-1]
        if isinstance(key, str) and key.isascii():
            assert key in shown, (path, line)
    # Of what is not there, the table that it would be in.
    assert all(line_of(lines, (*path, "no")) == line for path, line in lines.items())
