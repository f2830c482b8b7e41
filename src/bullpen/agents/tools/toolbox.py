"""Decide which tools an agent has, and call them by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk, Permissions
from bullpen.agents.contracts.tool import Attachment, Tool, ToolResult
from bullpen.agents.permissions.package_tools import package_tools
from bullpen.agents.permissions.rule_language.known_tools import check_tools
from bullpen.agents.permissions.rule_language.rule import (
    about,
    given_as,
    listed,
    one_name,
    rule_of,
    tool_of,
)
from bullpen.agents.system.secrets import with_texts
from bullpen.agents.system.transcript import recorded_result
from bullpen.agents.tools.files.edit_forms import EDIT_TOOLS
from bullpen.agents.tools.files.file_tools import FILE_TOOLS
from bullpen.agents.tools.files.search import SEARCH_TOOLS
from bullpen.agents.tools.jobs import JOB_TOOLS
from bullpen.agents.tools.own_team import OWN_TEAM_TOOLS, TEAM_CREATE, TEAM_DELETE
from bullpen.agents.tools.planning.note_tools import NOTE_TOOLS
from bullpen.agents.tools.planning.plan_tools import PLAN_TOOLS
from bullpen.agents.tools.planning.promise_tools import PROMISE
from bullpen.agents.tools.planning.question_tools import ASK_USER_QUESTION
from bullpen.agents.tools.planning.todo_tools import TODO_WRITE
from bullpen.agents.tools.shell import SHELL_TOOLS
from bullpen.agents.tools.side_by_side import Place
from bullpen.agents.tools.skills.skill_tool import SKILL
from bullpen.agents.tools.task_tools import TASK_TOOLS
from bullpen.agents.tools.team_tools import SPAWN_TEAMMATE, TASK, TEAM_TOOLS
from bullpen.agents.tools.tool_search import TOOL_SEARCH, ToolShelf
from bullpen.agents.tools.web.web_tools import WEB_TOOLS, why_no_web
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Mode
from bullpen.team.operation.remedies import remedy_of

TOOLS: tuple[Tool[Desk], ...] = (
    *FILE_TOOLS,
    *EDIT_TOOLS,
    *SEARCH_TOOLS,
    *SHELL_TOOLS,
    *JOB_TOOLS,
    SKILL,
    *WEB_TOOLS,
    *TASK_TOOLS,
    *NOTE_TOOLS,
    PROMISE,
    *TEAM_TOOLS,
    *OWN_TEAM_TOOLS,
    *PLAN_TOOLS,
    TOOL_SEARCH,
    TODO_WRITE,
    ASK_USER_QUESTION,
)
"""All tools, in the order in which models see them."""

_OF_THE_LEAD = {"Finish", "SetMode", "TeamCreate", "TeamDelete"}
_NEEDS_COLLEAGUES = {"SetMode", "SpawnTeammate", "StopTeammate", "Task"}
_NOT_WHILE_PLANNING = {"EnterPlanMode", "SetMode", "SpawnTeammate", "Task"}
_MAY_NOT_SPAWN = "it may not spawn teammates"

P = TypeVar("P", bound=Permissions)

Attach = Callable[[Attachment], None]
"""Takes an attachment of a result. Drivers that cannot show any have none; then text stands in."""


def toolbox(desk: Desk) -> list[Tool[Desk]]:
    """The tools of an agent: those that its part in the team, its mode and its spec allow."""
    spec = desk.spec
    check_tools(spec.disallowed_tools or ())
    may_spawn = desk.colleagues is not None and desk.colleagues.members
    lacks = lacking(spec, mode=desk.mode, is_lead=desk.is_lead, may_spawn=may_spawn)
    if desk.colleagues is None:
        lacks.setdefault(TASK.name, _MAY_NOT_SPAWN)
    return searchable([tool for tool in _all_tools(spec) if tool.name not in lacks])


def _all_tools(spec: AgentSpec) -> list[Tool[Desk]]:
    """All tools that come with Bullpen, and those of packages that a spec names."""
    return [*TOOLS, *package_tools(spec)]


def with_server_tools(
    tools: Sequence[Tool[Desk]],
    more: Sequence[Tool[Desk]],
    spec: AgentSpec,
    *,
    mode: Mode,
    is_lead: bool,
) -> list[Tool[Desk]]:
    """The tools with those of MCP servers that the spec and the mode allow."""
    more = [
        tool
        for tool in more
        if _given(tool.name, spec)
        and _why_not(tool, mode, is_lead=is_lead, may_spawn=False) is None
    ]
    if not more:
        return list(tools)
    search = [] if one_name(TOOL_SEARCH.name) in (spec.disallowed_tools or ()) else [TOOL_SEARCH]
    return searchable([*(tool for tool in tools if tool is not TOOL_SEARCH), *more, *search])


def _given(name: str, spec: AgentSpec) -> bool:
    """Whether a spec gives an agent this tool of a server."""
    if spec.tools is not None and not any(listed(rule_of(each), name) for each in spec.tools):
        return False
    return not any(about(rule_of(each), name, strict=True) for each in spec.disallowed_tools or ())


def searchable(tools: Sequence[Tool[Desk]]) -> list[Tool[Desk]]:
    """The tools, without the search if there is nothing to find."""
    found = any(tool.deferred for tool in tools)
    return [tool for tool in tools if found or tool is not TOOL_SEARCH]


def lacking(spec: AgentSpec, *, mode: Mode, is_lead: bool, may_spawn: bool) -> dict[str, str]:
    """The tools that an agent does not have, by name, each with the reason."""
    found: dict[str, str] = {}
    given = None if spec.tools is None else {given_as(tool_of(name)) for name in spec.tools}
    taken = {one_name(name) for name in spec.disallowed_tools or ()}
    for tool in _all_tools(spec):
        # Without spawning, a native agent still has subagents that read.
        spawns = may_spawn or (tool is TASK and spec.driver == "native")
        why = _why_not(tool, mode, is_lead=is_lead, may_spawn=spawns)
        why = why or why_no_web(tool.name, spec)
        if why is None and given is not None and given_as(tool.name) not in given:
            why = "not in its list of tools"
        if why is None and taken & {one_name(tool.name), given_as(tool.name)}:
            why = "disallowed when it was spawned"
        if why is not None:
            found[tool.name] = why
    return found


def _why_not(tool: Tool[Desk], mode: Mode, *, is_lead: bool, may_spawn: bool) -> str | None:
    if tool.name in _OF_THE_LEAD and not is_lead:
        return "only for the lead"
    if tool.name in _NEEDS_COLLEAGUES and not may_spawn:
        return _MAY_NOT_SPAWN
    if mode == "plan":
        # An agent that may only read must not have others work for it.
        looks = tool.kind in ("read", "team") and tool.name not in _NOT_WHILE_PLANNING
        return None if looks else "not in plan mode"
    if is_lead and mode == "delegate":
        # This lead does not work on tasks itself.
        leads = tool.kind == "team" and tool not in PLAN_TOOLS
        return None if leads else "a lead in delegate mode only leads"
    return "only in plan mode" if tool.name == "ExitPlanMode" else None


def shown(tools: Sequence[Tool[Desk]], shelf: ToolShelf) -> list[Tool[Desk]]:
    """The tools that a model is shown: those it always needs, then those it has loaded."""
    return shelf.shown(without_spares(tools))


def without_spares(tools: Sequence[Tool[Desk]]) -> list[Tool[Desk]]:
    """The tools that nothing else does too.

    A model may call the others, if it knows them. Their schemas would cost each request of a lead
    about 700 tokens.
    """
    # Without SpawnTeammate, Task only has subagents that read, which few ask for.
    spawns = SPAWN_TEAMMATE in tools
    spare = {
        TEAM_CREATE,
        TEAM_DELETE,
        *([SPAWN_TEAMMATE] if TASK in tools else []),
        *([] if spawns else [TASK]),
    }
    return [tool for tool in tools if tool not in spare]


async def call(
    tools: Sequence[Tool[Desk]],
    name: str,
    raw_input: Any,
    desk: Desk,
    *,
    use_id: str | None = None,
    place: Place | None = None,
    attach: Attach | None = None,
    of_model: bool = True,
) -> tuple[str, bool]:
    """Call a tool as a driver does: report and record it, show hooks the result. See `answer`.

    `place` is its place among calls that run beside it. Only a call `of_model` may be a repeat.
    """
    desk.record("tool", name=name, input=raw_input)
    wanted = _wanted(name, raw_input, use_id)
    desk.doing(name, wanted.detail)
    try:
        text, failed = await answer(
            tools,
            name,
            raw_input,
            desk,
            use_id=use_id,
            after=desk.called,
            place=place,
            attach=attach,
        )
        if place is not None:
            await place.ready()
        if of_model:
            kind = next((tool.kind for tool in tools if tool.name == name), wanted.kind)
            text = desk.note_repeats(replace(wanted, kind=kind), text, failed=failed)
    finally:
        if place is None or place.last:
            desk.doing(None)
    desk.record("result", name=name, text=recorded_result(text), error=failed)
    return text, failed


class AfterCall(Protocol):
    """What sees the result of a call, and may add to it."""

    async def __call__(self, call: Call, text: str, *, failed: bool) -> str:
        """Return the text for the model."""


async def _unchanged(call: Call, text: str, *, failed: bool) -> str:
    return text


async def answer(
    tools: Sequence[Tool[P]],
    name: str,
    raw_input: Any,
    desk: P,
    *,
    use_id: str | None = None,
    after: AfterCall = _unchanged,
    place: Place | None = None,
    attach: Attach | None = None,
) -> tuple[str, bool]:
    """Call a tool with a model's input. Returns the text for the model, and if it is an error."""
    try:
        wanted = _wanted(name, raw_input, use_id)
        text, failed = await _called(tools, wanted, raw_input, desk, after, place, attach), False
    except BullpenError as error:
        text, failed = _said(error, tools), True
    except Exception as error:
        # An agent must survive a bug in a tool, and the transcript must show the bug.
        text, failed = f"{name} crashed, because of a bug in the tool: {error!r}.", True
    # Before the text is cut anywhere: half a secret would not be recognized.
    text = desk.redacted(text)
    # File names can contain characters that a model request cannot.
    return text.encode("utf-8", "replace").decode("utf-8"), failed


