"""A warm parent whose children run the programs of the backend contract."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence

from bullpen.agents.backends.warm_start.parent import serve


def _can_run(words: Sequence[str]) -> bool:
    return words[:2] == [sys.executable, "-c"] or shutil.which(words[0]) is not None


def main() -> None:
    """Be the warm parent; in a child, run its words."""
    words = serve(_can_run)
    if words[:2] == [sys.executable, "-c"]:
        sys.argv[:] = words[1:2] + words[3:]
        exec(compile(words[2], "<string>", "exec"), {"__name__": "__main__"})
        return
    # Python ignores it, and the new program would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
