"""The backends of this machine by name: Bullpen's own, and those of packages that are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bullpen.agents.contracts.backend import Backend
from bullpen.agents.contracts.installed_parts import InstalledPart, find_part
from bullpen.errors import BullpenError

BACKENDS = ("in-process", "subprocess", "tmux")
"""Every backend that comes with Bullpen."""


class AvailableBackends(Mapping[str, Backend]):
    """The backends by name. One of a package is imported and made when it is first asked for.

    Only those that were made are listed. Asking for one raises KeyError if there is none, Invalid
    if its name is taken, and Unavailable if its package cannot be used.
    """

    def __init__(self, ours: Mapping[str, Backend]) -> None:
        self._made = dict(ours)

    def __getitem__(self, name: str) -> Backend:
        if name not in self._made:
            part = find_part("backend", name, BACKENDS)
            if part is None:
                raise KeyError(name)
            self._made[name] = backend_of(part)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._made))

    def __len__(self) -> int:
        return len(self._made)


def backend_of(part: InstalledPart) -> Backend:
    """Make the backend of a package. Raises Unavailable if it cannot be used."""
    make: Callable[[], Backend] = part.load()
    try:
        backend = make()
        name = backend.name
    except BullpenError:
        raise
    except Exception as error:
        raise part.broken(f"{type(error).__name__}: {error}") from error
    if name != part.name:
        # Records of processes name their backend, and it must be found again by that name.
        raise part.broken(f"it calls itself {name!r}")
    return backend
