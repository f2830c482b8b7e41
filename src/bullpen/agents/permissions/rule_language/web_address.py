"""The address that a URL names, and the rules about it: `WebFetch(domain:example.org)`. Pure.

A URL is taken apart here once. What was judged is what is fetched, and a URL that programs could
read in different ways is none.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from bullpen.errors import Invalid
from bullpen.sandbox.network.host_rules import WEB_PORTS, HostRule, host_name, host_rule

WEB_TOOLS = frozenset(["WebFetch", "WebSearch"])
"""Tools that read what is neither in the project nor on this machine."""

URL_CHARS_MAX = 4_000

_PREFIX = "domain:"
_PORTS = {"http": 80, "https": 443}
_ODD = re.compile(r"[\s\\\x00-\x20\x7f]")
# Some resolvers read such a label, and all before it, as the number of an address.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_AS_IT_IS = "/?:@!$&'()*+,;=%~-._"


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A URL in parts. `target` is its path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @classmethod
    def of(cls, url: object) -> WebAddress | None:
        """The address in a URL; None if it is not a plain one of the web."""
        if not isinstance(url, str) or len(url) > URL_CHARS_MAX or _ODD.search(url.strip()):
            return None
        try:
            parts = urlsplit(url.strip())
            host = (parts.hostname or "").encode("idna").decode("ascii")
            if "%" in host:
                return None
            rule = host_rule(f"[{host}]" if ":" in host else host)
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError, Invalid):
            return None
        if "@" in parts.netloc or rule.is_pattern or rule.port is not None or _is_odd(rule.name):
            return None
        query = f"?{parts.query}" if parts.query else ""
        target = quote(f"{parts.path or '/'}{query}", safe=_AS_IT_IS)
        return cls(parts.scheme, rule.name, port, target)

    @property
    def place(self) -> str:
        """The host, and the port unless it is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}{self.target}"


def _is_odd(host: str) -> bool:
    """Whether a host is a number that is not written as an address."""
    last = host.rpartition(".")[2]
    return _NUMBER.fullmatch(last) is not None and not _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def domain_of(specifier: str) -> HostRule | None:
    """The host that `domain:NAME` names; None if it is not written so."""
    if not specifier.startswith(_PREFIX):
        return None
    try:
        return host_rule(specifier.removeprefix(_PREFIX).strip())
    except Invalid:
        return None


def permits(specifier: str, url: object) -> bool:
    """Whether a rule allows to fetch a URL: exactly this host, or those below `*.NAME`."""
    rule, address = domain_of(specifier), WebAddress.of(url)
    return rule is not None and address is not None and rule.allows(address.host, address.port)


def forbids(specifier: str, url: object) -> bool:
    """Whether a deny rule is about a URL: this host or one below it. If unclear, it is."""
    rule, address = domain_of(specifier), WebAddress.of(url)
    if rule is None or address is None:
        return True
    name = rule.name.removeprefix("*.")
    below = address.host.endswith(f".{name}")
    return (below or (address.host == name and not rule.is_pattern)) and (
        rule.port is None or rule.port == address.port
    )


def rule_for(url: object) -> str | None:
    """The specifier that allows the host of a URL; None if that would allow more."""
    address = WebAddress.of(url)
    if address is None or address.port not in WEB_PORTS:
        return None
    return f"{_PREFIX}{host_name(address.host)}"
