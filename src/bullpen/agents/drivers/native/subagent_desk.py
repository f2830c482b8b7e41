"""The desk of a subagent: its agent's, with the limits and hooks of its type in addition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from bullpen.agents.contracts.call import Call, Rights, Ruling
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolResult
from bullpen.agents.hooks.lifecycle import AgentHooks
from bullpen.agents.permissions.decide import decide, hidden
from bullpen.agents.tools.files.search import SEARCH_TOOLS
from bullpen.agents.work.turn_brake import TurnBrake
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec


class SubagentDesk:
    """What a subagent's calls pass before its agent's gate. Everything else is its agent's."""

    def __init__(self, desk: Desk, spec: AgentSpec) -> None:
        self._desk = desk
        self.spec = spec
        # To its hooks it is an agent of its own, whatever its agent is.
        self.is_lead = False
        self.folder = desk.folder
        self._brake = TurnBrake(lambda: None)
        self._rights = _own_rights(spec, desk)
        own = _own_hooks(spec, desk.spec)
        self._hooks = _hooks(self, spec.evolve(hooks=own or None)) if own else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desk, name)

    def __eq__(self, other: object) -> bool:
        # What its agent has read it has read.
        return other is self or other is self._desk

    def __hash__(self) -> int:
        return hash(self._desk)

    @property
    def as_desk(self) -> Desk:
        """Itself: it has every part of its agent's desk."""
        return cast("Desk", self)

    def tools(self, tools: list[Tool[Desk]]) -> list[Tool[Desk]]:
        """Its tools. Jobs and files that were read are its agent's.

        Searches hide what it must not see, and a tool that asks about its parts asks as itself.
        """
        return [
            tool if tool in SEARCH_TOOLS or tool.asks_itself else _for(tool, self._desk)
            for tool in tools
        ]

    async def started(self) -> list[str]:
        """Run the SubagentStart hooks of its agent and of its type; returns what they tell it."""
        hooks = _hooks(self, self.spec)
        await hooks.started()
        return hooks.context()

    async def ended(self, cause: str) -> None:
        """Run the SubagentStop hooks."""
        await _hooks(self, self.spec).ended(cause)

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """Ask the hooks of its type, then its agent's gate, which keeps its limits too."""
        asks: Ruling | None = None
        if self._hooks is not None:
            verdict = await self._hooks.before_tool(call)
            if verdict.effect == "deny":
                raise Refused(
                    f"You may not do this ({call}): {verdict.why}.",
                    reason="denied",
                    remedy="Do something else, or report it in your answer.",
                )
            if verdict.input is not None:
                call = replace(call, input=verdict.input)
            if verdict.effect == "ask":
                asks = Ruling("ask", verdict.why)
        rights = self._rights

        def limits(final: Call) -> Ruling:
            ruling = Ruling("allow", "") if rights is None else decide(final, rights)
            return ruling if asks is None else ruling.or_stricter(asks)

        return await self._desk.permit(replace(call, limits=limits))

    async def called(self, call: Call, text: str, *, failed: bool) -> str:
        """Add to a result what the hooks of its agent and of its type say about it."""
        text = await self._desk.called(call, text, failed=failed)
        told = None
        if self._hooks is not None:
            told = await self._hooks.after_tool(call, text, failed=failed)
        return text if told is None else f"{text}\n\n{told}"

    def note_repeats(self, call: Call, text: str, *, failed: bool) -> str:
        """Count its calls apart from its agent's. Its requests are few, so it is only told."""
        return self._brake.note_repeats(call, text, failed=failed)

    def hides(self, path: str) -> bool:
        """Whether its agent or its type may not read a file that a search found."""
        own = self._rights is not None and hidden(path, self._rights)
        return own or self._desk.hides(path)


def _hooks(desk: SubagentDesk, spec: AgentSpec) -> AgentHooks:
    view = desk
    if spec is not desk.spec:
        view = SubagentDesk.__new__(SubagentDesk)
        view.__dict__.update(desk.__dict__, spec=spec)

    def end_agent(why: str) -> None:
        raise Refused(
            f"A hook stopped this subagent: {why}",
            reason="denied",
            remedy="Do it yourself, or ask for something else.",
        )

    async def give_back(task_id: str, reason: str) -> None:
        """It has no tasks."""

    return AgentHooks(view.as_desk, end_agent=end_agent, give_back=give_back)


def _for(tool: Tool[Desk], desk: Desk) -> Tool[Desk]:
    async def run(given: Any, _: Desk) -> str | ToolResult:
        return await tool.run(given, desk)

    return replace(tool, run=run)


def _own_rights(spec: AgentSpec, desk: Desk) -> Rights | None:
    """What its type may do; None if it has no limits of its own: its agent's may change."""
    policy, above = spec.policy, desk.spec
    forbids = (*policy.deny, *(spec.disallowed_tools or ()))
    known = (*above.policy.deny, *(above.disallowed_tools or ()))
    parts = {name for name in spec.tools or () if "(" in name} - {*(above.tools or ())}
    own = not {*forbids} <= {*known} or not {*policy.ask} <= {*above.policy.ask} or bool(parts)
    if spec.start_mode == desk.mode and not own:
        return None
    return Rights(
        mode=spec.start_mode,
        cwd=spec.cwd,
        user_home=desk.env.get("HOME") or "/",
        allow=tuple(policy.allow),
        deny=forbids,
        ask=tuple(policy.ask),
        directories=tuple(policy.directories),
        readable=(str(desk.folder),),
        tools=None if spec.tools is None else tuple(spec.tools),
    )


def _own_hooks(spec: AgentSpec, above: AgentSpec) -> dict[str, Any]:
    """The hooks of its type: its agent's run at its agent's gate."""
    known = above.hooks or {}
    found = {
        event: [row for row in rows if row not in known.get(event, [])]
        for event, rows in (spec.hooks or {}).items()
        if isinstance(rows, list)
    }
    return {event: rows for event, rows in found.items() if rows}
