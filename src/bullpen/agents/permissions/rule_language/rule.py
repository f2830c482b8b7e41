"""The rule language of permissions, as in Claude Code's settings.

A rule is `Tool`, `Tool(specifier)`, `mcp__*`, `mcp__server` or `mcp__server__tool`. The meaning of
a specifier depends on the tool: the words of a command for Bash, a path pattern for file tools, the
host for WebFetch.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bullpen.agents.permissions.rule_language.paths import is_pattern
from bullpen.agents.permissions.rule_language.web_address import domain_of
from bullpen.errors import Invalid

OTHER_TOOLS = frozenset(
    """
    Agent AskUserQuestion LS MultiEdit NotebookEdit NotebookRead Skill SlashCommand Task TodoWrite
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Tools of Claude Code that native agents may not have; settings and other drivers name them."""

READ_TOOLS = frozenset(["Read", "Glob", "Grep", "LS", "NotebookRead"])
WRITE_TOOLS = frozenset(["Edit", "Write", "MultiEdit", "NotebookEdit"])
PATH_TOOLS = READ_TOOLS | WRITE_TOOLS
"""Tools whose specifier is a path pattern."""

EVERY_SERVER = "mcp__*"
"""The rule about all tools of all MCP servers."""

_SERVER_TOOL = re.compile(r"mcp__[A-Za-z0-9.-]+(?:_[A-Za-z0-9.-]+)*(?:__(?:\*|[A-Za-z0-9_.-]+))?")
_LEADING_NAME = re.compile(r"\s*([A-Za-z0-9_.-]*)")
EXACTLY = "="
"""A specifier for Bash that starts with it is a whole command line, whatever is in it."""

_NO_WORDS = re.compile(r"[;&|<>()`$\n\r\0]")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of the commands that a rule matches.

    `*` as a word matches one or more words; inside a word it matches any characters. With
    `open_end`, any words may follow. A text that cannot be split into words is kept as `line`.
    """

    pattern: tuple[str, ...]
    open_end: bool = False
    line: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule. Without a specifier it matches every call of the tool.

    `broken` says why it could not be parsed. A broken rule allows nothing and denies its whole
    tool.
    """

    text: str
    tool: str
    specifier: str | None = None
    words: Words | None = None
    broken: str | None = None

    @property
    def blanket(self) -> bool:
        """Whether it matches every call of its tool."""
        return self.specifier is None and self.broken is None


def tool_of(name: str) -> str:
    """The tool of a tool name or of a rule such as `Bash(git:*)`."""
    return name.split("(", 1)[0]


_SPAWNING = ("SpawnTeammate", "Task")
_EDITING = ("Edit", "MultiEdit", "apply_patch")


def is_server_tool(name: str) -> bool:
    """Whether a text names tools of MCP servers: one, those of a server, or all."""
    return name.startswith("mcp__") and rule_of(name).broken is None


def names_of(tool: str) -> tuple[str, ...]:
    """All names of a tool. A rule or hook about one of them is about all."""
    if tool == "MultiEdit":
        return tool, "Edit"
    return _SPAWNING if tool in _SPAWNING else (tool,)


def one_name(tool: str) -> str:
    """The first of a tool's names, to compare tools by."""
    return names_of(tool)[0]


def given_as(tool: str) -> str:
    """The name to look for in a list of tools: whoever may edit may do so in every form."""
    return "Edit" if tool in _EDITING else one_name(tool)


@lru_cache(maxsize=4096)
def rule_of(text: str) -> Rule:
    """Parse a rule. An invalid rule is marked as broken; nothing is raised."""
    stripped = text.strip()
    found = _LEADING_NAME.match(stripped)
    tool = found.group(1) if found is not None else ""
    if not stripped:
        return Rule(text, "", broken="it is empty")
    if stripped == EVERY_SERVER:
        return Rule(text, EVERY_SERVER)
    if stripped.startswith("mcp__"):
        if _SERVER_TOOL.fullmatch(stripped) is None:
            return Rule(text, tool, broken="MCP rules are mcp__SERVER or mcp__SERVER__TOOL")
        return Rule(text, stripped.removesuffix("__*"))
    rest = stripped[len(tool) :]
    if not tool:
        return Rule(text, "", broken="it does not start with the name of a tool")
    if not rest:
        return Rule(text, tool)
    if not _one_pair(rest):
        return Rule(text, tool, broken="its parentheses do not match")
    return _with_specifier(text, tool, rest[1:-1])


def _one_pair(rest: str) -> bool:
    """Whether one pair of parentheses encloses the whole text."""
    if not rest.startswith("("):
        return False
    depth = 0
    for index, char in enumerate(rest):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return index == len(rest) - 1
    return False


def _with_specifier(text: str, tool: str, specifier: str) -> Rule:
    if not specifier.strip():
        return Rule(text, tool, broken="there is nothing between its parentheses")
    if tool == "Bash":
        if specifier.strip() == "*":
            return Rule(text, tool)
        words = _words(specifier.strip())
        if words is None:
            return Rule(text, tool, broken="it is not a command or the start of one")
        return Rule(text, tool, specifier, words)
    if tool in PATH_TOOLS:
        if not is_pattern(specifier):
            return Rule(text, tool, broken="it is not a path pattern")
        return Rule(text, tool, specifier)
    if tool == "WebFetch":
        if domain_of(specifier) is None:
            return Rule(text, tool, broken="it is not domain:NAME")
        return Rule(text, tool, specifier)
    if tool in OTHER_TOOLS:
        # Kept for programs that know its meaning. Bullpen knows only the tool.
        return Rule(text, tool, specifier)
    return Rule(text, tool, broken=f"{tool} takes no specifier")


