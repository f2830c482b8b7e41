"""What the commits say that Bullpen makes for a task: words, trailers and author.

Names and subjects come from agents and other programs, so they are cleaned before they are used:
none of them can add a line, a trailer or an address.
"""

from __future__ import annotations

import re
import unicodedata

from bullpen.errors import Invalid
from bullpen.workspace.git.ref_names import component
from bullpen.workspace.git.run_git import Git, identity

AGENTS_DOMAIN = "agents.bullpen.invalid"
"""The domain of the agents' addresses. `.invalid` is reserved: nobody can ever own it."""

_SUBJECT_CHARS_MAX = 200
_NAME_CHARS_MAX = 100
_NEVER = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control, surrogate, line ends
_NEVER_IN_NAMES = _NEVER | {"Cf"}  # format, such as what reverses the direction of text
_AUTHOR = re.compile(r"(?P<name>[^<>]+?)\s*<(?P<address>[^<>@\s]+@[^<>@\s]+)>")


def message(subject: str, task_id: str, agent: str, *, merge: bool = False) -> str:
    """Return the message of a commit with an agent's work on a task."""
    first = _line(subject)[:_SUBJECT_CHARS_MAX].strip() or f"Task {_line(task_id)}"
    if merge:
        first = f"Merge task {_line(task_id)}: {first}"
    return f"{first}\n\n{trailers(agent, task_id)}"


def trailers(agent: str, task_id: str | None = None) -> str:
    """Return the last lines of a commit's message: which agent made it, and for which task."""
    name = _name(agent)
    rows = [] if task_id is None else [f"Bullpen-Task: {_line(task_id)}"]
    rows += [f"Bullpen-Agent: {name}", f"Co-authored-by: {name} <{address_of(agent)}>"]
    return "".join(f"{row}\n" for row in rows)


def has_trailers(text: str, agent: str, task_id: str) -> bool:
    """Return whether a message ends with exactly the trailers of an agent's work on a task."""
    return text.rstrip().endswith(f"\n\n{trailers(agent, task_id)}".rstrip())


def address_of(agent: str) -> str:
    """Return the address of an agent in commits. It is well formed and belongs to nobody."""
    return f"{component(agent)}@{AGENTS_DOMAIN}"


def parse_author(text: str) -> tuple[str, str]:
    """Return the name and address in `Name <address>`. Raises Invalid."""
    found = _AUTHOR.fullmatch(text.strip())
    if found is None or any(unicodedata.category(each) in _NEVER_IN_NAMES for each in text):
        raise Invalid(
            f"{text!r} is not an author.", remedy="Write it as: Name <address@example.org>"
        )
    return found["name"].strip(), found["address"]


def with_author(git: Git, author: str | None, *, agent: str) -> Git:
    """Return git with the configured author; the agent if neither team nor git has one.

    Raises:
        Invalid: the configured author is not `Name <address>`.
    """
    if author is not None:
        return git.with_env(**identity(*parse_author(author)))
    if git.run("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT").ok:
        return git
    return git.with_env(**identity(_name(agent), address_of(agent)))


def _name(agent: str) -> str:
    """Return an agent's name without anything that could be read as an address or a line end."""
    kept = (
        " " if each in "<>" or unicodedata.category(each) in _NEVER_IN_NAMES else each
        for each in agent
    )
    return _line("".join(kept))[:_NAME_CHARS_MAX].strip() or component(agent)


def _line(text: str) -> str:
    """Return text as one line."""
    kept = (" " if unicodedata.category(each) in _NEVER else each for each in text)
    return " ".join("".join(kept).split())
