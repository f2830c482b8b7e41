"""The store is away for a moment when a turn ends: the report comes all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.night.nights import small_disk

SCRIPT = """\
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "SpawnTeammate", input = {name = "ann", prompt = "You count."}},
  {say = "ann counts."},
]

[[agents.team-lead.turns]]
when = "mail"
from = "ann"
contains = "FORTY-TWO"
steps = [{tool = "Finish", input = {summary = "It is 42."}}]

[[agents.ann.turns]]
when = "start"
steps = [
  {tool = "Bash", input = {command = "touch started; while [ ! -e go-on ]; do sleep 0.1; done"}},
  {say = "The answer is FORTY-TWO."},
]
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_run_whose_disk_is_full_when_a_turn_ends_is_done(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "script.toml").write_text(SCRIPT)
    with small_disk(tmp_path / "disk", 16) as fill:
        home = tmp_path / "disk" / "home"
        output = tmp_path / "run.log"
        command = [sys.executable, "-m", "bullpen", "run", "Count", "--driver", "scripted"]
        command += ["--script", "script.toml", "--timeout", "180", "--mode", "bypassPermissions"]
        with output.open("wb") as file:
            run = subprocess.Popen(
                command,
                cwd=work,
                env={**os.environ, "HOME": str(tmp_path), "BULLPEN_HOME": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + 90
            while not (work / "started").exists():
                assert run.poll() is None, output.read_text()
                assert time.monotonic() < deadline, output.read_text()
                time.sleep(0.1)
            free = fill()
            (work / "go-on").touch()
            time.sleep(6)
            free()
            assert run.wait(120) == 0, output.read_text()
        finally:
            run.kill()
        assert "It is 42." in output.read_text()
