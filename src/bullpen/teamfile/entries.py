"""One entry of a backlog, as its source says it, and what no entry may be. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError

from bullpen.errors import Invalid
from bullpen.protocol.task import Effort
from bullpen.teamfile.mistakes import mistakes_of
from bullpen.teamfile.tables import Gate, Table, TaskBudgetTable

ENTRIES_MAX = 5_000
"""So many entries one source may have."""

SUBJECT_MAX = 500
DESCRIPTION_MAX = 100_000
LINE_MAX = 20_000
SOURCE_BYTES_MAX = 8_000_000
"""So long a source may be: a file, or what a command prints."""

REMEDY = "Correct the entry, then try again: docs/reference/team-file.md says what one may be."

# They turn the order of what is shown around: what a person reads is not what an agent gets.
_TURNS_AROUND = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


# Most programs that keep lists count their entries.
Key = Annotated[str, BeforeValidator(lambda said: str(said) if type(said) is int else said)]


class Fields(Table):
    """What an entry may say of itself beside its words."""

    id: Key | None = None
    needs: list[str] | None = None
    effort: Effort | None = None
    after: list[Key] = Field(default_factory=list)
    # Commands, or checks as a task has them.
    checks: list[Gate] | None = None
    budget: TaskBudgetTable | None = None


class Line(Fields):
    """What a command prints for each entry."""

    subject: str
    description: str = ""


State = Literal["open", "closed", "elsewhere"]
"""Whether an entry is to be done, is done, or stands in a part of the file that is not read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a backlog. `where` names its place in messages, as `BACKLOG.md:12`."""

    where: str
    # What it is known by in its source, for good.
    key: str
    subject: str
    description: str
    fields: Fields
    state: State = "open"


def fields_of(said: object, where: str, kind: type[Fields] = Fields) -> Fields:
    """What an entry says of itself. Raises Invalid, naming the place and the key."""
    if not isinstance(said, Mapping):
        raise wrong(where, "it is no set of keys")
    try:
        return kind.model_validate(said)
    except ValidationError as error:
        first = mistakes_of(error, said, kind)[0]
        raise wrong(where, first.words(said)) from None


def checked(entry: Entry) -> Entry:
    """The entry, if its words can be those of a task.

    Raises:
        Invalid: it has none, too many, or some that are not what they look like.
    """
    if not entry.subject.strip():
        raise wrong(entry.where, "the entry does not say what is to do")
    if len(entry.subject) > SUBJECT_MAX:
        raise wrong(
            entry.where,
            f"what is to do takes {len(entry.subject)} characters, not at most {SUBJECT_MAX}",
        )
    if len(entry.description) > DESCRIPTION_MAX:
        raise wrong(
            entry.where,
            f"the description takes {len(entry.description)} characters, not at most"
            f" {DESCRIPTION_MAX}",
        )
    said = [
        entry.key,
        entry.subject,
        entry.description,
        *entry.fields.after,
        *(entry.fields.needs or ()),
    ]
    for text in said:
        check_text(text, entry.where)
    return entry


def check_text(text: str, where: str) -> None:
    """Refuse characters that nobody sees. Raises Invalid."""
    if text.isascii() and text.isprintable():
        return
    for character in text:
        unseen = unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
        if unseen or character in _TURNS_AROUND:
            raise wrong(where, f"the character U+{ord(character):04X} cannot be in a task")


def lines_in(text: str) -> list[str]:
    """The lines of a text as editors count them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def check_lines(lines: Sequence[str], where: str) -> None:
    """Refuse lines that are longer than anybody writes. Raises Invalid, naming the line."""
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_MAX:
            raise wrong(f"{where}:{number}", f"the line is longer than {LINE_MAX} characters")


def wrong(where: str, why: str) -> Invalid:
    """What is told of an entry that cannot be one."""
    return Invalid(f"{where}: {why}.", remedy=REMEDY)
