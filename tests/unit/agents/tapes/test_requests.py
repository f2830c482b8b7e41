"""What differs between two requests, and what changes by nature."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.agents.mail.briefing import BEGIN, END
from bullpen.agents.mail.message_frame import notice_of_provenance
from bullpen.agents.tapes.places import Places
from bullpen.agents.tapes.requests import Asked, Piece, difference, kept, pieces_of, together

MAIL = '<teammate-message teammate_id="ann">\nDone.\n</teammate-message>'
OTHER = '<teammate-message teammate_id="bob">\nReady.\n</teammate-message>'
ASKED = Asked("Be brief.", {"Read": "1", "Write": "2"}, 3, (Piece("Read", "1\tApples"),))


def test_equal_requests_do_not_differ() -> None:
    assert difference(ASKED, replace(ASKED), alone=True) is None


@pytest.mark.parametrize(
    ("now", "what", "line"),
    [
        (replace(ASKED, system="Be long."), "system prompt", "+Be long."),
        (replace(ASKED, tools={"Read": "1"}), "tools", "- Write"),
        (replace(ASKED, tools={"Read": "1", "Write": "3"}), "tools", "~ Write: "),
        (replace(ASKED, tools={"Write": "2", "Read": "1", "Bash": "4"}), "tools", "+ Bash"),
        (replace(ASKED, words_only=True), "kind of request", "+ a request for words only"),
        (replace(ASKED, pieces=(Piece("Read", "1\tPears"),)), "messages", "-1\tApples"),
        (replace(ASKED, messages=5), "length of the conversation", "+ 5 messages"),
    ],
)
def test_a_difference_is_named_with_its_first_lines(now: Asked, what: str, line: str) -> None:
    found = difference(ASKED, now, alone=True)
    assert found is not None
    assert found.what == what
    assert any(each.startswith(line) for each in found.lines), found.lines


def test_messages_may_come_in_any_order() -> None:
    one = replace(ASKED, pieces=(Piece("mail", MAIL), Piece("mail", OTHER)))
    two = replace(ASKED, pieces=(Piece("mail", OTHER), Piece("mail", MAIL)))
    assert difference(one, two, alone=False) is None


def test_a_briefing_tells_no_states_and_with_others_no_progress() -> None:
    told = f"{BEGIN}\nYou are ann.\nMembers:\n- ann (you): idle\n{END}"
    working = told.replace("idle", "working: Bash make")
    more = told.replace("- ann", "- bob: idle\n- ann")

    def asked(text: str) -> Asked:
        return replace(ASKED, pieces=(Piece("digest", text),))

    assert difference(asked(told), asked(working), alone=True) is None
    assert difference(asked(told), asked(more), alone=True) is not None
    assert difference(asked(told), asked(more), alone=False) is None
    other = told.replace("You are ann.", "You are bob.")
    assert difference(asked(told), asked(other), alone=False) is not None


def test_a_prompt_is_taken_apart_and_put_together_again() -> None:
    briefing = f"{BEGIN}\nYou are ann.\n{END}"
    prompt = f"{briefing}\n\nA note.\n\n{notice_of_provenance}\n\n{MAIL}\n\n{OTHER}"
    found = pieces_of(prompt)
    assert [piece.kind for piece in found] == ["digest", "text", "mail", "mail"]
    assert together(found) == prompt
    words = "Your user says:\nStop.\n\nNow.\n\nYour user says:\nGo on."
    assert [piece.text for piece in pieces_of(words)] == [
        "Your user says:\nStop.\n\nNow.",
        "Your user says:\nGo on.",
    ]


def test_a_long_result_is_kept_with_the_digest_of_the_whole() -> None:
    one, two = Piece("Bash", "a" * 9_000), Piece("Bash", "a" * 8_999 + "b")
    assert len(kept(one).text) < 5_000
    assert kept(one) != kept(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("at /home/una/p/src/lex.py", "at /srv/q/src/lex.py"),
        ("id 4a5ed0ba-2f4e-4c57-8f4f-6c1d3c6f2a10", "id 00000000-0000-4000-8000-000000000000"),
        ("[main 3f2a1b9] Begin", "[main 81ab0cd] Begin"),
        ("1 passed in 0.03s", "1 passed in 1.5s"),
        ("The time is 2026-11-19T10:41:30.854Z.", "The time is 2027-01-02T03:04:05.678Z."),
        ("http://127.0.0.1:4321/x", "http://127.0.0.1:80/x"),
        ("ann is ready (native, subprocess).", "ann is ready (native, in-process)."),
        ("team run-20261119-104110", "team night"),
    ],
)
def test_what_changes_by_nature_is_not_compared(one: str, two: str) -> None:
    first = Places({"project": "/home/una/p"}, "run-20261119-104110")
    second = Places({"project": "/srv/q"}, "night")
    assert first.normal(one) == second.normal(two)
    assert first.normal("Apples are red") == "Apples are red"


def test_the_name_of_a_team_may_be_a_word_of_any_text() -> None:
    assert Places({}, "fruit").normal("Write about fruit") == "Write about fruit"


def test_places_of_an_answer_are_those_of_the_replay() -> None:
    marked = Places({"project": "/home/una/p"}).marked("cat /home/una/p/notes.md")
    assert Places({"project": "/srv/q"}).unmarked(marked) == "cat /srv/q/notes.md"
