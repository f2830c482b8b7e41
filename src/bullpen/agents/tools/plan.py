"""Tools to plan before work, and to have the plan approved."""

from __future__ import annotations

from pydantic import Field

from bullpen.agents.drivers.base import Desk
from bullpen.agents.tools.base import Tool, ToolInput


class EnterPlanModeInput(ToolInput):
    """Input of EnterPlanMode."""


class ExitPlanModeInput(ToolInput):
    """Input of ExitPlanMode."""

    plan: str = Field(description="The whole plan, in Markdown: what you will change, and how")


async def _enter(given: EnterPlanModeInput, desk: Desk) -> str:
    await desk.enter_plan_mode()
    return (
        "You are in plan mode: you can look at everything and change nothing. Submit your plan"
        " with ExitPlanMode; you can work when it is approved."
    )


async def _exit(given: ExitPlanModeInput, desk: Desk) -> str:
    return await desk.submit_plan(given.plan)


PLAN_TOOLS: tuple[Tool, ...] = (
    Tool(
        "EnterPlanMode",
        "Plan before you work: until a plan is approved you can look, but change nothing.",
        EnterPlanModeInput,
        "team",
        _enter,
    ),
    Tool(
        "ExitPlanMode",
        "Submit your plan for approval. You stay in plan mode until it is approved; if it is "
        "rejected, revise it and submit it again.",
        ExitPlanModeInput,
        "team",
        _exit,
    ),
)
