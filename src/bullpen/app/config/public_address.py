"""The address under which a phone reaches the dashboard. Pure."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit

from bullpen.errors import Invalid


def checked_address(text: str) -> str:
    """An address without a slash at its end. Raises Invalid: a phone could not use it safely."""
    wrong = Invalid(
        f"{text!r} is not an address under which a phone reaches the dashboard.",
        remedy="Give the https address of your proxy or tunnel, such as https://team.example.com.",
    )
    try:
        parts = urlsplit(text.strip())
        name, _ = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    plain = text.isascii() and text.isprintable() and not set(text) & set("\\\"'<>` {}|^")
    bare = not (parts.query or parts.fragment or parts.username or parts.password)
    if not name or not plain or not bare or parts.path not in ("", "/"):
        raise wrong
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(name)):
        # Whoever reads a link on its way can answer with it.
        raise wrong
    return f"{parts.scheme}://{parts.netloc.lower()}"


def host_of(address: str) -> str:
    """The name of the host in an address."""
    return urlsplit(address).hostname or ""


def _is_loopback(name: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost"
