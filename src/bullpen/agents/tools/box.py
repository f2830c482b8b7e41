"""Which tools an agent has, and calling one of them by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError

from bullpen.agents.drivers.base import Desk
from bullpen.agents.tools.base import Tool
from bullpen.agents.tools.files import FILE_TOOLS
from bullpen.agents.tools.jobs import JOB_TOOLS
from bullpen.agents.tools.search import SEARCH_TOOLS
from bullpen.agents.tools.shell import SHELL_TOOLS
from bullpen.agents.tools.tasks import TASK_TOOLS
from bullpen.agents.tools.team import TEAM_TOOLS
from bullpen.errors import BullpenError, Invalid, Refused

TOOLS: tuple[Tool, ...] = (
    *FILE_TOOLS,
    *SEARCH_TOOLS,
    *SHELL_TOOLS,
    *JOB_TOOLS,
    *TASK_TOOLS,
    *TEAM_TOOLS,
)
"""Every tool there is, in the order in which models see them."""

_OF_THE_LEAD = {"Finish"}
_NEEDS_COLLEAGUES = {"SpawnTeammate", "StopTeammate"}
_LOOKING_ONLY = {"delegate", "plan"}

_DETAIL_FIELDS = (
    "command",
    "file_path",
    "pattern",
    "subject",
    "summary",
    "taskId",
    "name",
    "bash_id",
    "shell_id",
    "to",
    "recipient",
    "reason",
)
_DETAIL_CHARS_MAX = 80
_RESULT_CHARS_MAX = 4_000


def check_tools(names: Iterable[str]) -> None:
    """Refuse names of tools that do not exist.

    Raises:
        Invalid: some are unknown; the error lists those there are.
    """
    known = [tool.name for tool in TOOLS]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Invalid(
            f"There are no tools {', '.join(map(repr, unknown))}.",
            remedy=f"There are these tools: {', '.join(known)}.",
        )


def toolbox(desk: Desk) -> list[Tool]:
    """The tools of an agent: what its place in the team, its mode and its spawn allow."""
    spec = desk.spec
    check_tools([*(spec.tools or ()), *(spec.disallowed_tools or ())])
    tools = [tool for tool in TOOLS if _has(desk, tool)]
    if spec.tools is not None:
        tools = [tool for tool in tools if tool.name in spec.tools]
    return [tool for tool in tools if tool.name not in (spec.disallowed_tools or ())]


def _has(desk: Desk, tool: Tool) -> bool:
    if tool.name in _OF_THE_LEAD and not desk.is_lead:
        return False
    if tool.name in _NEEDS_COLLEAGUES and desk.colleagues is None:
        return False
    return desk.spec.mode not in _LOOKING_ONLY or tool.kind in ("read", "team")


async def call(tools: Sequence[Tool], name: str, raw_input: Any, desk: Desk) -> tuple[str, bool]:
    """Call a tool with what a model gave. Returns the text for the model, and if it is an error."""
    desk.record("tool", name=name, input=raw_input)
    desk.doing(name, _detail(raw_input))
    try:
        text, failed = await _called(tools, name, raw_input, desk), False
    except BullpenError as error:
        text, failed = _said(error), True
    except Exception as error:
        # An agent must outlive a fault of ours, and the transcript must show it.
        text, failed = f"{name} broke off, which is a fault of the tool: {error!r}.", True
    finally:
        desk.doing(None)
    # Names of files can hold what no model request can carry.
    text = text.encode("utf-8", "replace").decode("utf-8")
    desk.record("result", name=name, text=text[:_RESULT_CHARS_MAX], error=failed)
    return text, failed


async def _called(tools: Sequence[Tool], name: str, raw_input: Any, desk: Desk) -> str:
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        raise _no_tool(tools, name)
    try:
        given = tool.input.model_validate(raw_input)
    except ValidationError as error:
        raise _bad_input(tool, error) from None
    return await tool.run(given, desk)


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


def _detail(raw_input: Any) -> str:
    if not isinstance(raw_input, dict):
        return ""
    for field in _DETAIL_FIELDS:
        value = raw_input.get(field)
        if isinstance(value, str) and value.strip():
            line = " ".join(value.split())
            if len(line) > _DETAIL_CHARS_MAX:
                line = line[: _DETAIL_CHARS_MAX - 1] + "…"
            return line
    return ""
