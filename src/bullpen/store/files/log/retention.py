"""Removes the oldest parts of a log as a team's settings say, after a copy of them is safe."""

from __future__ import annotations

import os
from dataclasses import replace

from bullpen.protocol.team import Retention
from bullpen.store.files.disk import Disk, nonce, read_bytes
from bullpen.store.files.log import parts
from bullpen.store.files.log.event_log import Log
from bullpen.store.files.paths import TeamPaths

_DAY_MS = 86_400_000
_MB = 1_000_000


def retain(log: Log, paths: TeamPaths, disk: Disk, rule: Retention, now_ms: int) -> int:
    """Remove what is not kept. The caller holds the team lock. Returns the number of parts.

    The head says first from which event on the log is kept. Killed after that, the rest is found by
    `doctor`. Raises OSError before anything is removed if a part cannot be exported.
    """
    due = _due(parts.older(paths.parts, log.head.begin), rule, now_ms)
    if not due:
        return 0
    if rule.export is not None:
        disk.ensure_dir(rule.export)
        for part in due:
            copy = os.path.join(rule.export, f"{paths.name}-{part.name}")
            disk.replace(copy, read_bytes(part.path), nonce=nonce())
        disk.sync_dir(rule.export)
    log.finish(replace(log.head, more={**log.head.more, "kept": due[-1].last + 1}))
    for part in due:
        disk.unlink(part.path)
    disk.sync_dir(paths.parts)
    return len(due)


def _due(older: list[parts.Part], rule: Retention, now_ms: int) -> list[parts.Part]:
    """Return the oldest parts that are too old or too many.

    A part's file is written after its last event, so its time never makes it look too old.
    """
    found = [(part, os.stat(part.path)) for part in older]
    total = sum(status.st_size for _, status in found)
    due: list[parts.Part] = []
    for part, status in found:
        age_ms = now_ms - status.st_mtime * 1000
        old = rule.keep_days is not None and age_ms > rule.keep_days * _DAY_MS
        large = rule.keep_mb is not None and total > rule.keep_mb * _MB
        if not (old or large):
            break
        due.append(part)
        total -= status.st_size
    return due
