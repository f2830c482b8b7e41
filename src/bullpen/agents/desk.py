"""What a driver gets of its runner: the one implementation of `Desk`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.completion import complete, refuse_added
from bullpen.agents.drivers.base import Colleagues, Mail
from bullpen.agents.environment import for_commands
from bullpen.agents.frame import mail_text
from bullpen.agents.gate import Gate, surroundings
from bullpen.agents.hooking import Hooking
from bullpen.agents.plan_rule import ask_rule
from bullpen.agents.planning import Planning
from bullpen.agents.policy.call import Call
from bullpen.agents.policy.decide import hidden
from bullpen.agents.secrets import Redactor
from bullpen.agents.spending import Spending
from bullpen.agents.transcript import Transcript
from bullpen.agents.tree_work import TreeWork
from bullpen.agents.triage import triage, without_repeats
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Mode
from bullpen.protocol.presence import AgentState
from bullpen.protocol.task import Task
from bullpen.protocol.times import ms_of
from bullpen.store.base import Entry
from bullpen.team.rules import Done
from bullpen.team.team import Team

_ACTIONS_KEPT = 3


@dataclass(slots=True)
class Activity:
    """What an agent does at the moment, for its heartbeat."""

    state: AgentState
    since_ms: int
    detail: str | None = None
    tool: str | None = None
    actions: list[str] = field(default_factory=list)
    # How much of its model's context window the last request took, from 0 to 1.
    context: float | None = None


class RunnerDesk:
    """The desk of one agent. Whatever it does, it does under that agent's name."""

    def __init__(
        self,
        team: Team,
        agent: str,
        spec: AgentSpec,
        *,
        folder: Path,
        env: Mapping[str, str],
        transcript: Transcript,
        colleagues: Colleagues | None,
        now: Callable[[], int],
    ) -> None:
        self.team = team
        self.agent = agent
        self.is_lead = agent == LEAD
        self.spec = spec
        self.folder = folder
        self.env = env
        self.colleagues = colleagues
        self.attempts: dict[str, int] = {}
        self.activity = Activity("starting", now())
        self.notes: list[str] = []
        self.timers: list[tuple[float, str]] = []
        self.wrote_to: dict[str, str] = {}
        self.leaving: str | None = None
        # Set by the runner: what to do when something of the above has changed.
        self.stir: Callable[[], None] = lambda: None
        self.show: Callable[[], None] = lambda: None
        self.hooks = Hooking(self)
        self.planning = Planning(
            team,
            agent,
            folder=Path(env.get("BULLPEN_HOME") or folder) / "plans",
            ask_rule=lambda rule, plan: ask_rule(
                rule, plan, cwd=spec.cwd, env=for_commands(env, spec.env_asked)
            ),
            record=self.record,
        )
        self.spending = Spending(
            team, agent, spec.model, attempts=self.attempts, record=self.record
        )
        self._work = TreeWork(team, agent, spec)
        self._redactor = Redactor(env, spec.env_asked)
        self._changed = anyio.Event()
        self._gate = Gate(
            team,
            agent,
            self.hooks,
            surroundings(folder, env),
            waiting=self.waiting,
            change=lambda: self._changed,
            redact=self._redactor.value,
            record=self.record,
        )
        self._transcript = transcript
        self._now = now
        # Given to the driver in this process already. After a restart there is a new desk.
        self._given: set[str] = set()
        self._remembers: Callable[[str], bool] = lambda _: False

    def trust_memory(self, remembers: Callable[[str], bool]) -> None:
        """Believe a driver about the messages that its history holds."""
        self._remembers = remembers

    @property
    def mode(self) -> Mode:
        """The mode it is in now."""
        return self.planning.mode

    def stir_waiting(self) -> None:
        """Something about the team changed: whoever waits for an answer looks again."""
        self._changed.set()
        self._changed = anyio.Event()

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """Return the input with which a tool may be called, when it may be called."""
        return await self._gate.permit(call)

    async def called(self, call: Call, text: str, *, failed: bool) -> str:
        """Tell the hooks what came of a call."""
        told = await self.hooks.after_tool(call, text, failed=failed)
        return text if told is None else f"{text}\n\n{told}"

    def hides(self, path: str) -> bool:
        """Whether a rule denies reading this file."""
        rights = self._gate.current
        return rights is not None and hidden(path, rights)

    def redacted(self, text: str) -> str:
        """The text without any secret of this agent's environment."""
        return self._redactor.text(text)

    async def may_spend(self) -> None:
        """Record what was used so far; raises Refused if a budget is used up."""
        await self.spending.check()

    async def enter_plan_mode(self) -> None:
        """From now on it may only look."""
        await self.planning.enter()

    async def submit_plan(self, plan: str) -> str:
        """Ask for approval of a plan."""
        return await self.planning.submit(self.redacted(plan))

    async def begin_task(self, task: Task) -> str | None:
        """Get its tree ready for a task that it has just claimed, or give the task back."""
        self.attempts[task.id] = task.facts.attempt
        try:
            return await self._work.begin(task)
        except BullpenError as error:
            self.attempts.pop(task.id, None)
            self.record("trouble", text=f"The tree is not ready for #{task.id}: {error}")
            raise

    async def complete(self, task_id: str, *, report: str | None) -> Done:
        """Complete a task, if its checks pass and no hook refuses."""
        return await complete(self, self.hooks, self._work, task_id, report=report)

    async def created(self, task: Task) -> None:
        """Tell the hooks of a new task; it is removed again if one refuses."""
        why = await self.hooks.task_created(task)
        if why is not None:
            await refuse_added(self.team, task, why, by=self.agent, voice="agent")

    async def unread(self) -> tuple[Entry, ...]:
        """The mail that this agent was not given yet.

        What its driver remembers from before a restart was seen, though nobody could say so.
        """
        box = await self.team.mailbox.read(self.agent)
        fresh = tuple(entry for entry in box.unread if entry.id not in self._given)
        known = [entry.id for entry in fresh if self._remembers(entry.id)]
        if known:
            await self.seen(known)
        return tuple(entry for entry in fresh if entry.id not in known)

    async def inject(self, entries: Sequence[Entry]) -> Mail | None:
        """Frame messages and record that they were put into a turn; None if there are none."""
        if not entries:
            return None
        ids = tuple(entry.id for entry in entries)
        config = await self.team.agents.config()
        messages = [entry.message for entry in without_repeats(entries)]
        for message in messages:
            # Another program's lead asks by message only; whoever reads it must be able to answer.
            await self.team.approvals.hear(message, to=self.agent)
        text = mail_text(messages, config.roster, reader=self.agent, leads=self.is_lead)
        await self.team.mailbox.mark(self.agent, ids, "injected")
        self._given.update(ids)
        now = self._now()
        waited = [now - sent for each in messages if (sent := ms_of(each.timestamp)) is not None]
        self.record("mail", ids=list(ids), text=text, waited_ms=waited)
        return Mail(text, ids)

    async def take_mail(self) -> Mail | None:
        """The mail for the model that came since."""
        entries = await self.unread()
        if not entries:
            return None
        config = await self.team.agents.config()
        mail = triage(entries, config, agent=self.agent)
        if not (mail.urgent or mail.reports):
            return None
        return await self.inject(mail.mail)

    async def wait_mail(self) -> Mail:
        """Wait for mail for the model, and take it."""
        while True:
            changed = self._changed
            mail = await self.take_mail()
            if mail is not None:
                return mail
            await changed.wait()

    async def seen(self, ids: Sequence[str]) -> None:
        """Record that a model request with these messages succeeded."""
        if ids:
            await self.team.mailbox.mark(self.agent, list(ids), "seen")

    def turn_over(self) -> None:
        """From now on, mail that was given and not seen is given again."""
        self._given.clear()
        self._gate.turn_over()

    def doing(self, tool: str | None, detail: str = "") -> None:
        """Report what it does now."""
        activity = self.activity
        detail = self.redacted(detail)
        activity.tool = tool
        activity.detail = detail or None
        activity.since_ms = self._now()
        if tool is not None:
            action = f"{tool} {detail}".strip()
            activity.actions = [*activity.actions, action][-_ACTIONS_KEPT:]
        self.show()

    @contextmanager
    def waiting(self, on: str) -> Iterator[None]:
        """Report that it waits for somebody."""
        before = self.activity.state, self.activity.detail
        self.enter("waiting", on)
        try:
            yield
        finally:
            self.enter(*before)

    def enter(self, state: AgentState, detail: str | None = None) -> None:
        """Report another state."""
        activity = self.activity
        detail = None if detail is None else self.redacted(detail)
        activity.state, activity.detail, activity.since_ms = state, detail, self._now()
        activity.tool = None
        self.show()

    def record(self, kind: str, **data: Any) -> None:
        """Add a line to the transcript."""
        self._transcript.record(kind, **self._redactor.value(data))

    def used(self, usage: Usage, *, calls: Sequence[str] = ()) -> None:
        """Add what one model request used."""
        self.spending.used(usage, calls)
        self.show()

    def filled(self, tokens: int, *, window: int) -> None:
        """Report how full its context window is. A window that cannot be says nothing."""
        if window > 0 and tokens >= 0:
            self.activity.context = round(min(tokens / window, 1.0), 4)
            self.show()

    def wrote(self, to: str, summary: str) -> None:
        """Remember that it wrote to somebody in this turn."""
        self.wrote_to[to] = self.redacted(summary)

    def wake_later(self, seconds: float, note: str) -> None:
        """Ask for another turn later."""
        self.timers.append((self._now() / 1000 + seconds, note))
        self.stir()

    def wake(self, note: str) -> None:
        """Ask for another turn soon."""
        self.notes.append(note)
        self.stir()

    def leave(self, reason: str) -> None:
        """End for good when the turn is over."""
        self.leaving = reason

    def due_notes(self) -> list[str]:
        """The notes whose time has come; they are handed out once."""
        now = self._now() / 1000
        due = [note for at, note in self.timers if at <= now]
        self.timers = [timer for timer in self.timers if timer[0] > now]
        notes, self.notes = [*self.notes, *due], []
        return notes

    def next_timer_s(self) -> float | None:
        """Seconds until the next timer, if there is one."""
        if not self.timers:
            return None
        return max(0.0, min(at for at, _ in self.timers) - self._now() / 1000)
