"""When the hooks of an agent run, what they are told, and what their answers do.

A hook that refuses the same thing again and again does not keep an agent busy for ever: after a
few refusals in a row a breaker opens, the lead is told, and the agent may rest or must leave the
task. What is forbidden stays forbidden.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from bullpen.agents.drivers.base import Desk
from bullpen.agents.environment import for_commands
from bullpen.agents.policy.call import Call, Rights
from bullpen.agents.policy.decide import decide
from bullpen.agents.transcript import NAME as TRANSCRIPT
from bullpen.errors import NotFound, Refused
from bullpen.hooks import Fits, HookSet, Verdict
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Mode
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of
from bullpen.team.policy_rules import Effect

ANY_ROLE = "general-purpose"
"""The type of an agent that was made from no definition, as Claude Code calls it."""

_WITHOUT_MODE = ("TaskCreated", "TaskCompleted")


@dataclass(frozen=True, slots=True)
class HookRuling:
    """What the hooks before a tool call say: nothing, or an effect and why; perhaps new input."""

    effect: Effect | None = None
    why: str = ""
    input: Mapping[str, Any] | None = None


class Hooking:
    """The hooks of one agent: those that it was spawned with."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._hooks = HookSet.of(desk.spec.hooks)
        # How often in a row each thing was refused, and for which the lead was told.
        self._refusals: dict[tuple[str, str], int] = {}
        self._opened: set[tuple[str, str]] = set()
        self._given_back: set[str] = set()
        self._to_give_back: list[str] = []
        # What hooks before a call want the model to read with its result.
        self._beside: dict[str | None, list[str]] = {}
        self._context: list[str] = []
        self._held_up = False
        # Set by the runner: how this agent ends, and how it gives a task back for good.
        self.end_agent: Callable[[str], None] = lambda _: None
        self.give_back: Callable[[str, str], Awaitable[None]] = self._released

    async def before_tool(self, call: Call, *, mode: Mode) -> HookRuling:
        """Run PreToolUse."""
        barred = await self._barred(call)
        if barred is not None:
            return HookRuling("deny", barred)
        if not self._hooks.has("PreToolUse"):
            return HookRuling()
        verdict = await self._run("PreToolUse", call=call, **_about(call))
        if verdict.stop is not None:
            return HookRuling("deny", f"a hook ends this agent: {_clause(verdict.stop)}")
        thing = ("PreToolUse", call.digest)
        if verdict.effect == "deny":
            await self._count(thing, f"refused this call of mine: {call}", verdict.why)
            return HookRuling("deny", f"a hook refused it: {_clause(verdict.why)}")
        self._passed(thing)
        if verdict.context:
            self._beside[call.use_id] = list(verdict.context)
        why = f"a hook says so: {_clause(verdict.why)}" if verdict.effect else ""
        return HookRuling(verdict.effect, why, verdict.input)

    async def after_tool(self, call: Call, text: str, *, failed: bool) -> str | None:
        """Run PostToolUse. Returns what the model is to be told beside the result."""
        await self._give_back_refused()
        told = self._beside.pop(call.use_id, [])
        if failed:
            verdict = await self._run("PostToolUseFailure", call=call, **_about(call), error=text)
        else:
            response = _response(call, text)
            verdict = await self._run(
                "PostToolUse", call=call, **_about(call), tool_response=response
            )
        if verdict.refused is not None:
            told.append(f"A hook says after this call: {verdict.refused}")
        return "\n".join([*told, *verdict.context]) or None

    async def turn_over(self, text: str, *, waiting: bool) -> str | None:
        """Run Stop, and TeammateIdle unless the agent is the lead or waits for somebody.

        Returns why the agent must go on, or None if it may rest.
        """
        await self._give_back_refused()
        if not self._hooks.has("Stop", "TeammateIdle"):
            return None
        mine = await self._in_progress()
        verdict = await self._run(
            "Stop", reason="end_turn", stop_hook_active=self._held_up, last_assistant_message=text
        )
        going_on = verdict.stop is not None or verdict.refused is not None
        if not going_on and not waiting and not self._desk.is_lead:
            reason = "owes_task" if mine else "available"
            verdict = await self._run("TeammateIdle", reason=reason)
        self._context += verdict.context
        # Both count together: one refusal after the other is still one agent that may not rest.
        thing = ("rest", mine[0].id if mine else "")
        self._held_up = False
        if verdict.stop is not None or verdict.refused is None:
            self._passed(thing)
            return None
        if await self._count(thing, "did not let me rest", verdict.refused, "I rest now."):
            return None
        self._held_up = True
        return f"A hook does not let you rest yet: {verdict.refused}"

    async def started(self) -> None:
        """Run SubagentStart, and say what of the hooks is not done."""
        for problem in self._hooks.problems():
            self._desk.record("trouble", text=problem)
        if not self._desk.is_lead:
            verdict = await self._run("SubagentStart", reason="ready", agent_id=self._session())
            self._context += verdict.context

    async def ended(self, cause: str | None) -> None:
        """Run SubagentStop."""
        if not self._desk.is_lead:
            await self._run(
                "SubagentStop",
                reason=cause or "ended",
                stop_hook_active=False,
                agent_id=self._session(),
                agent_transcript_path=str(self._desk.folder / TRANSCRIPT),
            )

    def context(self) -> list[str]:
        """What hooks want the model to read in its next turn; handed out once."""
        told, self._context = self._context, []
        return told

    async def task_created(self, task: Task) -> str | None:
        """Run TaskCreated. Returns why the task must not be added."""
        verdict = await self._run("TaskCreated", task=task, reason="created", **_words(task))
        thing = ("TaskCreated", task.subject)
        if verdict.refused is None:
            self._passed(thing)
            return None
        if await self._count(thing, f"refused this new task: {task.subject}", verdict.refused):
            return f"{verdict.refused}\nIt was refused too often: do not add it again."
        return verdict.refused

    async def task_completed(self, task: Task) -> str | None:
        """Run TaskCompleted. Returns why the task is not done."""
        verdict = await self._run("TaskCompleted", task=task, reason="completed", **_words(task))
        thing = ("TaskCompleted", task.id)
        why = verdict.refused
        if why is None:
            self._passed(thing)
            return None
        what, then = f"refused that task #{task.id} is done", "I gave the task back."
        if not await self._count(thing, what, why, then):
            return why
        self._refusals.pop(thing, None)
        self._given_back.add(task.id)
        # The refusal itself is still recorded in the agent's name.
        self._to_give_back.append(task.id)
        return (
            f"{why}\nIt was refused {self._hooks.breaker} times, so the task is given back and"
            " the lead is told. Leave it alone."
        )

    async def _give_back_refused(self) -> None:
        """Give back what the hooks will not let this agent complete."""
        due, self._to_give_back = self._to_give_back, []
        reason = f"a hook refused {self._hooks.breaker} times that it is done"
        for task_id in due:
            try:
                await self.give_back(task_id, reason)
            except (NotFound, Refused) as error:
                # Somebody else's by now, or deleted.
                self._desk.record("trouble", text=str(error))

    async def _run(
        self, event: str, *, task: Task | None = None, call: Call | None = None, **fields: Any
    ) -> Verdict:
        """Run the hooks of an event, and keep what they say that nobody else is told."""
        desk = self._desk
        if not self._hooks.has(event):
            return Verdict()
        payload = await self._payload(event, task, fields)
        fits = None if call is None else await to_thread.run_sync(self._fitting, call)
        verdict = await self._hooks.run(
            event, payload, cwd=desk.spec.cwd, env=self._environment(), fits=fits
        )
        for trouble in verdict.troubles:
            desk.record("trouble", text=trouble)
        for message in verdict.messages:
            desk.record("hook", event=event, text=message)
        if verdict.effect is not None:
            about = {"tool": call.tool, "detail": call.detail} if call else {}
            desk.record("hook", event=event, effect=verdict.effect, text=verdict.why, **about)
        if verdict.stop is not None:
            desk.record("hook", event=event, effect="stop", text=verdict.stop)
            self.end_agent(verdict.stop)
        return verdict

    async def _payload(
        self, event: str, task: Task | None, fields: dict[str, Any]
    ) -> dict[str, Any]:
        """What Claude Code tells, in its order; then what tells one agent of a team from another.

        `task` is what the event is about, else what the agent has in progress.
        """
        desk = self._desk
        _, agent = await desk.team.agents.get(desk.agent)
        tasks = (await desk.team.tasks.list()).tasks
        mine = task or next(iter(_held(tasks, desk)), None)
        attempt = None if mine is None else desk.attempts.get(mine.id, mine.facts.attempt)
        reason = fields.pop("reason", None)
        payload: dict[str, Any] = {
            "session_id": self._session(),
            "transcript_path": str(desk.folder / TRANSCRIPT),
            "cwd": desk.spec.cwd,
        }
        if event not in _WITHOUT_MODE:
            payload["permission_mode"] = agent.mode
        if not desk.is_lead:
            payload["agent_type"] = desk.spec.role or ANY_ROLE
        payload |= {"hook_event_name": event, **fields}
        if not desk.is_lead:
            payload |= {"teammate_name": desk.agent, "team_name": desk.team.name}
        return payload | {
            "team": desk.team.name,
            "agent": desk.agent,
            "parent": agent.parent,
            "task": None if mine is None else mine.id,
            "attempt": attempt,
            "reason": reason,
            "task_snapshot": [_row(each) for each in tasks],
        }

    def _environment(self) -> dict[str, str]:
        desk = self._desk
        env = for_commands(desk.env, desk.spec.env_asked)
        return {**env, "BULLPEN_TEAM": desk.team.name, "BULLPEN_AGENT": desk.agent}

    def _session(self) -> str:
        """An id that stays the same for an agent, also after a restart."""
        desk = self._desk
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"bullpen:{desk.folder}"))

    def _fitting(self, call: Call) -> Fits | None:
        """Whether a rule fits a call. What cannot be told for sure fits: the hook then looks."""
        desk = self._desk
        rules = {hook.only for hook in self._hooks.hooks if hook.only is not None}
        home = desk.env.get("HOME") or "/"
        fitting = set()
        for rule in rules:
            rights = Rights("bypassPermissions", desk.spec.cwd, home, deny=(rule,))
            if decide(call, rights).effect != "allow":
                fitting.add(rule)
        return fitting.__contains__

    async def _in_progress(self) -> list[Task]:
        desk = self._desk
        return _held((await desk.team.tasks.list()).tasks, desk)

    async def _barred(self, call: Call) -> str | None:
        """Why the agent must not claim a task: a hook never let it be done by this agent."""
        task_id = str(call.input.get("taskId", "")).strip().removeprefix("#")
        if call.tool != "TaskUpdate" or task_id not in self._given_back:
            return None
        claims = call.input.get("status") == "in_progress"
        if not claims and call.input.get("owner") != self._desk.agent:
            return None
        task = await self._desk.team.tasks.get(task_id)
        if owner_of(task, self._desk.team.name) == self._desk.agent:
            # Whoever gave it to this agent again knows why.
            self._given_back.discard(task_id)
            return None
        return f"a hook refused too often that task #{task_id} is done, and you gave it back"

    async def _count(self, thing: tuple[str, str], what: str, why: str, then: str = "") -> bool:
        """Count a refusal. True if it is one too many; the lead is told of the first such."""
        refusals = self._refusals[thing] = self._refusals.get(thing, 0) + 1
        if refusals < self._hooks.breaker:
            return False
        if thing not in self._opened:
            self._opened.add(thing)
            self._desk.record("trouble", text=f"A hook {what}, {refusals} times in a row: {why}")
            if not self._desk.is_lead:
                await self._desk.team.mailbox.send(
                    LEAD,
                    f"A hook {what}, {refusals} times in a row. {then}\n\nIt said: {why}",
                    sender=self._desk.agent,
                    summary=f"A hook refused {refusals} times",
                )
        return True

    def _passed(self, thing: tuple[str, str]) -> None:
        self._refusals.pop(thing, None)
        self._opened.discard(thing)

    async def _released(self, task_id: str, reason: str) -> None:
        await self._desk.team.tasks.release(task_id, by=self._desk.agent, reason=reason)
        self._desk.attempts.pop(task_id, None)


def _held(tasks: list[Task], desk: Desk) -> list[Task]:
    """What an agent has in progress."""
    return [
        task
        for task in tasks
        if task.status == "in_progress" and owner_of(task, desk.team.name) == desk.agent
    ]


def _about(call: Call) -> dict[str, Any]:
    return {"tool_name": call.tool, "tool_input": dict(call.input), "tool_use_id": call.use_id}


def _words(task: Task) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "task_subject": task.subject,
        "task_description": task.description,
    }


def _row(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "subject": task.subject,
        "status": task.status,
        "owner": task.owner,
        "blockedBy": list(task.blocked_by),
    }


def _response(call: Call, text: str) -> dict[str, Any]:
    """The result under the names that hooks look for: those of Claude Code's tools."""
    path = call.input.get("file_path")
    if isinstance(path, str):
        return {"filePath": path, "success": True, "content": text}
    if call.tool == "Bash":
        return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
    return {"content": text}


def _clause(words: str) -> str:
    """Words to put into a sentence, which brings its own full stop."""
    return words.rstrip().rstrip(".")
