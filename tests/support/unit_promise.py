"""The promise of the unit tier: no process, no server, no real wait. Breaking it fails a test."""

from __future__ import annotations

import selectors
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

WAIT_MAX_S = 1.0
"""How long one wait may last that nothing but the clock ends."""

_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")


class Watcher:
    """What one test did that its tier does not do, in its own thread and in those it started."""

    def __init__(self) -> None:
        self.found: list[str] = []
        # Of another test that ran before in this process, as the thread that reaps orphans.
        self._others = set(threading.enumerate()) - {threading.current_thread()}

    def note(self, what: str) -> None:
        if threading.current_thread() not in self._others:
            self.found.append(what)


_watchers: list[Watcher] = []


@contextmanager
def watching() -> Iterator[Watcher]:
    """Watch this process; of several watchers the innermost is told."""
    watcher = Watcher()
    _watchers.append(watcher)
    try:
        yield watcher
    finally:
        _watchers.remove(watcher)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if not _watchers:
        return
    if event in _STARTS:
        what = args[1] if event == "subprocess.Popen" else args[:1]
        _watchers[-1].note(f"it started a process: {event} {what}")
    elif event == "socket.bind" and isinstance(args[1], tuple):
        _watchers[-1].note(f"it listened on a port: {args[1]}")


def _waited(seconds: float) -> None:
    if _watchers and seconds > WAIT_MAX_S:
        _watchers[-1].note(f"it waited {seconds:.1f} s")


_sleep = time.sleep
_select = selectors.DefaultSelector.select
_start = BaseProcess.start


def _watched_sleep(seconds: float) -> None:
    _waited(seconds)
    _sleep(seconds)


def _watched_select(
    self: selectors.DefaultSelector, timeout: float | None = None
) -> list[tuple[selectors.SelectorKey, int]]:
    found = _select(self, timeout)
    if timeout and not found:
        # Nobody but the clock ended it.
        _waited(timeout)
    return found


def _watched_start(self: BaseProcess) -> None:
    # The fork server and `spawn` raise no audit event.
    if _watchers:
        _watchers[-1].note(f"it started a process: {type(self).__name__}")
    _start(self)


def install() -> None:
    """Watch from now on. An audit hook cannot be removed, so this is done once."""
    if time.sleep is _sleep:
        sys.addaudithook(_on_event)
        time.sleep = _watched_sleep  # type: ignore[assignment]
        selectors.DefaultSelector.select = _watched_select  # type: ignore[method-assign]
        BaseProcess.start = _watched_start  # type: ignore[method-assign]


_KEY = pytest.StashKey[Watcher]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    install()
    with watching() as watcher:
        item.stash[_KEY] = watcher
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    watcher = item.stash.get(_KEY, None)
    if watcher is None or call.when != "teardown" or not report.passed:
        return report
    if watcher.found:
        report.outcome = "failed"
        report.longrepr = "A unit test broke the promise of its tier: " + "; ".join(watcher.found)
    return report
