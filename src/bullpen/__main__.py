"""The entry points: `bullpen`, `bullpen-bridge` and `python -m bullpen`.

Until a command runs, Ctrl-C ends the process as it ends other programs. Python would turn it into a
traceback from the middle of an import, and there is nothing to clean up yet.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enums, which are slow
import atexit
import gc
import os
import sys

from bullpen.by_name import load

_JOIN_S = 1.0


def main() -> None:
    """Run the command line of this process."""
    _run("main")


def bridge_main() -> None:
    """Run `bullpen bridge` with the words of this process."""
    _run("bridge_main")


def _run(name: str) -> None:
    # Whoever started this process may have it ignore the signal; that stays.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    # Nothing that is imported is garbage. A command turns this on again before it begins.
    gc.disable()
    try:
        load(f"bullpen.doors.cli.main:{name}")()
    except SystemExit as end:
        if isinstance(end.code, int) and _is_alone():
            _leave(end.code)
        # Python waits for what is left, and ends the process itself.
        raise


def _is_alone() -> bool:
    """Whether every thread has ended that the end of the process would have to wait for."""
    current = load("threading:current_thread")()
    others = [each for each in load("threading:enumerate")() if each is not current]
    waited_for = [each for each in others if not each.daemon]
    for each in waited_for:
        # Those that read files were told to end, and need a moment.
        each.join(_JOIN_S)
    return not any(each.is_alive() for each in waited_for)


def _leave(code: int) -> None:
    """End the process without taking every object apart, which takes longer than many commands."""
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        # Python says what it could not write, and exits with its own code.
        return
    os._exit(code)


if __name__ == "__main__":
    main()
