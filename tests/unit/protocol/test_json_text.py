"""JSON text is read strictly and written as Node writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.protocol import json_text
from support.rows import each_row

# Written by Node 20: JSON.stringify(value, null, 2).
FROM_NODE = (
    b'{\n  "plain": "\\u0001\\b\\f\\n\\r\\t\\"\\\\/\x7f",\n'
    b'  "wide": "\xe2\x80\xa8 \xc3\xa9 \xf0\x9f\x98\x80",\n'
    b'  "cut": "half an emoji \\ud83d",\n'
    b'  "\\udc00": [\n    "\\udbff\\u0000"\n  ],\n'
    b'  "empty": {},\n  "none": [],\n'
    b'  "rest": [\n    true,\n    false,\n'
    b"    null,\n    -1.5,\n    1794696426856,\n    1e+21\n  ]\n}"
)

any_text = st.text(st.characters(exclude_categories=[]))
any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=20,
)


def nested_lists(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"in": value}
    return value


def test_what_node_wrote_comes_back_byte_for_byte() -> None:
    assert json_text.dumps(json_text.loads(FROM_NODE)) == FROM_NODE


def test_half_an_emoji_is_escaped_in_lower_case_as_node_does() -> None:
    assert json_text.loads(rb'"cut \uD83D"') == "cut \ud83d"
    assert json_text.dumps_line({"\ud83d": "cut \ud83d"}) == rb'{"\ud83d":"cut \ud83d"}'


def test_two_halves_that_meet_are_one_emoji() -> None:
    assert json_text.loads(rb'"\ud83d\ude00"') == "\N{GRINNING FACE}"
    assert json_text.dumps_line("\ud83d" + "\ude00") == '"\N{GRINNING FACE}"'.encode()


def test_a_file_has_two_spaces_of_indent_and_no_newline_at_its_end() -> None:
    assert json_text.dumps({"a": [1, {"b": []}]}) == (
        b'{\n  "a": [\n    1,\n    {\n      "b": []\n    }\n  ]\n}'
    )


def test_a_line_has_no_spaces_at_all() -> None:
    assert json_text.dumps_line({"a": [1, {"b": None}], "c": "d e"}) == (
        b'{"a":[1,{"b":null}],"c":"d e"}'
    )


def test_text_is_read_like_bytes() -> None:
    assert json_text.loads('{"a": "\N{GRINNING FACE}"}') == {"a": "\N{GRINNING FACE}"}
    assert json_text.loads('{"a": "\ud83d"}') == {"a": "\ud83d"}


NOT_JSON = {
    "nothing": b"",
    "blank": b" \n",
    "zeros": b"\0\0\0\0",
    "truncated": b'{"a": 1',
    "torn": b"[]  {}\n]",
    "two values": b"{} {}",
    "single quotes": b"{'a': 1}",
    "trailing comma": b"[1,]",
    "raw control character": b'"\x01"',
    "invalid utf-8": b'"\xff"',
    "utf-8 cut in a character": b'"\xc3"',
    "surrogate as bytes": b'"\xed\xa0\xbd"',
    "invalid utf-8 beside an escaped surrogate": b'["\\ud83d", "\xff"]',
    "byte order mark": b"\xef\xbb\xbf{}",
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "utf-16 without a mark": '{"a": 1}'.encode("utf-16-le"),
    "utf-32": '{"a": 1}'.encode("utf-32"),
    "NaN": b"NaN",
    "NaN beside a surrogate": b'{"a": NaN, "b": "\\ud83d"}',
    "Infinity": b"[Infinity]",
    "-Infinity": b"[-Infinity]",
    "a number of 5000 digits": b"9" * 5000,
}


@each_row("data", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_in_utf8_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        json_text.loads(data)


@pytest.mark.parametrize("levels", [202, 300, 900, 5_000, 1_000_000])
def test_deep_nesting_is_a_value_error(levels: int) -> None:
    for data in (nested_lists(levels), b'{"a":' * levels + b"1" + b"}" * levels):
        with pytest.raises(ValueError):
            json_text.loads(data)
    with pytest.raises(ValueError):
        json_text.loads(b'["\\ud83d",' + nested_lists(levels) + b"]")


def test_nesting_up_to_the_bound_is_read_and_written() -> None:
    value = nested(json_text.DEPTH_MAX)
    assert json_text.loads(json_text.dumps(value)) == value
    with_half = {"half": "\ud83d", "in": nested(json_text.DEPTH_MAX - 1)}
    assert json_text.loads(json_text.dumps(with_half)) == with_half


def test_a_line_may_hold_a_record_of_the_greatest_depth() -> None:
    event = {"changes": [{"task": nested(json_text.DEPTH_MAX)}]}
    line = json_text.dumps_line(event)
    assert json_text.loads_line(line) == event
    with pytest.raises(ValueError):
        json_text.loads(line)


def test_a_value_too_deep_to_be_read_again_is_not_written() -> None:
    for value in (nested(300), nested(5_000)):
        with pytest.raises(ValueError):
            json_text.dumps(value)
        with pytest.raises(ValueError):
            json_text.dumps_line(value)


def test_a_value_that_holds_itself_is_not_written() -> None:
    circle: list[Any] = []
    circle.extend([circle, circle])
    with pytest.raises(ValueError):
        json_text.dumps(circle)


def test_a_number_that_json_cannot_write_becomes_null_as_in_node() -> None:
    assert json_text.dumps_line([float("nan"), float("inf"), -float("inf")]) == b"[null,null,null]"
    assert json_text.dumps({"n": float("nan")}) == b'{\n  "n": null\n}'
    assert json_text.dumps_line(["\ud83d", float("nan")]) == rb'["\ud83d",null]'
    assert json_text.dumps_line(json_text.loads(b"[1e999]")) == b"[null]"


def test_numbers_beyond_64_bits_keep_every_digit() -> None:
    assert json_text.dumps(json_text.loads(b"123456789012345678901234567890")) == (
        b"123456789012345678901234567890"
    )


@pytest.mark.parametrize(
    "number", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**19, 10**40, 12345678901234567891]
)
def test_a_large_integer_keeps_its_digits_among_anything(number: int) -> None:
    value = {"n": [number, 1e-7, 1e21, 0.00001], "text": "1e+20", "last": {"in": [-number]}}
    data = json_text.dumps(value)
    assert json_text.loads(data) == value
    assert type(json_text.loads(data)["n"][0]) is int
    assert b"1e-7" in data
    assert json_text.dumps(json_text.loads(data)) == data


def test_a_large_file_may_nest_as_deeply_as_a_small_one() -> None:
    rows = [{"text": "x" * 300, "n": [1]} for _ in range(300)]
    for levels in (json_text.DEPTH_MAX - 1, json_text.DEPTH_MAX + 5):
        data = json_text.dumps([*rows, nested(levels)])
        if levels < json_text.DEPTH_MAX:
            assert json_text.loads(data) == [*rows, nested(levels)]
        else:
            with pytest.raises(ValueError, match="nested too deeply"):
                json_text.loads(data)


@given(any_json)
def test_any_value_comes_back_as_it_was_in_the_same_order(value: Any) -> None:
    for data in (json_text.dumps(value), json_text.dumps_line(value)):
        again = json_text.loads(data)
        # Adjacent halves become one character on the way, in Node too: compare the escapes.
        assert json.dumps(again) == json.dumps(json.loads(json.dumps(value)))
        assert json_text.loads(data.decode()) == again


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    try:
        value = json_text.loads(data)
    except ValueError:
        return
    assert json.dumps(value) == json.dumps(json.loads(data.decode("utf-8")))
