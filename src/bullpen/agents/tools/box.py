"""Which tools an agent has, and calling one of them by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from bullpen.agents.drivers.base import Desk
from bullpen.agents.policy.call import Call
from bullpen.agents.policy.rules import tool_of
from bullpen.agents.secrets import with_texts
from bullpen.agents.tools.base import Tool
from bullpen.agents.tools.files import FILE_TOOLS
from bullpen.agents.tools.jobs import JOB_TOOLS
from bullpen.agents.tools.plan import PLAN_TOOLS
from bullpen.agents.tools.search import SEARCH_TOOLS
from bullpen.agents.tools.shell import SHELL_TOOLS
from bullpen.agents.tools.tasks import TASK_TOOLS
from bullpen.agents.tools.team import TEAM_TOOLS
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Mode

TOOLS: tuple[Tool, ...] = (
    *FILE_TOOLS,
    *SEARCH_TOOLS,
    *SHELL_TOOLS,
    *JOB_TOOLS,
    *TASK_TOOLS,
    *TEAM_TOOLS,
    *PLAN_TOOLS,
)
"""Every tool there is, in the order in which models see them."""

_OF_THE_LEAD = {"Finish"}
_NEEDS_COLLEAGUES = {"SpawnTeammate", "StopTeammate"}
_NOT_WHILE_PLANNING = {"EnterPlanMode", "SpawnTeammate"}
_RESULT_CHARS_MAX = 4_000


def check_tools(names: Iterable[str]) -> None:
    """Refuse names of tools that do not exist.

    Raises:
        Invalid: some are unknown; the error lists those there are.
    """
    known = [tool.name for tool in TOOLS]
    unknown = [name for name in names if tool_of(name) not in known]
    if unknown:
        raise Invalid(
            f"There are no tools {', '.join(map(repr, unknown))}.",
            remedy=f"There are these tools: {', '.join(known)}.",
        )


def toolbox(desk: Desk) -> list[Tool]:
    """The tools of an agent: what its place in the team, its mode and its spawn allow."""
    spec = desk.spec
    check_tools([*(spec.tools or ()), *(spec.disallowed_tools or ())])
    lacks = lacking(
        spec, mode=desk.mode, is_lead=desk.is_lead, may_spawn=desk.colleagues is not None
    )
    return [tool for tool in TOOLS if tool.name not in lacks]


def lacking(spec: AgentSpec, *, mode: Mode, is_lead: bool, may_spawn: bool) -> dict[str, str]:
    """The tools that an agent does not have, by name, each with why."""
    found: dict[str, str] = {}
    given = None if spec.tools is None else {tool_of(name) for name in spec.tools}
    for tool in TOOLS:
        why = _why_not(tool, mode, is_lead=is_lead, may_spawn=may_spawn)
        if why is None and given is not None and tool.name not in given:
            why = "not among those it was given"
        if why is None and tool.name in (spec.disallowed_tools or ()):
            why = "taken from it at its spawn"
        if why is not None:
            found[tool.name] = why
    return found


def _why_not(tool: Tool, mode: Mode, *, is_lead: bool, may_spawn: bool) -> str | None:
    if tool.name in _OF_THE_LEAD and not is_lead:
        return "only of the lead"
    if tool.name in _NEEDS_COLLEAGUES and not may_spawn:
        return "it may spawn nobody"
    if mode == "plan":
        # Whoever may only look must not have others work for it.
        looks = tool.kind in ("read", "team") and tool.name not in _NOT_WHILE_PLANNING
        return None if looks else "not in plan mode"
    if is_lead and mode == "delegate":
        # It leads, and does nothing else.
        leads = tool.kind == "team" and tool not in PLAN_TOOLS
        return None if leads else "a lead in delegate mode only leads"
    return "only in plan mode" if tool.name == "ExitPlanMode" else None


async def call(
    tools: Sequence[Tool], name: str, raw_input: Any, desk: Desk, *, use_id: str | None = None
) -> tuple[str, bool]:
    """Call a tool with what a model gave. Returns the text for the model, and if it is an error."""
    desk.record("tool", name=name, input=raw_input)
    wanted = Call(name, raw_input if isinstance(raw_input, dict) else {}, "team", use_id)
    desk.doing(name, wanted.detail)
    try:
        text, failed = await _called(tools, wanted, raw_input, desk), False
    except BullpenError as error:
        text, failed = _said(error), True
    except Exception as error:
        # An agent must outlive a fault of ours, and the transcript must show it.
        text, failed = f"{name} broke off, which is a fault of the tool: {error!r}.", True
    finally:
        desk.doing(None)
    # Before it is cut anywhere: half a secret would not be known for one.
    text = desk.redacted(text)
    # Names of files can hold what no model request can carry.
    text = text.encode("utf-8", "replace").decode("utf-8")
    desk.record("result", name=name, text=text[:_RESULT_CHARS_MAX], error=failed)
    return text, failed


async def _called(tools: Sequence[Tool], wanted: Call, raw_input: Any, desk: Desk) -> str:
    tool = next((tool for tool in tools if tool.name == wanted.tool), None)
    if tool is None:
        raise _no_tool(tools, wanted.tool)
    if tool.kind == "team":
        # What goes to the team is kept there for all to see.
        raw_input = with_texts(raw_input, desk.redacted)
        wanted = replace(wanted, input=with_texts(wanted.input, desk.redacted))
    wanted = replace(wanted, kind=tool.kind)
    given = _validated(tool, raw_input)
    permitted = await desk.permit(wanted)
    if permitted != wanted.input:
        given = _validated(tool, permitted)
        wanted = replace(wanted, input=permitted)
    try:
        text = await tool.run(given, desk)
    except BullpenError as error:
        # Hooks that look at results see those of failed calls too.
        await desk.called(wanted, _said(error), failed=True)
        raise
    return await desk.called(wanted, text, failed=False)


def check_input(name: str, raw_input: Any) -> None:
    """Refuse an input that the tool of this name would not take. Raises Invalid."""
    for tool in TOOLS:
        if tool.name == name:
            _validated(tool, raw_input)


def _validated(tool: Tool, raw_input: Any) -> Any:
    try:
        return tool.input.model_validate(raw_input)
    except ValidationError as error:
        raise _bad_input(tool, error) from None


def _no_tool(tools: Sequence[Tool], name: str) -> Invalid:
    known = [tool.name for tool in tools]
    near = difflib.get_close_matches(name[:64], known, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    exists = any(tool.name == name for tool in TOOLS)
    return Invalid(
        f"You do not have the tool {name!r}." if exists else f"There is no tool {name!r}.",
        remedy=f"{guess}Your tools are: {', '.join(known) or 'none'}.",
    )


def _bad_input(tool: Tool, error: ValidationError) -> Invalid:
    rows = []
    for found in error.errors(include_url=False, include_context=False)[:8]:
        where = ".".join(str(part) for part in found["loc"])
        rows.append(f"{where}: {found['msg']}" if where else found["msg"])
    fields = [
        f"{field.alias or name}{'' if field.is_required() else '?'}"
        for name, field in tool.input.model_fields.items()
    ]
    return Invalid(
        f"This is no input for {tool.name}: {'; '.join(rows)}.",
        remedy=f"Its fields are {{{', '.join(fields)}}}; those with ? can be left out.",
    )


def _said(error: BullpenError) -> str:
    """What the model is told: what happened, the word for the reason, what to do."""
    if isinstance(error, Refused) and not isinstance(error, Invalid):
        return f"{error.message} (reason: {error.reason}) {error.remedy}".rstrip()
    return str(error)
