"""A team moves to another store as a whole, and lives in exactly one of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Refused, Unreadable
from bullpen.protocol.changes import Deliver, Event, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team.moving.move import Stage
from bullpen.team.team import Team, Teams
from bullpen.testing.restore_contract import AGENTS, boxes, texts
from bullpen.testing.sample_records import config, heartbeat, message, next_task_id, put, task
from support.store.moving_teams import THERE, Died, lived, living, moved, shown, unavailable

pytestmark = pytest.mark.no_loss

HERE = "files:/here"


# What a move does


async def test_a_moved_team_is_what_it_was_and_is_gone_where_it_was() -> None:
    source, target = MemoryStore(), MemoryStore()
    events = await lived(source)
    before, next_id = await shown(source), await next_task_id(source)
    answer = await moved(source, target)
    assert await shown(target) == before
    assert await next_task_id(target) == next_id
    assert texts((await target.events("alpha"))[: len(events)]) == texts(events)
    assert await source.teams() == []
    assert (answer.team, answer.to, answer.kept) == ("alpha", THERE, False)
    assert answer.messages == sum(len(box) for box in (await boxes(target, "alpha")).values())
    assert answer.events == (await target.read("alpha")).seq - 1


async def test_a_team_that_is_kept_is_closed_and_can_be_read() -> None:
    source, target = MemoryStore(), MemoryStore()
    await lived(source)
    before = await shown(source)
    assert (await moved(source, target, keep=True)).kept
    assert await shown(source) == before
    assert await living(source, target) == [1]


CHANGES: dict[str, Callable[[Team], Awaitable[object]]] = {
    "add a task": lambda team: team.tasks.add("More", by=LEAD),
    "claim a task": lambda team: team.tasks.claim("1", by="ann"),
    "send": lambda team: team.mailbox.send("ann", "Hello", sender=LEAD),
    "broadcast": lambda team: team.mailbox.broadcast("Hello", sender=LEAD),
    "join": lambda team: team.roster.join("dan", by=LEAD),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_closed_team_refuses_every_change_and_says_where_it_went(
    change: Callable[[Team], Awaitable[object]],
) -> None:
    source, target = MemoryStore(), MemoryStore()
    await lived(source)
    await moved(source, target, keep=True)
    seq = (await source.read("alpha")).seq
    with pytest.raises(Refused, match=THERE) as refused:
        await change(Team(source, "alpha"))
    assert refused.value.reason == "moved"
    assert (await source.read("alpha")).seq == seq


async def test_every_stage_is_told_in_turn() -> None:
    source, target = MemoryStore(), MemoryStore()
    count = len(await lived(source))
    told: list[tuple[Stage, int]] = []
    answer = await moved(source, target, on_progress=lambda *stage: told.append(stage))
    assert answer.events == count + 1
    assert told == [
        ("closed", 0),
        ("copied", answer.events),
        ("restored", answer.events),
        ("compared", answer.events),
        ("opened", answer.events + 1),
        ("removed", answer.events),
    ]


async def test_a_log_is_copied_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.team.moving.move.SLICE", 10)
    source, target = MemoryStore(), MemoryStore()
    events = await lived(source)
    told: list[int] = []

    def tell(stage: Stage, count: int) -> None:
        if stage == "copied":
            told.append(count)

    answer = await moved(source, target, on_progress=tell)
    assert told == [*range(10, answer.events, 10), answer.events]
    assert texts((await target.events("alpha"))[: len(events)]) == texts(events)


async def test_a_closed_copy_is_replaced_when_the_team_comes_back() -> None:
    source, target = MemoryStore(), MemoryStore()
    await lived(source)
    await moved(source, target, keep=True)
    await put(target, PutTask(task("9")))
    await moved(target, source, to=HERE, keep=True)
    assert await living(source, target) == [0]
    assert "9" in (await source.read("alpha")).tasks


async def test_ids_that_another_program_gave_are_not_given_again(tmp_path: Path) -> None:
    """The real program deletes tasks before anybody of ours has seen them."""
    source, target = FileStore(tmp_path, fsync=False), MemoryStore()
    await source.create("alpha", config(), actor=LEAD)
    (tmp_path / "tasks/alpha/.highwatermark").write_text("12", encoding="utf-8")
    await moved(source, target)
    assert await next_task_id(target) == 13
    assert (await target.read("alpha")).tasks == {}


# What a move refuses


@pytest.mark.parametrize("agent", ["ann", LEAD])
async def test_a_team_with_somebody_at_work_is_not_moved(agent: str) -> None:
    source, target = MemoryStore(), MemoryStore()
    events = await lived(source)
    await source.beat("alpha", heartbeat(agent, beat_ms=1_000, ttlMs=500))
    with pytest.raises(Refused, match=agent) as refused:
        await moved(source, target, clock=lambda: 1_400)
    assert refused.value.reason == "members_alive"
    assert (await source.events("alpha"), await target.teams()) == (events, [])
    await moved(source, target, clock=lambda: 1_600)


async def test_somebody_who_came_while_the_team_was_closed_keeps_it() -> None:
    class Late(MemoryStore):
        async def commit(self, team: str, *args: Any, **options: Any) -> Any:
            done = await super().commit(team, *args, **options)
            if options["op"] == "team.move":
                await self.beat(team, heartbeat("ann", beat_ms=1_000))
            return done

    source, target = Late(), MemoryStore()
    await lived(source)
    with pytest.raises(Refused, match="ann"):
        await moved(source, target, clock=lambda: 1_000)
    assert await living(source, target) == [0]


async def test_a_team_of_that_name_at_the_target_stays_and_nothing_changes() -> None:
    source, target = MemoryStore(), MemoryStore()
    events = await lived(source)
    await target.create("alpha", config(description="theirs"), actor=LEAD)
    with pytest.raises(Conflict, match="already"):
        await moved(source, target)
    assert texts(await source.events("alpha")) == texts(events)
    assert (await target.read("alpha")).team.description == "theirs"


async def test_a_team_is_not_moved_to_where_it_is() -> None:
    store = MemoryStore()
    events = await lived(store)
    with pytest.raises(Conflict):
        await moved(store, store, to=HERE)
    assert texts(await store.events("alpha")) == texts(events)


async def test_a_team_that_is_not_there_is_not_found() -> None:
    source, target = MemoryStore(), MemoryStore()
    with pytest.raises(NotFound):
        await moved(source, target)
    await target.create("alpha", config(), actor=LEAD)
    with pytest.raises(NotFound):
        await moved(source, target)
    assert await living(source, target) == [1]


async def test_a_closed_team_goes_nowhere_else() -> None:
    source, target = MemoryStore(), MemoryStore()
    await lived(source)
    await moved(source, target, keep=True)
    with pytest.raises(Refused, match=THERE) as refused:
        await moved(source, MemoryStore(), to="nats://elsewhere:4222")
    assert refused.value.reason == "moved"
    assert await living(source, target) == [1]


async def test_a_password_does_not_get_into_the_log() -> None:
    source, target = MemoryStore(), MemoryStore()
    events = await lived(source)
    with pytest.raises(Invalid, match="password"):
        await moved(source, target, to="nats://ann:secret@there:4222")
    assert texts(await source.events("alpha")) == texts(events)


def bad_row(home: Path) -> None:
    inbox = home / "teams/alpha/inboxes/ann.json"
    inbox.write_text(json.dumps([*json.loads(inbox.read_bytes()), {"no": "message"}]), "utf-8")


def bad_task(home: Path) -> None:
    (home / "tasks/alpha/2.json").write_bytes(b'{"id": "2"')


def bad_member(home: Path) -> None:
    path = home / "teams/alpha/config.json"
    raw = json.loads(path.read_bytes())
    path.write_text(json.dumps({**raw, "members": [*raw["members"], {"color": "red"}]}), "utf-8")


@pytest.mark.parametrize("damage", [bad_row, bad_task, bad_member])
async def test_a_damaged_team_is_not_moved_and_the_damage_is_named(
    tmp_path: Path, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = FileStore(tmp_path, fsync=False), MemoryStore()
    await lived(source)
    damage(tmp_path)
    # It is looked for before anything is copied.
    monkeypatch.setattr(target, "restore", pytest.fail)
    with pytest.raises(Refused, match="doctor") as refused:
        await moved(source, target)
    assert refused.value.reason == "damaged"
    assert await target.teams() == []
    assert await living(source, target) == [0]


async def test_a_damaged_log_is_not_moved(tmp_path: Path) -> None:
    source, target = FileStore(tmp_path, fsync=False), MemoryStore()
    await lived(source)
    log = tmp_path / "teams/alpha/.bullpen/events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], b"x" * (len(lines[3]) - 1) + b"\n", *lines[4:]]))
    with pytest.raises(Unreadable):
        await moved(FileStore(tmp_path, fsync=False), target)
    assert await target.teams() == []


# Copies that are not equal


class Careless(MemoryStore):
    """Restores teams otherwise than it was told to."""

    spoil: Callable[[list[Event]], list[Event]]

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        await super().restore(team, self.spoil(list(events)))


def without(kind: type) -> Callable[[list[Event]], list[Event]]:
    def spoil(events: list[Event]) -> list[Event]:
        index = max(i for i, e in enumerate(events) if isinstance(e.changes[0], kind))
        empty = Event(index + 1, "", LEAD, "test", ())
        return [*events[:index], empty, *events[index + 1 :]]

    return spoil


SPOILED: dict[str, Callable[[list[Event]], list[Event]]] = {
    "the source has .* events, the copy": lambda events: events[:-1],
    "the events differ": without(PutTask),
}


@pytest.mark.parametrize(("says", "spoil"), SPOILED.items(), ids=["fewer events", "other events"])
async def test_a_copy_that_is_not_equal_is_deleted_and_the_source_lives_on(
    says: str, spoil: Callable[[list[Event]], list[Event]]
) -> None:
    source, target = MemoryStore(), Careless()
    target.spoil = spoil
    await lived(source)
    before = await shown(source)
    with pytest.raises(Conflict, match=says):
        await moved(source, target)
    assert await living(source, target) == [0]
    assert await shown(source) == before
    target.spoil = lambda events: events
    await moved(source, target)
    assert await living(source, target) == [1]
    assert await shown(target) == before


class Misreading(MemoryStore):
    """Has the events and shows something else: a mailbox, a task."""

    wrong = ""

    async def mailbox(self, team: str, agent: str, **options: Any) -> Any:
        box = await super().mailbox(team, agent, **options)
        if self.wrong == "mail" and agent == "ann":
            return type(box)(box.entries[:-1])
        return type(box)(box.entries[::-1]) if self.wrong == "order" and agent == "ann" else box

    async def read(self, team: str) -> Any:
        state = await super().read(team)
        if self.wrong == "state":
            cast("dict[str, object]", state.tasks).pop("2")
        return state


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("mail", "the mail of 'ann' differs"),
        ("order", "the mail of 'ann' is in a different order"),
        ("state", "members, tasks, requests or notes"),
    ],
)
async def test_what_the_target_shows_is_compared_not_only_its_log(wrong: str, says: str) -> None:
    source, target = MemoryStore(), Misreading()
    target.wrong = wrong
    await lived(source)
    with pytest.raises(Conflict, match=says):
        await moved(source, target)
    assert (await living(source, target), await target.teams()) == ([0], [])


async def test_a_team_that_another_program_writes_to_meanwhile_is_not_moved() -> None:
    class Written(MemoryStore):
        async def restore(self, team: str, events: Sequence[Event]) -> None:
            await super().restore(team, events)
            await put(source, Deliver("ann", message("late")))

    source, target = MemoryStore(), Written()
    await lived(source)
    with pytest.raises(Conflict, match="events"):
        await moved(source, target)
    assert await living(source, target) == [0]
    assert (await source.mailbox("alpha", "ann")).entries[-1].id == "late"


async def test_what_was_written_to_a_closed_copy_is_not_deleted_with_it() -> None:
    source, target = MemoryStore(), MemoryStore()
    await lived(source)
    await moved(source, target, keep=True)
    await put(source, Deliver("ann", message("late")))
    with pytest.raises(Conflict, match="1 events"):
        await moved(source, target)
    assert await source.teams() == ["alpha"]
    assert await living(source, target) == [1]


async def test_an_old_copy_that_lives_is_never_taken_for_the_team() -> None:
    """The target was set up from a backup of the time when the team was there."""
    source, target = MemoryStore(), MemoryStore()
    await lived(source)
    await moved(source, target)
    backup = await target.events("alpha")
    await moved(target, source, to=HERE)
    await target.restore("alpha", backup)
    with pytest.raises(Conflict, match="already has a team 'alpha'"):
        await moved(source, target)
    assert await source.teams() == ["alpha"]
    assert await living(source) == [0]


async def test_a_move_that_failed_leaves_the_team_at_work() -> None:
    """Whatever fails before the copy lives; the target may then be gone for good."""
    source, target = MemoryStore(), MemoryStore()
    await lived(source)

    class Refusing(MemoryStore):
        async def restore(self, team: str, events: Sequence[Event]) -> None:
            raise unavailable()

    with pytest.raises(BullpenError, match="wire"):
        await moved(source, Refusing())
    await Team(source, "alpha").tasks.add("Go on", by=LEAD)
    await moved(source, target)
    assert await living(source, target) == [1]


async def test_while_the_target_cannot_be_asked_the_team_stays_closed() -> None:
    """It may live there: better nowhere for a while than in two places."""

    class Vanishing(MemoryStore):
        gone = False

        async def restore(self, team: str, events: Sequence[Event]) -> None:
            await super().restore(team, events)
            self.gone = True
            raise unavailable()

        async def config(self, team: str) -> Any:
            if self.gone:
                raise unavailable()
            return await super().config(team)

    source, target = MemoryStore(), Vanishing()
    await lived(source)
    with pytest.raises(BullpenError, match="wire"):
        await moved(source, target)
    assert await living(source) == []
    with pytest.raises(Refused, match=f"bullpen team move alpha --to {THERE}"):
        await Team(source, "alpha").tasks.add("Go on", by=LEAD)


async def test_of_many_moves_at_once_one_team_comes_out() -> None:
    for _ in range(5):
        source, target = MemoryStore(), MemoryStore()
        await lived(source)
        before = await shown(source)
        outcomes: list[str] = []

        async def try_it(
            here: Store = source, there: Store = target, found: list[str] = outcomes
        ) -> None:
            try:
                await moved(here, there)
                found.append("moved")
            except BullpenError as error:
                found.append(str(error))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(try_it)
        assert len(await living(source, target)) <= 1
        await moved(source, target)
        assert await living(source, target) == [1]
        assert await shown(target) == before


class _Pausing:
    """A store whose second commit waits until it may go on."""

    def __init__(self, store: Store) -> None:
        self._store, self._commits = store, 0
        self.waits, self.go_on = anyio.Event(), anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, *args: Any, **options: Any) -> Any:
        self._commits += 1
        if self._commits == 2:
            self.waits.set()
            await self.go_on.wait()
        return await self._store.commit(*args, **options)


async def test_a_move_that_was_overtaken_does_no_harm_to_the_team_that_arrived() -> None:
    """It stands just before it replaces what looked like the remains of a dead attempt."""
    source, target = MemoryStore(), MemoryStore()
    await lived(source)

    class Dying(MemoryStore):
        async def restore(self, team: str, events: Sequence[Event]) -> None:
            await target.restore(team, events)
            raise Died

    with pytest.raises(Died):
        await moved(source, Dying())
    slow = _Pausing(source)
    async with anyio.create_task_group() as group:

        async def late() -> None:
            with pytest.raises(Conflict, match="took over"):
                await moved(cast("Store", slow), target)

        group.start_soon(late)
        await slow.waits.wait()
        await moved(source, target, keep=True)
        await put(target, PutTask(task("9")))
        slow.go_on.set()
    assert await living(source, target) == [1]
    assert "9" in (await target.read("alpha")).tasks


async def test_the_teams_of_a_store_are_moved_by_name() -> None:
    source, target = MemoryStore(), MemoryStore()
    await lived(source)
    async with Teams(source) as teams:
        answer = await teams.move("alpha", target, to=THERE, by=LEAD)
    assert answer.to == THERE
    assert {agent: len(box) for agent, box in (await boxes(target, "alpha")).items()}.keys() == set(
        AGENTS
    )
