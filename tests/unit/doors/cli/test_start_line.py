"""What a person at a terminal sees while an agent starts."""

from __future__ import annotations

import pytest

from bullpen.doors.cli.output.start_line import StartLine

CLEAR = "\r\x1b[K"


class Terminal:
    """A clock, and what was written."""

    def __init__(self, *, live: bool = True, width: int = 80) -> None:
        self.now = 0.0
        self.written: list[str] = []
        self.line = StartLine(
            live=live, draw=self.written.append, width=lambda: width, now=lambda: self.now
        )

    def at(self, seconds: float) -> list[str]:
        self.now = seconds
        self.written.clear()
        self.line.look(seconds)
        return list(self.written)


def test_the_line_says_what_the_agent_does_and_for_how_long() -> None:
    terminal = Terminal()
    terminal.line.step("alice", "starting its process")
    assert terminal.at(0.1) == []
    assert terminal.at(0.4) == [f"{CLEAR}starting alice: starting its process 0 s"]
    terminal.line.step("alice", "loading model client")
    assert terminal.at(2.5) == [f"{CLEAR}starting alice: loading model client 2 s"]
    terminal.line.step("alice", "loading model client")
    assert terminal.at(5.4) == [f"{CLEAR}starting alice: loading model client 5 s"]


def test_the_line_is_removed_before_anything_else_is_written() -> None:
    terminal = Terminal()
    terminal.line.step("alice", "loading model client")
    terminal.at(1.0)
    terminal.line.clear()
    terminal.line.clear()
    assert terminal.written[1:] == [CLEAR]


def test_a_quick_start_writes_nothing() -> None:
    terminal = Terminal()
    terminal.line.step("alice", "loading model client")
    terminal.at(0.2)
    terminal.line.clear()
    assert terminal.written == []


def test_a_plain_line_is_written_once_and_only_if_it_takes_long() -> None:
    terminal = Terminal(live=False)
    terminal.line.step("alice", "loading model client")
    assert terminal.at(1.9) == []
    assert terminal.at(2.1) == ["starting alice: loading model client\n"]
    terminal.line.step("alice", "something else")
    assert terminal.at(9.0) == []


@pytest.mark.parametrize("width", [20, 21])
def test_it_never_wraps_and_what_agents_say_steers_no_terminal(width: int) -> None:
    terminal = Terminal(width=width)
    terminal.line.step("al\x1b[2Jice", "x" * 50)
    (drawn,) = terminal.at(1.0)
    assert len(drawn.removeprefix(CLEAR)) == width - 1
    assert drawn.removeprefix(CLEAR).isprintable()
