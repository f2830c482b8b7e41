"""Options that the command line leaves out, as `bullpen config` sets them."""

from __future__ import annotations

import os
from typing import Any

import typer

from bullpen.agents.contracts.backend import NONCE
from bullpen.app.config.keys import KEYS
from bullpen.doors.cli.session import Session

_DRIVER = "native"


def fill_in(context: typer.Context) -> None:
    """Give the options of a command that were left out the values that are configured.

    What an agent starts is decided by its own rights, and by its words. Raises Invalid and
    Unreadable.
    """
    if os.environ.get(NONCE):
        return
    config = Session.of(context).config_in(context.params.get("cwd"))
    options = [key for key in KEYS if _is_left_out(context, key.name)]
    found = {key.name: config.value(key) for key in options}
    if "driver" in context.params and "driver" not in found:
        # A model belongs to the driver that it was configured with.
        usual = config.value(next(key for key in KEYS if key.name == "driver")).value
        if context.params["driver"] != (usual or _DRIVER):
            found.pop("model", None)
    if context.params.get("role") is not None:
        for name in ("model", "mode"):
            # The role may have its own.
            found.pop(name, None)
    for name, value in found.items():
        if value.source != "built-in":
            context.params[name] = value.value


def _is_left_out(context: Any, name: str) -> bool:
    """Whether a command has this option and nobody typed it."""
    source = context.get_parameter_source(name)
    return name in context.params and (source is None or source.name == "DEFAULT")
