"""Deliberate bugs. The simulation must find each of them, or its silence means nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio

from bullpen.agents.runner import loop, spending
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.runner.loop import Runner
from bullpen.agents.runner.orders import Orders
from bullpen.agents.runner.turn_end import LastTurn, TurnEnd
from bullpen.agents.supervisor import roster_view
from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import PutMember, PutTask
from bullpen.protocol.clock import now_ms
from bullpen.protocol.payloads import Control
from bullpen.protocol.task import Task
from bullpen.runs.watch import team_run
from bullpen.runs.watch.restarts import Restarts
from bullpen.team.agents.liveness import GapWatch
from bullpen.team.agents.turns import Turns
from bullpen.team.budget import rules as budget_rules
from bullpen.team.lookup import task_of
from bullpen.team.mail.operations import Mailboxes
from bullpen.team.tasks import rules
from bullpen.team.tasks.operations import Tasks

from .faults import KINDS, Kind

Patches = list[tuple[Any, str, Any]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: what it changes, and the promises that it can break."""

    name: str
    patches: Callable[[], Patches]
    breaks: tuple[str, ...]
    # For a quick test: the kinds of faults that show it. The long test draws from all.
    kinds: tuple[Kind, ...] = field(default=KINDS)

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


def _a_run_tries_nothing_again() -> Patches:
    async def once(act: Callable[[], Any], **_: Any) -> Any:
        return await act()

    return [(team_run, "until_stored", once)]


def _the_end_of_a_turn_is_not_tried_again() -> Patches:
    carry_out = Runner._carry_out

    async def careless(self: Runner, end: TurnEnd) -> None:
        try:
            await carry_out(self, end)
        except Unavailable:
            self._pending = None

    return [(Runner, "_carry_out", careless)]


def _the_end_of_a_killed_turn_is_forgotten() -> Patches:
    return [(loop, "last_turn", lambda folder, facts: LastTurn())]


def _a_listener_gives_up() -> Patches:
    async def listen(self: Runner) -> None:
        try:
            async for _ in self._team.changes(agent=self._name):
                if self._control.in_turn:
                    await self._orders.obey()
                self._desk.notify_waiting()
                self._control.wake()
        except Unavailable:
            await anyio.sleep_forever()

    return [(Runner, "_listen", listen)]


def _anybody_completes_any_attempt() -> Patches:
    return [(rules, "provable", lambda view, task_id, **_: task_of(view, task_id))]


def _a_claim_compares_nothing() -> Patches:
    async def claim(self: Tasks, task_id: str, *, by: str, **given: Any) -> Task:
        # Decided on what was read before, not on what is there when it is written.
        state = await self._store.read(self._team)
        view = _Read(state)
        task = rules.claim(view, task_id, by=by, now_ms=self._clock(), **given)  # type: ignore[arg-type]
        await self._store.commit(self._team, lambda _: [PutTask(task)], actor=by, op="task.claim")
        return task

    return [(Tasks, "claim", claim)]


