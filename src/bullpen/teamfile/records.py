"""What a team file says, as the records that its team keeps of it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from bullpen.errors import Refused
from bullpen.protocol.agent import Limits
from bullpen.protocol.merge import MergeSettings
from bullpen.protocol.unattended import Origin, Unattended
from bullpen.teamfile.reading import TeamFile
from bullpen.teamfile.tables import MergeTable, as_checks
from bullpen.workspace.git import Git
from bullpen.workspace.repository import repository_at

_HOUR_S = 3600.0


def digest_of(file: TeamFile) -> str:
    """The same for two files that describe the same team.

    What may be added to or changed while a team lives does not count: tasks, backlogs, budget,
    notices, and what code does when nobody looks.
    """
    tables: dict[str, Any] = {
        "team": file.team.model_dump(mode="json"),
        "workspace": file.workspace.model_dump(mode="json"),
        "merge": None if file.merge is None else file.merge.model_dump(mode="json"),
        "members": [member.model_dump(mode="json") for member in file.members],
    }
    text = json.dumps(tables, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def origin_of(file: TeamFile) -> Origin:
    """The file as a team that is made from it remembers it."""
    return Origin.new(
        file=os.path.normpath(file.path), digest=digest_of(file), budget=limits_of(file).raw
    )


def limits_of(file: TeamFile) -> Limits:
    """The limits that a file states."""
    budget, room = file.budget, file.unattended
    return Limits.parse(
        {
            key: value
            for key, value in {
                "turns": budget.turns,
                "tokens": budget.tokens,
                "usd": budget.usd,
                "wallS": None if budget.hours is None else budget.hours * _HOUR_S,
                "memoryMb": None if room.memory_gb is None else round(room.memory_gb * 1024),
                "processes": room.processes,
            }.items()
            if value is not None
        }
    )


def habits_of(file: TeamFile) -> Unattended:
    """What code does for the team of a file when nobody looks."""
    table = file.unattended
    return Unattended.new(
        stall_s=table.stall_minutes * 60,
        nudges=table.nudges,
        attempts=table.attempts,
        quiet=list(table.quiet),
    )


def merge_settings(table: MergeTable, cwd: str) -> MergeSettings:
    """Where the work of a team goes, and what must hold there.

    Raises:
        Refused: no branch is named and none is checked out (detached_target), there is no such
            branch (no_target), or there is no repository, by the names that this has.
    """
    found = repository_at(Path(cwd))
    inside = os.path.relpath(os.path.realpath(cwd), os.path.realpath(found.top))
    inside = "" if inside == os.curdir else inside
    target = table.target or found.branch
    if target is None:
        raise Refused(
            f"No branch is checked out in {found.top}, so there is none to merge into.",
            reason="detached_target",
            remedy="Check one out, or name one: target in [merge] of the team file.",
        )
    if not Git(found.top).run("rev-parse", "--verify", "--quiet", f"refs/heads/{target}").ok:
        raise Refused(
            f"There is no branch {target!r} in {found.top} to merge into.",
            reason="no_target",
            remedy=f"Make it (git branch {target}), or name another: target in [merge].",
        )
    return MergeSettings.new(
        repository=str(found.top),
        inside=inside,
        target=target,
        gate=[check.raw for check in as_checks(table.gate)],
        batch=table.batch,
        retries=table.retries,
        after=table.after,
        setup=table.setup,
    )
