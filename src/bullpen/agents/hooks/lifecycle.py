"""Run an agent's hooks at the right moments and apply their answers.

A hook that keeps refusing the same thing must not keep an agent busy forever. After a few refusals
in a row a breaker opens: the lead is told, and the agent may rest or has to leave the task.
A denied call stays denied.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from anyio import to_thread

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.hooks.commands import Fits, run_hooks
from bullpen.agents.hooks.hook_set import HookSet, HookVerdict
from bullpen.agents.permissions.decide import decide
from bullpen.agents.system.environment import for_commands
from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.errors import NotFound, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of
from bullpen.team.operation.commit import new_id

ANY_ROLE = "general-purpose"
"""Claude Code's name for the type of an agent without a definition."""

_WITHOUT_MODE = ("TaskCreated", "TaskCompleted")


class AgentHooks:
    """The hooks that an agent was spawned with."""

    def __init__(
        self,
        desk: Desk,
        *,
        end_agent: Callable[[str], None],
        give_back: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """`end_agent` ends this agent, `give_back` gives a task back, never to take it again."""
        self._desk = desk
        self._end_agent = end_agent
        self._give_back = give_back
        self._hooks = HookSet.of(desk.spec.hooks)
        # How often in a row each thing was refused, and which of them the lead was told about.
        self._refusals: dict[tuple[str, str], int] = {}
        self._opened: set[tuple[str, str]] = set()
        # The keys of letters to the lead that may not be stored yet.
        self._letters: dict[tuple[str, str], str] = {}
        self._given_back: set[str] = set()
        self._to_give_back: list[str] = []
        # Texts of hooks before a call, to be added to its result.
        self._beside: dict[str | None, list[str]] = {}
        self._context: list[str] = []
        self._held_up = False

    async def before_tool(self, call: Call) -> HookVerdict:
        """Run PreToolUse."""
        barred = await self._barred(call)
        if barred is not None:
            return HookVerdict("deny", barred)
        if not self._hooks.has("PreToolUse"):
            return HookVerdict()
        verdict = await self._run("PreToolUse", call=call, **_about(call))
        if verdict.stop is not None:
            return HookVerdict("deny", f"a hook stopped this agent: {_clause(verdict.stop)}")
        thing = ("PreToolUse", call.digest)
        if verdict.effect == "deny":
            await self._count(thing, f"refused my call {call}", verdict.why)
            return HookVerdict("deny", f"a hook refused the call: {_clause(verdict.why)}")
        self._passed(thing)
        if verdict.context:
            self._beside[call.use_id] = list(verdict.context)
        why = f"a hook decided: {_clause(verdict.why)}" if verdict.effect else ""
        return HookVerdict(verdict.effect, why, verdict.input)

    async def after_tool(self, call: Call, text: str, *, failed: bool) -> str | None:
        """Run PostToolUse. Returns what to tell the model in addition to the result."""
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
            told.append(f"Feedback of a hook on this call: {verdict.refused}")
        return "\n".join([*told, *verdict.context]) or None

    async def turn_over(self, text: str, *, waiting: bool) -> str | None:
        """Run Stop, and TeammateIdle unless the agent is the lead or is waiting.

        Returns why the agent has to continue, or None if it may rest.
        """
        await self._give_back_refused()
        if not self._hooks.has("Stop", "TeammateIdle"):
            return None
        mine = _held((await self._desk.team.tasks.list()).tasks, self._desk)
        verdict = await self._run(
            "Stop", reason="end_turn", stop_hook_active=self._held_up, last_assistant_message=text
        )
        going_on = verdict.stop is not None or verdict.refused is not None
        if not going_on and not waiting and not self._desk.is_lead:
            reason = "owes_task" if mine else "available"
            verdict = await self._run("TeammateIdle", reason=reason)
        self._context += verdict.context
        # Both events share one count: either way the agent may not rest.
        thing = ("rest", mine[0].id if mine else "")
        self._held_up = False
        if verdict.stop is not None or verdict.refused is None:
            self._passed(thing)
            return None
        if await self._count(thing, "did not let me rest", verdict.refused, "I am resting now."):
            return None
        self._held_up = True
        return f"A hook wants you to continue: {verdict.refused}"

    async def started(self) -> None:
        """Run SubagentStart, and record which hook settings have no effect."""
        for problem in self._hooks.unused:
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
        """Texts of hooks for the model's next turn; each is returned once."""
        told, self._context = self._context, []
        return told

    def has(self, event: str) -> bool:
        """Whether there are hooks for an event."""
        return self._hooks.has(event)

    async def task_created(self, task: Task) -> str | None:
        """Run TaskCreated. Returns why the task must not be added."""
        verdict = await self._run("TaskCreated", task=task, reason="created", **_words(task))
        thing = ("TaskCreated", task.subject)
        if verdict.refused is None:
            self._passed(thing)
            return None
        if await self._count(thing, f"refused this new task: {task.subject}", verdict.refused):
            return f"{verdict.refused}\nThe task was refused too often. Do not add it again."
        return verdict.refused

    async def task_completed(self, task: Task) -> str | None:
        """Run TaskCompleted. Returns why the task is not done, or None."""
        verdict = await self._run("TaskCompleted", task=task, reason="completed", **_words(task))
        thing = ("TaskCompleted", task.id)
        why = verdict.refused
        if why is None:
            self._passed(thing)
            return None
        what, then = f"refused to complete task #{task.id}", "I gave the task back."
        if not await self._count(thing, what, why, then):
            return why
        self._refusals.pop(thing, None)
        self._given_back.add(task.id)
        # The refusal itself is still recorded in the agent's name.
        self._to_give_back.append(task.id)
        return (
            f"{why}\nThe task was refused {self._hooks.breaker} times, so it is given back and the"
            " lead is told. Do not work on it again."
        )

    async def _give_back_refused(self) -> None:
        """Give back the tasks that the hooks do not let this agent complete.

        Raises Unavailable if the store could not be used; what is left is given back next time.
        """
        reason = f"a hook refused {self._hooks.breaker} times to complete it"
        while self._to_give_back:
            task_id = self._to_give_back[0]
            try:
                await self._give_back(task_id, reason)
            except (NotFound, Refused) as error:
                # Another member has it by now, or it was deleted.
                self._desk.record("trouble", text=str(error))
            self._to_give_back.pop(0)

    async def _run(
        self, event: str, *, task: Task | None = None, call: Call | None = None, **fields: Any
    ) -> HookVerdict:
        """Run the hooks of an event, and record their messages."""
        desk = self._desk
        if not self._hooks.has(event):
            return HookVerdict()
        payload = await self._payload(event, task, fields)
        fits = None if call is None else await to_thread.run_sync(self._fitting, call)
        verdict = await run_hooks(
            self._hooks, event, payload, cwd=desk.spec.cwd, env=self._environment(), fits=fits
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
            self._end_agent(verdict.stop)
        return verdict

    async def _payload(
        self, event: str, task: Task | None, fields: dict[str, Any]
    ) -> dict[str, Any]:
        """The payload: Claude Code's fields in its order, then fields about the team.

        `task` is the task of the event, or else the one the agent has in progress.
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
        env = for_commands(desk.env, desk.spec)
        return {**env, "BULLPEN_TEAM": desk.team.name, "BULLPEN_AGENT": desk.agent}

    def _session(self) -> str:
        """An id that stays the same for an agent, even after a restart."""
        desk = self._desk
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"bullpen:{desk.folder}"))

    def _fitting(self, call: Call) -> Fits | None:
        """Whether a rule matches a call. If unclear, it matches and the hook decides."""
        desk = self._desk
        rules = {hook.only for hook in self._hooks.hooks if hook.only is not None}
        home = desk.env.get("HOME") or "/"
        fitting = set()
        for rule in rules:
            rights = Rights("bypassPermissions", desk.spec.cwd, home, deny=(rule,))
            if decide(call, rights).effect != "allow":
                fitting.add(rule)
        return fitting.__contains__

    async def _barred(self, call: Call) -> str | None:
        """Why the agent must not claim a task: a hook never let this agent complete it."""
        task_id = str(call.input.get("taskId", "")).strip().removeprefix("#")
        if call.tool != "TaskUpdate" or task_id not in self._given_back:
            return None
        # Completing a pending task claims it.
        claims = call.input.get("status") in ("in_progress", "completed")
        if not claims and call.input.get("owner") != self._desk.agent:
            return None
        task = await self._desk.team.tasks.get(task_id)
        if owner_of(task, self._desk.team.name) == self._desk.agent:
            # It was assigned to this agent again on purpose.
            self._given_back.discard(task_id)
            return None
        return f"a hook refused too often to let you complete task #{task_id}, and you gave it back"

    async def _count(self, thing: tuple[str, str], what: str, why: str, then: str = "") -> bool:
        """Count a refusal. True if the breaker is open; the lead is told when it opens."""
        refusals = self._refusals[thing] = self._refusals.get(thing, 0) + 1
        if refusals < self._hooks.breaker:
            return False
        if thing not in self._opened:
            self._desk.record("trouble", text=f"A hook {what}, {refusals} times in a row: {why}")
            if not self._desk.is_lead:
                # If it cannot be stored, the hook is asked again and this letter is sent then.
                key = self._letters.setdefault(thing, new_id())
                await self._desk.team.mailbox.send(
                    LEAD,
                    f"A hook {what}, {refusals} times in a row. {then}\n\nIt said: {why}",
                    sender=self._desk.agent,
                    summary=f"A hook refused {refusals} times",
                    key=key,
                )
                self._letters.pop(thing)
            self._opened.add(thing)
        return True

    def _passed(self, thing: tuple[str, str]) -> None:
        self._refusals.pop(thing, None)
        self._opened.discard(thing)


def _held(tasks: list[Task], desk: Desk) -> list[Task]:
    """The tasks that an agent has in progress."""
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
    """The result with the field names of Claude Code's tools, which hooks look for."""
    path = call.opens
    if path is not None:
        return {"filePath": path, "success": True, "content": text}
    if call.tool == "Bash":
        return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
    return {"content": text}


def _clause(words: str) -> str:
    """A text without its full stop, to put into a sentence."""
    return words.rstrip().rstrip(".")
