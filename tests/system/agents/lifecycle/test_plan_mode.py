"""Plan mode: nothing is changed before the store holds an approval of exactly this plan."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.plan_command import ask_rule
from bullpen.agents.tools.toolbox import TOOLS, call, toolbox
from bullpen.protocol.names import LEAD
from support.agents.planners import SOON, Planner, hire, submitted, wrote
from support.crews import Crew, eventually


async def test_a_rule_reads_the_plan_and_answers(crew: Crew, tmp_path: Path) -> None:
    rule = "grep -q tests || { echo 'say how it is tested' >&2; exit 2; }"
    model = Planner("# Just do it", "# Do it, with tests")
    alice = await hire(crew, model, plan_approver="rule", plan_rule=rule)
    await eventually(lambda: any("say how it is tested" in text for text in model.told))
    assert not wrote(tmp_path)
    await crew.team.mailbox.send("alice", "Revise it", sender=LEAD)
    await eventually(lambda: wrote(tmp_path))
    assert alice.desk.mode == "acceptEdits"


@pytest.mark.parametrize("rule", [None, "exit 7", "/does/not/exist"])
async def test_a_rule_that_breaks_approves_nothing(
    crew: Crew, tmp_path: Path, rule: str | None
) -> None:
    model = Planner("# Plan")
    await hire(crew, model, plan_approver="rule", plan_rule=rule)
    await eventually(lambda: any("[Plan Rejected]" in text for text in model.told))
    assert not wrote(tmp_path)


async def test_who_enters_plan_mode_by_itself_needs_an_approval_too(
    crew: Crew, tmp_path: Path
) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        if desk.mode != "plan" and "Approved" not in given.text:
            await call(toolbox(desk), "EnterPlanMode", {}, desk)
            await call(TOOLS, "Bash", {"command": "touch mark"}, desk)
            await call(toolbox(desk), "ExitPlanMode", {"plan": "# Plan"}, desk)
        else:
            await call(toolbox(desk), "Bash", {"command": "touch mark"}, desk)
        return ""

    alice = await crew.hire("alice", turn, mode="bypassPermissions", prompt="Go", pace=SOON)
    request = await submitted(crew.team)
    assert not wrote(tmp_path)
    await crew.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    await eventually(lambda: wrote(tmp_path))
    assert alice.desk.mode == "bypassPermissions"


async def test_a_rule_that_prints_without_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        verdict = await ask_rule(
            "head -c 60000000 /dev/zero | tr '\\0' x; exit 3", "A plan", cwd=str(tmp_path), env={}
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not verdict.approved
    assert set(verdict.words) == {"x"}
    assert peak < 5_000_000