def _words(specifier: str) -> Words | None:
    if specifier.startswith(EXACTLY):
        line = specifier.removeprefix(EXACTLY).strip()
        return Words((), line=line) if line else None
    body, open_end = specifier, False
    for suffix in (":*", " *"):
        if specifier.endswith(suffix):
            body, open_end = specifier.removesuffix(suffix).rstrip(), True
            break
    if _NO_WORDS.search(body):
        return None if open_end else Words((), line=specifier)
    try:
        pattern = tuple(shlex.split(body))
    except ValueError:
        return None
    return Words(pattern, open_end) if pattern and pattern[0] else None


def check_rules(rules: Iterable[str], known: Container[str]) -> None:
    """Refuse rules that cannot be parsed or that name unknown tools. Raises Invalid."""
    wrong = [f"{text!r}: {why}" for text in rules if (why := _fault(text, known)) is not None]
    if wrong:
        raise Invalid(
            f"Invalid rules: {'; '.join(wrong)}.",
            remedy="Write rules like Bash(git log:*), Edit(/src/**), Read(~/notes/**),"
            " WebFetch(domain:example.org) or mcp__server__tool.",
        )


def _fault(text: str, known: Container[str]) -> str | None:
    rule = rule_of(text)
    named = rule.tool in OTHER_TOOLS or rule.tool.startswith("mcp__") or rule.tool in known
    if rule.tool and not named:
        return f"there is no tool {rule.tool!r}"
    return rule.broken


def about(rule: Rule, tool: str, *, strict: bool) -> bool:
    """Whether a rule applies to a tool, whatever its specifier.

    Rules for Read apply to all tools that read files, rules for Edit and Write to all that change
    them. `strict` is for deny rules: if unclear, they apply.
    """
    if tool.startswith("mcp__"):
        return _about_server(rule, tool, strict=strict)
    name, tool = one_name(rule.tool), one_name(tool)
    if strict and name.casefold() in ("read", "edit", "write", "bash"):
        name = name.capitalize()
    if name == "Read":
        return tool in READ_TOOLS
    if name in ("Edit", "Write"):
        return tool in WRITE_TOOLS
    return bool(name) and (name == tool or (strict and name.casefold() == tool.casefold()))


def listed(rule: Rule, tool: str) -> bool:
    """Whether this rule in a list of tools is about a tool, or a part of it."""
    if tool.startswith("mcp__"):
        return about(rule, tool, strict=False)
    return given_as(rule.tool) == given_as(tool)


def _about_server(rule: Rule, tool: str, *, strict: bool) -> bool:
    if not rule.tool.startswith("mcp__"):
        return False
    if rule.tool == EVERY_SERVER:
        return True
    if rule.broken is not None:
        return tool.startswith(rule.tool.rstrip("*"))
    whole_server = rule.text.strip().endswith("__*") or rule.tool.count("__") == 1
    if tool == rule.tool:
        return True
    return (whole_server or strict) and tool.startswith(f"{rule.tool}__")


def same_words(words: Words, given: Sequence[str | None]) -> bool:
    """Whether the words of a command match a rule. None is an unknown word."""
    at = {0}
    for wanted in words.pattern:
        if wanted == "*":
            at = set(range(min(at) + 1, len(given) + 1))
        else:
            at = {i + 1 for i in at if i < len(given) and _like(wanted, given[i])}
        if not at:
            return False
    return words.open_end or len(given) in at


def may_be_words(words: Words, given: Sequence[str | None], *, guess: bool) -> bool:
    """Like `same_words`, for deny rules.

    A program also matches by the last part of its path, and options may come between the words of
    the rule: `git -C x push` is a `git push`. With `guess`, an unknown word can be any words.
    """
    at = {0}
    for number, wanted in enumerate(words.pattern):
        reached: set[int] = set()
        for i in at if number == 0 else _past_options(at, given):
            if i == len(given):
                continue
            word = given[i]
            if word is None:
                reached |= set(range(i, len(given) + 1)) if guess else set()
            elif wanted == "*":
                reached |= set(range(i + 1, len(given) + 1))
            elif _like(wanted, word) or (number == 0 and _like(wanted, os.path.basename(word))):
                reached.add(i + 1)
        at = reached
    if words.open_end:
        return bool(at)
    return len(given) in at or (guess and any(None in given[i:] for i in at))


def _past_options(at: set[int], given: Sequence[str | None]) -> set[int]:
    """The positions after skipping options, each perhaps with a value."""
    reached, waiting = set(at), list(at)
    while waiting:
        i = waiting.pop()
        word = given[i] if i < len(given) else None
        if word is not None and word.startswith("-"):
            fresh = {i + 1, i + 2} - reached
            reached |= fresh
            waiting += fresh
    return {i for i in reached if i <= len(given)}


def _like(wanted: str, word: str | None) -> bool:
    if word is None:
        return False
    if "*" not in wanted:
        return wanted == word
    return re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), word, re.DOTALL) is not None
