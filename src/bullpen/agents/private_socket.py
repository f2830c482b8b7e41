"""A socket that only this user can open: where a driven program reaches the runner of its agent."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from anyio import to_thread

from bullpen.errors import one_error

_PREFIX = "bullpen-door-"

Visit = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class PrivateSocket:
    """Listens from `open` to `aclose`. Each connection is one call of `visit`."""

    def __init__(self, visit: Visit, *, bytes_max: int) -> None:
        self._visit = visit
        self._bytes_max = bytes_max
        self._folder: Path | None = None
        self._listening: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def path(self) -> str:
        """Where it is."""
        if self._folder is None:
            raise RuntimeError("The socket is not open.")
        return str(self._folder / "s")

    async def open(self) -> None:
        """Listen. The folder is this user's alone, and its name short: sockets have no others."""
        await to_thread.run_sync(_remove_deserted)
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._listening = await asyncio.start_unix_server(
            self._visited, self.path, limit=self._bytes_max
        )

    async def hang_up(self) -> None:
        """End every visit that goes on."""
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def aclose(self) -> None:
        """Answer nobody any more."""
        if self._listening is not None:
            self._listening.close()
        await self.hang_up()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)
        try:
            with one_error():
                await self._visit(reader, writer)
        except (OSError, ValueError):
            # The program is gone, or sent nothing that could be of the protocol.
            pass
        except asyncio.CancelledError:
            # The visit was ended by us. Python 3.11 would report it as an error.
            pass
        finally:
            with suppress(OSError):
                writer.close()


def _remove_deserted() -> None:
    """Remove the sockets of runners that were killed: nobody listens there any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.connect(str(folder / "s"))
        except ConnectionRefusedError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # It is being made, or was removed meanwhile.
            continue
