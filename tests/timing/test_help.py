"""How much work the help costs, beside that of a bare Python in the same run."""

from __future__ import annotations

import compileall
import os
import resource
import subprocess
import sys
import sysconfig
from pathlib import Path

import bullpen

HELP_SHARE = 20
"""How many times the work of a bare Python the help may cost."""


def test_help_is_fast() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    compileall.compile_dir(Path(bullpen.__file__).parent, quiet=1)
    compileall.compile_dir(Path(sysconfig.get_paths()["purelib"]) / "typer", quiet=1)
    script = Path(sys.executable).with_name("bullpen")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "bullpen"]

    def work_s(*words: str) -> float:
        # Work, not waiting: other processes of a busy machine do not count.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, timeout=60, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    shares = (work_s(*command, "--help") / work_s(sys.executable, "-c", "pass") for _ in range(15))
    assert any(share < HELP_SHARE for share in shares)