class _Read:
    """A view of what was read some time ago."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self.team = state.team

    def task(self, task_id: str) -> Task | None:
        found: Task | None = self._state.tasks.get(task_id)
        return found

    def tasks(self) -> Any:
        return self._state.tasks


def _mail_is_seen_before_the_turn() -> Patches:
    inject = RunnerDesk.inject

    async def hasty(self: RunnerDesk, entries: Any) -> Any:
        mail = await inject(self, entries)
        if mail is not None:
            await self.team.mailbox.mark(self.agent, list(mail.ids), "seen")
        return mail

    return [(RunnerDesk, "inject", hasty)]


def _what_a_driver_remembers_is_given_again() -> Patches:
    unread = RunnerDesk.unread

    async def forgetful(self: RunnerDesk) -> Any:
        self._remembers = lambda _: False
        return await unread(self)

    return [(RunnerDesk, "unread", forgetful)]


def _a_key_does_not_make_an_id() -> Patches:
    return [(Mailboxes, "_keyed", lambda self, *words: self._new_id())]


def _usage_is_booked_with_every_report() -> Patches:
    def reported(agent: AgentFacts, reports: Any) -> AgentFacts:
        if not reports:
            return agent
        return budget_rules.booked(agent, list(reports.values())).evolve(reports=max(reports))

    return [(budget_rules, "reported", reported)]


def _usage_of_a_killed_process_is_forgotten() -> Patches:
    return [(spending, "_unbooked", lambda folder, facts: {})]


def _nobody_stops_working() -> Patches:
    end_turn = Turns.end_turn

    async def busy(self: Turns, name: str, **given: Any) -> AgentFacts:
        facts = await end_turn(self, name, **given)
        member = (await self._store.config(self._team)).member(name)
        if member is not None:
            row = member.evolve(is_active=True)
            await self._store.commit(
                self._team, lambda _: [PutMember(row)], actor=name, op="agent.idle"
            )
        return facts

    return [(Turns, "end_turn", busy)]


def _tasks_of_the_dead_stay_theirs() -> Patches:
    return [(rules, "released_from", lambda view, name, *, reason: [])]


def _nobody_is_ever_dead() -> Patches:
    return [(RosterView, "dead", lambda self, agent, beat=None: "")]


def _lost_agents_are_not_started_again() -> Patches:
    prospect = Restarts.prospect

    def never(self: Restarts, name: str, agent: AgentFacts, now_s: float) -> str:
        lost = agent.phase == "ended" and agent.end == "lost"
        return "never" if lost else prospect(self, name, agent, now_s)

    return [(Restarts, "prospect", never)]


def _an_order_is_ignored() -> Patches:
    follow = Orders._follow

    def deaf(self: Orders, order: Control) -> None:
        if order.action != "resume":
            follow(self, order)

    return [(Orders, "_follow", deaf)]


def _a_lease_goes_by_the_wall_clock() -> Patches:
    def over(tasks: Iterable[Task], *_: Any, wall_ms: int, **__: Any) -> dict[str, int]:
        at_work = [task for task in tasks if task.status == "in_progress"]
        leases = {task.id: task.facts.lease_until_ms for task in at_work}
        return {each: until for each, until in leases.items() if until and until <= wall_ms}

    return [
        (roster_view, "leases_over", over),
        (GapWatch, "may_judge", lambda self, now_s: True),
    ]


class _WallClock:
    """The module anyio with a clock that can be set."""

    def __getattr__(self, name: str) -> Any:
        return getattr(anyio, name)

    @staticmethod
    def current_time() -> float:
        return now_ms() / 1000


def _a_runner_waits_by_the_wall_clock() -> Patches:
    return [(loop, "anyio", _WallClock())]


MUTANTS = (
    Mutant("a run tries nothing again", _a_run_tries_nothing_again, ("broke",), ("refuse",)),
    Mutant(
        "the end of a turn is not tried again",
        _the_end_of_a_turn_is_not_tried_again,
        ("report", "rest", "spend", "ends"),
        ("refuse", "away"),
    ),
    Mutant(
        "the end of a killed turn is forgotten",
        _the_end_of_a_killed_turn_is_forgotten,
        ("report",),
        ("drop", "drop_after"),
    ),
    Mutant("a listener gives up", _a_listener_gives_up, ("rest", "ends", "tasks"), ("refuse",)),
    Mutant(
        "anybody completes any attempt", _anybody_completes_any_attempt, ("task",), ("release",)
    ),
    Mutant("a claim compares nothing", _a_claim_compares_nothing, ("task",), ("delay",)),
    Mutant(
        "mail is seen before the turn",
        _mail_is_seen_before_the_turn,
        ("mail",),
        ("drop", "away"),
    ),
    Mutant(
        "what a driver remembers is given again",
        _what_a_driver_remembers_is_given_again,
        ("mail",),
        ("drop", "drop_after"),
    ),
    Mutant("a key does not make an id", _a_key_does_not_make_an_id, ("mail",), ("lost_answer",)),
    Mutant(
        "usage is booked with every report",
        _usage_is_booked_with_every_report,
        ("spend",),
        ("lost_answer",),
    ),
    Mutant(
        "usage of a killed process is forgotten",
        _usage_of_a_killed_process_is_forgotten,
        ("spend",),
        ("drop",),
    ),
    Mutant("nobody stops working", _nobody_stops_working, ("rest", "ends"), ("refuse",)),
    Mutant("tasks of the dead stay theirs", _tasks_of_the_dead_stay_theirs, ("task",), ("drop",)),
    Mutant("nobody is ever dead", _nobody_is_ever_dead, ("ends", "rest"), ("drop",)),
    Mutant(
        "lost agents are not started again",
        _lost_agents_are_not_started_again,
        ("tasks", "ends"),
        ("drop",),
    ),
    Mutant("an order is ignored", _an_order_is_ignored, ("rest", "ends"), ("pause",)),
    Mutant(
        "a lease goes by the wall clock",
        _a_lease_goes_by_the_wall_clock,
        ("lease",),
        ("jump", "suspend"),
    ),
    Mutant(
        "a runner waits by the wall clock",
        _a_runner_waits_by_the_wall_clock,
        ("ends", "rest"),
        ("jump",),
    ),
)
