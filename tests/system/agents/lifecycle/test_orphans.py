"""Ended orphans are reaped."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bullpen.agents.system import orphans

_PROGRAM = """
import os, time
from bullpen.agents.system import orphans, process_table

assert not orphans.reap_ended({(1, "1")})
pid = os.fork()
if pid == 0:
    os._exit(0)
before = set()
while pid not in {each for each, _ in before}:
    before = orphans.reap_ended(before)
assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
orphans.reap_ended(before)
try:
    os.waitpid(pid, os.WNOHANG)
except ChildProcessError:
    print("reaped")
"""


@pytest.mark.skipif(not orphans.KEPT_BELOW, reason="only Linux keeps orphans below a launch")
def test_a_child_that_nobody_awaits_is_reaped_when_it_is_found_twice() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "reaped\n", done.stderr
