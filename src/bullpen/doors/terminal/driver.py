"""How a screen draws on a terminal that may be suspended, taken away or closed at any moment."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Protocol, TextIO, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from bullpen.doors.terminal.closed import end_soon, is_closed, let_go

_LOOK_S = 0.5


class CanHangUp(Protocol):
    """An app that ends what it does when its terminal is gone."""

    def hang_up(self) -> None:
        """End in order."""


class Output:
    """The output of a screen, which discards what its terminal does not take.

    The thread that writes must survive: the event loop blocks once 30 texts wait for it.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write a text."""
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Write what was kept back."""
        with suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """The number of the stream."""
        return self._file.fileno()


class TerminalDriver(LinuxDriver):
    """Draws on a terminal, and calls the app's `hang_up` once when the terminal is gone.

    Textual's own handler of SIGCONT starts its threads a second time, also where nothing was
    suspended, as when a terminal is closed; and it does so in the middle of whatever runs.
    """

    def __init__(self, app: App[Any], **settings: Any) -> None:
        super().__init__(app, **settings)
        self._file = cast("Any", Output(cast("TextIO", sys.__stderr__)))
        self._hang_up = cast("CanHangUp", app).hang_up
        self._is_lost = False
        self._is_suspended = False
        self._is_giving_away = False
        self._asyncio = asyncio.get_running_loop()
        self._asyncio.add_signal_handler(signal.SIGTSTP, self._suspend)
        self._asyncio.add_signal_handler(signal.SIGCONT, self._go_on)
        threading.Thread(target=self._watch, name="terminal-watch", daemon=True).start()

    def write(self, data: str) -> None:
        """Write data, unless nobody would read it: then it would wait for ever."""
        if not self._is_lost and self._draws:
            super().write(data)

    def run_input_thread(self) -> None:
        """Read keys until the end, or until there is no terminal any more."""
        try:
            super().run_input_thread()
        except OSError:
            if not is_closed(self.fileno):
                raise

    def suspend_application_mode(self) -> None:
        """Give the terminal away for a while."""
        self._is_giving_away = True
        try:
            super().suspend_application_mode()
        finally:
            self._is_giving_away = False

    def close(self) -> None:
        """End the writing; unless the terminal is only given away, the signals are free again."""
        super().close()
        if not self._is_giving_away:
            for number in (signal.SIGTSTP, signal.SIGCONT):
                self._asyncio.remove_signal_handler(number)
            # Else Python fails to write what is left when it exits.
            let_go()

    @property
    def _draws(self) -> bool:
        """Whether the terminal is ours: a thread writes to it."""
        return self._writer_thread is not None and self._writer_thread.is_alive()

    def _suspend(self) -> None:
        """Stop this process, as Ctrl-Z does, with the terminal as it was before."""
        if self._auto_restart and self._draws and not is_closed(self.fileno):
            self.suspend_application_mode()
            self._is_suspended = True
            self._must_signal_resume = True
        os.kill(os.getpid(), signal.SIGSTOP)

    def _go_on(self) -> None:
        """Draw again after this process was stopped."""
        if not self._auto_restart or self._is_lost or is_closed(self.fileno):
            return
        if not self._is_suspended and self._draws:
            # Something else stopped it, and the shell has used the terminal since.
            self.suspend_application_mode()
        # In the background this only stops the process again, until it is in the foreground.
        self.resume_application_mode()
        self._is_suspended = not self._draws
        self._app.call_later(self._app.refresh, layout=True)

    def _watch(self) -> None:
        """Wait until the terminal is gone, which not everybody is told by a signal."""
        poller = select.poll()
        poller.register(self.fileno, 0)
        while not is_closed(self.fileno):
            # Where a terminal cannot be polled, this returns at once.
            if poller.poll():
                time.sleep(_LOOK_S)
        self._is_lost = True
        self.exit_event.set()
        end_soon()
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            self._asyncio.call_soon_threadsafe(self._hang_up)
