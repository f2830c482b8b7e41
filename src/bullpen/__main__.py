"""The entry points: `bullpen`, `bullpen-bridge` and `python -m bullpen`.

Until a command runs, Ctrl-C ends the process as it ends other programs. Python would turn it into a
traceback from the middle of an import, and there is nothing to clean up yet.
"""

from __future__ import annotations

# `signal` without its enums, which take longer to import than all that comes before.
import _signal  # type: ignore[import-not-found]
from importlib import import_module


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
    getattr(import_module("bullpen.doors.cli.main"), name)()


if __name__ == "__main__":
    main()
