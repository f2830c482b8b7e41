"""The keys of `config.toml`, what each takes, and where it may be set. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from bullpen.app.config.public_address import checked_address
from bullpen.by_name import load
from bullpen.errors import Invalid, NotFound
from bullpen.protocol.policy import MODES

Kind = Literal["word", "mode", "money", "switch", "notices", "address"]

NOTICES = ("bell", "desktop", "off")
"""The ways to notify a person, and none."""

_IN_PROCESS = "in-process"
_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it takes, what it means, and what holds without it."""

    name: str
    kind: Kind
    about: str
    # As a value of a file; None if the command decides.
    built_in: Any = None
    without: str = "not set"
    # Whether the file of a trusted project may set it. What acts on a person's machine may not.
    in_project: bool = True

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"BULLPEN_{self.name.upper()}"

    def checked(self, value: Any) -> Any:
        """The value of a file, if it fits. Raises Invalid."""
        match self.kind:
            case "notices":
                return _notices(value)
            case "address":
                if isinstance(value, str):
                    return checked_address(value)
            case "switch" if isinstance(value, bool):
                return value
            case "money" if isinstance(value, int | float) and not isinstance(value, bool):
                if 0 < value < float("inf"):
                    return float(value)
            case "mode" if value in MODES:
                return value
            case "word" if isinstance(value, str) and value.strip() and value.isprintable():
                if (self.name, value) == ("backend", _IN_PROCESS):
                    raise Invalid(
                        f"backend cannot be {_IN_PROCESS!r}, because only `bullpen run` has it.",
                        remedy="Use subprocess or tmux.",
                    )
                return value
        raise Invalid(f"{self.name} cannot be {value!r}.", remedy=f"Use {_TAKES[self.kind]}.")

    def from_text(self, text: str) -> Any:
        """The value that a word of the command line or of the environment means. Raises Invalid."""
        word: Any = text.strip()
        match self.kind:
            case "notices":
                word = [each.strip() for each in word.split(",") if each.strip()]
            case "switch":
                word = True if word in _ON else False if word in _OFF else word
            case "money":
                with suppress(ValueError):
                    word = float(word)
            case _:
                pass
        return self.checked(word)


_TAKES: Mapping[Kind, str] = {
    "word": "a name",
    "mode": f"one of these: {', '.join(MODES)}",
    "money": "a number of US dollars above 0",
    "switch": "true or false",
    "address": "an https address without a path, such as https://team.example.com",
    "notices": f"one of these, or a list: {', '.join(NOTICES)}",
}

KEYS: tuple[Key, ...] = (
    Key("driver", "word", "Agent program for new agents and teams", "native"),
    Key("model", "word", "Model for new agents and teams", without="the program's own"),
    Key("mode", "mode", "Permission mode of new agents", without="default, or the settings files'"),
    Key(
        "backend",
        "word",
        "Where new agents run: subprocess, tmux or a package's",
        without="subprocess; in-process for run",
    ),
    Key("budget_usd", "money", "Stop new agents and runs after this many US dollars"),
    Key(
        "notify",
        "notices",
        "How to notify you when a run needs you or ends: bell, desktop or off",
        ["off"],
        in_project=False,
    ),
    Key(
        "plain",
        "switch",
        "Print plain lines at a terminal: no tables, colors or screens",
        False,
        in_project=False,
    ),
    Key(
        "public_url",
        "address",
        "Address under which your phone reaches bullpen web; notices then carry links",
        in_project=False,
    ),
    Key(
        "record",
        "word",
        "Directory in which runs record their models' answers as tapes",
        in_project=False,
    ),
    Key("theme", "word", "Colors of the team screen", without="textual-dark", in_project=False),
)
"""Every key."""

_BY_NAME = {key.name: key for key in KEYS}


def key_named(name: str) -> Key:
    """The key of this name. Raises NotFound, with a guess at what was meant."""
    found = _BY_NAME.get(name)
    if found is None:
        raise NotFound(
            f"There is no key {name!r}{_guess(name)}.", remedy="List all keys: bullpen config list"
        )
    return found


def checked_table(
    table: Mapping[str, Any], *, of_project: bool
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The values of a file, and for each key that does not fit, why."""
    values: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    for name, value in table.items():
        key = _BY_NAME.get(name)
        if key is None:
            wrong.append((name, f"there is no key {name!r}{_guess(name)}"))
        elif of_project and not key.in_project:
            wrong.append((name, f"{name} counts only in your own file, not in a project's"))
        else:
            try:
                values[name] = key.checked(value)
            except Invalid as error:
                remedy = error.remedy[:1].lower() + error.remedy[1:]
                wrong.append((name, f"{error.message.removesuffix('.')}; {remedy}".rstrip(".")))
    return values, wrong


def _guess(name: str) -> str:
    close = load("difflib:get_close_matches")(name, _BY_NAME, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (there are: {', '.join(_BY_NAME)})"


def _notices(value: Any) -> list[str]:
    """The ways to notify, as a list."""
    asked = [value] if isinstance(value, str) else value
    known = isinstance(asked, Sequence) and all(each in NOTICES for each in asked)
    if not known or not asked or ("off" in asked and len(asked) > 1):
        raise Invalid(f"notify cannot be {value!r}.", remedy=f"Use {_TAKES['notices']}.")
    return list(dict.fromkeys(asked))
