"""What is answered to Claude Code's hooks: may this call be made, and what came in meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.drivers.base import Desk
from bullpen.agents.drivers.claude_code import calls
from bullpen.agents.drivers.claude_code.mirror import Mirror
from bullpen.agents.policy.call import Call
from bullpen.agents.tools.box import call as call_tool
from bullpen.agents.tools.box import toolbox
from bullpen.errors import BullpenError

_CREATED = re.compile(r"Task #(\S+) created")
_RECORDED_CHARS_MAX = 4_000


class HookGate:
    """The answers for one agent. The program waits for each of them before it goes on.

    `catch_up` reports what the program's own record holds by now; `mail_given` is told which
    messages were put beside a result.
    """

    def __init__(
        self,
        desk: Desk,
        mirror: Mirror,
        *,
        catch_up: Callable[[], Awaitable[None]],
        mail_given: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._desk = desk
        self._mirror = mirror
        self._catch_up = catch_up
        self._mail_given = mail_given
        # Calls that may be made and whose results are not known yet, by the model's ids.
        self.permitted: dict[str, Call] = {}
        # Why no more may be spent, once that is so.
        self.over: BullpenError | None = None
        self.has_started = False
        # Whether it agreed to end: its process then ends by itself.
        self.leaves = False

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer one hook. What cannot be decided is denied."""
        event = asked.get("hook_event_name")
        try:
            if event == "PreToolUse":
                return await self._before(_call(asked))
            if event == "PostToolUse":
                return await self._after(_call(asked), asked.get("tool_response"))
        except BullpenError as error:
            self._desk.record("trouble", text=str(error))
            return calls.deny(str(error)) if event == "PreToolUse" else {}
        self.has_started = self.has_started or event == "SessionStart"
        return {}

    async def _before(self, call: Call) -> dict[str, Any]:
        desk = self._desk
        await self._catch_up()
        try:
            # After every call there is a request, so none is made without having been here.
            await desk.may_spend()
        except BullpenError as error:
            self.over = error
            # Any answer would lead to another request; the turn breaks the program off instead.
            await anyio.sleep_forever()
        if calls.is_ours(call.tool) or self._is_plan_file(call):
            return calls.allow()
        if call.tool in calls.TEAM_TOOLS:
            return await self._by_our_tool(call)
        desk.record("tool", name=call.tool, input=dict(call.input))
        if call.tool in calls.DISALLOWED:
            return self._denied(call, f"{call.tool} is not for members of this team.")
        desk.doing(call.tool, call.detail)
        try:
            permitted = await desk.permit(call)
        except BullpenError as error:
            desk.doing(None)
            return self._denied(call, str(error))
        self.permitted[call.use_id or ""] = replace(call, input=permitted)
        return calls.allow(None if permitted == call.input else permitted)

    def _denied(self, call: Call, why: str) -> dict[str, Any]:
        self._desk.record("result", name=call.tool, text=why, error=True)
        return calls.deny(why)

    def _is_plan_file(self, call: Call) -> bool:
        """Whether it writes its plan down, which the program wants in a file of its own."""
        path = call.input.get("file_path")
        if self._desk.mode != "plan" or not isinstance(path, str):
            return False
        return Path(path).resolve().parent == self._mirror.plans.resolve()

    async def _by_our_tool(self, call: Call) -> dict[str, Any]:
        """Do it with our tool first. What that refuses, the program does not do either."""
        desk, mirror = self._desk, self._mirror
        tools = toolbox(desk)
        ours = next((tool for tool in tools if tool.name == call.tool), None)
        if ours is None:
            return self._denied(call, f"{call.tool} was not given to you.")
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
        # What is on its list already it does not announce: a task that it takes would give it
        # another turn.
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
        """Record what came of a call; returns what hooks add for the model."""
        desk = self._desk
        desk.doing(None)
        desk.record("result", name=call.tool, text=text[:_RECORDED_CHARS_MAX], error=failed)
        answer = await desk.called(call, text, failed=failed)
        return [answer.removeprefix(text).strip()] if answer != text else []

    async def show_team(self) -> None:
        """Bring the members and tasks that the program sees up to date."""
        desk = self._desk
        members = await desk.team.roster.list()
        tasks = (await desk.team.tasks.list()).tasks

        def write() -> None:
            self._mirror.seat(members, cwd=desk.spec.cwd, plan=desk.mode == "plan")
            self._mirror.show(tasks)

        await to_thread.run_sync(write)


def _call(asked: Mapping[str, Any]) -> Call:
    tool, given = str(asked.get("tool_name")), asked.get("tool_input")
    use_id = asked.get("tool_use_id")
    return Call(
        tool,
        given if isinstance(given, dict) else {},
        calls.kind_of(tool),
        None if use_id is None else str(use_id),
    )


def _agrees_to_end(given: Mapping[str, Any]) -> bool:
    step = given.get("message")
    answer = step if isinstance(step, dict) else given
    return answer.get("type") == "shutdown_response" and answer.get("approve") is True
