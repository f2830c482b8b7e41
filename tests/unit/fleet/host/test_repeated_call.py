"""A call that is repeated after the host process was restarted happens once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bullpen.errors import Refused
from bullpen.fleet.host.agent_operations import AgentOperations
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import TeamFacts
from bullpen.store.hosted.host_session import OperationCall
from bullpen.store.hosted.tokens import TokenIdentity
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from support.hostile.host_calls import ME, TEAM, furnish
from support.rows import each_row

ANN = TokenIdentity(TEAM, ME)

CALLS: dict[str, dict[str, Any]] = {
    "tasks.add": {"subject": "New", "by": ME, "owner": "bob"},
    "tasks.claim": {"task_id": "4", "by": ME, "also": True, "lease_s": 60.0},
    "tasks.done": {"task_id": "2", "by": ME},
    "mailbox.send": {"to": "bob", "text": "Hello.", "sender": ME},
    "mailbox.broadcast": {"text": "Hello.", "sender": ME},
    "approvals.ask_permission": {"tool_name": "Bash", "tool_input": {}, "by": ME},
    "approvals.ask_question": {"questions": [{"question": "Why?"}], "by": ME},
    "agents.begin_turn": {"name": ME, "nonce": "nonce-ann"},
    "agents.end_turn": {"name": ME, "nonce": "nonce-ann", "reports": {}, "idle": None},
}


def call(name: str, *, repeated: bool, eid: str = "e1", at_ms: int | None = None) -> OperationCall:
    return OperationCall(TEAM, name, CALLS[name], eid, at_ms or now_ms(), repeated)


async def furnished() -> MemoryStore:
    store = MemoryStore()
    await Teams(store).create(TEAM, facts=TeamFacts.new(agents_may=["member.spawn"]))
    await furnish(Team(store, TEAM))
    return store


def host_of(store: MemoryStore, clock: Clock = now_ms) -> Callable[..., Awaitable[dict[str, Any]]]:
    """A host process that has just started: it remembers no call."""

    async def anything(*_: object) -> None:
        pass

    return AgentOperations(store, judge=anything, place=anything, clock=clock)


@each_row("name", CALLS)
async def test_what_was_done_is_found_and_not_done_again(name: str) -> None:
    store, at_ms = await furnished(), now_ms() - 500
    first = await host_of(store)(ANN, call(name, repeated=False, at_ms=at_ms))
    seq = (await store.read(TEAM)).seq
    again = await host_of(store)(ANN, call(name, repeated=True, at_ms=at_ms))
    assert (await store.read(TEAM)).seq == seq
    if name not in ("mailbox.send", "mailbox.broadcast"):
        assert again == first
    elif name == "mailbox.send":
        assert again["result"]["id"] == first["result"]["id"]
        assert again["result"]["duplicate"] is False


@each_row("name", CALLS)
async def test_what_was_not_done_is_done_now(name: str) -> None:
    store = await furnished()
    seq = (await store.read(TEAM)).seq
    await host_of(store)(ANN, call(name, repeated=True, at_ms=now_ms() - 5_000))
    assert (await store.read(TEAM)).seq == seq + 1


async def test_another_call_with_the_same_arguments_is_another_task() -> None:
    store = await furnished()
    await host_of(store)(ANN, call("tasks.add", repeated=False))
    await host_of(store)(ANN, call("tasks.add", repeated=True, eid="e2"))
    subjects = [task.subject for task in (await store.read(TEAM)).tasks.values()]
    assert subjects.count("New") == 2


async def test_a_caller_does_not_choose_the_time() -> None:
    store = await furnished()
    team = Team(store, TEAM)
    late = await team.approvals.ask_shutdown(ME, by=LEAD, deadline_s=5.0)
    then = late.created_ms
    answer = {"request_id": late.id, "approve": True, "by": ME}
    for repeated in (False, True):
        asked = OperationCall(TEAM, "approvals.answer", answer, "e", then, repeated)
        with pytest.raises(Refused):
            await host_of(store, lambda: then + 60_000)(ANN, asked)
    assert (await team.approvals.get(late.id)).state == "expired"