def _wanted(name: str, raw_input: Any, use_id: str | None) -> Call:
    return Call(name, raw_input if isinstance(raw_input, dict) else {}, "team", use_id)


async def _called(
    tools: Sequence[Tool[P]],
    wanted: Call,
    raw_input: Any,
    desk: P,
    after: AfterCall,
    place: Place | None,
    attach: Attach | None,
) -> str:
    tool = next((tool for tool in tools if tool.name == wanted.tool), None)
    if tool is None:
        raise _no_tool(tools, wanted.tool)
    if tool.kind == "team":
        # Everything sent to the team is stored there for all members to read.
        raw_input = with_texts(raw_input, desk.redacted)
        wanted = replace(wanted, input=with_texts(wanted.input, desk.redacted))
    wanted = replace(wanted, kind=tool.kind)
    given = _validated(tool, raw_input)
    judged = replace(wanted, kind="team") if tool.asks_itself else wanted
    async with nullcontext() if place is None else place.judging:
        permitted = await desk.permit(judged)
    if permitted != wanted.input:
        given = _validated(tool, permitted)
        wanted = replace(wanted, input=permitted)
    if tool.asks_itself:
        return _with_attachments(await tool.run(given, desk), desk, attach)
    try:
        text = _with_attachments(await tool.run(given, desk), desk, attach)
    except BullpenError as error:
        # Hooks that look at results also see those of failed calls.
        await after(wanted, _said(error, tools), failed=True)
        raise
    return await after(wanted, text, failed=False)


