"""What every store promises about commits: one test for each promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import anyio
import pytest

from bullpen.errors import BullpenError, Invalid, Refused
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
)
from bullpen.protocol.names import LEAD
from bullpen.protocol.record.note import Note
from bullpen.store.contract import Committed, Store, View
from bullpen.testing.mailbox_contract import ids, see, send
from bullpen.testing.sample_records import (
    always,
    config,
    member,
    message,
    next_task_id,
    note,
    put,
    request,
    task,
)


class CommitContract:
    """Part of `StoreContract`, which says how to run it."""

    async def test_a_commit_writes_all_its_changes(self, store: Store) -> None:
        await put(
            store,
            PutTask(task("1")),
            PutMember(member("cleo")),
            PutRequest(request("r1")),
            PutTeam({"description": "changed", "createdAt": None}),
            Deliver("ann", message("m1")),
        )
        state = await store.read("alpha")
        assert state.tasks == {"1": task("1")}
        assert [row.name for row in state.team.roster] == [LEAD, "ann", "bob", "cleo"]
        assert state.requests == {"r1": request("r1")}
        assert state.team.header == {"name": "alpha", "description": "changed"}
        assert ids(await store.mailbox("alpha", "ann")) == ["m1"]

    async def test_a_commit_is_one_event(self, store: Store) -> None:
        changes = (PutTask(task("1")), DeleteTask("1"), Deliver("ann", message("m1")))
        committed = await store.commit("alpha", always(*changes), actor="bob", op="task.odd")
        assert committed == Committed(2, changes)
        event = (await store.events("alpha"))[-1]
        assert (event.seq, event.op, event.actor, event.observed) == (2, "task.odd", "bob", False)
        assert event.changes == changes

    async def test_changes_of_one_commit_happen_in_order(self, store: Store) -> None:
        await put(
            store,
            PutTask(task("1")),
            DeleteTask("1"),
            PutTask(task("2", subject="first")),
            PutTask(task("2", subject="second")),
            RemoveMember("ann"),
            PutMember(member("ann", color="red")),
        )
        state = await store.read("alpha")
        assert state.tasks == {"2": task("2", subject="second")}
        assert [row.name for row in state.team.roster] == [LEAD, "bob", "ann"]

    async def test_records_are_replaced_and_removed(self, store: Store) -> None:
        await put(store, PutTask(task("1")), PutTask(task("2")), PutRequest(request("r1")))
        await put(store, PutTask(task("1", status="completed")), DeleteTask("2"))
        await put(store, PutMember(member("ann", color="red")), RemoveMember("bob"))
        await put(store, PutRequest(request("r1", state="denied")), PutRequest(request("r2")))
        await put(store, RemoveRequest("r2"), RemoveRequest("never"))
        state = await store.read("alpha")
        assert state.tasks == {"1": task("1", status="completed")}
        assert state.team.roster == (member(LEAD), member("ann", color="red"))
        assert state.requests == {"r1": request("r1", state="denied")}

    async def test_a_note_has_its_last_version_and_the_log_has_all(self, store: Store) -> None:
        first, second = note("plan", "One\n"), note("plan", "Two ü\n", version=2, later=[None])
        await put(store, PutNote(first), PutNote(note("a", "A\n")))
        await put(store, PutNote(second))
        state = await store.read("alpha")
        assert state.notes == {"plan": second, "a": note("a", "A\n")}
        assert state.problems == ()
        logged = [change for event in await store.events("alpha") for change in event.changes]
        assert [each for each in logged if isinstance(each, PutNote)] == [
            PutNote(first),
            PutNote(note("a", "A\n")),
            PutNote(second),
        ]

    async def test_a_decision_sees_the_notes(self, store: Store) -> None:
        await put(store, PutNote(note("plan")), PutNote(note("gone", "", version=2)))
        seen: list[object] = []

        def look(view: View) -> Sequence[Change]:
            seen[:] = [view.note("plan"), view.note("other"), dict(view.notes())]
            return ()

        await store.commit("alpha", look, actor=LEAD, op="test")
        gone = note("gone", "", version=2)
        assert seen == [note("plan"), None, {"plan": note("plan"), "gone": gone}]

    @pytest.mark.parametrize(
        "bad",
        [note("../plan"), note("Plan"), note("plan", "x" * 70_000), note("plan", "\ud83d")],
        ids=["a path", "a capital letter", "too long", "not Unicode"],
    )
    async def test_a_note_that_could_not_be_a_file_is_refused(
        self, store: Store, bad: Note
    ) -> None:
        with pytest.raises(Invalid):
            await put(store, PutNote(bad))
        assert (await store.read("alpha")).notes == {}

    async def test_the_mailbox_of_a_removed_member_stays(self, store: Store) -> None:
        await send(store, "m1")
        await put(store, RemoveMember("ann"))
        assert ids(await store.mailbox("alpha", "ann")) == ["m1"]

    async def test_unknown_fields_survive_a_commit(self, store: Store) -> None:
        odd = {"later": {"deep": [1, None, "x\ud83d"], "big": 2**60}}
        await put(
            store,
            PutTask(task("1", metadata=odd, **odd)),
            PutMember(member("ann", **odd)),
            PutRequest(request("r1", **odd)),
            PutTeam(odd),
        )
        state = await store.read("alpha")
        assert state.tasks["1"] == task("1", metadata=odd, **odd)
        assert state.team.member("ann") == member("ann", **odd)
        assert state.requests["r1"] == request("r1", **odd)
        assert state.team.header == {**config().header, **odd}

    async def test_tasks_are_read_in_id_order(self, store: Store) -> None:
        await put(store, *(PutTask(task(task_id)) for task_id in ("10", "x", "9", "1")))
        assert list((await store.read("alpha")).tasks) == ["1", "9", "10", "x"]

    async def test_decide_sees_the_latest_commit(self, store: Store) -> None:
        await put(store, PutTask(task("1")), PutRequest(request("r1")), PutMember(member("cleo")))
        await put(store, PutTask(task("1", owner="cleo")))

        def decide(view: View) -> Sequence[Change]:
            assert view.task("1") == task("1", owner="cleo")
            assert view.tasks() == {"1": task("1", owner="cleo")}
            assert view.task("2") is None
            assert view.request("r1") == request("r1")
            assert view.requests() == {"r1": request("r1")}
            assert view.request("r2") is None
            assert view.team.member("cleo") == member("cleo")
            return [PutTask(task("2"))]

        await store.commit("alpha", decide, actor=LEAD, op="test")
        assert list((await store.read("alpha")).tasks) == ["1", "2"]

    async def assert_untouched_by(self, store: Store, *changes: Change) -> None:
        await put(store, PutTask(task("1")), Deliver("ann", message("m1")))
        before = await store.read("alpha"), await store.events("alpha")
        with pytest.raises(BullpenError):
            await put(store, PutTask(task("9")), Deliver("ann", message("m2")), *changes)
        assert (await store.read("alpha"), await store.events("alpha")) == before
        assert ids(await store.mailbox("alpha", "ann")) == ["m1"]
        assert await next_task_id(store) == 2

    @pytest.mark.parametrize("error", [Refused("No.", reason="no"), ZeroDivisionError()])
    async def test_nothing_changes_when_decide_raises(self, store: Store, error: Exception) -> None:
        await put(store, PutTask(task("1")))
        before = await store.read("alpha"), await store.events("alpha")

        def refuse(view: View) -> NoReturn:
            view.tasks()
            raise error

        with pytest.raises(type(error)):
            await store.commit("alpha", refuse, actor=LEAD, op="test")
        assert (await store.read("alpha"), await store.events("alpha")) == before

    async def test_nothing_changes_when_decide_raises_after_its_first_changes(
        self, store: Store
    ) -> None:
        before = await store.read("alpha"), await store.events("alpha")

        def refuse(view: View) -> Sequence[Change]:
            def changes() -> list[Change]:
                built: list[Change] = [PutTask(task("9")), Deliver("ann", message("m2"))]
                raise Refused(f"No to {len(built)} changes.", reason="no")

            return changes()

        with pytest.raises(Refused):
            await store.commit("alpha", refuse, actor=LEAD, op="test")
        assert (await store.read("alpha"), await store.events("alpha")) == before
        assert (await store.mailbox("alpha", "ann")).entries == ()
        assert await next_task_id(store) == 1

    async def test_a_commit_works_after_a_refused_one(self, store: Store) -> None:
        def refuse(view: View) -> NoReturn:
            raise Refused("No.", reason="no")

        with pytest.raises(Refused):
            await store.commit("alpha", refuse, actor=LEAD, op="test")
        assert (await put(store, PutTask(task("1")))).seq == 2

    async def test_one_bad_task_id_refuses_the_whole_commit(self, store: Store) -> None:
        await self.assert_untouched_by(store, PutTask(task("../9")))

    async def test_one_bad_mailbox_refuses_the_whole_commit(self, store: Store) -> None:
        await self.assert_untouched_by(store, Deliver("../ann", message("m3")))

    async def test_one_bad_member_name_refuses_the_whole_commit(self, store: Store) -> None:
        await self.assert_untouched_by(store, PutMember(member("../ann")))

    async def test_a_commit_without_changes_is_no_event(self, store: Store) -> None:
        await put(store, PutTask(task("1")))
        assert await put(store) == Committed(2, ())
        assert len(await store.events("alpha")) == 2

    async def test_messages_are_delivered_with_their_commit(self, store: Store) -> None:
        await put(store, PutTask(task("1", owner="ann")), Deliver("ann", message("m1")))
        event = (await store.events("alpha"))[-1]
        assert event.changes == (PutTask(task("1", owner="ann")), Deliver("ann", message("m1")))
        (entry,) = (await store.mailbox("alpha", "ann")).entries
        assert (entry.message, entry.state) == (message("m1"), "stored")

    async def test_a_delivery_is_not_repeated(self, store: Store) -> None:
        await send(store, "m1")
        await see(store, ["m1"])
        await put(
            store,
            PutTask(task("1")),
            Deliver("ann", message("m1")),
            Deliver("ann", message("m2")),
            Deliver("ann", message("m2")),
        )
        box = await store.mailbox("alpha", "ann")
        assert [(entry.id, entry.state) for entry in box.entries] == [
            ("m1", "seen"),
            ("m2", "stored"),
        ]

    async def test_the_log_of_a_commit_has_only_the_deliveries_that_were_made(
        self, store: Store
    ) -> None:
        await send(store, "m1")
        new = (PutTask(task("1")), Deliver("ann", message("m2")))
        committed = await put(store, Deliver("ann", message("m1")), *new, new[1])
        assert committed == Committed(3, new)
        assert (await store.events("alpha"))[-1].changes == new

    async def test_a_commit_of_repeated_deliveries_is_no_event(self, store: Store) -> None:
        await send(store, "m1")
        assert await put(store, Deliver("ann", message("m1"))) == Committed(2, ())
        assert len(await store.events("alpha")) == 2

    async def test_task_ids_go_up(self, store: Store) -> None:
        assert await next_task_id(store) == 1
        await put(store, PutTask(task("1")), PutTask(task("12")), PutTask(task("x")))
        assert await next_task_id(store) == 13
        await put(store, PutTask(task("3")))
        assert await next_task_id(store) == 13

    async def test_a_task_id_is_never_given_again(self, store: Store) -> None:
        await put(store, PutTask(task("1")), PutTask(task("2")))
        await put(store, DeleteTask("2"))
        assert await next_task_id(store) == 3
        await put(store, DeleteTask("1"))
        assert await next_task_id(store) == 3

    async def test_a_task_that_never_outlived_its_commit_has_used_its_id(
        self, store: Store
    ) -> None:
        await put(store, PutTask(task("5")), DeleteTask("5"))
        assert await next_task_id(store) == 6

    async def test_concurrent_commits_lose_nothing(self, store: Store) -> None:
        await put(store, PutTask(task("1", metadata={"count": 0})))
        seqs: list[int] = []

        def increment(view: View) -> Sequence[Change]:
            old = view.task("1")
            assert old is not None
            count = (old.metadata or {})["count"]
            return [PutTask(old.evolve(metadata={"count": count + 1}))]

        async def try_it() -> None:
            committed = await store.commit("alpha", increment, actor=LEAD, op="test")
            seqs.append(committed.seq)

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(try_it)
        assert (await store.read("alpha")).tasks["1"].metadata == {"count": 50}
        assert sorted(seqs) == list(range(3, 53))

    async def test_a_read_is_of_one_moment(self, store: Store) -> None:
        """Two tasks are always written together, so no reader may see only one change."""
        pair = ("1", "2")
        await put(store, *(PutTask(task(each, subject="0")) for each in pair))

        async def write() -> None:
            for n in range(1, 21):
                await put(store, *(PutTask(task(each, subject=str(n))) for each in pair))

        async def look() -> None:
            for _ in range(20):
                state = await store.read("alpha")
                subjects = {state.tasks[each].subject for each in pair}
                assert subjects == {str(state.seq - 2)}

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            group.start_soon(look)
            group.start_soon(look)
