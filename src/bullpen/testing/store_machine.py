"""Runs the same random operations on two stores, and compares them after every step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from anyio.from_thread import start_blocking_portal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bullpen.errors import BullpenError, Refused
from bullpen.protocol import json_text
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
    encode,
)
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.store.contract import Committed, Decide, Mark, Store, Stored, View
from bullpen.testing.sample_records import (
    always,
    assert_replay_is_live,
    config,
    heartbeat,
    member,
    message,
    note,
    request,
    task,
)

Call = Callable[[Store], Awaitable[object]]

TEAM_NAMES = ("alpha", "beta")
AGENT_NAMES = (LEAD, "ann", "bob", "cleo", "dan")

# Most steps are about one team, so that its history gets long.
teams = st.sampled_from(("alpha", "alpha", "alpha", "beta"))
agents = st.sampled_from(AGENT_NAMES)
message_ids = st.integers(0, 20).map("m{}".format)
request_ids = st.integers(0, 3).map("shutdown-{}@ann".format)
note_names = st.sampled_from(("plan", "api-design", "README"))
picks = st.integers(0, 50)
texts = st.text(st.characters(), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
extras = st.dictionaries(st.sampled_from(("later", "Other key", "ü")), values, max_size=2)


class StoreMachine(RuleBasedStateMachine):
    """Random operations. A decision depends only on the view it is given."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh = 0
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            self._stores = [self._portal.call(make) for make in self.makers()]
            self._open = stack.pop_all()

    def makers(self) -> tuple[Callable[[], Store], Callable[[], Store]]:
        """Return the functions that create the store under test and the model."""
        raise NotImplementedError

    def teardown(self) -> None:
        with self._open:
            for store in self._stores:
                self._portal.call(store.aclose)

    # Steps

    @initialize()
    def begin(self) -> None:
        self._both(lambda store: store.create("alpha", config("alpha"), actor=LEAD))

    @rule(team=st.sampled_from(TEAM_NAMES), fields=extras)
    def create(self, team: str, fields: dict[str, Any]) -> None:
        # In the log, a null field of a team means that it is missing.
        known = {key: value for key, value in fields.items() if value is not None}
        self._both(lambda store: store.create(team, config(team, **known), actor=LEAD))

    @rule(team=st.sampled_from(("beta", "beta", "alpha")))
    def delete(self, team: str) -> None:
        self._both(lambda store: store.delete(team, actor=LEAD))

    @rule(team=teams, name=agents, fields=extras)
    def join(self, team: str, name: str, fields: dict[str, Any]) -> None:
        self._commit(team, always(PutMember(member(name, **fields))))

    @rule(team=teams, name=agents)
    def remove(self, team: str, name: str) -> None:
        def decide(view: View) -> Sequence[Change]:
            return [RemoveMember(name)] if view.team.member(name) else []

        self._commit(team, decide)

    @rule(team=teams, fields=extras, description=st.none() | texts)
    def change_team(self, team: str, fields: dict[str, Any], description: str | None) -> None:
        self._commit(team, always(PutTeam({**fields, "description": description})))

    @rule(team=teams, subject=texts, fields=extras, blockers=st.lists(picks, max_size=3))
    def add_task(
        self, team: str, subject: str, fields: dict[str, Any], blockers: list[int]
    ) -> None:
        def decide(view: View) -> Sequence[Change]:
            task_id = str(view.next_task_id)
            found = {pick.id: pick for pick in _picked(view, blockers)}
            new = task(task_id, subject=subject, blockedBy=list(found), **fields)
            edges = [each.evolve(blocks=[*each.blocks, task_id]) for each in found.values()]
            return [PutTask(new), *map(PutTask, edges)]

        self._commit(team, decide)

    @rule(team=teams, task_id=st.sampled_from(("3", "40", "odd_id")), fields=extras)
    def put_task(self, team: str, task_id: str, fields: dict[str, Any]) -> None:
        self._commit(team, always(PutTask(task(task_id, metadata=fields))))

    @rule(team=teams, pick=picks)
    def delete_task(self, team: str, pick: int) -> None:
        def decide(view: View) -> Sequence[Change]:
            changes: list[Change] = []
            for gone in _picked(view, [pick]):
                others = [each for each in view.tasks().values() if each.id != gone.id]
                linked = [each for each in others if gone.id in each.blocks + each.blocked_by]
                changes.append(DeleteTask(gone.id))
                changes += [PutTask(_without(each, gone.id)) for each in linked]
            return changes

        self._commit(team, decide)

    @rule(team=teams, pick=picks, to=agents, msg_id=message_ids)
    def assign(self, team: str, pick: int, to: str, msg_id: str) -> None:
        def decide(view: View) -> Sequence[Change]:
            changes: list[Change] = []
            for given in _picked(view, [pick]):
                changes += [PutTask(given.evolve(owner=to)), Deliver(to, message(msg_id))]
            return changes

        self._commit(team, decide)

    @rule(team=teams, posts=st.lists(st.tuples(agents, message_ids, texts), max_size=4))
    def deliver(self, team: str, posts: list[tuple[str, str, str]]) -> None:
        self._commit(team, always(*(Deliver(to, message(i, text=text)) for to, i, text in posts)))

    @rule(team=teams, to=agents, msg_id=message_ids, text=texts, fields=extras)
    def send(self, team: str, to: str, msg_id: str, text: str, fields: dict[str, Any]) -> None:
        sent = message(msg_id, text=text, **fields)
        self._both(lambda store: store.append(team, to, sent, actor=LEAD))

    @rule(team=teams, to=agents, text=texts)
    def send_fresh(self, team: str, to: str, text: str) -> None:
        self._fresh += 1
        sent = message(f"fresh-{self._fresh}", text=text)
        self._both(lambda store: store.append(team, to, sent, actor=LEAD, fresh=True))

    @rule(
        team=teams,
        agent=agents,
        ids=st.lists(message_ids, max_size=8),
        state=st.sampled_from(("injected", "seen")),
    )
    def acknowledge(self, team: str, agent: str, ids: list[str], state: Mark) -> None:
        self._both(lambda store: store.acknowledge(team, agent, ids, state, actor=agent))

    @rule(team=teams, agent=agents)
    def see_everything(self, team: str, agent: str) -> None:
        async def see(store: Store) -> int:
            unread = [entry.id for entry in (await store.mailbox(team, agent)).unread]
            return await store.acknowledge(team, agent, unread, "seen", actor=agent)

        self._both(see)

    @rule(team=teams, agent=agents, after=message_ids)
    def read_on(self, team: str, agent: str, after: str) -> None:
        self._both(lambda store: store.mailbox(team, agent, after=after, history=True))

    @rule(team=teams, request_id=request_ids)
    def forget(self, team: str, request_id: str) -> None:
        """Remove a request."""
        self._commit(team, always(RemoveRequest(request_id)))

    @rule(team=teams, request_id=request_ids, state=st.sampled_from(("pending", "denied")))
    def ask(self, team: str, request_id: str, state: str) -> None:
        self._commit(team, always(PutRequest(request(request_id, state=state))))

    @rule(team=teams, name=note_names, text=texts)
    def write_note(self, team: str, name: str, text: str) -> None:
        def decide(view: View) -> Sequence[Change]:
            before = view.note(name)
            version = 1 + (before.version if before is not None else len(view.notes()) // 9)
            return [PutNote(note(name, text, version=version))]

        self._commit(team, decide)

    @rule(team=teams, agent=agents, beat_ms=st.integers(0, 9))
    def beat(self, team: str, agent: str, beat_ms: int) -> None:
        self._both(lambda store: store.beat(team, heartbeat(agent, beat_ms=beat_ms)))

    @rule(team=teams)
    def refuse(self, team: str) -> None:
        def decide(view: View) -> Sequence[Change]:
            raise Refused(f"No to {len(view.tasks())} tasks.", reason="no")

        self._commit(team, decide)

    @rule(team=teams, to=agents, msg_id=message_ids)
    def commit_with_one_bad_change(self, team: str, to: str, msg_id: str) -> None:
        self._commit(team, always(Deliver(to, message(msg_id)), PutTask(task("../1"))))

    # Comparing

    @invariant()
    def both_show_the_same(self) -> None:
        store, model = self._stores
        self._portal.call(_compare, store, model)

    def _commit(self, team: str, decide: Decide) -> None:
        self._both(lambda store: store.commit(team, decide, actor="ann", op="test"))

    def _both(self, call: Call) -> None:
        got, expected = (self._portal.call(_outcome, store, call) for store in self._stores)
        assert got == expected


def build_machine(
    make_store: Callable[[], Store], make_model: Callable[[], Store]
) -> type[StoreMachine]:
    """Return a machine that compares the stores that `make_store` and `make_model` create.

    Each is called once for every example, inside an event loop, and must return a store without
    teams. If it needs a directory, it creates one, and may remove it in `aclose`.
    """

    class Machine(StoreMachine):
        def makers(self) -> tuple[Callable[[], Store], Callable[[], Store]]:
            return make_store, make_model

    return Machine


def _picked(view: View, picks: Sequence[int]) -> list[Task]:
    """Return some of the existing tasks, or none."""
    tasks = list(view.tasks().values())
    return [tasks[pick % len(tasks)] for pick in picks] if tasks else []


def _without(other: Task, task_id: str) -> Task:
    return other.evolve(
        blocks=[each for each in other.blocks if each != task_id],
        blocked_by=[each for each in other.blocked_by if each != task_id],
    )


async def _outcome(store: Store, call: Call) -> object:
    """Return the outcome of a call in a form that must be equal for every store."""
    try:
        result = await call(store)
    except BullpenError as error:
        return type(error), getattr(error, "reason", None)
    match result:
        case Committed(seq, changes):
            return seq, _plain(changes)
        case Stored(duplicate=True):
            # The contract does not say which number a message has that was not added, nor what is
            # ahead of it.
            return replace(result, seq=0, ahead=0)
        case _:
            return result


async def _compare(store: Store, model: Store) -> None:
    assert await _everything(store) == await _everything(model)
    for team in await store.teams():
        await assert_replay_is_live(store, team)


async def _everything(store: Store) -> dict[str, object]:
    """Return everything that a store shows of all its teams."""
    shown: dict[str, object] = {"teams": await store.teams()}
    for team in await store.teams():
        state = await store.read(team)
        shown[team] = {
            "team": state.team.header,
            "members": state.team.roster,
            "config": await store.config(team) == state.team,
            "tasks": list(state.tasks.items()),
            "requests": dict(state.requests),
            "notes": dict(state.notes),
            "seq": state.seq,
            "problems": state.problems,
            "events": [
                (event.seq, event.actor, event.op, event.observed, _plain(event.changes))
                for event in await store.events(team)
            ],
            "presence": dict(await store.presence(team)),
            "unread": dict(await store.unread(team, AGENT_NAMES)),
            "mail": {
                agent: await store.mailbox(team, agent, history=True) for agent in AGENT_NAMES
            },
        }
    return shown


def _plain(changes: Sequence[Change]) -> object:
    """Return the changes as in a log. The ids of one mark are a set, so they are sorted."""
    rows = [encode(change) for change in changes]
    for row in rows:
        if row["put"] == "mail_state":
            row["ids"].sort()
    return json_text.loads(json_text.dumps_line(rows))
