"""The colors of the team screen are configured."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator

import pytest
from textual import constants

from bullpen.doors.cli.screens.theme import VARIABLE, use_theme
from bullpen.doors.cli.session import Session
from bullpen.errors import Invalid


@pytest.fixture(autouse=True)
def imported_anew(home: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "textual-dark")
    monkeypatch.delenv(VARIABLE)
    yield
    os.environ.pop(VARIABLE, None)
    importlib.reload(constants)


def test_textual_takes_the_configured_theme(ok: Callable[..., str]) -> None:
    use_theme(Session())
    assert VARIABLE not in os.environ
    ok("config", "set", "theme", "nord")
    use_theme(Session())
    assert importlib.reload(constants).DEFAULT_THEME == "nord"


def test_an_unknown_theme_gets_a_guess(ok: Callable[..., str]) -> None:
    ok("config", "set", "theme", "norf")
    with pytest.raises(Invalid) as error:
        use_theme(Session())
    assert "There is no theme 'norf'. Did you mean 'nord'?" in error.value.message
