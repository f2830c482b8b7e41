"""Write the settings that a preset forces on its program, and name them on its command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bullpen.agents.drivers.acp.program_events import ToolServer
from bullpen.agents.system.vendors.acp_presets import Preset

_FOLDER, _SERVER = "{folder}", "{server}"


def forced_settings(
    preset: Preset, folder: Path, server: ToolServer
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Write the files into the agent's folder. Returns the command, and variables to set.

    They are written before every start: the agent could have changed them.
    """
    for name, text in preset.forced_files:
        path = folder / name
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text.replace(_SERVER, _described(server)))
    arguments = [word.replace(_FOLDER, str(folder)) for word in preset.forced_args]
    env = {name: value.replace(_FOLDER, str(folder)) for name, value in preset.fixed_env}
    return (*preset.command, *arguments), env


def _described(server: ToolServer) -> str:
    """The server of the team's tools as settings files name it."""
    command, *arguments = server.command
    told = {"type": "local", "command": command, "args": arguments, "env": dict(server.env)}
    return json.dumps({"mcpServers": {server.name: {**told, "tools": ["*"]}}})
