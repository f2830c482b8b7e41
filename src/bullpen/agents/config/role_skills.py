"""Skills that a role lists: their texts are part of the agent's instructions from its start."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from bullpen.agents.tools.files.prompt_files import PromptFiles
from bullpen.agents.tools.skills.skill_files import list_skills
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentSpec

ALL_CHARS_MAX = 120_000
"""The most characters that the skills of a role add to its instructions."""


def with_role_skills(
    spec: AgentSpec,
    names: Sequence[str],
    *,
    role: str,
    user_home: Path,
    claude_home: str | None,
    redact: Callable[[str], str],
) -> AgentSpec:
    """The spec with the texts of these skills in its instructions.

    They are read with the agent's rights. Raises Invalid if one does not exist or cannot be read.
    """
    if not names:
        return spec
    files = PromptFiles(spec, user_home=str(user_home), claude_home=claude_home, redact=redact)
    skills = list_skills(Path(spec.cwd), files)
    offered = {skill.name: skill for skill in skills.offered}
    unknown = [name for name in names if name not in offered]
    if unknown:
        left_out = "".join(f" {path} is left out: {why}." for path, why in skills.left_out.items())
        raise Invalid(
            f"The role {role!r} lists skills that its agent cannot have: "
            f"{', '.join(unknown)}.{left_out[:2_000]}",
            remedy=f"Known skills: {', '.join(sorted(offered)) or 'none'}. A skill is a folder with"
            " a SKILL.md in .bullpen/skills or .claude/skills, and not one that sets"
            " disable-model-invocation.",
        )
    texts = [spec.instructions]
    for name in names:
        skill = offered[name]
        of_user = not skill.folder.startswith(f"{files.root}/")
        # Relative: an agent in its own worktree has its own copy of the project's skills.
        folder = skill.folder if of_user else os.path.relpath(skill.folder, spec.cwd)
        texts.append(skill.told(folder=folder))
    size = sum(len(text or "") for text in texts[1:])
    if size > ALL_CHARS_MAX:
        raise Invalid(
            f"The skills of the role {role!r} have {size} characters; {ALL_CHARS_MAX} is the most.",
            remedy="List fewer skills. Its agent loads others with the tool Skill.",
        )
    return spec.evolve(instructions="\n\n".join(text for text in texts if text))
