"""The rule for plans: a command that reads a plan and approves or rejects it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from bullpen.agents.system.run_command import keep_first, running, shell
from bullpen.errors import Unavailable

_SECONDS_MAX = 60.0
_WORDS_MAX = 4_000
_BYTES_MAX = 4 * _WORDS_MAX


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """The answer of a rule to a plan."""

    approved: bool
    words: str


async def ask_rule(command: str, plan: str, *, cwd: str, env: Mapping[str, str]) -> PlanVerdict:
    """Run the command on a plan: exit code 0 approves, any other rejects with its output."""
    if not command.strip():
        return PlanVerdict(False, "No rule for plans is set, so no plan is approved.")
    out, err = bytearray(), bytearray()
    try:
        # A file, not a pipe: the command may stop before the end of the plan.
        with tempfile.TemporaryFile() as given:
            given.write(plan.encode())
            given.seek(0)
            takes = [keep_first(out, _BYTES_MAX), keep_first(err, _BYTES_MAX)]
            async with running(shell(command), cwd=cwd, env=env, takes=takes, stdin=given) as ran:
                with anyio.fail_after(_SECONDS_MAX):
                    code = await ran.finished()
    except TimeoutError:
        return PlanVerdict(False, f"The rule for plans timed out after {_SECONDS_MAX:.0f} s.")
    except (OSError, Unavailable) as error:
        return PlanVerdict(
            False, f"The rule for plans could not be run: {error.__cause__ or error}."
        )
    said = (err.strip() or out.strip()).decode("utf-8", "replace")[:_WORDS_MAX]
    if code == 0:
        return PlanVerdict(True, said or "The rule for plans approved it.")
    return PlanVerdict(False, said or f"The rule for plans failed with exit code {code}.")
