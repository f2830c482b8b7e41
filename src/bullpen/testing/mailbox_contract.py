"""What every store promises about mail: one test for each promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import anyio
import pytest

from bullpen.errors import Invalid, NotFound
from bullpen.protocol.changes import Deliver, MarkMail, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Mailbox, Mark, Store, Stored, StoreLimits
from bullpen.testing.sample_records import message, put, task


def ids(box: Mailbox) -> list[str]:
    return [entry.id for entry in box.entries]


def states(box: Mailbox) -> dict[str, str]:
    return {entry.id: entry.state for entry in box.entries}


async def send(store: Store, *msg_ids: str, to: str = "ann") -> list[Stored]:
    return [
        await store.append("alpha", to, message(msg_id, text=f"Text of {msg_id}"), actor=LEAD)
        for msg_id in msg_ids
    ]


async def see(store: Store, msg_ids: Sequence[str], *, agent: str = "ann") -> int:
    return await store.acknowledge("alpha", agent, msg_ids, "seen", actor=agent)


class MailboxContract:
    """Part of `StoreContract`, which says how to run it."""

    limits: ClassVar[StoreLimits] = StoreLimits(seen_kept=4, message_bytes_max=4096)

    # Appending

    async def test_a_mailbox_that_nobody_wrote_to_is_empty(self, store: Store) -> None:
        assert await store.mailbox("alpha", "ann") == Mailbox(())

    async def test_an_appended_message_is_in_the_mailbox_when_append_returns(
        self, store: Store
    ) -> None:
        await send(store, "m1")
        (entry,) = (await store.mailbox("alpha", "ann")).entries
        assert (entry.id, entry.message.text, entry.state) == ("m1", "Text of m1", "stored")

    async def test_a_message_goes_to_one_mailbox_only(self, store: Store) -> None:
        await send(store, "m1", to="ann")
        assert (await store.mailbox("alpha", "bob")).entries == ()

    async def test_unknown_fields_of_a_message_survive(self, store: Store) -> None:
        sent = message(
            "m1", later={"deep": [1, None, "x"]}, text="half an emoji \ud83d, line\u2028"
        )
        await store.append("alpha", "ann", sent, actor=LEAD)
        (entry,) = (await store.mailbox("alpha", "ann")).entries
        assert entry.message == sent

    async def test_append_makes_one_event_with_the_message(self, store: Store) -> None:
        before = len(await store.events("alpha"))
        stored = await store.append("alpha", "ann", message("m1"), actor="bob")
        (event,) = (await store.events("alpha"))[before:]
        assert (event.seq, event.op, event.actor) == (stored.seq, "message", "bob")
        assert event.changes == (Deliver("ann", message("m1")),)

    async def test_a_message_of_which_the_caller_says_that_it_is_fresh_is_added(
        self, store: Store
    ) -> None:
        await send(store, "m1")
        stored = await store.append("alpha", "ann", message("m2"), actor=LEAD, fresh=True)
        assert (stored.id, stored.ahead, stored.duplicate) == ("m2", 1, False)
        assert ids(await store.mailbox("alpha", "ann")) == ["m1", "m2"]

    async def test_a_repeated_message_is_not_added_again(self, store: Store) -> None:
        await send(store, "m1", "m2")
        seq = (await store.read("alpha")).seq
        (again,) = await send(store, "m1")
        assert (again.id, again.duplicate) == ("m1", True)
        assert ids(await store.mailbox("alpha", "ann")) == ["m1", "m2"]
        assert (await store.read("alpha")).seq == seq

    async def test_the_first_of_two_messages_with_one_id_stays(self, store: Store) -> None:
        await store.append("alpha", "ann", message("m1", text="first"), actor=LEAD)
        await store.append("alpha", "ann", message("m1", text="second"), actor=LEAD)
        (entry,) = (await store.mailbox("alpha", "ann")).entries
        assert entry.message.text == "first"

    async def test_a_message_that_was_seen_is_not_added_again(self, store: Store) -> None:
        await send(store, "m1")
        await see(store, ["m1"])
        (again,) = await send(store, "m1")
        assert again.duplicate
        assert states(await store.mailbox("alpha", "ann")) == {"m1": "seen"}

    async def test_a_message_that_was_archived_is_not_added_again(self, store: Store) -> None:
        sent = await self.fill_archive(store)
        (again,) = await send(store, sent[0])
        assert again.duplicate
        assert ids(await store.mailbox("alpha", "ann", history=True)) == sent

    async def test_one_id_may_go_to_several_mailboxes(self, store: Store) -> None:
        (first,) = await send(store, "m1", to="ann")
        (second,) = await send(store, "m1", to="bob")
        assert not first.duplicate
        assert not second.duplicate
        assert ids(await store.mailbox("alpha", "bob")) == ["m1"]

    async def test_append_says_how_many_unread_messages_are_ahead(self, store: Store) -> None:
        sent = await send(store, "m1", "m2", "m3")
        assert [stored.ahead for stored in sent] == [0, 1, 2]

    async def test_seen_messages_are_not_counted_as_ahead(self, store: Store) -> None:
        await send(store, "m1", "m2", "m3")
        await store.acknowledge("alpha", "ann", ["m2"], "injected", actor="ann")
        await see(store, ["m1"])
        (stored,) = await send(store, "m4")
        assert stored.ahead == 2

    async def test_a_message_without_an_id_is_invalid(self, store: Store) -> None:
        with pytest.raises(Invalid):
            await store.append("alpha", "ann", message(None), actor=LEAD)
        assert (await store.mailbox("alpha", "ann")).entries == ()

    async def test_a_message_that_is_too_long_is_invalid(self, store: Store) -> None:
        text = "x" * (self.limits.message_bytes_max + 1)
        with pytest.raises(Invalid):
            await store.append("alpha", "ann", message("m1", text=text), actor=LEAD)
        assert (await store.mailbox("alpha", "ann")).entries == ()

    async def test_a_delivery_that_is_too_long_refuses_its_whole_commit(self, store: Store) -> None:
        text = "x" * (self.limits.message_bytes_max + 1)
        before = await store.read("alpha")
        with pytest.raises(Invalid):
            await put(store, PutTask(task("1")), Deliver("ann", message("m1", text=text)))
        assert await store.read("alpha") == before
        assert (await store.mailbox("alpha", "ann")).entries == ()

    async def test_concurrent_appends_keep_every_message(self, store: Store) -> None:
        sent = [f"m{n}" for n in range(30)]
        async with anyio.create_task_group() as group:
            for msg_id in sent:
                group.start_soon(send, store, msg_id)
        assert sorted(ids(await store.mailbox("alpha", "ann"))) == sorted(sent)

    async def test_concurrent_appends_of_one_message_add_it_once(self, store: Store) -> None:
        stored: list[Stored] = []

        async def try_it() -> None:
            stored.extend(await send(store, "m1"))

        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(try_it)
        assert sorted(each.duplicate for each in stored) == [False] + 9 * [True]
        assert ids(await store.mailbox("alpha", "ann")) == ["m1"]

    # Reading

    async def test_a_mailbox_is_oldest_first(self, store: Store) -> None:
        sent = ["m3", "m1", "m2"]
        await send(store, *sent)
        assert ids(await store.mailbox("alpha", "ann")) == sent

    async def test_appended_and_delivered_messages_share_one_order(self, store: Store) -> None:
        await send(store, "m1")
        await put(store, Deliver("ann", message("m2")), Deliver("ann", message("m3")))
        await send(store, "m4")
        assert ids(await store.mailbox("alpha", "ann")) == ["m1", "m2", "m3", "m4"]

    async def test_after_leaves_out_what_came_before(self, store: Store) -> None:
        await send(store, "m1", "m2", "m3")
        assert ids(await store.mailbox("alpha", "ann", after="m1")) == ["m2", "m3"]
        assert ids(await store.mailbox("alpha", "ann", after="m3")) == []

    async def test_after_an_archived_message_comes_the_rest_of_the_archive(
        self, store: Store
    ) -> None:
        sent = await self.fill_archive(store)
        assert ids(await store.mailbox("alpha", "ann", after=sent[0])) == sent[1:]

    @pytest.mark.parametrize("history", [False, True])
    async def test_after_an_unknown_message_is_not_found(self, store: Store, history: bool) -> None:
        await send(store, "m1", to="ann")
        await send(store, "m2", to="bob")
        with pytest.raises(NotFound):
            await store.mailbox("alpha", "ann", after="m2", history=history)

    async def test_reading_a_mailbox_changes_nothing(self, store: Store) -> None:
        await send(store, "m1")
        first = await store.mailbox("alpha", "ann")
        seq = (await store.read("alpha")).seq
        assert await store.mailbox("alpha", "ann") == first
        assert (await store.read("alpha")).seq == seq

    # Acknowledging

    async def test_a_message_goes_from_stored_to_injected_to_seen(self, store: Store) -> None:
        await send(store, "m1")
        assert await store.acknowledge("alpha", "ann", ["m1"], "injected", actor="ann") == 1
        assert states(await store.mailbox("alpha", "ann")) == {"m1": "injected"}
        assert await see(store, ["m1"]) == 1
        assert states(await store.mailbox("alpha", "ann")) == {"m1": "seen"}

    async def test_a_state_never_goes_back(self, store: Store) -> None:
        await send(store, "m1")
        await see(store, ["m1"])
        assert await store.acknowledge("alpha", "ann", ["m1"], "injected", actor="ann") == 0
        assert states(await store.mailbox("alpha", "ann")) == {"m1": "seen"}

    async def test_only_seen_messages_are_marked_read(self, store: Store) -> None:
        await send(store, "m1", "m2", "m3")
        await store.acknowledge("alpha", "ann", ["m2"], "injected", actor="ann")
        await see(store, ["m3"])
        box = await store.mailbox("alpha", "ann")
        assert [entry.message.read for entry in box.entries] == [False, False, True]
        assert [entry.id for entry in box.unread] == ["m1", "m2"]

    async def test_marking_a_message_read_changes_nothing_else_of_it(self, store: Store) -> None:
        sent = message("m1", later={"deep": [1]})
        await store.append("alpha", "ann", sent, actor=LEAD)
        await see(store, ["m1"])
        (entry,) = (await store.mailbox("alpha", "ann")).entries
        assert entry.message == sent.evolve(read=True)

    async def test_acknowledge_passes_over_ids_it_does_not_know(self, store: Store) -> None:
        await send(store, "m1")
        assert await see(store, ["other", "m1"]) == 1
        assert await see(store, ["other"]) == 0
        assert await see(store, ["m1"], agent="bob") == 0

    async def test_acknowledging_one_id_twice_in_a_call_counts_once(self, store: Store) -> None:
        await send(store, "m1")
        assert await see(store, ["m1", "m1"]) == 1

    @pytest.mark.parametrize("state", ["injected", "seen"])
    async def test_acknowledge_makes_one_event_of_what_went_forward(
        self, store: Store, state: Mark
    ) -> None:
        await send(store, "m1", "m2", "m3")
        await see(store, ["m1"])
        before = len(await store.events("alpha"))
        await store.acknowledge("alpha", "ann", ["m1", "m2", "other"], state, actor="ann")
        (event,) = (await store.events("alpha"))[before:]
        assert (event.op, event.actor) == (f"mail.{state}", "ann")
        assert event.changes == (MarkMail("ann", ("m2",), state),)

    async def test_acknowledging_nothing_new_makes_no_event(self, store: Store) -> None:
        await send(store, "m1")
        await see(store, ["m1"])
        seq = (await store.read("alpha")).seq
        await see(store, ["m1", "other"])
        assert (await store.read("alpha")).seq == seq

    async def test_concurrent_acknowledgements_count_each_message_once(self, store: Store) -> None:
        sent = [f"m{n}" for n in range(5)]
        await send(store, *sent)
        counts: list[int] = []

        async def try_it() -> None:
            counts.append(await see(store, sent))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(try_it)
        assert sum(counts) == len(sent)

    async def test_the_unread_mail_of_many_is_what_their_mailboxes_hold(self, store: Store) -> None:
        agents = ["ann", "bob", "cyd"]
        await send(store, *(f"m{n}" for n in range(20)))
        await send(store, "b1", "b2", to="bob")
        await see(store, ["b2"], agent="bob")
        await store.acknowledge("alpha", "ann", ["m1", "m2"], "injected", actor="ann")
        for read in range(0, 20, 3):
            await see(store, [f"m{n}" for n in range(read)])
            await send(store, f"later-{read}", "m1")
            boxes = {agent: await store.mailbox("alpha", agent) for agent in agents}
            counts = {agent: len(box.unread) for agent, box in boxes.items()}
            assert await store.unread("alpha", agents) == counts

    async def test_the_unread_mail_of_a_team_that_does_not_exist_is_not_none(
        self, store: Store
    ) -> None:
        with pytest.raises(NotFound):
            await store.unread("beta", ["ann"])

    # The archive

    async def fill_archive(self, store: Store) -> list[str]:
        """Send and see one more message than the mailbox keeps. Returns the ids, oldest first."""
        sent = [f"old{n}" for n in range(2 * self.limits.seen_kept + 1)]
        await send(store, *sent)
        for msg_id in sent:
            await see(store, [msg_id])
        return sent

    async def test_seen_messages_past_the_bound_are_archived_oldest_first(
        self, store: Store
    ) -> None:
        sent = await self.fill_archive(store)
        assert ids(await store.mailbox("alpha", "ann")) == sent[-self.limits.seen_kept :]

    async def test_nothing_is_archived_at_the_bound(self, store: Store) -> None:
        sent = [f"m{n}" for n in range(2 * self.limits.seen_kept)]
        await send(store, *sent)
        await see(store, sent)
        assert ids(await store.mailbox("alpha", "ann")) == sent

    async def test_messages_seen_all_at_once_are_archived_too(self, store: Store) -> None:
        sent = [f"m{n}" for n in range(5 * self.limits.seen_kept)]
        await send(store, *sent)
        await see(store, sent)
        assert ids(await store.mailbox("alpha", "ann")) == sent[-self.limits.seen_kept :]
        assert ids(await store.mailbox("alpha", "ann", history=True)) == sent

    async def test_unread_messages_are_never_archived(self, store: Store) -> None:
        unread = [f"m{n}" for n in range(3 * self.limits.seen_kept)]
        await send(store, *unread)
        await self.fill_archive(store)
        box = await store.mailbox("alpha", "ann")
        assert [entry.id for entry in box.unread] == unread

    async def test_history_shows_the_archive_and_what_came_after(self, store: Store) -> None:
        sent = await self.fill_archive(store)
        await send(store, "new")
        box = await store.mailbox("alpha", "ann", history=True)
        assert ids(box) == [*sent, "new"]
        assert [entry.state for entry in box.entries] == len(sent) * ["seen"] + ["stored"]
        assert [entry.message.read for entry in box.entries] == len(sent) * [True] + [False]
        assert [entry.message.text for entry in box.entries[:2]] == [
            "Text of old0",
            "Text of old1",
        ]

    async def test_history_is_oldest_first_around_an_unread_message(self, store: Store) -> None:
        await send(store, "stuck")
        sent = await self.fill_archive(store)
        box = await store.mailbox("alpha", "ann", history=True)
        assert ids(box) == ["stuck", *sent]
        assert ids(await store.mailbox("alpha", "ann", after=sent[-2])) == sent[-1:]

    async def test_archiving_is_part_of_the_event_that_was_one_too_many(self, store: Store) -> None:
        sent = await self.fill_archive(store)
        events = await store.events("alpha")
        ops = [event.op for event in events]
        assert ops == ["team.create"] + len(sent) * ["message"] + len(sent) * ["mail.seen"]
        old = tuple(sent[: -self.limits.seen_kept])
        last = MarkMail("ann", (sent[-1],), "seen"), MarkMail("ann", old, "archived")
        assert events[-1].changes == last

    async def test_an_archived_message_is_past_acknowledging(self, store: Store) -> None:
        sent = await self.fill_archive(store)
        seq = (await store.read("alpha")).seq
        assert await see(store, sent) == 0
        assert (await store.read("alpha")).seq == seq
