"""What a person types into the input line: a message, or a command that begins with `/`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from bullpen.errors import Invalid
from bullpen.protocol.names import EVERYBODY, LEAD, SHORT_LEAD
from bullpen.protocol.policy import MODES


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, the words it takes, and what it does."""

    name: str
    takes: str
    about: str
    least: int = 0

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.takes}".rstrip()


COMMANDS = (
    Command("spawn", "NAME PROMPT", "Start a teammate", 2),
    Command("stop", "[NAME]", "Stop an agent"),
    Command("interrupt", "[NAME]", "End an agent's turn; it keeps running"),
    Command("mode", "MODE [NAME]", "Change an agent's permission mode", 1),
    Command("task", "TEXT", "Add a task", 1),
    Command("assign", "ID NAME", "Assign a task to a member", 2),
    Command("budget", "USD|none", "Set what the team may spend", 1),
    Command("diff", "[NAME|ID]", "Show the changes of a member or of a task"),
    Command("attach", "[NAME]", "Show an agent's own terminal"),
    Command("graph", "", "Show the graph of tasks"),
    Command("messages", "", "Show the messages of all members"),
    Command("log", "", "Show what happened"),
    Command("notes", "", "Show the plan and the other notes"),
    Command("teams", "", "Switch to another team"),
    Command("theme", "", "Switch to the next theme"),
    Command("finish", "[SUMMARY]", "End the run; the agents stop"),
    Command("quit", "", "Leave this screen; in a run: stop it, asks first"),
    Command("help", "", "Show all keys and commands"),
)
_BY_NAME = {command.name: command for command in COMMANDS}
_ALIASES = {"exit": "quit"}
# What people type who mean a page that a key opens.
_PAGES = {"tasks": "To see the tasks, press ctrl+t. To add one: /task TEXT"}
_TAKES_NAME = ("stop", "interrupt", "diff", "attach")


@dataclass(frozen=True, slots=True)
class Typed:
    """A message to somebody (None: to whom the input line is directed), or a command."""

    text: str
    to: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a person may mean: the whole input with it, and what to show."""

    text: str
    shown: str
    about: str = ""


def read_typed(text: str, names: Collection[str]) -> Typed:
    """What was typed. Raises Invalid for a command or a name that there is none of."""
    head, _, rest = text.strip().partition(" ")
    first, newline, more = head.partition("\n")
    head, rest = first, f"{more} {rest}".strip() if newline else rest.strip()
    if head.startswith("/") and "/" not in head[1:] and head != "/":
        return _command(head[1:], rest)
    if head.startswith("@") and len(head) > 1 and not {"/", "."} & set(head):
        return Typed(rest, to=member_called(head[1:].rstrip(":,"), names))
    return Typed(text.strip())


def member_called(name: str, names: Collection[str]) -> str:
    """The member, or everybody, that a person calls so. Raises Invalid."""
    if f"@{name.removeprefix('@')}" == EVERYBODY:
        return EVERYBODY
    if name in names:
        return name
    if name == SHORT_LEAD and LEAD in names:
        return LEAD
    close = get_close_matches(name, [*names, SHORT_LEAD], 1)
    hint = f"Did you mean {close[0]}?" if close else "Names are in the list of the team."
    raise Invalid(f"There is no member {name!r} in this team.", remedy=hint)


def words_of(command: str, text: str) -> list[str]:
    """The words of a command; the last one may be long. Raises Invalid if some are missing."""
    takes = _BY_NAME[command]
    words = text.split(maxsplit=max(1, len(takes.takes.split())) - 1) if text else []
    if len(words) < takes.least:
        raise Invalid(f"/{command} needs more words.", remedy=f"Type: {takes.usage}")
    return words


def completions(text: str, names: Sequence[str]) -> list[Completion]:
    """What the person may be about to type; empty for plain text."""
    if "\n" in text:
        return []
    head, space, rest = text.partition(" ")
    if head.startswith("/") and "/" not in head[1:]:
        return _arguments(head[1:], rest, names) if space else _commands(head[1:])
    if head.startswith("@") and not space:
        called = [SHORT_LEAD if name == LEAD else name for name in names]
        return _matching(head[1:], [*called, EVERYBODY[1:]], "@", "{} ")
    return []


def _commands(begun: str) -> list[Completion]:
    found = [each for each in COMMANDS if each.name.startswith(begun)]
    found += [each for each in COMMANDS if begun in each.name and each not in found]
    return [
        Completion(f"/{each.name} " if each.takes else f"/{each.name}", each.usage, each.about)
        for each in found
    ]


def _arguments(command: str, rest: str, names: Sequence[str]) -> list[Completion]:
    *before, begun = rest.split(" ")
    if command == "mode" and not before:
        return _matching(begun, MODES, "/mode ", "{} ")
    at_name = {"mode": 1, "assign": 1, **dict.fromkeys(_TAKES_NAME, 0)}.get(command)
    if at_name != len(before):
        return []
    called = [SHORT_LEAD if name == LEAD else name for name in names]
    return _matching(begun, called, f"/{' '.join([command, *before])} ", "{}")


def _matching(begun: str, values: Sequence[str], lead: str, shape: str) -> list[Completion]:
    found = [each for each in values if each.casefold().startswith(begun.casefold())]
    if found == [begun]:
        return []
    return [
        Completion(lead + shape.format(each), lead[:1] * (lead == "@") + each) for each in found
    ]


def _command(name: str, rest: str) -> Typed:
    name = _ALIASES.get(name, name)
    if name not in _BY_NAME:
        close = get_close_matches(name, list(_BY_NAME), 1)
        hint = f"Did you mean /{close[0]}?" if close else "Type / to see all commands."
        hint = _PAGES.get(name, hint)
        raise Invalid(f"There is no command /{name}.", remedy=hint)
    return Typed(rest, command=name)
