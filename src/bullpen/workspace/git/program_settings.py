"""Settings that name programs: what git uses instead of what a repository says. Pure.

A repository's own settings (its config files, everything they include, and the settings of one
worktree) may have been written by an agent. Git must run no program that they name. What the user
configured for all repositories, or what the command line gives, still holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ALWAYS = (
    "core.fsmonitor=false",
    "core.alternateRefsCommand=true",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    # Nothing that Bullpen makes is signed, and nothing is verified: no gpg, no ssh-keygen.
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "push.gpgSign=false",
    "merge.verifySignatures=false",
    "log.showSignature=false",
    # Git drops these settings when it starts git in a submodule, so it must not start one.
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "status.submoduleSummary=false",
    "diff.submodule=short",
    # Bullpen also works in git dirs, even when it runs in an agent's shell, where this is set.
    "safe.bareRepository=all",
)
"""What holds for every call, whoever configured something else."""

_USERS = frozenset(("system", "global", "command"))
"""The scopes that no repository can write."""

# The program of a merge driver: what git itself does to text files.
_PLAIN_MERGE = "git merge-file --quiet --marker-size=%L %A %O %B"

_INSTEAD: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), value)
    for pattern, value in (
        (r"core\.sshcommand", "ssh"),
        (r"core\.(askpass|virtualfilesystem)", ""),
        (r"core\.(editor|pager)|sequence\.editor", ":"),
        (r"diff\.external|diff\..*\.command", "true"),
        (r"diff\..*\.textconv|interactive\.difffilter", "cat"),
        (r"merge\..*\.driver", _PLAIN_MERGE),
        (r"(gpg|gpg\..*)\.program|gpg\..*\.defaultkeycommand", "false"),
        (r"submodule\..*\.update", "checkout"),
        (r"submodule\..*\.ignore", "dirty"),
        (r"trailer\..*\.(command|cmd)|hook\..*\.command", "true"),
        (r"hook\..*\.enabled", "false"),
        (r"tar\..*\.command", "cat"),
        (r"(difftool|mergetool|browser|man|guitool)\..*\.(cmd|path)", "true"),
        (r"uploadpack\.packobjectshook", ""),
        # A cookie file can be any file, and a server says what is in it.
        (r"(http|http\..*)\.savecookies", "false"),
        # git-lfs, if the user configured it, reads these.
        (r"lfs\.extension\..*\.(clean|smudge)", "cat"),
        (r"lfs\.customtransfer\..*\.path", "false"),
        (r"(lfs|lfs\..*)\.standalonetransferagent", ""),
    )
)
_FILTER = re.compile(r"filter\.(.*)\.(clean|smudge|process|required)", re.DOTALL)
_HELPER = re.compile(r"(credential|credential\..*)\.helper", re.DOTALL)
_UNCHANGED = "cat"

_PROTOCOLS = {
    "file": "user",
    "git": "always",
    "http": "always",
    "https": "always",
    "ssh": "always",
}
"""The protocols that git knows without a program of another, and its own rule for each."""


class Setting(NamedTuple):
    """One setting as git lists it. `scope` says which file it is from."""

    scope: str
    key: str
    value: str

    @property
    def is_users(self) -> bool:
        """Return whether the user configured it for all repositories, or gave it just now."""
        return self.scope in _USERS


def settings_in(listed: str) -> list[Setting]:
    """Return the settings that `git config --list --show-scope -z` printed."""
    parts = listed.split("\0")
    rows = zip(parts[0::2], parts[1::2], strict=False)
    return [Setting(scope, *row.partition("\n")[::2]) for scope, row in rows]


def overrides(found: Sequence[Setting], *, stores: bool) -> list[tuple[str, str]]:
    """Return the settings to add, so that no program of the repository is run.

    Each is what the user configured, else something harmless. `stores` is a command that stores or
    writes the content of files: there, a filter that is not run is an error. A command that only
    looks takes the files as they are.
    """
    users = {each.key: each.value for each in found if each.is_users}
    added: dict[str, str] = {}
    for each in found:
        if not each.is_users and (value := _instead(each.key)) is not None:
            added[each.key] = users.get(each.key, value)
    added |= _without_filters(found, users, stores=stores)
    return [*added.items(), *_helpers(found)]


def protocols(found: Sequence[Setting], *, from_user: bool) -> str:
    """Return the protocols that git may use, as in GIT_ALLOW_PROTOCOL.

    What a repository says about them does not count. `from_user` is False for addresses that are
    not the user's, such as those of submodules.
    """
    users = {each.key: each.value for each in found if each.is_users}
    names = dict(_PROTOCOLS)
    for key in users:
        if key.startswith("protocol.") and key.endswith(".allow"):
            names.setdefault(key[len("protocol.") : -len(".allow")], "never")
    allowed = []
    for name, rule in names.items():
        said = users.get(f"protocol.{name}.allow", users.get("protocol.allow", rule))
        if said == "always" or (said == "user" and from_user):
            allowed.append(name)
    return ":".join(allowed) or "none"


def is_from_repository(found: Sequence[Setting], key: str) -> bool:
    """Return whether a repository has a setting of its own."""
    return any(each.key == key and not each.is_users for each in found)


def as_variables(added: Sequence[tuple[str, str]], env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give git more settings, after those that are there already."""
    said = env.get("GIT_CONFIG_COUNT", "")
    first = int(said) if said.isdecimal() else 0
    made = {"GIT_CONFIG_COUNT": str(first + len(added))} if added else {}
    for number, (key, value) in enumerate(added, first):
        made |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return made


def _instead(key: str) -> str | None:
    return next((value for pattern, value in _INSTEAD if pattern.fullmatch(key)), None)


def _without_filters(
    found: Sequence[Setting], users: Mapping[str, str], *, stores: bool
) -> dict[str, str]:
    """Return what replaces the filters of a repository.

    To store files without their filter would commit what was to stay out, such as a key in plain
    text, and to write them without it would give an agent unusable files.
    """
    named: dict[str, dict[str, str]] = {}
    for each in found:
        if not each.is_users and (match := _FILTER.fullmatch(each.key)):
            named.setdefault(match[1], {})[match[2]] = each.value
    added: dict[str, str] = {}
    for name, said in named.items():
        own = {part: users.get(f"filter.{name}.{part}", "") for part in ("clean", "smudge")}
        process = users.get(f"filter.{name}.process", "")
        if process or any(own.values()):
            added |= {f"filter.{name}.{part}": value for part, value in own.items()}
            added[f"filter.{name}.process"] = process
            added[f"filter.{name}.required"] = users.get(f"filter.{name}.required", "false")
            continue
        for part in ("clean", "smudge"):
            runs = said.get("process") or said.get(part, "")
            harmless = runs in ("", _UNCHANGED)
            missing = _UNCHANGED if stores else ""
            added[f"filter.{name}.{part}"] = missing if harmless or not stores else "false"
        added[f"filter.{name}.process"] = ""
        added[f"filter.{name}.required"] = "true" if stores else "false"
    return added


def _helpers(found: Sequence[Setting]) -> list[tuple[str, str]]:
    """Return the user's credential helpers alone, if the repository has others."""
    helpers = [each for each in found if _HELPER.fullmatch(each.key)]
    if all(each.is_users for each in helpers):
        return []
    # An empty name forgets all before it.
    return [("credential.helper", ""), *((e.key, e.value) for e in helpers if e.is_users)]
