"""What another vendor's program is told first: who it is and how to work in its team."""

from __future__ import annotations

from bullpen.agents.drivers import team_instructions
from bullpen.protocol.agent import AgentSpec

_HERE = """\
You work in {cwd}, with your own tools for files and commands. For tasks and messages, use the \
tools of the MCP server `{server}`. Your program may call them SendMessage, \
mcp__{server}__SendMessage or similar. If you do not see them, search your tools for `{server}`. \
Your own to-do list is not the team's task list."""

_PLAN = """\
You start in plan mode: you can read but not change anything. Find out what you need to know, then \
submit a plan with the tool ExitPlanMode of `{server}`: what you will change, how, and how you \
will prove that it works. Start work when the plan is approved. If it is rejected, revise it."""


def introduction(agent: str, team: str, is_lead: bool, spec: AgentSpec, server: str) -> str:
    """The whole text. The program reads the project's rule files itself."""
    texts = [
        team_instructions.who(agent, team, is_lead),
        _HERE.format(cwd=spec.cwd, server=server),
        team_instructions.HOW_IT_WORKS,
        team_instructions.part(is_lead),
    ]
    if spec.start_mode == "plan":
        texts.append(_PLAN.format(server=server))
    return "\n\n".join([*texts, team_instructions.BOUNDS, *team_instructions.role(spec)])
