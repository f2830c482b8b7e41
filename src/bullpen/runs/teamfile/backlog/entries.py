"""One entry of a backlog, and the rules for entries. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError

from bullpen.errors import Invalid
from bullpen.protocol.task import Effort
from bullpen.runs.teamfile.file_table import FileTable
from bullpen.runs.teamfile.mistakes import mistakes_of
from bullpen.runs.teamfile.tables import Gate, TaskBudgetTable

ENTRIES_MAX = 5_000
"""The most entries of one source."""

SUBJECT_MAX = 500
DESCRIPTION_MAX = 100_000
LINE_MAX = 20_000
SOURCE_BYTES_MAX = 8_000_000
"""The most bytes of a source: a file, or the output of a command."""

_FIELDS = "https://bullpen-dev.github.io/bullpen/latest/reference/team-file.html#backlog"

# Characters that reverse the direction of text: a person would not read what an agent gets.
_TURNS_AROUND = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


# Many programs number their entries.
Key = Annotated[str, BeforeValidator(lambda said: str(said) if type(said) is int else said)]


class Fields(FileTable):
    """The fields of an entry besides its text."""

    id: Key | None = None
    needs: list[str] | None = None
    effort: Effort | None = None
    after: list[Key] = Field(default_factory=list)
    # Commands or checks.
    checks: list[Gate] | None = None
    budget: TaskBudgetTable | None = None


class EntryLine(Fields):
    """The JSON object that a command prints for each entry."""

    subject: str
    description: str = ""


State = Literal["open", "closed", "elsewhere"]
"""Whether an entry is open, is done, or is in a part of the file that is not read."""


@dataclass(frozen=True, slots=True)
class BacklogEntry:
    """An entry of a backlog. `where` is its place for errors, such as `BACKLOG.md:12`."""

    where: str
    # Its permanent key in its source.
    key: str
    subject: str
    description: str
    fields: Fields
    state: State = "open"


def fields_of(said: object, where: str, kind: type[Fields] = Fields) -> Fields:
    """Return the fields of an entry. Raises Invalid, naming the place and the key."""
    if not isinstance(said, Mapping):
        raise wrong(where, "its fields are not a table of keys and values")
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        first = mistakes_of(error, said, kind)[0]
        raise wrong(where, first.words(said)) from None


def check_entry(entry: BacklogEntry) -> None:
    """Refuse an entry without text, with too much of it, or with hidden characters.

    Raises Invalid.
    """
    if not entry.subject.strip():
        raise wrong(entry.where, "the entry has no subject")
    for name, text, most in (
        ("subject", entry.subject, SUBJECT_MAX),
        ("description", entry.description, DESCRIPTION_MAX),
    ):
        if len(text) > most:
            raise wrong(entry.where, f"the {name} has {len(text)} characters; the most is {most}")
    fields = [*entry.fields.after, *(entry.fields.needs or ())]
    for text in (entry.key, entry.subject, entry.description, *fields):
        check_text(text, entry.where)


def check_text(text: str, where: str) -> None:
    """Refuse hidden characters. Raises Invalid."""
    if text.isascii() and text.isprintable():
        return
    for character in text:
        unseen = unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
        if unseen or character in _TURNS_AROUND:
            raise wrong(where, f"the character U+{ord(character):04X} is not allowed in a task")


def lines_in(text: str) -> list[str]:
    """Return the lines of a text as editors count them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def check_lines(lines: Sequence[str], where: str) -> None:
    """Refuse overlong lines. Raises Invalid, naming the line."""
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_MAX:
            raise wrong(f"{where}:{number}", f"the line is longer than {LINE_MAX} characters")


def wrong(where: str, why: str) -> Invalid:
    """Return the error for an entry that is not valid."""
    remedy = f"Correct the entry, then try again. Its fields: {_FIELDS}"
    return Invalid(f"{where}: {why}.", remedy=remedy)
