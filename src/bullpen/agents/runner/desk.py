"""The desk that a runner gives its driver: the implementation of `Desk`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Colleagues, Mail
from bullpen.agents.hooks.lifecycle import AgentHooks
from bullpen.agents.mail.message_frame import mail_text, voices
from bullpen.agents.mail.promised import promise_note
from bullpen.agents.mail.sorting import is_spoken_to, triage, without_repeats
from bullpen.agents.mail.told import ToldBriefings
from bullpen.agents.permissions.decide import hidden
from bullpen.agents.runner.control import RunnerControl
from bullpen.agents.runner.gate import Gate
from bullpen.agents.runner.plan_mode import PlanMode
from bullpen.agents.runner.questions import ask_person
from bullpen.agents.runner.spending import Spending
from bullpen.agents.system.secrets import Redactor
from bullpen.agents.system.transcript import Transcript
from bullpen.agents.work.add_task import add_task
from bullpen.agents.work.complete import complete
from bullpen.agents.work.tree_of_task import TreeWork
from bullpen.agents.work.turn_brake import TurnBrake
from bullpen.agents.work.until_stored import until_stored
from bullpen.errors import BullpenError, Refused, Unavailable
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.protocol.clock import ms_of
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Mode
from bullpen.protocol.presence import AgentState
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Entry
from bullpen.team.operation.commit import new_id
from bullpen.team.requests.deadlines import RequestDeadlines
from bullpen.team.requests.rules import is_consent
from bullpen.team.tasks.check_rules import is_queued
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.operations import Listing
from bullpen.team.tasks.rules import Done
from bullpen.team.team import Team

_ACTIONS_KEPT = 3
# Deadlines are checked every 10 seconds, and only while somebody waits for an answer.
_LATE_S = 20.0

_LEAVE_S = 5.0
"""How long the turn may go on after its agent agreed to shut down, or repeats itself."""
_LAST_WORDS_S = 60.0
"""How long another program may go on after its agent has reported that the goal is reached."""


@dataclass(slots=True)
class Activity:
    """What an agent is doing, for its heartbeat."""

    state: AgentState
    since_ms: int
    detail: str | None = None
    tool: str | None = None
    actions: list[str] = field(default_factory=list)
    # How full its model's context window was at the last request, from 0 to 1.
    context: float | None = None
    # The name with which its model's API answers, if it is not the one that was asked for.
    model: str | None = None
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def show(self) -> None:
        """Send a heartbeat soon: something changed."""
        self._changed.set()

    def next_change(self) -> anyio.Event:
        """An event that is set at the next change."""
        self._changed = anyio.Event()
        return self._changed


class RunnerDesk:
    """The desk of one agent, in whose name alone it acts. `Desk` documents its methods."""

    def __init__(
        self,
        team: Team,
        agent: str,
        spec: AgentSpec,
        *,
        nonce: str,
        folder: Path,
        env: Mapping[str, str],
        transcript: Transcript,
        colleagues: Colleagues | None,
        now: Callable[[], int],
        remembers: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`remembers` says whether the driver's history contains a message."""
        self.nonce = nonce
        self.control = RunnerControl()
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
        # The task that it completed last in this turn.
        self.completed: str | None = None
        self.leaving: str | None = None
        self._has_nothing_to_do = False
        self.brake = TurnBrake(lambda: self.control.end_turn_within(_LEAVE_S))
        # A person interrupted it: it claims nothing, and is reminded of no task, until a person or
        # the lead speaks to it.
        self.waits_for_words = False
        # Tasks that it completed in this turn without a report.
        self.unreported: list[str] = []
        # Tasks that it gave back and must not take again.
        self.given_back: set[str] = set()
        self.hooks = AgentHooks(self, end_agent=self._end, give_back=self.give_back)
        deadlines = RequestDeadlines(
            team.approvals, by=agent, clock=now, now=anyio.current_time, late_s=_LATE_S
        )
        self.planning = PlanMode(self, nonce=nonce, deadlines=deadlines)
        self.spending = Spending(self, nonce=nonce, cut_turn=self.control.cut)
        self.briefings = ToldBriefings(team, agent)
        self._work = TreeWork(team, agent, spec)
        self._redactor = Redactor(env, spec.env_asked)
        self._changed = anyio.Event()
        self._gate = Gate(self, self.hooks, change=lambda: self._changed, deadlines=deadlines)
        self._transcript = transcript
        self._now = now
        # Messages that were already given to the driver in this turn.
        self._given: set[str] = set()
        # Messages that were in a successful request but are not marked as seen yet.
        self._read: dict[str, None] = {}
        # Messages of this turn that are marked as seen.
        self._seen: set[str] = set()
        # Messages to the lead that are not stored yet, by their keys.
        self._unsent: dict[str, tuple[str, str]] = {}
        self._remembers = remembers
        # The message with its prompt: mail that came in before it was ready does not come first.
        self.first_message: str | None = None
        # What it waits for, and its state before.
        self._waits: list[str] = []
        self._before_waiting: tuple[AgentState, str | None] = ("starting", None)

    def _end(self, why: str) -> None:
        self.control.stop("stopped", why)

    @property
    def mode(self) -> Mode:
        """Its current mode."""
        return self.planning.mode

    def notify_waiting(self) -> None:
        """Wake everything that waits for an answer: the team changed."""
        self._changed.set()
        self._changed = anyio.Event()

    async def permit(self, call: Call) -> Mapping[str, Any]:
        return await self._gate.permit(call)

    async def called(self, call: Call, text: str, *, failed: bool) -> str:
        """Add to the result of a call what the hooks say about it."""
        told = await self.hooks.after_tool(call, text, failed=failed)
        return text if told is None else f"{text}\n\n{told}"

    def hides(self, path: str) -> bool:
        rights = self._gate.current
        return rights is not None and hidden(path, rights)

    def redacted(self, text: str) -> str:
        return self._redactor.text(text)

    async def may_spend(self) -> None:
        # The turn ends at its deadline, whatever the store does.
        await until_stored(self.spending.check, tell=self.trouble)

    def trouble(self, error: BullpenError) -> None:
        """Note what went wrong and is tried again."""
        self.record("trouble", text=str(error))

    async def briefing(self) -> str:
        text = await until_stored(self.briefings.whole, tell=self.trouble)
        self.record("note", text=f"Told the whole briefing again:\n{text}")
        self.spending.told("digest", text)
        return text

    async def enter_plan_mode(self) -> None:
        await self.planning.enter()

    async def ask_person(self, questions: Sequence[Mapping[str, Any]]) -> str:
        return await ask_person(self, questions, self._gate.answer_to)

    async def submit_plan(self, plan: str) -> str:
        return await self.planning.submit(self.redacted(plan))

    async def begin_task(self, task: Task) -> str | None:
        self.attempts[task.id] = task.facts.attempt
        try:
            ready = await self._work.begin(task)
        except BullpenError as error:
            self.attempts.pop(task.id, None)
            self.record("trouble", text=f"The worktree is not ready for task #{task.id}: {error}")
            raise
        promised = await self._promised_for(task)
        return "\n".join(each for each in (ready, promised) if each) or None

    async def _promised_for(self, task: Task) -> str | None:
        # The task is begun: a store that fails now does not give it back.
        try:
            tasks = (await self.team.promises.promised()).tasks
        except Unavailable as error:
            return f"Promises of other members cannot be read: {error} List them with Promise."
        return promise_note(tasks, task, self.team.name)

    async def complete(self, task_id: str, *, report: str | None) -> Done:
        done = await complete(self, self.hooks, self._work, task_id, report=report)
        if not is_queued(done.task):
            self.completed = done.task.id
        if not (report or "").strip():
            self.unreported.append(task_id)
        return done

    async def give_back(
        self, task_id: str, reason: str, text: str | None = None, summary: str | None = None
    ) -> None:
        """Give a task back, tell the lead why, and never take it again."""
        self.given_back.add(task_id)
        try:
            await self.team.tasks.release(
                task_id, by=self.agent, reason=reason, text=text, summary=summary
            )
        except Refused:
            self.attempts.pop(task_id, None)
            raise
        self.attempts.pop(task_id, None)

    def drop_lost(self, listing: Listing, own: Sequence[Task]) -> None:
        """Forget tasks that are somebody else's by now, or deleted."""
        listed = {task.id for task in listing.tasks}
        for task_id in self.attempts.keys() - {task.id for task in own}:
            # One that cannot be read may still be its own.
            if task_id in listed or not listing.problems:
                self.attempts.pop(task_id)

    async def tell_lead(self, text: str, summary: str) -> None:
        """Send a message to the lead, unless this agent is the lead."""
        if not self.is_lead:
            self._unsent[new_id()] = text, summary
            await self.send_unsent()

    async def send_unsent(self) -> None:
        """Send what could not be sent to the lead before. Raises Unavailable."""
        for key, (text, summary) in list(self._unsent.items()):
            await self.team.mailbox.send(LEAD, text, sender=self.agent, summary=summary, key=key)
            del self._unsent[key]

    async def add_task(self, draft: Draft) -> Task:
        ask = self.hooks.task_created if self.hooks.has("TaskCreated") else None
        return await add_task(self.team, draft, ask, by=self.agent)

    async def unread(self) -> tuple[Entry, ...]:
        """The mail that this agent was not given yet.

        Messages that its driver remembers from before a restart are marked as seen.
        """
        box = await self.team.mailbox.read(self.agent)
        done = self._given | self._read.keys()
        fresh = tuple(entry for entry in box.unread if entry.id not in done)
        known = [entry.id for entry in fresh if self._remembers(entry.id)]
        if known:
            await self.seen(known)
        left = (entry for entry in fresh if entry.id not in known)
        return tuple(sorted(left, key=lambda entry: entry.id != self.first_message))

    async def inject(self, entries: Sequence[Entry]) -> Mail | None:
        """Frame messages and record that they were added to a turn; None if there are none."""
        if not entries:
            return None
        ids = tuple(entry.id for entry in entries)
        config = await self.team.agents.config()
        messages = [entry.message for entry in without_repeats(entries)]
        for message in messages:
            # Another program's lead asks only by message; the reader must be able to answer it.
            await self.team.approvals.hear(message, to=self.agent)
        text = mail_text(
            messages,
            config.roster,
            proved=await self._last_words(messages, config),
        )
        await self.team.mailbox.mark(self.agent, ids, "injected")
        self._given.update(ids)
        self.waits_for_words = self.waits_for_words and not is_spoken_to(entries)
        self.spending.told("mail", text)
        now = self._now()
        waited = [now - sent for each in messages if (sent := ms_of(each.timestamp)) is not None]
        by = voices(messages)
        self.record("mail", ids=list(ids), text=text, waited_ms=waited, voices=by)
        return Mail(text, ids)

    async def _last_words(self, messages: Sequence[Message], config: TeamConfig) -> list[Message]:
        """The consents to a shutdown by members that left with them: the request proves them."""
        gone = [each for each in messages if config.member(each.sender) is None]
        if not gone:
            return []
        requests = await self.team.approvals.all()
        return [each for each in gone if is_consent(each, requests)]

    async def take_mail(self) -> Mail | None:
        mail = await self._take_mail()
        news = self.mode_news()
        if not news:
            return mail
        self.spending.told("reminder", *news)
        texts = news if mail is None else [*news, mail.text]
        return Mail("\n\n".join(texts), () if mail is None else mail.ids)

    async def _take_mail(self) -> Mail | None:
        entries = await self.unread()
        if not entries:
            return None
        config = await self.team.agents.config()
        mail = triage(entries, config, agent=self.agent)
        if not (mail.urgent or mail.reports):
            return None
        return await self.inject(mail.mail)

    def mode_news(self) -> list[str]:
        """What to tell the model about a new mode; returned once."""
        news, self.planning.news = self.planning.news, []
        return news

    async def wait_mail(self) -> Mail:
        while True:
            changed = self._changed
            mail = await self.take_mail()
            if mail is not None:
                return mail
            await changed.wait()

    async def seen(self, ids: Sequence[str]) -> None:
        try:
            await self.seen_for_sure(ids)
        except Unavailable as error:
            # The request succeeded; this is made up for before the next turn.
            self.trouble(error)

    async def seen_for_sure(self, ids: Sequence[str]) -> None:
        """Mark messages as seen, also those that could not be marked before. Raises Unavailable."""
        self._read |= dict.fromkeys(each for each in ids if each not in self._seen)
        if self._read:
            await self.team.mailbox.mark(self.agent, list(self._read), "seen")
            self._seen.update(self._read)
            self._read.clear()

    @property
    def has_unstored(self) -> bool:
        """Whether something could not be sent or marked, and has to be tried again."""
        return bool(self._read or self._unsent)

    def not_given(self, ids: Iterable[str]) -> None:
        """Give these messages again: the turn that they were for did not begin."""
        self._given.difference_update(ids)

    def turn_begins(self, requests_max: float = math.inf) -> None:
        """Start a turn: nothing is known of it yet."""
        self.brake.turn_begins(requests_max)
        self._has_nothing_to_do = False
        self.wrote_to.clear()
        self._seen.clear()
        self.completed = None

    def turn_over(self) -> None:
        """End a turn: from now on, unseen mail is given again."""
        self._given.clear()
        self._gate.turn_over()
        self.spending.turn_over()

    def doing(self, tool: str | None, detail: str = "") -> None:
        activity, detail = self.activity, self.redacted(detail)
        activity.tool, activity.detail, activity.since_ms = tool, detail or None, self._now()
        if tool is not None:
            action = f"{tool} {detail}".strip()
            activity.actions = [*activity.actions, action][-_ACTIONS_KEPT:]
        self.activity.show()

    @contextmanager
    def waiting(self, on: str) -> Iterator[None]:
        # A subagent in the background may wait, too, and either may end first.
        if not self._waits:
            self._before_waiting = self.activity.state, self.activity.detail
        self._waits.append(on)
        self.enter("waiting", on)
        try:
            yield
        finally:
            self._waits.remove(on)
            self.enter(*(("waiting", self._waits[-1]) if self._waits else self._before_waiting))

    def enter(self, state: AgentState, detail: str | None = None) -> None:
        """Report another state."""
        activity = self.activity
        activity.detail = None if detail is None else self.redacted(detail)
        activity.state, activity.since_ms, activity.tool = state, self._now(), None
        activity.show()

    def still_idle(self, detail: str | None) -> None:
        """Report what an idle agent has to do by now, if that changed."""
        activity = self.activity
        if activity.state == "idle" and activity.detail != detail:
            activity.detail = detail
            activity.show()

    def record(self, kind: str, **data: Any) -> None:
        self._transcript.record(kind, **self._redactor.value(data))

    def used(self, usage: Usage, *, calls: Sequence[str] = (), model: str | None = None) -> None:
        self.spending.used(usage, calls, model)
        self.activity.show()

    def filled(self, tokens: int, *, window: int, model: str | None = None) -> None:
        self.activity.model = model
        if window > 0 and tokens >= 0:
            self.activity.context = round(min(tokens / window, 1.0), 4)
            self.activity.show()

    def wrote(self, to: str, summary: str) -> None:
        self.wrote_to[to] = self.redacted(summary)

    def wake_later(self, seconds: float, note: str) -> None:
        self.timers.append((anyio.current_time() + seconds, note))
        self.control.wake()

    def wake(self, note: str) -> None:
        self.notes.append(note)
        self.control.wake()

    def leave(self, reason: str) -> None:
        self.leaving = reason
        # Our own driver asks its model nothing else; other programs may go on for hours.
        self.control.end_turn_within(_LEAVE_S)

    def end_turn(self) -> None:
        self._has_nothing_to_do = True
        self.control.end_turn_within(_LAST_WORDS_S)

    @property
    def turn_is_over(self) -> bool:
        return self._has_nothing_to_do or self.leaving is not None

    def next_request(self) -> None:
        self.brake.next_request()

    def note_repeats(self, call: Call, text: str, *, failed: bool) -> str:
        return self.brake.note_repeats(call, text, failed=failed)

    def due_notes(self) -> list[str]:
        """The notes that are due; each is returned once."""
        now = anyio.current_time()
        due = [note for at, note in self.timers if at <= now]
        self.timers = [timer for timer in self.timers if timer[0] > now]
        notes, self.notes = [*self.notes, *due], []
        return notes

    def next_timer_s(self) -> float | None:
        """Seconds until the next timer, if there is one."""
        if not self.timers:
            return None
        return max(0.0, min(at for at, _ in self.timers) - anyio.current_time())
