"""What notices say: plain words, whatever agents write."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.protocol.clock import iso
from bullpen.runs.reach.courier import payload_of
from bullpen.runs.reach.notice_text import LINES_MAX, TEXT_MAX, Link, notice_of, plain
from bullpen.view.notable_events import Happening, Kind
from support.rows import each_row

ADDRESS = "https://team.example.com/answer/abc"


def happening(text: str = "x", kind: Kind = "asked", **more: str) -> Happening:
    return Happening(kind, "alpha", iso(1), text, agent="bob", **more)  # type: ignore[arg-type]


def links(about: Happening) -> list[Link]:
    if about.kind != "asked":
        return []
    return [Link(words, f"{ADDRESS}{words[0].lower()}") for words in ("Allow", "Deny", "Open")]


def notice(*said: Happening, secret: str = "s3cr3t-value") -> tuple[str, str]:
    made = notice_of(
        "alpha", said, links=links, redacted=lambda text: text.replace(secret, "[secret]"), tag="t"
    )
    return made.title, made.body


TRICKS = [
    ("https://evil.example/x", r"https?://|evil\.example"),
    ("visit evil.com or setup.py", r"evil\.com|setup\.py"),
    ("<b>x</b> <!channel> <@U1>", r"[<>]"),
    ("**x** _x_ `x` ~x~ ||x||", r"[*_`~|]"),
    ("[x](javascript:alert(1))", r"[\[\]]|javascript:"),
    ("@everyone @here a@b.c", r"@"),
    ("&lt;script&gt;", r"&"),
    ("#trend", r"#t"),
    ("mailto:x tel:112", r"mailto:|tel:"),
    ("a\nb\r\nAllow: x", r"\n"),
    ("\u202egnp.exe\u200b \x1b[31m \x00", "[\u202e\u200b\x1b\x00]"),
]


@each_row(("text", "trick"), TRICKS)
def test_no_chat_finds_markup_links_or_mentions_in_words_of_agents(text: str, trick: str) -> None:
    assert re.search(trick, plain(text, 400)) is None


@given(st.text(max_size=600))
def test_words_are_bounded_and_on_one_line(text: str) -> None:
    found = plain(text, 50)
    assert len(found) <= 50
    assert "\n" not in found
    assert "://" not in found
    assert not set(found) & set("<>&*_`~|[]@\\")


def test_ordinary_words_stay_as_they_are() -> None:
    assert plain("bob asks: Bash git push origin main (#12)", 200) == (
        "bob asks: Bash git push origin main (#12)"
    )


def test_a_request_says_who_asks_for_what_and_has_three_links() -> None:
    title, body = notice(happening("bob asks: Bash ls"))
    assert title == "Bullpen: alpha needs you"
    assert body == (f"bob asks: Bash ls\n\nAllow: {ADDRESS}a\nDeny: {ADDRESS}d\nOpen: {ADDRESS}o")


def test_secrets_are_redacted_before_anything_else() -> None:
    _, body = notice(happening("bob asks: Bash curl s3cr3t-value"))
    assert "s3cr3t" not in body
    assert "secret" in body


@pytest.mark.parametrize(
    ("status", "title"),
    [
        ("done", "Bullpen: alpha is done"),
        ("failed", "Bullpen: alpha failed"),
        ("unfinished", "Bullpen: alpha ended unfinished"),
        ("interrupted", "Bullpen: alpha was interrupted"),
    ],
)
def test_the_end_of_a_run_says_how_it_ended(status: str, title: str) -> None:
    assert notice(happening("done: it works", "ended", status=status))[0] == title


def test_a_digest_begins_with_what_waits_and_links_only_that() -> None:
    title, body = notice(
        happening("#1 is merged", "merged"),
        happening("bob asks: Bash ls"),
        happening("done: all", "ended", status="done"),
    )
    assert title == "Bullpen: alpha: 3 notices, 1 waits for you"
    assert body.split("\n") == [
        "– bob asks: Bash ls",
        "– done: all",
        "– #1 is merged",
        "",
        f"Open (bob): {ADDRESS}o",
    ]


def test_a_digest_of_very_much_is_bounded() -> None:
    title, body = notice(*(happening("y" * 5_000) for _ in range(150)))
    lines = body.split("\n")
    assert title.endswith("150 notices, 150 wait for you")
    assert lines[LINES_MAX] == f"– and {150 - LINES_MAX} more"
    assert len([line for line in lines if line.startswith("Open")]) == 5
    assert len(body) < (LINES_MAX + 8) * (TEXT_MAX + 10)


def test_a_push_fits_into_what_browsers_take() -> None:
    made = notice_of(
        "alpha",
        [happening("\U0001f600" * 5_000) for _ in range(150)],
        links=links,
        redacted=lambda text: text,
        tag="t",
    )
    found = payload_of(made)
    assert found["link"] == f"{ADDRESS}o"
    assert len(found["words"].encode()) <= 3_000
