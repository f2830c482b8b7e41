"""Keys of the servers that `bullpen server start` started from a home.

Each is a file of the home, which a sandbox hides: the seed of one user, named after the port of the
server. No agent gets its path in its environment.
"""

from __future__ import annotations

from pathlib import Path

from bullpen.app.settings import Settings

FOLDER = "server-keys"

_SCHEME = "nats://"
_HOSTS = ("127.0.0.1", "localhost")
_PORT = "4222"


def key_file(home: Path, port: int | str) -> Path:
    """Return where the key of the server on a port of this machine is kept."""
    return home / FOLDER / f"{port}.nk"


def credentials_for(url: str, settings: Settings) -> str | None:
    """Return the file with the credentials for the servers at an address, if there is one.

    BULLPEN_CREDS belongs to the store of the settings. For other servers, the key that this home
    has for them comes first.
    """
    if settings.creds and url == settings.store:
        return settings.creds
    return _known_key(url, settings.home) or settings.creds


def _known_key(url: str, home: Path) -> str | None:
    """Return the key of servers that were started from this home; nobody else gets a signature."""
    if not url.startswith(_SCHEME):
        return None
    places = [
        each.strip().removeprefix(_SCHEME).partition(":")
        for each in url.removeprefix(_SCHEME).split(",")
    ]
    if any(host not in _HOSTS for host, _, _ in places):
        return None
    ports = [port or _PORT for _, _, port in places]
    if not all(port.isascii() and port.isdigit() for port in ports):
        return None
    files = [key_file(home, port) for port in ports]
    return next((str(file) for file in files if file.is_file()), None)
