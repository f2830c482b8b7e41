"""Guarded files: other programs run or obey them, so writing one needs approval."""

from __future__ import annotations

import os
from collections.abc import Iterable

from bullpen.agents.permissions.rule_language.paths import RealPath, below, real_path
from bullpen.agents.permissions.rule_language.rule import Rule
from bullpen.protocol.guarded_paths import guarded


def protected(found: RealPath, roots: Iterable[str]) -> bool:
    """Whether a path is a guarded file, relative to its working directory."""
    real = [real_path(root) for root in roots]
    return any(_is_one(path, real) for path in (*found.written, *found.real))


def _is_one(path: str, roots: Iterable[str]) -> bool:
    # A project may itself be in such a folder; only the part below the project counts.
    depths = [len(root.rstrip("/")) for root in roots if below(path, root)]
    return guarded(path[max(depths, default=0) :]) is not None


def names_it(rule: Rule) -> bool:
    """Whether a rule names a guarded file explicitly, not just its directory."""
    return guarded(os.path.normpath(rule.specifier or "")) is not None
