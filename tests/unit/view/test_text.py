"""Texts as lists and sentences show them: cut after a word, and begun in small letters."""

from __future__ import annotations

import pytest

from bullpen.errors import BullpenError
from bullpen.view.text import SHORT_MAX, shortened, within_sentence


def test_a_text_that_is_too_long_is_cut_after_a_word_and_shows_it() -> None:
    goal = "Make every test of the parser pass. " * 20
    cut = shortened(goal)
    assert len(cut) <= SHORT_MAX
    assert cut.endswith("…")
    assert goal.split()[: len(cut.split())] == cut.removesuffix("…").split()


def test_a_text_that_fits_is_kept_on_one_line() -> None:
    assert shortened("Make the\n  tests pass.") == "Make the tests pass."
    assert shortened("x" * SHORT_MAX) == "x" * SHORT_MAX


@pytest.mark.parametrize("text", ["テスト" * 100, "a " + "b" * 300])
def test_a_text_with_hardly_a_space_is_cut_inside_a_word(text: str) -> None:
    assert shortened(text, 100) == text[:99] + "…"


def test_a_sentence_inside_another_begins_in_small_letters() -> None:
    assert within_sentence("The repository has no commits.") == "the repository has no commits."
    assert within_sentence("API keys are missing.") == "API keys are missing."
    assert within_sentence("/srv/shop is not a directory.") == "/srv/shop is not a directory."
    assert within_sentence("") == ""


@pytest.mark.parametrize("message", ["The key is wrong", "The key is wrong."])
def test_an_error_and_its_remedy_are_two_sentences(message: str) -> None:
    assert str(BullpenError(message, remedy="Set it.")) == "The key is wrong. Set it."


def test_an_error_without_a_remedy_is_its_message() -> None:
    assert str(BullpenError("invalid x-api-key (HTTP 401)")) == "invalid x-api-key (HTTP 401)"
