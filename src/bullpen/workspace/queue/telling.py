"""What the user wants done after the target moved: a push, a pull request, a word to somebody."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bullpen.protocol.merge import STEP_CHARS_MAX, MergeSettings, Step, merge_of
from bullpen.protocol.task import Task
from bullpen.store.clock import now_ms
from bullpen.team.merges import Merges
from bullpen.workspace.queue.commands import run_command

AFTER_S = 600.0
"""How long the command may take."""


async def tell(
    merges: Merges, settings: MergeSettings, tasks: Sequence[Task], *, team: str
) -> str | None:
    """Run the command once for all work that landed since; why it failed, if it did.

    It is due until it was run: killed in it, it is run again. What has landed stays landed.
    """
    ids = [task.id for task in tasks]
    records = [record for task in tasks if (record := merge_of(task)) is not None]
    moves = [step for record in records for step in record.history if step.what == "merged"]
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
        # Somebody took the command away meanwhile.
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
