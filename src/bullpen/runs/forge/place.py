"""Addresses of repositories and names of branches, as people and forges give them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from bullpen.errors import Invalid

_BAD_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|\.$|/$")
_BRANCH_CHARS_MAX = 200
_SCHEMES = ("https", "http", "file")


@dataclass(frozen=True, slots=True)
class Place:
    """The address of a repository on a forge, as a person configured it."""

    url: str
    scheme: str
    # The host with its port, if it has one.
    host: str
    path: str

    @property
    def clone_url(self) -> str:
        """Return the address that git uses."""
        return f"{self.url}.git" if self.scheme != "file" else self.url


def place_of(url: str) -> Place:
    """Return what the address of a repository says. Raises Invalid."""
    parts = _plain_parts(url)
    path = parts.path.strip("/").removesuffix(".git")
    if parts.scheme == "file":
        return Place(url.strip(), "file", "", path)
    named = path.split("/")
    if len(named) < 2 or not all(named) or {".", ".."} & set(named):
        raise _bad_url(url, "it must have a host, an owner and a repository")
    host = parts.netloc.lower()
    return Place(f"{parts.scheme}://{host}/{path}", parts.scheme, host, path)


def check_api(url: str) -> str:
    """Return the address of an API without a slash at its end. Raises Invalid."""
    parts = _plain_parts(url)
    if parts.scheme == "file":
        raise _bad_url(url, "it must begin with https://")
    return url.strip().rstrip("/")


def _plain_parts(url: str) -> SplitResult:
    """Return the parts of an address that has no more than a host and a path. Raises Invalid."""
    if "@" in url:
        # The address is not repeated: it may contain a token.
        raise Invalid(
            "The address of a forge must not contain a user name, password or token.",
            remedy="Remove everything up to the @, and run: bullpen forge login",
        )
    if re.search(r"[\x00-\x20\x7f\\]", url.strip()):
        raise _bad_url(url, "it has spaces or control characters")
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        raise _bad_url(url, "it is not a URL") from None
    if parts.scheme not in _SCHEMES or not (parts.hostname or parts.scheme == "file"):
        raise _bad_url(url, "it must begin with https://")
    if parts.query or parts.fragment:
        raise _bad_url(url, "it has more than a host and a path")
    return parts


def _bad_url(url: str, why: str) -> Invalid:
    return Invalid(
        f"{url!r} is not a usable address: {why}.",
        remedy="Write it as in https://github.com/OWNER/REPOSITORY.",
    )


def check_branch(branch: str) -> str:
    """Return the name of a branch if git and a forge take it as one. Raises Invalid."""
    plain = branch.isascii() and 0 < len(branch) <= _BRANCH_CHARS_MAX
    if not plain or branch.startswith(("-", "/", ".")) or _BAD_BRANCH.search(branch):
        raise Invalid(
            f"{branch[:80]!r} is not a usable name of a branch.",
            remedy="Use letters, digits, dots, dashes and single slashes.",
        )
    return branch
