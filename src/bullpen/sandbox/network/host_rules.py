"""Decide which hosts a sandbox may reach.

A rule names a host, a host with a port, or all hosts below a domain. Addresses of this machine and
of private networks are reached only if a rule names exactly that host and port.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from bullpen.errors import Invalid
from bullpen.protocol.policy import Sandbox

WEB_PORTS = (443, 80)
"""The ports of a rule that names none."""

_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62}))*")
_PORT_MAX = 65_535

_METADATA = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "192.0.0.192")))
"""Addresses of cloud metadata services that look public. The others are link-local or private."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class HostRule:
    """One rule: a name, or `*.` and a domain; and its port, if it names one."""

    name: str
    port: int | None = None

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for every host below a domain."""
        return self.name.startswith("*.")

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that it opens."""
        return WEB_PORTS if self.port is None else (self.port,)

    def allows(self, host: str, port: int) -> bool:
        """Whether it allows this host and port."""
        if port not in self.ports:
            return False
        return host.endswith(self.name[1:]) if self.is_pattern else host == self.name

    def names_exactly(self, host: str, port: int) -> bool:
        """Whether it names this host and this port, so that any address is meant."""
        return not self.is_pattern and self.name == host and self.port == port


@dataclass(frozen=True, slots=True)
class HostList:
    """The hosts that one sandbox may reach."""

    rules: tuple[HostRule, ...] = ()
    # Every host with a public address.
    any_public: bool = False

    @classmethod
    def of(cls, sandbox: Sandbox, more: Iterable[str] = ()) -> HostList:
        """The list of a policy, and more rules. Raises Invalid."""
        rules = dict.fromkeys(map(host_rule, (*sandbox.hosts, *more)))
        return cls(tuple(rules), any_public=sandbox.network)

    def __bool__(self) -> bool:
        return bool(self.rules) or self.any_public

    def allows(self, host: str, port: int) -> bool:
        """Whether this host and port may be reached."""
        return self.any_public or any(rule.allows(host, port) for rule in self.rules)

    def names_exactly(self, host: str, port: int) -> bool:
        """Whether a rule names exactly this host and port."""
        return any(rule.names_exactly(host, port) for rule in self.rules)

    @property
    def places(self) -> list[tuple[str, int]]:
        """Every host and port that is named, for programs that do not use a proxy."""
        return [
            (rule.name, port) for rule in self.rules if not rule.is_pattern for port in rule.ports
        ]


def host_rule(text: str) -> HostRule:
    """The rule that a text states. Raises Invalid."""
    name, port = text.strip().lower(), ""
    if name.startswith("["):
        name, closed, rest = name[1:].partition("]")
        port = rest.removeprefix(":")
        is_fine = _is_address(name) and closed != "" and (rest == "" or rest.startswith(":"))
    elif _is_address(name):
        is_fine = True
    else:
        name, colon, port = name.partition(":")
        name = name.removesuffix(".")
        is_fine = _NAME.fullmatch(name) is not None and (not colon or port != "")
    number = int(port) if port.isascii() and port.isdecimal() else None
    if port and (number is None or not 0 < number <= _PORT_MAX):
        is_fine = False
    if not is_fine:
        raise Invalid(
            f"{text!r} is not a host.",
            remedy="Name a host such as api.example.org, api.example.org:8443 or *.example.org.",
        )
    return HostRule(host_name(name), number)


def host_name(text: str) -> str:
    """A host in the one form in which hosts are compared."""
    name = text.lower().removesuffix(".")
    return str(ipaddress.ip_address(name)) if _is_address(name) else name


def hosts_in(urls: Iterable[str]) -> list[str]:
    """The rules for the hosts of some URLs. What is not a URL with a host is left out."""
    found = []
    for url in urls:
        try:
            parts = urlsplit(url if "://" in url else f"https://{url}")
            port = parts.port or (80 if parts.scheme == "http" else 443)
            host = parts.hostname or ""
            host_rule(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except (ValueError, Invalid):
            continue
        found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return found


def covers(host: str, sandbox: Sandbox) -> bool:
    """Whether a sandbox already reaches everything that a rule would open."""
    rule, had = host_rule(host), HostList.of(sandbox)
    return all(_covers(rule, port, had) for port in rule.ports)


def _covers(rule: HostRule, port: int, had: HostList) -> bool:
    if rule in had.rules:
        return True
    # To name a host with its port opens private addresses too, so only the same rule covers that.
    if rule.port is not None and not rule.is_pattern:
        return False
    return had.any_public or any(
        (each.is_pattern or rule.name == each.name)
        and port in each.ports
        and (rule.name == each.name or rule.name.endswith(each.name[1:]))
        for each in had.rules
    )


def is_public(address: str) -> bool:
    """Whether an address is on the internet: not of this machine, a private network or a cloud."""
    # The zone of a link-local address.
    found = ipaddress.ip_address(address.partition("%")[0])
    return all(
        each.is_global and not each.is_multicast and each not in _METADATA
        for each in (found, *_embedded(found))
    )


_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def _embedded(address: Address) -> Sequence[Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _TRANSLATED:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
