"""Tools to enter plan mode and to submit a plan for approval."""

from __future__ import annotations

from pydantic import Field

from bullpen.agents.contracts.desk import Desk, Permissions
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.jobs import end_jobs
from bullpen.errors import Unavailable


class EnterPlanModeInput(ToolInput):
    """Input of EnterPlanMode."""


class ExitPlanModeInput(ToolInput):
    """Input of ExitPlanMode."""

    plan: str = Field(description="The whole plan, in Markdown: what you will change and how")


async def _enter(given: EnterPlanModeInput, desk: Desk) -> str:
    """Plan first: until a plan is approved, you can only read. Background jobs are killed."""
    await desk.enter_plan_mode()
    # The mode is set first, so that no new job starts meanwhile.
    killed = await end_jobs(desk)
    stuck = [job.id for job in killed if job.task is not None and not job.task.done()]
    if stuck:
        raise Unavailable(
            f"You are in plan mode, but these background jobs did not end: {', '.join(stuck)}.",
            remedy="Tell the lead: they may still change files.",
        )
    jobs = "".join(f" Background job {job.id} was killed ({job.command})." for job in killed)
    return (
        "You are in plan mode: you can read but not change anything. Submit your plan with"
        f" ExitPlanMode. Start work when it is approved.{jobs}"
    )


async def _exit(given: ExitPlanModeInput, desk: Permissions) -> str:
    """Submit your plan for approval. You stay in plan mode until it is approved. If it is rejected,
    revise it and submit it again.
    """
    return await desk.submit_plan(given.plan)


ENTER_PLAN_MODE: Tool[Desk] = documented("EnterPlanMode", EnterPlanModeInput, "team", _enter)
EXIT_PLAN_MODE: Tool[Permissions] = documented("ExitPlanMode", ExitPlanModeInput, "team", _exit)

PLAN_TOOLS: tuple[Tool[Desk], ...] = (ENTER_PLAN_MODE, EXIT_PLAN_MODE)
