"""The MCP servers that files define, and those that one agent gets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bullpen.agents.config.trust import refuse_untrusted
from bullpen.agents.config.trust_scope import ProjectFile
from bullpen.agents.system.environment import variables_in
from bullpen.agents.system.project_files import read_limited, unreadable, up_to_git_root
from bullpen.agents.tools.mcp_servers.definition import OURS, ServerDefinition, definition_of
from bullpen.errors import Invalid, NotFound
from bullpen.protocol import json_text
from bullpen.protocol.agent import AgentSpec

PROJECT_FILE = ".mcp.json"
HOME_FILE = "mcp.json"


@dataclass(slots=True)
class KnownServers:
    """The servers that files define, by name; the nearest definition of a name."""

    servers: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    # The file of a project that defines a server; none for the user's own.
    files: dict[str, ProjectFile] = field(default_factory=dict)


def read_servers(cwd: Path, *, home: Path, project: bool = True) -> KnownServers:
    """The servers for work in this directory; without `project`, only the user's own.

    Raises Unreadable.
    """
    known = KnownServers()
    for folder in up_to_git_root(cwd) if project else []:
        _add(known, folder / PROJECT_FILE, folder)
    _add(known, home / HOME_FILE, None)
    return known


def with_servers(
    spec: AgentSpec,
    known: KnownServers,
    *,
    stated: Mapping[str, Any] | None,
    above: AgentSpec | None,
) -> tuple[AgentSpec, list[ProjectFile]]:
    """The spec with its servers, and the files of projects that define them and need trust.

    A native agent has all servers that it can have, or those that its role lists. `stated` are
    those of a team file; `above` is the agent that spawns it, whose servers it can have too. Raises
    Invalid.
    """
    if spec.driver != "native":
        if spec.mcp_servers:
            raise Invalid(
                f"The role {spec.role!r} sets mcpServers, but its driver is {spec.driver!r}.",
                remedy="Use the driver native, or configure the servers in that program.",
            )
        return spec.evolve(mcp_servers=None), []
    inherited = {} if above is None else above.mcp_servers or {}
    first = {**inherited, **(stated or {})}
    every = {**known.servers, **first}
    chosen = every
    if spec.mcp_servers is not None:
        unknown = [
            name for name, raw in spec.mcp_servers.items() if raw is None and name not in every
        ]
        if unknown:
            raise Invalid(
                f"There is no MCP server {', '.join(map(repr, unknown))}, which the role"
                f" {spec.role!r} lists.",
                remedy=f"Define it in {PROJECT_FILE} or in {HOME_FILE} of Bullpen's home. Known"
                f" are: {', '.join(every) or 'none'}.",
            )
        first = {
            **first,
            **{name: raw for name, raw in spec.mcp_servers.items() if raw is not None},
        }
        chosen = {name: {**every, **first}[name] for name in spec.mcp_servers}
    for name, raw in chosen.items():
        try:
            definition_of(name, raw)
        except Invalid as error:
            where = f"{known.paths[name]}: " if name in known.paths and name not in first else ""
            raise Invalid(f"{where}{error.message}", remedy=error.remedy) from None
    files = [file for name, file in known.files.items() if name in chosen and name not in first]
    env = list(dict.fromkeys([*spec.env, *sorted(variables_in(chosen))]))
    return spec.evolve(mcp_servers=chosen or None, env=env), list(dict.fromkeys(files))


def known_server(name: str, cwd: Path, *, home: Path) -> ServerDefinition:
    """The server of this name for a directory. Raises NotFound, Refused if it is not trusted."""
    known = read_servers(cwd, home=home)
    if name not in known.servers:
        raise NotFound(
            f"There is no MCP server {name!r} for {cwd}.",
            remedy=f"Known are: {', '.join(known.servers) or 'none'}. Define it in {PROJECT_FILE}"
            f" or {home / HOME_FILE}.",
        )
    if name in known.files:
        refuse_untrusted([known.files[name]], home, cwd, otherwise="define it in your own file")
    return definition_of(name, known.servers[name])


def role_servers(value: Any) -> dict[str, Any]:
    """The servers of a role: by name (None), or with a definition. Raises Invalid."""
    found: dict[str, Any] = {}
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            found[each] = None
        elif isinstance(each, dict):
            found |= each
        else:
            raise Invalid(
                f"{each!r} is neither the name nor the definition of an MCP server.",
                remedy="List names, or definitions by name.",
            )
    for name, raw in found.items():
        if raw is not None:
            definition_of(name, raw)
    return found


def _add(known: KnownServers, path: Path, folder: Path | None) -> None:
    data = read_limited(path)
    if data is None or not data.strip():
        return
    try:
        told = json_text.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise unreadable(path, f"it is not JSON ({error})") from None
    servers = told.get("mcpServers", {}) if isinstance(told, dict) else None
    if not isinstance(servers, dict):
        raise unreadable(path, "it has no object mcpServers")
    digest = hashlib.sha256(data).hexdigest()
    for name, raw in servers.items():
        # Native agents have the tools of our own server anyway.
        if name in known.servers or name == OURS:
            continue
        known.servers[name] = raw
        known.paths[name] = path
        if folder is not None:
            known.files[name] = (path, folder, digest)
