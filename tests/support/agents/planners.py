"""Agents in plan mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.pace import Pace
from bullpen.agents.tools.toolbox import TOOLS, call, toolbox
from bullpen.protocol.policy import Policy
from bullpen.protocol.request import Request
from bullpen.team.team import Team
from support.crews import QUICK, Crew, Hired, eventually

SOON = Pace(**{**{name: getattr(QUICK, name) for name in QUICK.__slots__}, "plan_look_s": 0.1})


class Planner:
    """A model that submits one plan after the other, and tries to write at every occasion."""

    def __init__(self, *plans: str) -> None:
        self.plans = list(plans)
        self.told: list[str] = []
        self.writes = 0

    async def __call__(self, given: TurnInput, desk: Desk) -> str:
        self.told.append(given.text)
        await self._use(desk, "Write", file_path="mark", content="x")
        await self._use(desk, "Bash", command="touch mark")
        if self.plans and desk.mode == "plan":
            self.told.append(await self._use(desk, "ExitPlanMode", plan=self.plans.pop(0)))
            await self._use(desk, "Write", file_path="mark", content="x")
        return "done"

    async def _use(self, desk: Desk, tool: str, **raw: Any) -> str:
        # Also tools that it was not offered: a model can call what it likes.
        text, failed = await call([*toolbox(desk), *TOOLS], tool, raw, desk)
        self.writes += tool == "Write" and not failed
        return text


async def hire(crew: Crew, model: Planner, **policy: Any) -> Hired:
    return await crew.hire(
        "alice", model, mode="plan", policy=Policy.new(**policy), prompt="Go", pace=SOON
    )


async def submitted(team: Team, number: int = 1) -> Request:
    """The plan that waits for an answer, when so many have been submitted."""

    async def is_there() -> bool:
        made = await team.approvals.all()
        return len(made) == number and bool(await team.approvals.pending())

    await eventually(is_there)
    return (await team.approvals.pending())[-1]


def wrote(tmp_path: Path) -> bool:
    return (tmp_path / "agents" / "mark").exists()
