"""`bullpen team`: creating, listing, showing, watching and deleting."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def test_watching_gives_one_line_of_json_for_every_change(
    follow: Callable[..., Any], ok: Callable[..., str], team: str
) -> None:
    watching = follow("team", "show", "--watch", "--jsonl")
    first = json.loads(watching.line())
    ok("member", "add", "carol")
    second = json.loads(watching.line())

    assert [len(snapshot["members"]) for snapshot in (first, second)] == [3, 4]
    assert watching.interrupt() == (130, "")


def test_watching_without_a_terminal_gives_one_block_for_every_change(
    follow: Callable[..., Any], ok: Callable[..., str], team: str
) -> None:
    watching = follow("team", "show", "--watch")
    while not watching.line().startswith("waiting for an answer"):
        pass
    ok("member", "add", "carol")
    block = [watching.line() for _ in range(8)]

    assert block[:2] == ["", "alpha: Ship it"]
    assert block[-1].startswith("carol")


def test_watching_at_a_terminal_draws_in_place_until_interrupted(
    at_terminal: Callable[..., tuple[int, str]], ok: Callable[..., str], team: str
) -> None:
    code, shown = at_terminal(
        "team",
        "show",
        "--watch",
        steps=[
            ("waiting for an answer", lambda terminal, process: ok("member", "add", "carol")),
            ("carol", lambda terminal, process: process.send_signal(signal.SIGINT)),
        ],
    )

    assert code == 130
    assert "\x1b[?25l" in shown, "the cursor is hidden while it draws"
    assert "\x1b[?25h" in shown, "and shown again at the end"
    assert "Traceback" not in shown


def test_watching_ends_when_the_team_is_deleted(
    follow: Callable[..., Any], ok: Callable[..., str], team: str
) -> None:
    watching = follow("team", "show", "--watch", "--jsonl")
    watching.line()
    ok("team", "delete", team, "--yes")

    code, said = watching.ended()
    assert code == 3
    assert said.startswith("error: There is no team 'alpha'")


def test_deleting_at_a_terminal_asks_first(
    at_terminal: Callable[..., tuple[int, str]], ok: Callable[..., str], team: str
) -> None:
    def answering(answer: bytes) -> tuple[int, str]:
        step = ("[y/N]", lambda terminal, process: os.write(terminal, answer))
        return at_terminal("team", "delete", team, steps=[step])

    code, said = answering(b"n\n")
    assert code == 2
    assert "nothing was changed." in said
    assert team in ok("team", "list")

    code, said = answering(b"y\n")
    assert code == 0
    assert "Deleted team alpha." in said


def test_an_interrupted_question_deletes_nothing(
    at_terminal: Callable[..., tuple[int, str]], ok: Callable[..., str], team: str
) -> None:
    def press(_: int, process: subprocess.Popen[bytes]) -> None:
        # Python may miss one that comes just before it waits for the answer.
        for _ in range(12):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
                return

    step = ("[y/N]", press)

    code, said = at_terminal("team", "delete", team, steps=[step])

    assert code == 130
    assert "Traceback" not in said
    assert team in ok("team", "list")
