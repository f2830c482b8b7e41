"""A real process that is stopped: its timeouts count only the time in which it could run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time


def test_a_timeout_does_not_count_the_time_in_which_the_process_was_stopped() -> None:
    """Three seconds are left to a process that is stopped for twelve."""
    code = (
        "import anyio; from bullpen.app.steady_loop import run_steadily\n"
        "async def body():\n"
        "    print('begun', flush=True)\n"
        "    with anyio.move_on_after(3) as scope: await anyio.sleep(2)\n"
        "    print(scope.cancelled_caught, flush=True)\n"
        "run_steadily(body)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        run.send_signal(signal.SIGSTOP)
        time.sleep(12)
        run.send_signal(signal.SIGCONT)
        assert run.stdout.readline() == "False\n"
