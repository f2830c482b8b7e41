"""`bullpen` at another terminal of the user whose Claude Code session runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark

from .real_lead import START_S, STEP_S, RealLead

# On a machine that does much else at the same time.
_PATIENT = ("--wait", f"{START_S:.0f}")


class Joined:
    """`bullpen join` in the foreground, in a process of its own."""

    def __init__(
        self, lead: RealLead, name: str, *words: str, env: Mapping[str, str] | None = None
    ) -> None:
        self._lead = lead
        self._output = lead.folder / f"join-{name}.txt"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bullpen", "join", name, "--claude", *_PATIENT, *words],
                cwd=lead.project,
                env={**bullpen_env(lead), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        """All that it has written."""
        return self._output.read_text("utf-8")

    def until_said(self, text: str) -> str:
        """Wait for a text of it; all that it has written then."""
        ended = self.process.poll
        self._lead.until(lambda: text in self.said or ended() is not None, f"{text!r}")
        assert text in self.said, self.said
        return self.said

    def until_ended(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(STEP_S)

    def interrupt(self) -> int:
        """Press Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.until_ended()


def bullpen_env(lead: RealLead) -> dict[str, str]:
    """The environment of a person at another terminal of the same user."""
    return {
        "PATH": os.environ["PATH"],
        "BULLPEN_WARM_START": "off",
        "HOME": str(lead.folder / "home"),
        "CLAUDE_CONFIG_DIR": str(lead.config_dir),
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
        **lead.models.env,
    }


def bullpen(lead: RealLead, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the home of the session."""
    return subprocess.run(
        [sys.executable, "-m", "bullpen", "--home", str(lead.config_dir), *words],
        cwd=lead.project,
        env=bullpen_env(lead),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=False,
    )


def ours(lead: RealLead) -> list[int]:
    """Every process of any launch of ours in the home of the session."""
    mark = f"{home_mark(lead.config_dir)}-"
    return [pid for pid, nonce in processes.marked().items() if nonce.startswith(mark)]
