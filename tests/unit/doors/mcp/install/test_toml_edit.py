"""One table of a TOML file is changed, and every other line is left as it is."""

from __future__ import annotations

import tomllib

import pytest

from bullpen.doors.mcp.install.toml_edit import Unchangeable, drop, lookup, put, table, written

PATH = ("mcp_servers", "bullpen")
ENTRY = {"command": "/bin/x", "args": ["a", 'q"\\'], "env": {"A": "é\x7f", "b c": "\t"}}

FILES = [
    "",
    "# only a comment\n",
    'model = "x"  # kept\n\n[tui]\nflag = true\n',
    '[mcp_servers.other]\ncommand = "y"\n\n[mcp_servers.other.env]\nK = "v"\n',
    'text = """\n[mcp_servers.bullpen]\nnot = "ours" ""\\""""\nx = 1\n',
    "text = '''\n[mcp_servers.bullpen]\n'''\n[a]\nlist = [\n  [\"mcp_servers\"],\n]\n",
    'crlf = 1\r\n\r\n[a]\r\nb = "c"\r\n',
    "[[rows]]\nn = 1\n[[rows]]\nn = nan\n",
]


@pytest.mark.parametrize("text", FILES)
def test_putting_in_and_taking_out_leaves_every_byte(text: str) -> None:
    after = put(text, PATH, ENTRY)
    assert lookup(after, PATH) == ENTRY
    assert after.startswith(text)
    assert after.count("\r\n") == (after.count("\n") if "\r\n" in text else 0)
    assert drop(after, PATH) == text
    assert put(after, PATH, ENTRY) == after


def test_a_table_is_replaced_where_it_stands_with_the_tables_below_it() -> None:
    text = (
        '# first\n[mcp_servers.bullpen]\ncommand = "old"\nargs = [\n  "a", # inside\n]\n\n'
        '[mcp_servers.bullpen.env]\nA = "1"\n\n# of the next\n[tui]\nx = 1\n'
    )
    assert put(text, PATH, {"command": "new"}) == (
        '# first\n[mcp_servers.bullpen]\ncommand = "new"\n\n# of the next\n[tui]\nx = 1\n'
    )
    assert drop(text, PATH) == "# first\n\n# of the next\n[tui]\nx = 1\n"
    assert written(text, PATH) == (
        '[mcp_servers.bullpen]\ncommand = "old"\nargs = [\n  "a", # inside\n]\n\n'
        '[mcp_servers.bullpen.env]\nA = "1"'
    )


@pytest.mark.parametrize(
    ("ours", "rest"),
    [
        ("text = '''\n# within it'''\n", "\n# of the next\n[tui]\n"),
        ("list = [\n  1,\n# within it\n]\n", "# a \u2028line, and\n\n# another\n"),
        ('text = """\n[tui]\n\n"""  # ours\n', "[other]\nx = [\n[1],\n]\n"),
    ],
)
def test_comments_behind_a_table_stay_and_what_is_in_its_values_goes(ours: str, rest: str) -> None:
    text = f"[mcp_servers.bullpen]\n{ours}{rest}"
    assert drop(text, PATH) == rest
    assert put(text, PATH, {"command": "x"}) == f'[mcp_servers.bullpen]\ncommand = "x"\n{rest}'


def test_a_header_is_known_however_it_is_written() -> None:
    text = "  [ mcp_servers . 'bullpen' ] # ours\ncommand = 'old'\n"
    assert put(text, PATH, {"command": "new"}) == '[mcp_servers.bullpen]\ncommand = "new"\n'


def test_a_file_without_a_last_line_end_gets_one() -> None:
    assert put("a = 1", PATH, {"command": "x"}) == (
        'a = 1\n\n[mcp_servers.bullpen]\ncommand = "x"\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers.bullpen.command = "x"\n',
        '[mcp_servers]\nbullpen = { command = "x" }\n',
        'mcp_servers = { bullpen = { command = "x" } }\n',
    ],
)
def test_a_table_without_a_header_of_its_own_is_not_touched(text: str) -> None:
    with pytest.raises(Unchangeable):
        put(text, PATH, ENTRY)
    with pytest.raises(Unchangeable):
        drop(text, PATH)


def test_what_is_no_toml_is_an_error() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        put("[a", PATH, ENTRY)
    with pytest.raises(ValueError, match="'mcp_servers' is not a table"):
        put("mcp_servers = 3\n", PATH, ENTRY)
    with pytest.raises(KeyError):
        drop("", PATH)


def test_the_lines_of_a_table_mean_what_was_given() -> None:
    assert tomllib.loads("\n".join(table(PATH, ENTRY))) == {"mcp_servers": {"bullpen": ENTRY}}
