"""What no row of a table shows: bodies that differ from subjects, replays, tenants, answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from nats.errors import NoRespondersError

from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from bullpen.store.nats.client.orders import answer_order, orders_heard_at, send_order
from support.fleet.auth_stage import (
    DEADLINE_S,
    FOREIGN,
    OWN,
    RIVAL,
    TENANT,
    Stage,
    staged,
    state,
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("auth")) as made:
        yield made


@pytest.mark.parametrize("who", ["guest", "bob", "pane", "machine", "ann", "wall"])
async def test_nobody_makes_a_consumer(stage: Stage, who: str) -> None:
    """Its configuration would name a subject beside the streams that the server delivers to."""
    async with stage.connected(who) as caller, stage.connected("admin") as admin:
        before = await state(admin)
        call = f"$JS.API.CONSUMER.CREATE.TEAM_100.c.{OWN}.log"

        await caller.nc.publish(call, b"{}", reply=caller.nc.new_inbox())

        await caller.refused("publish", call)
        assert await state(admin) == before


async def test_a_bound_host_reads_batches_of_its_team_and_nothing_else_comes(stage: Stage) -> None:
    async with stage.connected("guest") as guest:
        rows = await guest.batch("TEAM_100", {"seq": 1, "next_by_subj": ">", "batch": 500})
        last = await guest.batch("TEAM_100", {"multi_last": [">"]})

    named = {(each.headers or {})["Nats-Subject"] for each in (*rows, *last)}
    assert f"{OWN}.log" in named
    assert {name.split(".")[2] for name in named} == {"alpha"}


async def test_a_rollup_of_everything_by_a_bound_key_leaves_other_teams_alone(
    stage: Stage,
) -> None:
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        await guest.stored("$KV.TEAMS.team.alpha", {"name": "alpha"})
        await guest.stored("q.100.alpha.u.guest.s1")
        before = await state(admin)

        for subject in ("$KV.TEAMS.team.alpha", "$KV.HOSTS.host.guest", "q.100.alpha.u.guest.s1"):
            for kind in ("all", "sub"):
                answer = await guest.ask(subject, b"x", Nats_Rollup=kind)
                assert "error" in json.loads(answer.data), (subject, kind)
        await guest.stored("t.101._42eta_21.u5.log", b"x", Nats_Rollup="all")

        after = await state(admin)
        assert {name: after[name] for name in after if name != "TEAM_101"} == {
            name: before[name] for name in before if name != "TEAM_101"
        }


async def test_an_append_that_was_captured_cannot_be_made_again(stage: Stage) -> None:
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        subject = "t.100.alpha.u7.log"
        first = await guest.stored(subject, b"one", Nats_Expected_Last_Subject_Sequence="0")
        before = await state(admin)

        again = await guest.ask(subject, b"one", Nats_Expected_Last_Subject_Sequence="0")

        assert json.loads(again.data)["error"]["err_code"] == 10071
        assert await state(admin) == before
        await guest.stored(subject, b"two", Nats_Expected_Last_Subject_Sequence=str(first))


async def test_a_message_id_that_was_captured_stores_nothing_again(stage: Stage) -> None:
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        await guest.stored("t.100.alpha.u8.log", b"one", Nats_Msg_Id="m1")
        before = await state(admin)

        again = await guest.ask("t.100.alpha.u8.log", b"forged", Nats_Msg_Id="m1")

        assert json.loads(again.data)["duplicate"] is True
        assert await state(admin) == before


async def test_news_of_its_own_teams_reach_a_bound_host_and_others_do_not(stage: Stage) -> None:
    async with stage.connected("guest") as guest, stage.connected("machine") as machine:
        heard = await guest.nc.subscribe("w.100.alpha.>")
        await guest.nc.flush()

        await machine.stored(f"{FOREIGN}.log", b"secret")
        await machine.stored(f"{OWN}.log", b"for you")

        assert (await heard.next_msg(DEADLINE_S)).data == b"for you"
        assert heard.pending_msgs == 0


async def test_a_key_bound_to_several_teams_is_for_each_of_them(stage: Stage) -> None:
    async with stage.connected("guest") as guest:
        await guest.stored("t.100.alpha.u.log")
        await guest.stored("t.101._42eta_21.u.log")
        heard = await guest.nc.subscribe("w.101._42eta_21.>")
        await guest.nc.flush()
        await guest.stored("t.101._42eta_21.u.log", b"both")

        assert (await heard.next_msg(DEADLINE_S)).data == b"both"


async def test_a_host_answers_what_it_is_asked_and_hears_who_asked(stage: Stage) -> None:
    ends = [
        NatsConnection(Endpoint.parse(stage.url, creds=str(stage.creds(name))))
        for name in ("ann", "machine")
    ]
    ann, machine = ends
    asked = []

    async def answer(message: Any) -> None:
        asked.append(message.subject.split(".")[-2])
        await answer_order(machine, message, b"running")

    try:
        client = await machine.client()
        await client.subscribe(orders_heard_at("machine"), cb=answer)
        await client.flush()

        said = await send_order(ann, "machine", b"status", timeout_s=DEADLINE_S)
    finally:
        for end in ends:
            await end.aclose()

    assert (said, asked) == (b"running", ["ann"])


# Tenants


async def test_a_tenant_hears_nothing_of_another(stage: Stage) -> None:
    async with (
        stage.connected("admin", RIVAL) as rival,
        stage.connected("machine") as machine,
    ):
        heard = await rival.nc.subscribe(">")
        await rival.nc.flush()

        await machine.stored(f"{OWN}.log", b"secret")
        await machine.stored("o.ctl.machine.machine.s", b"secret")
        await machine.nc.flush()
        await rival.nc.publish("mark", b"mine")

        assert (await heard.next_msg(DEADLINE_S)).subject == "mark"


async def test_what_a_tenant_appends_is_in_its_own_streams_only(stage: Stage) -> None:
    async with stage.connected("admin", RIVAL) as rival, stage.connected("admin") as admin:
        before = await state(admin)

        await rival.stored(f"{OWN}.log", b"theirs")
        await rival.stored("$KV.HOSTS.host.machine", b"theirs")
        await rival.stored("start.any.x", b"theirs")
        last = await admin.ask(f"$JS.API.DIRECT.GET.TEAM_100.{OWN}.h.1")

        assert await state(admin) == before
        assert last.data == f"{TENANT} alpha h.1".encode()


async def test_a_tenant_reads_its_own_streams_under_the_same_names(stage: Stage) -> None:
    async with stage.connected("admin", RIVAL) as rival:
        mine = await rival.ask(f"$JS.API.DIRECT.GET.TEAM_00.{FOREIGN}.h.1")
        sequences = await rival.batch("TEAM_00", {"seq": 1, "next_by_subj": "t.>", "batch": 500})

    assert mine.data == f"{RIVAL} gamma h.1".encode()
    assert not [each for each in sequences if each.data.startswith(TENANT.encode())]


async def test_a_tenant_that_purges_and_deletes_harms_itself_only(stage: Stage) -> None:
    async with stage.connected("admin", RIVAL) as rival, stage.connected("admin") as admin:
        before = await state(admin)

        assert (await rival.api("STREAM.PURGE.TEAM_01"))["success"]
        assert (await rival.api("STREAM.DELETE.TEAM_01"))["success"]

        assert await state(admin) == before


async def test_an_administrator_is_not_of_the_system(stage: Stage) -> None:
    async with stage.connected("admin") as admin:
        heard = await admin.nc.subscribe("$SYS.ACCOUNT.>")
        await admin.nc.subscribe("$SYS.SERVER.>")
        for question in ("$SYS.REQ.CLAIMS.LIST", "$SYS.REQ.SERVER.PING"):
            with pytest.raises(NoRespondersError):
                await admin.ask(question)
        async with stage.connected("ann"):
            pass
        await admin.ask("$JS.API.INFO")
        await admin.nc.flush()

        assert heard.pending_msgs == 0


# Answers that go elsewhere


async def test_a_reader_cannot_have_the_server_write_by_naming_where_its_answer_goes(
    stage: Stage,
) -> None:
    async with stage.connected("wall") as wall, stage.connected("admin") as admin:
        heard = await admin.nc.subscribe("wo.>")
        await admin.nc.flush()
        before = await state(admin)

        for target in (
            f"{OWN}.log",
            "$KV.TEAMS.team.alpha",
            "start.any.x",
            "o.ctl.machine.wall.s",
            "wo.ctl.machine.wall.s",
            "$JS.API.STREAM.DELETE.TEAM_01",
        ):
            question = f"$JS.API.DIRECT.GET.TEAM_100.{OWN}.h.1"
            await wall.nc.publish(question, b"", reply=target)
        await wall.ask(question)
        await admin.nc.flush()

        assert await state(admin) == before
        assert heard.pending_msgs == 0
