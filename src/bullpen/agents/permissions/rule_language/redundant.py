"""Check whether a rule allows nothing beyond other rules."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bullpen.agents.permissions.rule_language.rule import (
    PATH_TOOLS,
    Rule,
    about,
    one_name,
    rule_of,
    same_words,
)

_RELATIVE = re.compile(r"(?!//|~)")


def rebased(text: str, cwd: str) -> str:
    """A rule relative to a directory, as one that means the same everywhere."""
    rule = rule_of(text)
    specifier = rule.specifier
    if rule.tool not in PATH_TOOLS or specifier is None or not _RELATIVE.match(specifier):
        return text
    if specifier.startswith(".."):
        return text
    root = re.sub(r"([*?\[\\])", r"\\\1", cwd.rstrip("/"))
    rest = re.sub(r"^(?:\./+)+", "/", specifier)
    if not rest.startswith("/"):
        rest = f"/{rest}" if "/" in rest.rstrip("/") else f"/**/{rest}"
    return f"{rule.tool}(/{root}{rest})"


def covered_by(text: str, others: Iterable[str], *, alike: bool = True) -> bool:
    """Whether other rules allow all of it. If `alike`, Read and Edit count for their kind."""
    rule = rule_of(text)
    if rule.broken is not None:
        # It allows nothing.
        return True
    return any(_covers(other, rule, alike=alike) for other in map(rule_of, others))


def _covers(other: Rule, rule: Rule, *, alike: bool) -> bool:
    if other.broken is not None:
        return False
    if other.text.strip() == rule.text.strip():
        return True
    if rule.tool.startswith("mcp__"):
        return about(other, rule.tool, strict=False)
    same = one_name(other.tool) == one_name(rule.tool)
    if not (same or (alike and _as_wide(other.tool, rule.tool))):
        return False
    if other.blanket or rule.specifier is None:
        return other.blanket
    if rule.words is not None and other.words is not None:
        return _longer(rule, other)
    return _deeper(rule.specifier, other.specifier or "")


def _as_wide(other: str, tool: str) -> bool:
    """Whether rules for one tool also apply to everything that another tool does."""
    return about(Rule(other, other), tool, strict=False) and tool not in ("Read", "Edit", "Write")


def _longer(rule: Rule, other: Rule) -> bool:
    """Whether the words of a rule continue those of another."""
    if rule.words is None or other.words is None or other.words.line or rule.words.line:
        return False
    if any("*" in word for word in rule.words.pattern):
        return False
    if rule.words.open_end and not other.words.open_end:
        return False
    return same_words(other.words, rule.words.pattern)


def _deeper(specifier: str, other: str) -> bool:
    """Whether a path pattern is below the directory of another one."""
    if not other.endswith("/**"):
        return False
    folder = other.removesuffix("**")
    return specifier.startswith(folder) and ".." not in specifier.split("/")
