"""Names, agent ids, request ids and colours, and what may become part of a path."""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Collection
from datetime import UTC, datetime

from bullpen.errors import Invalid

EVERYBODY = "@team"
"""The receiver that means all other members."""

LEAD = "team-lead"
"""The name of every team's lead."""

SHORT_LEAD = "lead"
"""What screens and people call the lead, unless a member has that name."""

COLORS = ("blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red")
"""Given to teammates in join order, again and again; the lead has none."""

_NEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_NEVER_IN_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control, surrogate, line ends
_RESERVED = frozenset({"user", "system", "all", "everyone"})


def check_new_name(name: str, *, kind: str) -> str:
    """Return `name` if a new team or member may have it. Raises Invalid."""
    if not _NEW_NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} is not a valid name for a {kind}.",
            remedy="Use 1 to 64 letters, digits, '_' or '-', starting with a letter or digit.",
        )
    if kind == "member" and name.lower() in _RESERVED:
        raise Invalid(
            f"{name!r} is not a valid name for a member: it is reserved.",
            remedy="Choose another name.",
        )
    return name


def name_by_time(what: str, now_ms: int, *, taken: Collection[str] = ()) -> str:
    """Return a name for something that nobody named: what it is and when it was made."""
    name = f"{what}-{datetime.fromtimestamp(now_ms // 1000, UTC):%Y%m%d-%H%M%S}"
    others = (f"{name}-{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], others) if each not in taken)


def check_component(name: str, *, kind: str) -> str:
    """Return `name` if it is a valid name of one existing entry of a directory.

    This check is for names that other programs chose. It is more tolerant than `check_new_name`,
    but nothing that passes it can leave its directory.
    """
    if (
        not name
        or name.startswith(".")
        or any(c in name for c in "/\\\0")
        or any(unicodedata.category(c) in _NEVER_IN_NAMES for c in name)
        or len(name.encode("utf-8", "replace")) > 200
    ):
        raise Invalid(f"{name!r} is not a valid {kind}.", remedy=f"Check the {kind}'s name.")
    return name


def can_be_component(name: str) -> bool:
    """Return whether `check_component` accepts a name."""
    try:
        check_component(name, kind="name")
    except Invalid:
        return False
    return True


def check_task_id(task_id: str) -> str:
    """Return `task_id` if it is a valid task id, and so a valid file name."""
    if not _NEW_NAME.fullmatch(task_id):
        raise Invalid(f"{task_id!r} is not a valid task id.", remedy="Task ids look like 1, 2, 3.")
    return task_id


def task_order(task_id: str) -> tuple[int, int, str]:
    """Return the sort key of a task: numbers by value, then everything else by text."""
    # Short ones only: Python refuses to parse a number of thousands of digits.
    is_number = task_id.isascii() and task_id.isdecimal() and len(task_id) <= 20
    return (0, int(task_id), "") if is_number else (1, 0, task_id)


def team_folder(name: str) -> str:
    """Return the folder in which Claude Code keeps a team ("My Team!" -> "my-team-")."""
    return re.sub(r"[^a-zA-Z0-9]", "-", name).lower()


def inbox_stem(member: str) -> str:
    """Return the file name, without `.json`, of a member's inbox ("QA Lead!" -> "QA-Lead-")."""
    return _NOT_IN_FILE_NAMES.sub("-", check_component(member, kind="member name"))


def agent_id(name: str, team: str) -> str:
    """Return the fully qualified id of a member."""
    return f"{name}@{team}"


def color_for(joined_before: int) -> str:
    """Return the colour of the next teammate when this many have joined before it."""
    return COLORS[joined_before % len(COLORS)]


def shutdown_request_id(member: str, *, now_ms: int) -> str:
    """Return a request id in Claude Code's format: `shutdown-<ms>@<name>`."""
    return f"shutdown-{now_ms}@{member}"


def plan_request_id(member: str, team: str, *, now_ms: int) -> str:
    """Return a request id in Claude Code's format: `plan_approval-<ms>@<name>@<team>`."""
    return f"plan_approval-{now_ms}@{member}@{team}"


def permission_request_id(*, now_ms: int, suffix: str) -> str:
    """Return a request id in Claude Code's format: `perm-<ms>-<7 characters>`."""
    return f"perm-{now_ms}-{suffix}"


def question_request_id(*, now_ms: int, suffix: str) -> str:
    """Return the id of a question to a person: `question-<ms>-<7 characters>`."""
    return f"question-{now_ms}-{suffix}"


def plan_digest(content: str) -> str:
    """Return the SHA-256 of a plan's text, which an approval must name."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def input_digest(tool_name: str, compact_input: bytes) -> str:
    """Return the SHA-256 of a tool call, which a permission answer must name."""
    return hashlib.sha256(tool_name.encode() + b"\0" + compact_input).hexdigest()
