"""MCP servers of the client, as definitions for native agents.

Their values can be secrets and can change from one process to the next. So the definition, which
is stored, names variables, and the values are only in the environment of this process.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.agents.tools.mcp_servers.definition import NAME_CHARS_MAX, OURS
from bullpen.doors.acp.updates import ClientServer
from bullpen.errors import Invalid

_RENAMED = "client"


@dataclass(frozen=True, slots=True)
class KnownServers:
    """Definitions by the name that we give a server, and what they need.

    `names` are the client's own names by ours.
    """

    definitions: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def known_servers(servers: Sequence[ClientServer], *, session: str) -> KnownServers:
    """What a session's servers are for its team. Raises Invalid for names that are too alike."""
    mark = hashlib.sha256(session.encode()).hexdigest()[:12].upper()
    definitions: dict[str, Any] = {}
    variables: dict[str, str] = {}
    names: dict[str, str] = {}
    for number, server in enumerate(servers, start=1):
        name = _name(server.name)
        if name in definitions:
            raise Invalid(
                f"Two MCP servers have the same name for Bullpen: {server.name!r} and"
                f" {names[name]!r}.",
                remedy="Rename one of them in your editor's settings.",
            )
        place = f"ACP_CLIENT_{mark}_{number}"
        names[name] = server.name
        definitions[name] = _definition(server, place, variables)
    return KnownServers(definitions, variables, names)


def _definition(server: ClientServer, place: str, variables: dict[str, str]) -> dict[str, Any]:
    def hidden(value: str, what: str = "SECRET") -> str:
        name = f"{place}_{what}_{sum(each.startswith(f'{place}_') for each in variables) + 1}"
        variables[name] = value
        return f"${{{name}}}"

    if server.url:
        headers = {key: hidden(value) for key, value in server.headers.items()}
        return {"type": "http", "url": server.url, **({"headers": headers} if headers else {})}
    args = [hidden(value, "ARG") for value in server.args]
    env = {key: hidden(value) for key, value in server.env.items()}
    return {"command": server.command, "args": args, **({"env": env} if env else {})}


def _name(given: str) -> str:
    """The name by which our agents know a server: theirs allow fewer characters."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", given).strip("-")[:NAME_CHARS_MAX].strip("-")
    return _RENAMED if not name else f"{_RENAMED}-{name}" if name == OURS else name
