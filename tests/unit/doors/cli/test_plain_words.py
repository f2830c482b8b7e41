"""Words of a command line that are taken without Typer's adapters."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.main import get_command

from bullpen.doors.cli.options.plain_words import PlainWords, taking_plain_words


def command(annotation: Any, **limits: Any) -> Any:
    """A command with one option of this type."""
    app = typer.Typer(add_completion=False)

    def run(**_: Any) -> None:
        """Do nothing."""

    run.__annotations__ = {}
    option = typer.Option(
        "--given/--no-given" if annotation == bool | None else "--given", **limits
    )
    parameter = Parameter(
        "given", Parameter.KEYWORD_ONLY, annotation=Annotated[annotation, option], default=None
    )
    run.__signature__ = Signature([parameter])  # type: ignore[attr-defined]
    app.command()(run)
    return get_command(app)


def outcome(found: Any, words: list[str]) -> Any:
    """What a command gets for these words, or why they are refused."""
    try:
        return found.make_context("try", list(words)).params["given"]
    except typer.TyperException as error:
        return type(error).__name__, error.format_message()


KINDS: list[tuple[Any, dict[str, Any]]] = [
    (str | None, {}),
    (int | None, {}),
    (int | None, {"min": 1, "max": 50}),
    (int | None, {"min": 1, "max": 50, "clamp": True}),
    (float | None, {"min": 0.1}),
    (bool | None, {}),
    (Literal["one", "two"] | None, {}),
    (Literal["one", "two"] | None, {"case_sensitive": False}),
    (list[str] | None, {}),
    (list[int] | None, {"min": 1}),
]
WORDS = [
    "", " ", "one", "ONE", "two ", "0", "1", "7", "007", "50", "51", "-1", "+1", "1.0", "1_0", "٣",
    "0.5", ".5", "2.", ".", "1.2.3", "1e3", "9" * 30, "true", "nan", "é", "a\ud800b", "\udcff",
    "x" * 5000, "None",
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "limits"), KINDS, ids=str)
def test_every_word_becomes_what_typer_makes_of_it(annotation: Any, limits: Any) -> None:
    switch = annotation == bool | None
    lines = [[], *([["--given"], ["--no-given"]] if switch else [])]
    lines += [] if switch else [["--given", word] for word in WORDS]
    lines += [] if switch else [["--given", "1", "--given", word] for word in WORDS]
    for words in lines:
        ours = command(annotation, **limits)
        taking_plain_words(ours.params)
        theirs = command(annotation, **limits)
        assert outcome(ours, words) == outcome(theirs, words), words


def test_a_plain_word_needs_no_adapter_and_another_one_does() -> None:
    found = command(int | None, min=1)
    (param,) = taking_plain_words(found.params)
    assert outcome(found, ["--given", "7"]) == 7
    assert isinstance(param._runtime_param, PlainWords)
    (seconds,) = taking_plain_words((fractions := command(float | None, min=0.1)).params)
    assert outcome(fractions, ["--given", "2.5"]) == 2.5
    assert isinstance(seconds._runtime_param, PlainWords)
    assert outcome(found, ["--given", "0"])[0] == "BadParameter"
    assert not isinstance(param._runtime_param, PlainWords)
