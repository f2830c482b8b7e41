"""The rule for plans: a command that reads a plan and approves or rejects it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from bullpen.agents.system.run_command import shell

_SECONDS_MAX = 60.0
_WORDS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """The answer of a rule to a plan."""

    approved: bool
    words: str


async def ask_rule(command: str, plan: str, *, cwd: str, env: Mapping[str, str]) -> PlanVerdict:
    """Run the command on a plan: exit code 0 approves, any other rejects with its output."""
    if not command.strip():
        return PlanVerdict(False, "No rule for plans is set, so no plan is approved.")
    try:
        # A file, not a pipe: the command may stop before the end of the plan.
        with tempfile.TemporaryFile() as given, anyio.fail_after(_SECONDS_MAX):
            given.write(plan.encode())
            given.seek(0)
            done = await anyio.run_process(
                shell(command),
                stdin=given,
                cwd=cwd,
                env=dict(env),
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
    except TimeoutError:
        return PlanVerdict(False, f"The rule for plans timed out after {_SECONDS_MAX:.0f} s.")
    except OSError as error:
        return PlanVerdict(False, f"The rule for plans could not be run: {error}.")
    said = (done.stderr.strip() or done.stdout.strip()).decode("utf-8", "replace")[:_WORDS_MAX]
    if done.returncode == 0:
        return PlanVerdict(True, said or "The rule for plans approved it.")
    return PlanVerdict(
        False, said or f"The rule for plans failed with exit code {done.returncode}."
    )
