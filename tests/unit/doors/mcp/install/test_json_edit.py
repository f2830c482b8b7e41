"""One entry of a JSON file is changed, and the rest of it is left as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bullpen.doors.mcp.install.json_edit import Dialect, drop, lookup, put, written
from support.rows import each_row

STRICT = Dialect()
FREE = Dialect(comments=True, trailing_commas=True)
PATH = ("servers", "ours")
ENTRY = {"command": "x", "args": ["a"]}

SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(-1e9, 1e9)
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=8
)
OBJECTS = st.dictionaries(st.text() | st.sampled_from(["mcp", "a"]), VALUES, max_size=4)
GAPS = st.sampled_from(["", " ", "\n", "\n  ", "\t", "/* c */", " // c }\n", "\r\n", "/* \n */ "])


def tokens(value: Any) -> list[str]:
    """JSON as a list of its tokens."""
    if isinstance(value, dict):
        inside = [[json.dumps(key), ":", *tokens(each)] for key, each in value.items()]
        return ["{", *_listed(inside), "}"]
    if isinstance(value, list):
        return ["[", *_listed([tokens(each) for each in value]), "]"]
    return [json.dumps(value)]


def _listed(parts: list[list[str]]) -> list[str]:
    return [token for at, part in enumerate(parts) for token in ([","] if at else []) + part]


@st.composite
def oddly_written(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A file with comments, blanks and line ends wherever they may be, and what it says."""
    value = draw(OBJECTS)
    if draw(st.booleans()):
        value["servers"] = draw(st.dictionaries(st.text(), VALUES, max_size=3))
    parts = tokens(value)
    if len(parts) > 2 and draw(st.booleans()):
        parts.insert(-1, ",")
    return draw(GAPS) + "".join(part + draw(GAPS) for part in parts), value


@settings(deadline=None)
@given(oddly_written())
def test_what_is_read_is_what_json_says(file: tuple[str, dict[str, Any]]) -> None:
    text, value = file
    assert lookup(text, (), FREE) == value


@settings(deadline=None)
@given(oddly_written())
def test_only_the_entry_changes_however_a_file_is_written(
    file: tuple[str, dict[str, Any]],
) -> None:
    text, value = file
    if "servers" in value and not isinstance(value["servers"], dict):
        value["servers"] = {}
        text = json.dumps(value)
    after = put(text, PATH, ENTRY, FREE)
    assert lookup(after, (), FREE) == {
        **value,
        "servers": {**value.get("servers", {}), "ours": ENTRY},
    }
    others = {key: each for key, each in value.get("servers", {}).items() if key != "ours"}
    assert lookup(drop(after, PATH, FREE), (), FREE) == {**value, "servers": others}
    assert put(after, PATH, ENTRY, FREE) == after
    # Comments are no part of the value, and are still there.
    assert after.count("c }") == text.count("c }")
    assert after.count("/*") == text.count("/*")


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "servers": {}\n}',
        '{"servers": {}}',
        '{\n  "servers": {\n    "a": {"x": 1}\n  },\n  "b": [1,2,  3]\n}\n',
        '{\n\t"servers": {\n\t\t"a": 1, // first\n\t\t// second\n\t},\n}\n',
        '{\r\n  "servers": {\r\n    "a": 1\r\n  }\r\n}\r\n',
        '\ufeff{"servers": {"a": 1}}',
        '{ // c\n "servers": {"a": 1} // d\n}',
    ],
)
def test_putting_in_and_taking_out_leaves_every_byte(text: str) -> None:
    after = put(text, PATH, ENTRY, FREE)
    assert lookup(after, PATH, FREE) == ENTRY
    assert drop(after, PATH, FREE) == text


def test_an_entry_is_written_as_its_neighbours_are() -> None:
    text = '{\n    "servers": {\n        "a": 1\n    }\n}\n'
    assert put(text, PATH, {"x": [1]}, STRICT) == (
        '{\n    "servers": {\n        "a": 1,\n        "ours": {\n            "x": [\n'
        "                1\n            ]\n        }\n    }\n}\n"
    )
    assert put('{"a": 1}', PATH, {"x": 1}, STRICT) == '{"a": 1, "servers": {"ours": {"x": 1}}}'
    assert put("{}\n", PATH, 1, STRICT) == '{\n  "servers": {\n    "ours": 1\n  }\n}\n'


def test_an_entry_is_replaced_where_it_stands() -> None:
    text = '{\n  "servers": {\n    "ours": {"old": 1}, // mine\n    "b": 2\n  }\n}\n'
    after = put(text, PATH, {"new": 2}, FREE)
    assert after == text.replace('{"old": 1}', '{\n      "new": 2\n    }')
    assert written(text, PATH, FREE) == '"ours": {"old": 1}'
    assert written(after, PATH, FREE) == '"ours": {\n  "new": 2\n}'


def test_taking_out_an_entry_leaves_the_comments_of_others() -> None:
    text = '{\n  "servers": {\n    "a": 1, // of a\n    "ours": 2\n  }\n}\n'
    assert drop(text, PATH, FREE) == '{\n  "servers": {\n    "a": 1 // of a\n  }\n}\n'
    text = '{ "servers": { "a": 1, // of a\n "ours": 2 } }'
    assert lookup(drop(text, PATH, FREE), (), FREE) == {"servers": {"a": 1}}


@each_row(
    ("text", "why"),
    [
        ("{", "a string is missing"),
        ('{"a": 1', "a comma or } is missing"),
        ('{"a" 1}', "a colon is missing"),
        ('{"a": }', "a value is missing"),
        ('{"a": 1,}', "nothing follows the comma"),
        ('{"a": 1} x', "text after the end"),
        ('{"a": "b', "a string is missing or not closed"),
        ('{"a": "\\q"}', "an invalid escape"),
        ('{"a": NaN}', "a value is missing"),
        ('// c\n{"a": 1}', "a value is missing"),
        ("[1]", "it is not an object"),
        ('{"servers": 3}', "'servers' is not an object"),
        ('{"servers": {}, "servers": {}}', "the key 'servers' twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        put(text, PATH, ENTRY, STRICT)


def test_where_a_file_is_broken_is_told() -> None:
    with pytest.raises(ValueError, match="line 2, column 3"):
        lookup("{\n  x: 1}", (), STRICT)
    with pytest.raises(ValueError, match="a comment is not closed"):
        lookup("/* {}", (), FREE)


def test_what_is_not_there_cannot_be_taken_out() -> None:
    with pytest.raises(KeyError):
        drop('{"servers": {}}', PATH, STRICT)
    assert lookup("{}", PATH, STRICT) is None
    assert written("{}", PATH, STRICT) == ""
