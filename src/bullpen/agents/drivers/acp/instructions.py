"""What a driven program is told first: who it is, and how to work with its team."""

from __future__ import annotations

from bullpen.agents.drivers import teamwork
from bullpen.protocol.agent import AgentSpec

_HERE = """\
You work in {cwd}, with your own tools for files and commands. What belongs to the team you do \
with the tools of the MCP server `{server}`; depending on the program they are called SendMessage, \
mcp__{server}__SendMessage or the like. If you do not see them, search your tools for `{server}`. \
Your own lists of things to do are not the team's."""

_PLAN = """\
You start in plan mode: you can look at everything and change nothing. Find out what you need, \
then submit a plan with the tool ExitPlanMode of `{server}`: what you will change, how, and what \
will prove it. You can work when it is approved; if it is rejected, revise it."""


def introduction(agent: str, team: str, is_lead: bool, spec: AgentSpec, server: str) -> str:
    """All of it. The files of the project the program reads itself."""
    texts = [
        teamwork.who(agent, team, is_lead),
        _HERE.format(cwd=spec.cwd, server=server),
        teamwork.HOW_IT_WORKS,
        teamwork.part(is_lead),
    ]
    if spec.start_mode == "plan":
        texts.append(_PLAN.format(server=server))
    return "\n\n".join([*texts, teamwork.BOUNDS, *teamwork.role(spec)])
