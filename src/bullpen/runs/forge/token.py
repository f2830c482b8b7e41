"""The token of a forge: where it is kept, who may read it, and how it stays out of texts.

It is in a private file of the home, or in a variable of the environment of whoever runs the team.
No agent gets either; a sandbox hides the home.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.agents.contracts.backend import FORGE_TOKEN, PERSON_KEY
from bullpen.agents.system.secrets import Redactor
from bullpen.errors import Invalid, NotFound, Refused, Unavailable
from bullpen.runs.reach.home_files import made_once, write_private
from bullpen.workspace.git.ref_names import component

_CHARS_MAX = 4_096
_VISIBLE = re.compile(r"[!-~]+")
_KEY = "marker.key"
_KEY_CHARS_MIN = 32


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and where it is from: the path of its file, or the name of its variable."""

    value: str = field(repr=False)
    origin: str


def forge_folder(home: Path) -> Path:
    """Return the folder of a home that has what only the forge worker uses."""
    return home / "forge"


def token_file(home: Path, host: str) -> Path:
    """Return where the token of a host is kept."""
    return forge_folder(home) / f"{component(host)}.token"


def find_token(
    home: Path, host: str, environ: Mapping[str, str], *, variable: str | None = None
) -> Token:
    """Return the token of a host.

    A `variable` that the settings name is the only place that is looked at. Otherwise
    BULLPEN_FORGE_TOKEN comes before the file.

    Raises:
        NotFound: there is none.
        Refused: others can read the file, or it is a link (unsafe_file).
        Invalid: it is no token.
    """
    if variable is not None:
        if not environ.get(variable):
            raise NotFound(
                f"{variable}, which [forge] names as token_env, is not set.",
                remedy=f"Set {variable} to a token of {host}, or remove token_env and run:"
                " bullpen forge login",
            )
        return Token(_checked(environ[variable], variable), variable)
    if environ.get(FORGE_TOKEN):
        return Token(_checked(environ[FORGE_TOKEN], FORGE_TOKEN), FORGE_TOKEN)
    path = token_file(home, host)
    return Token(_checked(_read_private(path, host), str(path)), str(path))


def keep_token(home: Path, host: str, value: str) -> Path:
    """Keep the token of a host in the home, in place of an earlier one; return its file.

    Raises:
        Invalid: it is no token.
        Unavailable: the file cannot be written.
    """
    path = token_file(home, host)
    _write_private(path, _checked(value.strip(), "The text"))
    return path


def forget_token(home: Path, host: str) -> bool:
    """Remove the token of a host. Returns whether there was one."""
    try:
        token_file(home, host).unlink()
    except FileNotFoundError:
        return False
    return True


def marker_key(home: Path) -> bytes:
    """Return the key of a home for the hidden markers in what it writes; the first call makes it.

    Raises:
        Refused: others can read the file, or it is a link (unsafe_file).
        Unavailable: it cannot be read or written.
    """
    path = forge_folder(home) / _KEY
    try:
        key = _read_private(path, "markers")
    except NotFound:
        _write_private(path, secrets.token_hex(_KEY_CHARS_MIN), replace=False)
        key = _read_private(path, "markers")
    if len(key) < _KEY_CHARS_MIN:
        raise Refused(
            f"{path} is damaged: it holds no key.",
            reason="unsafe_file",
            remedy=f"Remove {path}. Bullpen then makes a new key, and no longer recognizes what it"
            " wrote on the forge before.",
        )
    return key.encode("ascii", "replace")


def body_redactor(home: Path, token: Token, environ: Mapping[str, str]) -> Redactor:
    """Return what removes secrets from texts on their way to a forge or to a screen."""
    known = {**environ, FORGE_TOKEN: token.value}
    with suppress(OSError):
        known[PERSON_KEY] = (home / "person.key").read_text("utf-8").strip()
    return Redactor(known)


def without_token(environ: Mapping[str, str], token: Token) -> dict[str, str]:
    """Return the variables without those that contain the token, whatever their names."""
    return {name: value for name, value in environ.items() if token.value not in value}


def _checked(value: str, where: str) -> str:
    if not _VISIBLE.fullmatch(value) or len(value) > _CHARS_MAX:
        # The value is not shown: it may be a token with a stray character.
        raise Invalid(
            f"{where} is not a token: a token is one word of visible ASCII characters.",
            remedy="Copy the token again, without quotes and line breaks.",
        )
    return value


def _read_private(path: Path, host: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFound(
            f"There is no token for {host}.",
            remedy=f"Run: bullpen forge login. Or set {FORGE_TOKEN}.",
        ) from None
    except OSError as error:
        if path.is_symlink():
            raise _unsafe(path, "it is a link") from None
        raise Unavailable(
            f"{path} cannot be read: {error.strerror}.", remedy="Check its owner and its mode."
        ) from None
    with open(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise _unsafe(path, "it is not a regular file")
        if found.st_uid != os.geteuid():
            raise _unsafe(path, "it belongs to another user")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _unsafe(path, f"other users can read it (mode {stat.S_IMODE(found.st_mode):o})")
        return file.read(_CHARS_MAX + 1).decode("ascii", "replace").strip()


def _unsafe(path: Path, why: str) -> Refused:
    return Refused(
        f"{path} is not used: {why}.",
        reason="unsafe_file",
        remedy=f"Remove {path}, then run: bullpen forge login. Replace a token that others saw.",
    )


def _write_private(path: Path, text: str, *, replace: bool = True) -> None:
    """Write a private file at once. Without `replace`, an existing one stays."""
    data = f"{text}\n".encode("ascii")
    try:
        if replace:
            write_private(path, data)
        else:
            made_once(path, data)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written: {error.strerror}.",
            remedy="Check the folder's owner and the space on its disk.",
        ) from None
