"""Read at the start of every Python of a stage: its wall clock is off, and leases may be short.

A stage copies this file as `sitecustomize.py`. The clock for durations is left alone, as it is when
a machine sleeps or its clock is set. The file `leases` says by how much leases and what goes with
them are divided, so that a test need not wait for minutes.
"""

import sys
import time
from pathlib import Path

_here = Path(__file__).parent
_time, _time_ns = time.time, time.time_ns


def _off_s() -> int:
    try:
        return int((_here / "off").read_text() or 0)
    except (OSError, ValueError):
        return 0


time.time = lambda: _time() + _off_s()
time.time_ns = lambda: _time_ns() + _off_s() * 1_000_000_000


def _shorten(by: float) -> None:
    from bullpen.agents.tools import task_tools

    # Before anybody imports it.
    task_tools.LEASE_S /= by
    from bullpen.team.agents import liveness

    liveness.SETTLE_S /= by
    from bullpen.agents.runner import duties
    from bullpen.agents.supervisor import roster_view

    duties._RENEW_S /= by
    roster_view._EXPIRE_S /= by


if "bullpen" in sys.orig_argv and (_here / "leases").exists():
    _shorten(float((_here / "leases").read_text()))
