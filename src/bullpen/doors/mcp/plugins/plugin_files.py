"""The files of the plugin and the extension, as they are installed on this machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

CLAUDE_CODE = Path(__file__).with_name("claude_code")
GEMINI = Path(__file__).with_name("gemini")

NAME = "bullpen"
"""The name of the plugin, the extension and their MCP server."""

MARKETPLACE = "bullpen-local"
"""Where Claude Code has the plugin from that this machine wrote. The repository's is `bullpen`."""

_SKILL = "skills/bullpen/SKILL.md"
_PROGRAM = "bullpen"
_HOOK = f"{_PROGRAM} mcp --hook"


def claude_code_files(program: Sequence[str]) -> dict[str, str]:
    """A marketplace with the plugin, which starts `program` and nothing that a PATH names."""
    files = {
        f"{NAME}/{name}": _started_by(program, name, text)
        for name, text in _texts(CLAUDE_CODE).items()
    }
    manifest = json.loads(files[f"{NAME}/.claude-plugin/plugin.json"])
    marketplace = {
        "name": MARKETPLACE,
        "owner": manifest["author"],
        "metadata": {"description": "Written by `bullpen mcp install claude --plugin`"},
        "plugins": [
            {"name": NAME, "source": f"./{NAME}", "description": manifest["description"]},
        ],
    }
    return {**files, ".claude-plugin/marketplace.json": _json(marketplace)}


def gemini_files(program: Sequence[str]) -> dict[str, str]:
    """The extension, with the skill that both programs are taught by."""
    files = {**_texts(GEMINI), _SKILL: _texts(CLAUDE_CODE)[_SKILL]}
    return {name: _started_by(program, name, text) for name, text in files.items()}


def _started_by(program: Sequence[str], name: str, text: str) -> str:
    """A file in which every command that the other program runs starts this one."""
    if name in {".mcp.json", "gemini-extension.json"}:
        manifest = json.loads(text)
        server = manifest["mcpServers"][NAME]
        server |= {"command": program[0], "args": [*program[1:], *server["args"]]}
        return _json(manifest)
    if name == "hooks/hooks.json":
        hooks = json.loads(text)
        for command in _commands(hooks):
            said = command["command"]
            command["command"] = said.replace(_HOOK, shlex.join([*program, "mcp", "--hook"]))
        return _json(hooks)
    return text


def _commands(hooks: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The commands in a file of hooks."""
    for groups in hooks["hooks"].values():
        for group in groups:
            yield from group["hooks"]


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _texts(folder: Path) -> dict[str, str]:
    """Every file below a folder of this package, by its path there."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
