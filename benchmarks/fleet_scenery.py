"""Teams, members and messages to measure the fleet on."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio
from nats.js.client import JetStreamContext
from nats.js.errors import BadRequestError

from bullpen.protocol import names
from bullpen.protocol.changes import Change, PutTask
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.contract import Store

_AT_ONCE = 32
_HEAD_UNCERTAIN = 10164
_CREATED = 1_790_000_000_000
_TEXT = "The parser reads nested lists now; the tests of the printer still fail."

T = TypeVar("T")


def agents_of(count: int) -> list[str]:
    """The names of the teammates."""
    return [f"agent-{number}" for number in range(count)]


def config(team: str, agents: int) -> TeamConfig:
    """A team with a lead and this many members."""
    members = [
        Member.new(
            agent_id=names.agent_id(name, team),
            name=name,
            agent_type="worker",
            joined_at=_CREATED,
            tmux_pane_id="",
            cwd="/srv/project",
            subscriptions=[],
        )
        for name in [LEAD, *agents_of(agents)]
    ]
    return TeamConfig.new(
        name=team,
        created_at=_CREATED,
        lead_agent_id=names.agent_id(LEAD, team),
        lead_session_id=str(uuid.UUID(int=1)),
        members=[member.raw for member in members],
    )


async def make_team(store: Store, team: str, *, agents: int, tasks: int = 0) -> None:
    """A team with this many pending tasks."""
    await store.create(team, config(team, agents), actor=LEAD)
    changes: list[Change] = [PutTask(task(number)) for number in range(1, tasks + 1)]
    if changes:
        await store.commit(team, lambda view: changes, actor=LEAD, op="task.add")


def task(number: int, note: str | None = None) -> Task:
    """A task of typical length."""
    return Task.new(
        id=str(number),
        subject=f"Write part {number} of the parser",
        description="",
        active_form=note,
    )


async def edit(store: Store, team: str, number: int, note: str) -> None:
    """Rewrite a task with a different text."""
    change = PutTask(task(number, note))
    await store.commit(team, lambda view: [change], actor=LEAD, op="task.edit")


def message(text: str = _TEXT) -> Message:
    """A message with a unique id; its event has about 400 bytes."""
    return Message.new(
        sender=LEAD,
        text=text,
        timestamp="2026-01-01T00:00:00.000Z",
        msg_v=1,
        msg_id=str(uuid.uuid4()),
        type="message",
        read=False,
    )


async def bare_append(js: JetStreamContext, subject: str, data: bytes, head: int) -> int:
    """Append with the bare client after message `head`; return the sequence.

    A server is sometimes wrong about the head for a moment, right after its own message.
    """
    headers = {"Nats-Expected-Last-Subject-Sequence": str(head)}
    while True:
        try:
            return (await js.publish(subject, data, headers=headers)).seq
        except BadRequestError as error:
            if error.err_code != _HEAD_UNCERTAIN:
                raise


async def for_each(items: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Process all items, several at a time."""
    limiter = anyio.Semaphore(_AT_ONCE)

    async def one(item: T) -> None:
        async with limiter:
            await act(item)

    async with anyio.create_task_group() as group:
        for item in items:
            group.start_soon(one, item)
