"""What the requests of a native agent say of its skills."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.testing.models import Call, ModelRequest, Reply
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace
from support.agents.one_type import OneType

from .test_skill_files import write


def at_home(workplace: Workplace, clone: Path, user: Path) -> None:
    desk = workplace.desk
    desk.spec = desk.spec.evolve(cwd=str(clone))
    desk.env = {**desk.env, "HOME": str(user)}


async def test_only_names_and_descriptions_are_in_a_request_until_one_is_loaded(
    workplace: Workplace, clone: Path, user: Path
) -> None:
    at_home(workplace, clone, user)
    write(clone / ".claude/skills", "deploy", "BODY-OF-IT", description="Puts it online")

    def model(request: ModelRequest) -> Reply:
        if not request.results:
            return Reply("", [Call("Skill", {"skill": "deploy", "args": "v2"})])
        # Added later, it does not change the start of the requests.
        if not (clone / ".bullpen").exists():
            write(clone / ".bullpen/skills", "later", description="Came later")
        return Reply(request.results[-1].text)

    with InProcessModels(model) as mock:
        async with workplace.driver(mock) as native:
            said = await workplace.turn(native)
            await workplace.turn(native, "Again.")
    assert "BODY-OF-IT" in said and "Arguments: v2" in said
    first, *others = mock.requests
    assert "- deploy: Puts it online" in first.system and "BODY-OF-IT" not in first.system
    assert "Skill" in first.tools
    assert {other.system for other in others} == {first.system}
    assert [call.tool for call in workplace.desk.wanted] == ["Skill"]


async def test_an_agent_without_skills_pays_nothing_for_them(
    workplace: Workplace, clone: Path, user: Path
) -> None:
    at_home(workplace, clone, user)
    with InProcessModels(lambda request: Reply("Done.")) as mock:
        async with workplace.driver(mock) as native:
            await workplace.turn(native)
    assert "Skill" not in mock.requests[0].system
    assert "Skill" not in mock.requests[0].tools


async def test_a_skill_that_is_left_out_is_in_the_transcript(
    workplace: Workplace, clone: Path, user: Path
) -> None:
    at_home(workplace, clone, user)
    (clone / ".claude/skills/bad").mkdir(parents=True)
    (clone / ".claude/skills/bad/SKILL.md").write_text("---\nname: [\n---\nx")
    with InProcessModels(lambda request: Reply("Done.")) as mock:
        async with workplace.driver(mock):
            pass
    notes = [note["text"] for note in workplace.recorded("note")]
    assert any("Left the skill" in note and os.fspath(clone) in note for note in notes)


async def test_an_agent_whose_role_lists_no_skill_tool_is_not_told_of_skills(
    workplace: Workplace, clone: Path, user: Path
) -> None:
    at_home(workplace, clone, user)
    workplace.desk.spec = workplace.desk.spec.evolve(tools=["Read"])
    write(clone / ".claude/skills", "deploy", description="Puts it online")
    with InProcessModels(lambda request: Reply("Done.")) as mock:
        async with workplace.driver(mock) as native:
            await workplace.turn(native)
    assert "deploy" not in mock.requests[0].system


@pytest.mark.parametrize("has_one", [True, False])
async def test_a_subagent_has_the_skills_of_its_agent(
    workplace: Workplace, clone: Path, user: Path, has_one: bool
) -> None:
    at_home(workplace, clone, user)
    workplace.desk.colleagues = OneType(workplace.desk.spec)
    if has_one:
        write(clone / ".claude/skills", "deploy", "BODY-OF-IT", description="Puts it online")

    def model(request: ModelRequest) -> Reply:
        inside = "You are a subagent of ann" in request.system
        if inside and has_one and not request.results:
            return Reply("", [Call("Skill", {"skill": "deploy"})])
        if inside or request.results:
            return Reply(request.results[-1].text if request.results else "Nothing.")
        return Reply("", [Call("Task", {"prompt": "Do it", "description": "Do it"})])

    with InProcessModels(model) as mock:
        async with workplace.driver(mock) as native:
            said = await workplace.turn(native)
    inner = next(each for each in mock.requests if "subagent of ann" in each.system)
    assert ("BODY-OF-IT" in said) == has_one
    assert ("Skill" in inner.tools) == has_one == ("- deploy: Puts it online" in inner.system)
