"""Rules for questions to a person: what may be asked, and what an answer to it means. Pure.

Only a person answers a question. The words of the answer are what the asker gets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bullpen.errors import Invalid
from bullpen.protocol.request import Request

QUESTIONS_MAX = 4
OPTIONS_MAX = 8

_NUMBERS = re.compile(r"\d+(?:\s*,\s*\d+)*")


def check_questions(questions: Sequence[Mapping[str, Any]]) -> None:
    """Refuse questions that nobody could answer. Raises Invalid."""
    if not 1 <= len(questions) <= QUESTIONS_MAX:
        raise Invalid(
            f"A request has 1 to {QUESTIONS_MAX} questions, not {len(questions)}.",
            remedy="Ask what you need to know most.",
        )
    for asked in questions:
        if not str(asked.get("question") or "").strip():
            raise Invalid("A question is empty.", remedy="Say what you want to know.")
        if len(_options(asked)) > OPTIONS_MAX:
            raise Invalid(
                f"A question has more than {OPTIONS_MAX} options.", remedy="Offer the best ones."
            )


def answer_words(request: Request, words: str | None) -> str:
    """What the asker gets: the options that a person chose by number, or the person's own words.

    Raises Invalid if there are no words, or a number is not one of the options.
    """
    if words is None or not words.strip():
        raise Invalid(
            f"Request {request.id!r} is a question: it needs an answer in words.",
            remedy=f"For example: bullpen approve {request.id} --message 'YOUR ANSWER'",
        )
    asked = questions_of(request)
    options = _options(asked[0]) if len(asked) == 1 else []
    if not options or _NUMBERS.fullmatch(words.strip()) is None:
        return words.strip()
    numbers = [int(number) for number in words.split(",")]
    if len(numbers) > 1 and asked[0].get("multiSelect") is not True:
        raise Invalid("Only one option can be chosen.", remedy="Give one number, or words.")
    if any(not 1 <= number <= len(options) for number in numbers):
        raise Invalid(
            f"{words.strip()!r} is not an option.",
            remedy=f"Give a number from 1 to {len(options)}, or words.",
        )
    return ", ".join(str(options[number - 1].get("label", "")) for number in numbers)


def questions_of(request: Request) -> list[Mapping[str, Any]]:
    """The questions of a request."""
    asked = request.subject.get("questions")
    return [each for each in asked if isinstance(each, dict)] if isinstance(asked, list) else []


def question_lines(request: Request) -> list[str]:
    """The questions with their numbered options, as a person reads them."""
    lines: list[str] = []
    for asked in questions_of(request):
        lines += str(asked.get("question", "")).split("\n")
        several = " (several are possible)" if asked.get("multiSelect") is True else ""
        for number, option in enumerate(_options(asked), start=1):
            about = f": {option['description']}" if option.get("description") else ""
            lines.append(f"  {number}. {option.get('label', '')}{about}{several}")
    return lines


def _options(asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    options = asked.get("options")
    return [each for each in options if isinstance(each, dict)] if isinstance(options, list) else []
