"""The definition of one MCP server, in the format of Claude Code. Pure.

Values of variables are not part of it: `${NAME}` stays as it is written until the server starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bullpen.agents.system.environment import variables_in, with_variables
from bullpen.agents.system.secrets import names_a_secret
from bullpen.agents.system.token_shapes import without_tokens
from bullpen.errors import Invalid

NAME_CHARS_MAX = 32

OURS = "bullpen"
"""The name of our own server, which `bullpen mcp install` adds to other programs' files."""

_NAME = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_FIELDS = {
    "stdio": {"type", "command", "args", "env"},
    "http": {"type", "url", "headers"},
}
_TYPES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http"}
_AUTH_HEADERS = {"authorization", "proxy-authorization", "cookie"}


@dataclass(frozen=True, slots=True)
class ServerDefinition:
    """How to reach a server: the command to start, or the address."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def expanded(self, env: Mapping[str, str]) -> ServerDefinition:
        """The definition with the values of its variables. Raises Invalid if one is not set."""
        return ServerDefinition(
            self.name,
            tuple(with_variables(word, env) for word in self.command),
            {key: with_variables(value, env) for key, value in self.env.items()},
            with_variables(self.url, env),
            {key: with_variables(value, env) for key, value in self.headers.items()},
        )


def definition_of(name: str, raw: Any) -> ServerDefinition:
    """The definition of a server as a file states it. Raises Invalid, which names the fault."""
    faults = list(_faults(name, raw))
    if faults:
        raise Invalid(
            f"The MCP server {name!r} cannot be used: {'; '.join(faults)}.",
            remedy="Correct its definition, or remove it.",
        )
    if _type_of(raw) == "stdio":
        words = (raw["command"], *raw.get("args", ()))
        return ServerDefinition(name, words, env=dict(raw.get("env", {})))
    return ServerDefinition(name, url=raw["url"], headers=dict(raw.get("headers", {})))


def _type_of(raw: Mapping[str, Any]) -> str | None:
    told = raw.get("type", "http" if "url" in raw else "stdio")
    return _TYPES.get(told) if isinstance(told, str) else None


def _faults(name: str, raw: Any) -> Any:
    if _NAME.fullmatch(name) is None or len(name) > NAME_CHARS_MAX:
        yield (
            "a name has letters, digits, - and single _ inside, and at most"
            f" {NAME_CHARS_MAX} characters"
        )
    if name == OURS:
        yield "this name is Bullpen's own"
    if not isinstance(raw, dict):
        yield "it is not an object"
        return
    kind = _type_of(raw)
    if kind is None:
        yield f"the type {raw.get('type')!r} is not supported, only stdio and http"
        return
    yield from (f"{key} is not supported" for key in raw if key not in _FIELDS[kind])
    place = "command" if kind == "stdio" else "url"
    if not isinstance(raw.get(place), str) or not raw[place].strip():
        yield f"it needs a text in {place}"
        return
    args = raw.get("args", [])
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        yield "args is not a list of texts"
        return
    if kind == "http" and not variables_in(raw["url"]):
        yield from _url_faults(raw["url"])
    for key in ("env", "headers"):
        yield from _value_faults(key, raw.get(key, {}))
    told = [raw[place], *args]
    if any(without_tokens(text) != text for text in told):
        yield f"it contains a secret; write ${{NAME}} in {place} or args instead"
    if any(each.startswith("BULLPEN_") for each in variables_in(raw)):
        yield "it names a variable of Bullpen's own"


def _url_faults(url: str) -> Any:
    try:
        parts = urlsplit(url)
    except ValueError:
        yield "its url cannot be parsed"
        return
    if parts.scheme not in ("http", "https") or not parts.hostname:
        yield "its url does not start with https:// or http:// and a host"
    if parts.username or parts.password:
        yield "its url contains a user or a password; use headers instead"


def _value_faults(key: str, values: Any) -> Any:
    """Values that must not be stored: an agent's record has the names of secrets only."""
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        yield f"{key} is not an object with texts"
        return
    for name, value in values.items():
        secret = name.lower() in _AUTH_HEADERS or names_a_secret(name.replace("-", "_"))
        bare = value and not variables_in(value)
        if (secret and bare) or without_tokens(value) != value:
            yield f"{key}.{name} is a secret; write ${{NAME}} and set the variable"
