"""Loads something by its dotted name, where only one of many is needed or it is needed rarely."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load(target: str) -> Any:
    """What a name such as `bullpen.doors.cli.teams.mail:send` stands for."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
