"""The tool that loads a skill. Its list is in the system text, fixed when the agent starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from anyio import to_thread
from pydantic import Field

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.files.prompt_files import PromptFiles
from bullpen.agents.tools.skills.skill_files import Skills, list_skills
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentSpec

_LIST_CHARS_MAX = 20_000


class SkillInput(ToolInput):
    """Input of Skill."""

    skill: str | None = Field(None, description="Its name; without it, all are listed")
    args: str | None = Field(None, description="What to do with it")


async def _load(given: SkillInput, desk: Desk) -> str:
    """Load a skill: instructions for a kind of work."""
    skills = await to_thread.run_sync(skills_of, desk.spec, desk.env, desk)
    if given.skill is None:
        return skills.listed(_LIST_CHARS_MAX) or "There are no skills here."
    return chosen(given.skill, skills, given.args)


def chosen(name: str, skills: Skills, arguments: str | None = None) -> str:
    """The skill of this name for a model. Raises Invalid."""
    found = next((skill for skill in skills.offered if skill.name == name.strip()), None)
    if found is None:
        known = ", ".join(skill.name for skill in skills.offered) or "none"
        whose = "Only people may use the" if name.strip() in skills.found else "There is no"
        raise Invalid(f"{whose} skill {name!r}.", remedy=f"The skills are: {known[:4_000]}.")
    return found.told(arguments)


def skills_of(spec: AgentSpec, env: Mapping[str, str], desk: Desk) -> Skills:
    """The skills that an agent has now, as far as it may read them."""
    files = PromptFiles(
        spec,
        user_home=env.get("HOME"),
        claude_home=env.get("CLAUDE_CONFIG_DIR"),
        redact=desk.redacted,
    )
    return list_skills(Path(spec.cwd), files)


SKILL: Tool[Desk] = documented("Skill", SkillInput, "read", _load)
