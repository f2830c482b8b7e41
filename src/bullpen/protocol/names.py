"""Names, agent ids, request ids and colours, and what may become part of a path."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from bullpen.errors import Invalid

EVERYBODY = "@team"
"""Whom to name to write to all other members."""

LEAD = "team-lead"
"""The name of every team's lead."""

COLORS = ("blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red")
"""Given to teammates in join order, round and round; the lead has none."""

_NEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_NEVER_IN_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control, surrogate, line ends
_RESERVED = frozenset({"user", "system", "all", "everyone"})


def check_new_name(name: str, *, kind: str) -> str:
    """Return `name` if a new team or member may have it.

    Raises:
        Invalid: it is not 1 to 64 letters, digits, `_` or `-` beginning with a letter or digit.
    """
    if not _NEW_NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be the name of a {kind}.",
            remedy="Use 1 to 64 letters, digits, '_' or '-', beginning with a letter or digit.",
        )
    if kind == "member" and name.lower() in _RESERVED:
        raise Invalid(
            f"{name!r} cannot be the name of a member: it is reserved.",
            remedy="Choose another name.",
        )
    return name


def check_component(name: str, *, kind: str) -> str:
    """Return `name` if it can stand for one existing entry of a directory.

    This is the check for names other programs made; it is laxer than `check_new_name`, but
    nothing that passes it can leave its directory.
    """
    if (
        not name
        or name.startswith(".")
        or any(c in name for c in "/\\\0")
        or any(unicodedata.category(c) in _NEVER_IN_NAMES for c in name)
        or len(name.encode("utf-8", "replace")) > 200
    ):
        raise Invalid(f"{name!r} cannot be a {kind}.", remedy=f"Check the {kind}'s name.")
    return name


def can_be_component(name: str) -> bool:
    """Whether `check_component` accepts a name."""
    try:
        check_component(name, kind="name")
    except Invalid:
        return False
    return True


def check_task_id(task_id: str) -> str:
    """Return `task_id` if it can be a task's id and so a file name."""
    if not _TASK_ID.fullmatch(task_id):
        raise Invalid(f"{task_id!r} cannot be a task id.", remedy="Task ids look like 1, 2, 3.")
    return task_id


def task_order(task_id: str) -> tuple[int, int, str]:
    """What tasks are sorted by: numbers by value, then everything else by text."""
    # Short ones only: Python refuses to read a number of thousands of digits.
    is_number = task_id.isascii() and task_id.isdecimal() and len(task_id) <= 20
    return (0, int(task_id), "") if is_number else (1, 0, task_id)


def team_folder(name: str) -> str:
    """The folder in which Claude Code keeps a team of that name ("My Team!" -> "my-team-")."""
    return re.sub(r"[^a-zA-Z0-9]", "-", name).lower()


def inbox_stem(member: str) -> str:
    """The file name, without `.json`, of a member's inbox ("QA Lead!" -> "QA-Lead-")."""
    return _NOT_IN_FILE_NAMES.sub("-", check_component(member, kind="member name"))


def agent_id(name: str, team: str) -> str:
    """The fully qualified id of a member."""
    return f"{name}@{team}"


def color_for(joined_before: int) -> str:
    """The colour of the next teammate when so many have joined before it."""
    return COLORS[joined_before % len(COLORS)]


def shutdown_request_id(member: str, *, now_ms: int) -> str:
    """As the real program makes them: `shutdown-<ms>@<name>`."""
    return f"shutdown-{now_ms}@{member}"


def plan_request_id(member: str, team: str, *, now_ms: int) -> str:
    """As the real program makes them: `plan_approval-<ms>@<name>@<team>`."""
    return f"plan_approval-{now_ms}@{member}@{team}"


def permission_request_id(*, now_ms: int, suffix: str) -> str:
    """As the real program makes them: `perm-<ms>-<7 characters>`."""
    return f"perm-{now_ms}-{suffix}"


def plan_digest(content: str) -> str:
    """SHA-256 of a plan's text, which an approval must name."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def input_digest(tool_name: str, compact_input: bytes) -> str:
    """SHA-256 of a tool call, which a permission answer must name."""
    return hashlib.sha256(tool_name.encode() + b"\0" + compact_input).hexdigest()
