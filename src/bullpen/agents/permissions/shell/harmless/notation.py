"""Read the tables of harmless words.

An entry is `PROGRAM [SUBCOMMAND ...]: TOKENS`. Several names share an entry if commas separate
them. The tokens are what may follow the name:

| token | meaning |
| --- | --- |
| `any` | every word is harmless |
| `-abc` | the short options a, b and c, alone or combined |
| `-abn=KIND` | the same; n has a value of this kind, attached or in the next word |
| `-abU?` | the same; U may have a value attached |
| `-#` | a number as an option: `-5` |
| `--name` | a long option, also with `=` and any value |
| `--name=KIND` | a long option with a value of this kind, attached or in the next word |
| `/REGEX/` | a word that starts with a dash and matches as a whole |
| `*KIND`, `*KIND,KIND` | operands: the kind of each, the last one for all that follow |
| `one-dash` | this program's long options have one dash or two, and its letters do not combine |
| `at` | a word may start with `@` (most programs read a file of options then) |
| `needs:X,Y` | harmless only with one of these words |
| `-- TOKENS` | what may follow the word `--` (without it: operands; with `one-dash` nothing) |
| `@GROUP` | the tokens of the entry `@GROUP` |

The kinds of values and operands are in `judge.py`; an empty KIND is any value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

_DASHES = "--"


@dataclass(slots=True)
class Harmless:
    """The harmless words behind one program or subcommand. A kind of None takes no word."""

    anything: bool = False
    shorts: dict[str, str | None] = field(default_factory=dict)
    longs: dict[str, str | None] = field(default_factory=dict)
    patterns: list[re.Pattern[str]] = field(default_factory=list)
    operands: tuple[str, ...] = ()
    one_dash: bool = False
    at: bool = False
    needs: frozenset[str] = frozenset()
    tail: Harmless | None = None


class Tables(Mapping[str, Harmless]):
    """The entries of some tables by program and subcommand, each read when somebody asks for it."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self._read: dict[str, Harmless] = {}

    @cached_property
    def _tokens(self) -> dict[str, list[str]]:
        tokens: dict[str, list[str]] = {}
        for text in self._texts:
            for entry in re.split(r"\n(?=\S)", text.strip()):
                names, _, rest = " ".join(entry.split()).partition(": ")
                for name in names.split(", "):
                    tokens[name] = rest.split()
        return tokens

    @cached_property
    def with_subcommands(self) -> frozenset[str]:
        """The programs that have entries for subcommands."""
        return frozenset(key.split()[0] for key in self if " " in key)

    @cached_property
    def groups(self) -> frozenset[str]:
        """The subcommands that have subcommands themselves."""
        return frozenset(key.rpartition(" ")[0] for key in self if key.count(" ") > 1)

    def __getitem__(self, name: str) -> Harmless:
        if name not in self:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = _entry(self._tokens[name], self._tokens)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and not name.startswith("@") and name in self._tokens

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._tokens if not name.startswith("@"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _entry(tokens: list[str], groups: dict[str, list[str]]) -> Harmless:
    found = Harmless()
    for at, token in enumerate(tokens):
        if token == _DASHES:
            found.tail = _entry(tokens[at + 1 :], groups)
            break
        _add(found, token, groups)
    return found


def _add(found: Harmless, token: str, groups: dict[str, list[str]]) -> None:
    if token.startswith("@"):
        for each in groups[token]:
            _add(found, each, groups)
    elif token in {"any", "one-dash", "at"}:
        setattr(found, {"any": "anything", "one-dash": "one_dash"}.get(token, token), True)
    elif token.startswith("needs:"):
        found.needs = frozenset(token.removeprefix("needs:").split(","))
    elif token.startswith("*"):
        found.operands = tuple(kind or "any" for kind in token[1:].split(","))
    elif token.startswith("/"):
        found.patterns.append(re.compile(token[1:-1]))
    elif token.startswith("--") or found.one_dash:
        name, has_value, kind = token.partition("=")
        found.longs[name.lstrip("-")] = (kind or "any") if has_value else None
    else:
        letters, has_value, kind = token[1:].partition("=")
        if token.endswith("?"):
            letters, has_value, kind = token[1:-1], "?", "attached"
        found.shorts.update(dict.fromkeys(letters, None))
        if has_value:
            found.shorts[letters[-1]] = kind or "any"