def _with_attachments(result: str | ToolResult, desk: P, attach: Attach | None) -> str:
    """The text of a result, with the words that stand for attachments that cannot be shown."""
    if isinstance(result, str):
        return result
    if attach is None:
        return "\n".join([result.text, *(each.instead for each in result.attachments)])
    for each in result.attachments:
        attach(replace(each, instead=desk.redacted(each.instead)))
    return result.text


def check_input(name: str, raw_input: Any) -> None:
    """Check an input for the tool of this name. Raises Invalid."""
    for tool in TOOLS:
        if tool.name == name:
            _validated(tool, raw_input)


def _validated(tool: Tool[P], raw_input: Any) -> Any:
    try:
        return tool.input.model_validate(raw_input)
    except ValidationError as error:
        raise _bad_input(tool, error) from None


def _no_tool(tools: Sequence[Tool[P]], name: str) -> Invalid:
    known = [tool.name for tool in tools]
    near = difflib.get_close_matches(name[:64], known, n=1)
    guess = f"Did you mean {near[0]}? " if near else ""
    exists = any(tool.name == name for tool in TOOLS)
    return Invalid(
        f"You do not have the tool {name!r}." if exists else f"There is no tool {name!r}.",
        remedy=f"{guess}Your tools are: {', '.join(known) or 'none'}.",
    )


def _bad_input(tool: Tool[P], error: ValidationError) -> Invalid:
    rows = []
    for found in error.errors(include_url=False, include_context=False)[:8]:
        where = ".".join(str(part) for part in found["loc"])
        said = f"{where}: {found['msg']}" if where else found["msg"]
        meant = _meant(where, tool) if found["type"] == "extra_forbidden" else None
        rows.append(f"{said} (did you mean {meant}?)" if meant else said)
    fields = [
        f"{field.alias or name}{'' if field.is_required() else '?'}"
        for name, field in tool.input.model_fields.items()
    ]
    return Invalid(
        f"Invalid input for {tool.name}: {'; '.join(rows)}.",
        remedy=f"The fields are {{{', '.join(fields)}}}; those with ? are optional.",
    )


def _meant(name: str, tool: Tool[P]) -> str | None:
    """The field that a model may have meant by one that there is not."""
    known = [field.alias or own for own, field in tool.input.model_fields.items()]
    parts = [field for field in known if name and name in field]
    return next(iter(parts or difflib.get_close_matches(name[:64], known, n=1)), None)


def _said(error: BullpenError, tools: Sequence[Tool[P]]) -> str:
    """What the model is told: what failed, the reason word, what to do with its tools."""
    remedy = remedy_of(error, [tool.name for tool in tools])
    if isinstance(error, Refused) and not isinstance(error, Invalid):
        return f"{error.message} (reason: {error.reason}) {remedy}".rstrip()
    return str(BullpenError(error.message, remedy=remedy))
