"""Runs the user's command after the target moved: a push, a pull request, a notification."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bullpen.protocol.clock import now_ms
from bullpen.protocol.task import STEP_CHARS_MAX, Step, Task
from bullpen.protocol.team import MergeSettings
from bullpen.team.tasks.merges import Merges
from bullpen.workspace.merge_queue.user_command import run_command

AFTER_S = 600.0
"""How long the command may take."""


async def tell(
    merges: Merges, settings: MergeSettings, tasks: Sequence[Task], *, team: str
) -> str | None:
    """Run the command once for all work merged since. Returns why it failed, if it did.

    It stays due until it has run: if it is interrupted, it runs again. Merged work stays merged.
    """
    ids = [task.id for task in tasks]
    records = [record for task in tasks if (record := task.facts.merge) is not None]
    moves = [step for record in records for step in record.steps if step.what == "merged"]
    env = {
        **os.environ,
        "BULLPEN_TEAM": team,
        "BULLPEN_TARGET": settings.target,
        "BULLPEN_COMMIT": (moves[-1].commit if moves else None) or "",
        "BULLPEN_OLD": (moves[0].onto if moves else None) or "",
        "BULLPEN_TASKS": " ".join(ids),
        "BULLPEN_SUBJECTS": "\n".join(f"#{task.id} {task.subject}" for task in tasks),
    }
    if settings.after is None:
        # The command was removed meanwhile.
        passed, words = True, "there is no command any more"
    else:
        where = Path(settings.repository) / settings.inside
        ended = await run_command(settings.after, cwd=where, env=env, seconds=AFTER_S)
        passed, words = ended.ok, ended.words
    step = Step.new(
        at_ms=now_ms(),
        what="after",
        batch=ids,
        commit=env["BULLPEN_COMMIT"] or None,
        passed=passed,
        detail=words[-STEP_CHARS_MAX:],
    )
    await merges.told(ids, step, passed=passed)
    return None if passed else f"The command after {settings.target} moved failed: {words}"
