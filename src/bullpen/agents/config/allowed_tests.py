"""Lets agents in a directory run its tests without asking, by the user's own settings for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bullpen.agents.config.settings import users_file_of
from bullpen.agents.permissions.rule_language.rule import EXACTLY, rule_of
from bullpen.errors import Unavailable
from bullpen.store.private_folder import make_private

_WRITTEN = "# Written by `bullpen init`"


def rule_for_tests(command: str) -> str:
    """The rule that allows a test command with any arguments, or as it is if it is not one."""
    rule = rule_of(f"Bash({command}:*)")
    whole = rule.words is None or rule.words.line is not None
    return f"Bash({EXACTLY}{command})" if whole or rule.broken else rule.text


def allow_tests(home: Path, project: Path, command: str | None) -> str | None:
    """Allow the test command of a directory, or no longer. Returns the rule that holds now, if any.

    A file that somebody has edited since stays as it is. Raises Unavailable.
    """
    path = users_file_of(home, project)
    rule = None if command is None else rule_for_tests(command)
    try:
        if path.exists() and not path.read_text("utf-8").startswith(_WRITTEN):
            return None
        if rule is None or rule_of(rule).broken is not None:
            path.unlink(missing_ok=True)
            return None
        make_private(path.parent)
        beside = path.with_name(f".{path.name}.{os.getpid()}.new")
        where = json.dumps(str(project.resolve()))
        allowed = json.dumps(rule, ensure_ascii=False)
        beside.write_text(
            f"{_WRITTEN} for {where}, only on this machine.\n[permissions]\nallow = [{allowed}]\n",
            "utf-8",
        )
        beside.replace(path)
    except OSError as error:
        raise Unavailable(
            f"Cannot write {path}: {error.strerror}.", remedy="Make the home writable."
        ) from error
    return rule
