"""Show another command line and environment for this process, as if it was started with them.

The system shows both (`ps`, /proc/PID/environ) from the memory in which the process got them. The
search for processes of a launch reads the nonce there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROOM = "BULLPEN_WARM_ROOM"
"""The variable that makes room for the environment of a child."""

ROOM_BYTES = 32 * 1024
"""How big the environment of a child can be."""

# After the name of the program in /proc/PID/stat: arg_start, arg_end, env_start, env_end.
_ADDRESSES = slice(45, 49)


@dataclass(frozen=True, slots=True)
class ProcessImage:
    """Where the command line and the environment of this process are in its memory."""

    arguments: range
    environment: range

    @classmethod
    def found(cls) -> ProcessImage:
        """Find them. Raises OSError if the system does not say where they are."""
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        first, last, env_first, env_last = map(int, fields[_ADDRESSES])
        image = cls(range(first, last), range(env_first, env_last))
        if not first or len(image.environment) < ROOM_BYTES:
            raise OSError("the system does not tell where the environment of a process is")
        return image

    def holds(self, env: Mapping[str, str]) -> bool:
        """Whether there is room for an environment."""
        return len(_block(env)) <= len(self.environment)

    def replace(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        """Replace both. Words for which there is no room are not shown."""
        # The C library points into this memory, so it has to forget all variables first.
        os.environ.clear()
        ctypes.CDLL(None).clearenv()
        _write(self.environment, _block(env))
        _write(self.arguments, b"".join(os.fsencode(word) + b"\0" for word in words))
        os.environ.update(env)
        sys.orig_argv[:] = words


def _block(env: Mapping[str, str]) -> bytes:
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in env.items())


def _write(area: range, data: bytes) -> None:
    if not area:
        return
    # It ends with a zero, or the system would look for the end of the text elsewhere.
    shown = data[: len(area) - 1]
    ctypes.memmove(area.start, shown.ljust(len(area), b"\0"), len(area))
