"""A desk for tests of drivers and tools, with a real team behind it and a record of all calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Colleagues, Mail
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.mail.message_frame import frames
from bullpen.agents.work.turn_brake import TurnBrake
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Mode
from bullpen.protocol.task import Task
from bullpen.store.contract import Entry
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.rules import Done
from bullpen.team.team import Team


@dataclass(eq=False)
class RecordingDesk:
    """The desk of one member of a team. Mail and tasks are the team's; the rest is recorded."""

    team: Team
    agent: str
    folder: Path
    spec: AgentSpec
    env: Mapping[str, str] = field(default_factory=dict)
    colleagues: Colleagues | None = None
    attempts: MutableMapping[str, int] = field(default_factory=dict)
    # What the driver reported, in order.
    injected: list[str] = field(default_factory=list)
    saw: list[str] = field(default_factory=list)
    did: list[tuple[str | None, str]] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    waiting_now: list[str] = field(default_factory=list)
    records: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    # For each usage, the model that answered if it was another.
    models: list[str | None] = field(default_factory=list)
    contexts: list[tuple[int, int]] = field(default_factory=list)
    peers: list[tuple[str, str]] = field(default_factory=list)
    timers: list[tuple[float, str]] = field(default_factory=list)
    wakes: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    # Whether the agent has nothing left to do in this turn, and what repeats itself in it.
    turn_ended: bool = False
    brake: TurnBrake = field(default_factory=lambda: TurnBrake(lambda: None))
    wanted: list[Call] = field(default_factory=list)
    plans: list[str | None] = field(default_factory=list)
    # What to do with a call: return its input or another one, or raise.
    rule: Callable[[Call], Mapping[str, Any]] | None = None
    asked_to_spend: int = 0
    # How often the driver asked for the whole briefing.
    briefings: int = 0
    # How many requests may be made; None means any number.
    may_request: int | None = None

    @property
    def is_lead(self) -> bool:
        return self.agent == LEAD

    @property
    def mode(self) -> Mode:
        return self.spec.start_mode

    async def permit(self, call: Call) -> Mapping[str, Any]:
        """Permit every call, unless a test says otherwise: policies are tested elsewhere."""
        self.wanted.append(call)
        return call.input if self.rule is None else self.rule(call)

    async def called(self, call: Call, text: str, *, failed: bool) -> str:
        return text

    def hides(self, path: str) -> bool:
        return False

    def redacted(self, text: str) -> str:
        return text

    async def may_spend(self) -> None:
        self.asked_to_spend += 1
        if self.may_request is not None and self.asked_to_spend > self.may_request:
            raise Refused("The budget is used up.", reason="tokens_limit")

    async def briefing(self) -> str:
        self.briefings += 1
        return f"This is the whole state of team {self.team.name}."

    async def enter_plan_mode(self) -> None:
        self.plans.append(None)

    async def submit_plan(self, plan: str) -> str:
        self.plans.append(plan)
        return "The plan is submitted."

    async def ask_person(self, questions: Sequence[Mapping[str, Any]]) -> str:
        raise Refused("Nobody answers questions here.", reason="no_person")

    async def begin_task(self, task: Task) -> None:
        """Note what it works on; it has no worktree."""
        self.attempts[task.id] = task.facts.attempt

    async def complete(self, task_id: str, *, report: str | None) -> Done:
        return await self.team.tasks.done(
            task_id, by=self.agent, attempt=self.attempts.get(task_id), report=report
        )

    async def add_task(self, draft: Draft) -> Task:
        return (await self.team.tasks.add_many([draft], by=self.agent))[0]

    async def begin(self, text: str = "It is your turn.") -> TurnInput:
        """Return what a turn starts with now: the text, and all mail that was in no request."""
        self.brake.turn_begins()
        self.turn_ended = False
        mail = await self._take(await self._unseen())
        if mail is None:
            return TurnInput(text)
        return TurnInput(f"{text}\n\n{mail.text}", mail.ids)

    async def take_mail(self) -> Mail | None:
        return await self._take(
            [entry for entry in await self._unseen() if entry.id not in self.injected]
        )

    async def wait_mail(self) -> Mail:
        while True:
            mail = await self.take_mail()
            if mail is not None:
                return mail
            await anyio.sleep(0.02)

    async def seen(self, ids: Sequence[str]) -> None:
        await self.team.mailbox.mark(self.agent, ids, "seen")
        self.saw += ids

    def doing(self, tool: str | None, detail: str = "") -> None:
        self.did.append((tool, detail))

    @contextmanager
    def waiting(self, on: str) -> Iterator[None]:
        self.waits.append(on)
        self.waiting_now.append(on)
        try:
            yield
        finally:
            self.waiting_now.remove(on)

    def record(self, kind: str, **data: Any) -> None:
        self.records.append((kind, data))

    def used(self, usage: Usage, *, calls: Sequence[str] = (), model: str | None = None) -> None:
        self.usages.append(usage)
        self.models.append(model)

    def filled(self, tokens: int, *, window: int, model: str | None = None) -> None:
        self.contexts.append((tokens, window))

    def wrote(self, to: str, summary: str) -> None:
        self.peers.append((to, summary))

    def wake_later(self, seconds: float, note: str) -> None:
        self.timers.append((seconds, note))

    def wake(self, note: str) -> None:
        self.wakes.append(note)

    def leave(self, reason: str) -> None:
        self.left.append(reason)

    @property
    def leaving(self) -> str | None:
        return self.left[-1] if self.left else None

    def end_turn(self) -> None:
        self.turn_ended = True

    @property
    def turn_is_over(self) -> bool:
        return self.turn_ended or bool(self.left)

    def next_request(self) -> None:
        self.brake.next_request()

    def note_repeats(self, call: Call, text: str, *, failed: bool) -> str:
        return self.brake.note_repeats(call, text, failed=failed)

    async def _unseen(self) -> list[Entry]:
        return list((await self.team.mailbox.read(self.agent)).unread)

    async def _take(self, entries: Sequence[Entry]) -> Mail | None:
        if not entries:
            return None
        ids = tuple(entry.id for entry in entries)
        await self.team.mailbox.mark(self.agent, ids, "injected")
        self.injected += ids
        roster = await self.team.roster.list()
        return Mail(frames([entry.message for entry in entries], roster), ids)
