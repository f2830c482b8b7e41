"""Turns a team file into the records that its team stores."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from bullpen.errors import Refused
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.team import Limits, MergeSettings, Origin, Retention, Unattended
from bullpen.runs.forge.place import place_of
from bullpen.runs.teamfile.read import TeamFile
from bullpen.runs.teamfile.tables import GuardedTable, MergeTable, as_checks
from bullpen.workspace.git.repository import repository_at
from bullpen.workspace.git.run_git import Git

_HOUR_S = 3600.0


def digest_of(file: TeamFile) -> str:
    """Return a digest that is equal for two files that describe the same team.

    It leaves out what may change while a team exists: tasks, backlogs, budget, notices, the
    settings for unattended work, and how much of the log is kept.
    """
    tables: dict[str, Any] = {
        "team": file.team.model_dump(mode="json"),
        "workspace": file.workspace.model_dump(mode="json"),
        "merge": None if file.merge is None else file.merge.model_dump(mode="json"),
        "members": [member.model_dump(mode="json") for member in file.members],
    }
    # Teams of files without these keep their digest.
    if tables["merge"] is not None and tables["merge"]["author"] is None:
        del tables["merge"]["author"]
    if not file.team.agents_may:
        del tables["team"]["agents_may"]
    if file.guarded != GuardedTable():
        tables["guarded"] = file.guarded.model_dump(mode="json")
    text = json.dumps(tables, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def origin_of(file: TeamFile) -> Origin:
    """Return the record of the file in its team."""
    return Origin.new(
        file=os.path.normpath(file.path), digest=digest_of(file), budget=limits_of(file).raw
    )


def limits_of(file: TeamFile) -> Limits:
    """Return the limits that a file sets."""
    budget, room = file.budget, file.unattended
    return Limits.parse(
        {
            key: value
            for key, value in {
                "turns": budget.turns,
                "requests": budget.requests,
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
    """Return a file's settings for unattended work."""
    table = file.unattended
    return Unattended.new(
        stall_s=table.stall_minutes * 60,
        nudges=table.nudges,
        attempts=table.attempts,
        quiet=list(table.quiet),
    )


def retention_of(file: TeamFile) -> Retention | None:
    """Return how much of the log a file keeps; None for everything."""
    table = file.retention
    if table.keep_days is None and table.keep_mb is None:
        return None
    return Retention.new(
        keep_days=table.keep_days,
        keep_mb=table.keep_mb,
        export=None if table.export is None else os.path.abspath(file.folder / table.export),
    )


def merge_settings(table: MergeTable, cwd: str) -> MergeSettings:
    """Return the target and the merge gate of a team.

    Raises:
        Refused: no branch is named and none is checked out (detached_target), there is no such
            branch (no_target), or there is no usable repository.
    """
    found = repository_at(Path(cwd))
    inside = os.path.relpath(os.path.realpath(cwd), os.path.realpath(found.top))
    inside = "" if inside == os.curdir else inside
    target = table.target or found.branch
    if target is None:
        raise Refused(
            f"No branch is checked out in {found.top}, so there is none to merge into.",
            reason="detached_target",
            remedy="Check out a branch, or set target in [merge] of the team file.",
        )
    if not Git(found.top).run("rev-parse", "--verify", "--quiet", f"refs/heads/{target}").ok:
        raise Refused(
            f"There is no branch {target!r} in {found.top} to merge into.",
            reason="no_target",
            remedy=f"Run `git branch {target}`, or set another target in [merge].",
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
        author=table.author,
    )


def forge_settings(file: TeamFile) -> ForgeSettings | None:
    """Return how a team uses a forge, by its file; None if the file names none."""
    table = file.forge
    if table is None:
        return None
    settings = ForgeSettings.new(
        repository=place_of(table.url).url,
        kind=table.kind_or_guess,
        api=table.api,
        labels=list(table.labels),
        assignee=table.assignee,
        milestone=table.milestone,
        query=table.query,
        strangers=table.authors == "anyone",
        trusted=list(table.trusted),
        target=None if file.merge is None else file.merge.target,
        merge=table.merge,
        method=table.method,
        rounds=table.rounds,
        poll_s=table.poll_s,
        token_env=table.token_env,
    )
    # As it is in the records of teams that are older than the key.
    return settings if table.pull_request == "task" else settings.evolve(pull_request="night")


def with_guarded(settings: MergeSettings, file: TeamFile) -> MergeSettings:
    """Return the settings with what a file guards: its `[guarded]`, and itself."""
    own = os.path.relpath(os.path.realpath(file.path), os.path.realpath(settings.repository))
    inside = [] if own.startswith(os.pardir) else [glob.escape(own)]
    said = {"guarded": [*file.guarded.paths, *inside], "unguarded": list(file.guarded.allow)}
    return settings.evolve(**{name: paths for name, paths in said.items() if paths})
