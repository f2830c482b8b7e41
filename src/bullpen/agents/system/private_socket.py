"""A private socket, on which another vendor's program reaches the runner of its agent."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, TypeVar

from anyio import to_thread

from bullpen.errors import one_error

_PREFIX = "bullpen-door-"

T = TypeVar("T")
Visit = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class PrivateSocket:
    """Listens from `open` to `aclose`. Each connection is one call of `visit`."""

    wait_s: ClassVar[float] = 10.0
    """How long a visitor may take to say who it is, or what it wants."""

    def __init__(self, visit: Visit, *, bytes_max: int) -> None:
        self._visit = visit
        self._bytes_max = bytes_max
        self._folder: Path | None = None
        self._listening: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def path(self) -> str:
        """The path of the socket."""
        if self._folder is None:
            raise RuntimeError("The socket is not open.")
        return str(self._folder / "s")

    async def open(self) -> None:
        """Start listening, in a private folder with a short name: socket paths are limited."""
        await to_thread.run_sync(_remove_deserted)
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._listening = await asyncio.start_unix_server(
            self._visited, self.path, limit=self._bytes_max
        )

    async def hang_up(self) -> None:
        """Close all open connections."""
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def aclose(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.close()
        await self.hang_up()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def in_time(self, first: Awaitable[T]) -> T:
        """Wait for the first words of a visitor; raises TimeoutError if they are late."""
        async with asyncio.timeout(self.wait_s):
            return await first

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)
        try:
            with one_error():
                await self._visit(reader, writer)
        except (OSError, ValueError):
            # The program ended, was silent, or sent something that is not part of the protocol.
            pass
        except asyncio.CancelledError:
            # We closed the connection. Python 3.11 would report this as an error.
            pass
        finally:
            with suppress(OSError):
                writer.close()


def _remove_deserted() -> None:
    """Remove the sockets of killed runners."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.connect(str(folder / "s"))
        except ConnectionRefusedError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # It is being created, or was removed meanwhile.
            continue
