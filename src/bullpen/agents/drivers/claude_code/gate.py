"""Answer Claude Code's hooks: whether a call may be made, and the mail that came meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.drivers.claude_code import calls
from bullpen.agents.drivers.claude_code.team_copy import Mirror
from bullpen.agents.system.transcript import recorded_result
from bullpen.agents.tools.toolbox import call as call_tool
from bullpen.agents.tools.toolbox import toolbox
from bullpen.errors import BullpenError

_CREATED = re.compile(r"Task #(\S+) created")
# How long a program takes to be stopped, at most.
_STOPPED_S = 60.0


class HookGate:
    """Answers the hooks of one agent. The program waits for each answer.

    `catch_up` reports what is in the program's transcript by now; `mail_given` gets the messages
    that were added to a result. Without a turn (`in_turn`), nothing is permitted, and
    `outside_turn` is told.
    """

    def __init__(
        self,
        desk: Desk,
        mirror: Mirror,
        *,
        catch_up: Callable[[], Awaitable[None]],
        mail_given: Callable[[tuple[str, ...]], None],
        in_turn: Callable[[], bool],
        outside_turn: Callable[[Call | None], None],
    ) -> None:
        self._desk = desk
        self._mirror = mirror
        self._catch_up = catch_up
        self._mail_given = mail_given
        self._in_turn = in_turn
        self._outside_turn = outside_turn
        # Allowed calls without a result yet, by the model's ids.
        self.permitted: dict[str, Call] = {}
        # The reason, once the budget is used up.
        self.over: BullpenError | None = None
        self.has_started = False
        # Whether its conversation still has the briefing of the last turn.
        self.knows_team = False
        # Whether it agreed to shut down: its process then ends by itself.
        self.leaves = False

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer one hook. If there is no decision, deny."""
        event = asked.get("hook_event_name")
        if event != "SessionStart" and not self._in_turn():
            self._outside_turn(_call(asked) if event == "PreToolUse" else None)
            if event != "PreToolUse":
                return {}
            # Any answer would lead to another request; the program is stopped instead.
            await anyio.sleep(_STOPPED_S)
            return calls.deny("You have no turn.")
        try:
            if event == "PreToolUse":
                return await self._before(_call(asked))
            if event == "PostToolUse":
                return await self._after(_call(asked), asked.get("tool_response"))
        except BullpenError as error:
            self._desk.record("trouble", text=str(error))
            return calls.deny(str(error)) if event == "PreToolUse" else {}
        if event == "SessionStart":
            # It was started, or has shortened or cleared its conversation.
            self.has_started, self.knows_team = True, False
        return {}

    async def _before(self, call: Call) -> dict[str, Any]:
        desk = self._desk
        await self._catch_up()
        try:
            # A model request follows every tool call, so each request passes here first.
            await desk.may_spend()
        except BullpenError as error:
            self.over = error
            # Any answer would lead to another request; the turn interrupts the program instead.
            await anyio.sleep_forever()
        if calls.is_ours(call.tool) or self._is_plan_file(call):
            return calls.allow()
        if call.tool in calls.TEAM_TOOLS:
            return await self._by_our_tool(call)
        desk.record("tool", name=call.tool, input=dict(call.input))
        if call.tool in calls.DISALLOWED:
            return self._denied(call, f"{call.tool} is not available in this team.")
        desk.doing(call.tool, call.detail)
        try:
            permitted = await desk.permit(call)
        except BullpenError as error:
            desk.doing(None)
            return self._denied(call, str(error))
        self.permitted[call.use_id or ""] = replace(call, input=permitted)
        return calls.allow(None if permitted == call.input else permitted)

    def _denied(self, call: Call, why: str) -> dict[str, Any]:
        why = self._desk.note_repeats(call, why, failed=True)
        self._desk.record("result", name=call.tool, text=why, error=True)
        return calls.deny(why)

    def _is_plan_file(self, call: Call) -> bool:
        """Whether the call writes the program's own plan file."""
        path = call.input.get("file_path")
        if self._desk.mode != "plan" or not isinstance(path, str):
            return False
        return Path(path).resolve().parent == self._mirror.plans.resolve()

    async def _by_our_tool(self, call: Call) -> dict[str, Any]:
        """Call our tool first. If it refuses, the program does not make the call."""
        desk, mirror = self._desk, self._mirror
        tools = toolbox(desk)
        ours = next((tool for tool in tools if tool.name == call.tool), None)
        if ours is None:
            return self._denied(call, f"You do not have the tool {call.tool}.")
        await self.show_team()
        given = calls.understood(ours, call.input)
        text, failed = await call_tool(tools, call.tool, given, desk, use_id=call.use_id)
        if failed:
            return calls.deny(text)
        if call.tool == "TaskCreate" and (created := _CREATED.search(text)):
            await to_thread.run_sync(mirror.expect, created[1])
        self.leaves = self.leaves or _agrees_to_end(call.input)
        if call.tool != "TaskUpdate" or call.input.get("status") == "deleted":
            return calls.allow()
        # Show the change first: the program announces only what is not on its list yet, and a
        # message to itself about a task it took would give it another turn.
        await self.show_team()
        return calls.allow({key: call.input[key] for key in call.input if key != "owner"})

    async def _after(self, call: Call, response: Any) -> dict[str, Any]:
        desk = self._desk
        told: list[str] = []
        made = self.permitted.pop(call.use_id or "", None)
        if call.tool in calls.TEAM_TOOLS:
            await self.show_team()
            await to_thread.run_sync(self._mirror.drop_own_notices)
        elif made is not None:
            text = response if isinstance(response, str) else json.dumps(response)
            told += await self.ended(made, text, failed=False)
        mail = await desk.take_mail()
        if mail is not None:
            self._mail_given(mail.ids)
            told.append(mail.text)
        return calls.tell("\n\n".join(told))

    async def ended(self, call: Call, text: str, *, failed: bool) -> list[str]:
        """Record the result of a call; returns what hooks add for the model."""
        desk = self._desk
        desk.doing(None)
        desk.record("result", name=call.tool, text=recorded_result(text), error=failed)
        answer = await desk.called(call, text, failed=failed)
        answer = desk.note_repeats(call, answer, failed=failed)
        return [answer.removeprefix(text).strip()] if answer != text else []

    async def show_team(self) -> None:
        """Update the members and tasks that the program sees."""
        desk = self._desk
        members = await desk.team.roster.list()
        tasks = (await desk.team.tasks.list()).tasks

        def write() -> None:
            self._mirror.seat(members, cwd=desk.spec.cwd, plan=desk.mode == "plan")
            self._mirror.show(tasks)

        await to_thread.run_sync(write)


def _call(asked: Mapping[str, Any]) -> Call:
    tool, given, use_id = map(asked.get, ("tool_name", "tool_input", "tool_use_id"))
    given = given if isinstance(given, dict) else {}
    kind = calls.kind_of(str(tool))
    return Call(str(tool), given, kind, None if use_id is None else str(use_id))


def _agrees_to_end(given: Mapping[str, Any]) -> bool:
    step = given.get("message")
    answer = step if isinstance(step, dict) else given
    return answer.get("type") == "shutdown_response" and answer.get("approve") is True
