"""What no row of a table shows: bodies that differ from subjects, replays, tenants, answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from nats.errors import NoRespondersError

from support.fleet.auth_stage import (
    DEADLINE_S,
    FOREIGN,
    OWN,
    RIVAL,
    TENANT,
    Caller,
    Stage,
    staged,
    state,
    until,
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("auth")) as made:
        yield made


def wanted(**filters: Any) -> dict[str, Any]:
    config = {
        "name": "c",
        "deliver_subject": "_INBOX_guest.d",
        "ack_policy": "none",
        "mem_storage": True,
        **filters,
    }
    return {"stream_name": "TEAM_00", "config": config}


@pytest.mark.parametrize(
    "filters",
    [
        {"filter_subject": f"{FOREIGN}.log"},
        {"filter_subject": "t.00.>"},
        {"filter_subjects": [f"{FOREIGN}.log"]},
        {"filter_subjects": [f"{OWN}.log", f"{FOREIGN}.log"]},
        {},
    ],
    ids=str,
)
async def test_a_consumer_whose_body_asks_for_more_than_its_subject_is_refused(
    stage: Stage, filters: dict[str, Any]
) -> None:
    call = f"CONSUMER.CREATE.TEAM_00.c.{OWN}.log"
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        before = await state(admin)

        answer = await guest.api(call, wanted(**filters))

        assert "error" in answer, answer
        assert await state(admin) == before
        made = await guest.api(call, wanted(filter_subject=f"{OWN}.log"))
        assert made["config"]["filter_subject"] == f"{OWN}.log"
        await admin.api("CONSUMER.DELETE.TEAM_00.c")


async def test_a_consumer_for_another_stream_than_the_subject_names_is_refused(
    stage: Stage,
) -> None:
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        before = await state(admin)
        body = {**wanted(filter_subject=f"{OWN}.log"), "stream_name": "KV_TEAMS"}

        answer = await guest.api(f"CONSUMER.CREATE.TEAM_00.c.{OWN}.log", body)

        assert "error" in answer, answer
        assert await state(admin) == before


async def test_a_bound_host_reads_its_team_through_a_consumer_and_nothing_else_comes(
    stage: Stage,
) -> None:
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        heard = await guest.nc.subscribe("_INBOX_guest.all")
        config = {
            "name": "all",
            "filter_subject": "t.00.alpha.>",
            "deliver_subject": "_INBOX_guest.all",
            "ack_policy": "none",
            "flow_control": True,
            "idle_heartbeat": 5_000_000_000,
            "mem_storage": True,
        }
        made = await guest.api(
            "CONSUMER.CREATE.TEAM_00.all.t.00.alpha.>",
            {"stream_name": "TEAM_00", "config": config},
        )
        assert "error" not in made, made

        subjects = [(await heard.next_msg(DEADLINE_S)).subject for _ in range(3)]

        assert sorted(subjects) == [f"{OWN}.h.1", f"{OWN}.log", f"{OWN}.sync"]
        await admin.api("CONSUMER.DELETE.TEAM_00.all")


async def test_an_append_that_was_captured_cannot_be_made_again(stage: Stage) -> None:
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        subject = "t.00.alpha.u7.log"
        first = await guest.stored(subject, b"one", Nats_Expected_Last_Subject_Sequence="0")
        before = await state(admin)

        again = await guest.ask(subject, b"one", Nats_Expected_Last_Subject_Sequence="0")

        assert json.loads(again.data)["error"]["err_code"] == 10071
        assert await state(admin) == before
        await guest.stored(subject, b"two", Nats_Expected_Last_Subject_Sequence=str(first))


async def test_a_message_id_that_was_captured_stores_nothing_again(stage: Stage) -> None:
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        await guest.stored("t.00.alpha.u8.log", b"one", Nats_Msg_Id="m1")
        before = await state(admin)

        again = await guest.ask("t.00.alpha.u8.log", b"forged", Nats_Msg_Id="m1")

        assert json.loads(again.data)["duplicate"] is True
        assert await state(admin) == before


async def test_news_of_its_own_teams_reach_a_bound_host_and_others_do_not(stage: Stage) -> None:
    async with stage.connected("guest") as guest, stage.connected("machine") as machine:
        heard = await guest.nc.subscribe("w.*.alpha.>")
        await guest.nc.flush()

        await machine.stored(f"{FOREIGN}.log", b"secret")
        await machine.stored(f"{OWN}.log", b"for you")

        assert (await heard.next_msg(DEADLINE_S)).data == b"for you"
        assert heard.pending_msgs == 0


async def test_a_key_bound_to_several_teams_is_for_each_of_them(stage: Stage) -> None:
    async with stage.connected("guest") as guest:
        await guest.stored("t.00.alpha.u.log")
        await guest.stored("t.01._42eta_21.u.log")
        heard = await guest.nc.subscribe("w.*._42eta_21.>")
        await guest.nc.flush()
        await guest.stored("t.01._42eta_21.u.log", b"both")

        assert (await heard.next_msg(DEADLINE_S)).data == b"both"


async def test_a_host_answers_what_it_is_asked_and_only_once(stage: Stage) -> None:
    async with stage.connected("ann") as ann, stage.connected("machine") as machine:

        async def answer(message: Any) -> None:
            await message.respond(b"running")
            await message.respond(b"again")

        await machine.nc.subscribe("ctl.machine", cb=answer)
        await machine.nc.flush()

        assert (await ann.ask("ctl.machine", b"status")).data == b"running"
        await until(lambda: any("violation" in each for each in machine.complaints), machine)


# Tenants


async def test_a_tenant_hears_nothing_of_another(stage: Stage) -> None:
    async with (
        stage.connected("admin", RIVAL) as rival,
        stage.connected("machine") as machine,
    ):
        heard = await rival.nc.subscribe(">")
        await rival.nc.flush()

        await machine.stored(f"{OWN}.log", b"secret")
        await machine.nc.publish("ctl.machine", b"secret")
        await machine.nc.flush()
        await rival.nc.publish("mark", b"mine")

        assert (await heard.next_msg(DEADLINE_S)).subject == "mark"


async def test_what_a_tenant_appends_is_in_its_own_streams_only(stage: Stage) -> None:
    async with stage.connected("admin", RIVAL) as rival, stage.connected("admin") as admin:
        before = await state(admin)

        await rival.stored(f"{OWN}.log", b"theirs")
        await rival.stored("$KV.HOSTS.host.machine", b"theirs")
        await rival.stored("spawn.any", b"theirs")
        last = await admin.ask(f"$JS.API.DIRECT.GET.TEAM_00.{OWN}.h.1")

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
        heard = await admin.nc.subscribe("ctl.machine")
        await admin.nc.flush()
        before = await state(admin)

        for target in (
            f"{OWN}.log",
            "$KV.TEAMS.team.alpha",
            "spawn.any",
            "ctl.machine",
            "$JS.API.STREAM.DELETE.TEAM_01",
        ):
            question = f"$JS.API.DIRECT.GET.TEAM_00.{OWN}.h.1"
            await wall.nc.publish(question, b"", reply=target)
        await wall.ask(question)
        await admin.nc.flush()

        assert await state(admin) == before
        assert heard.pending_msgs == 0


async def _answer_put_on(caller: Caller, admin: Caller, target: str) -> bool:
    before: int = (await state(admin))["TEAM_00"][1]
    await caller.nc.publish(f"$JS.API.DIRECT.GET.TEAM_00.{OWN}.h.1", b"", reply=target)
    await caller.ask(f"$JS.API.DIRECT.GET.TEAM_00.{OWN}.h.1")
    after: int = (await state(admin))["TEAM_00"][1]
    return after > before


async def test_known_limit_a_hostile_key_beside_the_streams_can_place_answers_where_it_knows_a_name(
    stage: Stage,
) -> None:
    """The reason why tenants are the border, and why a team's subjects hold an unguessable part.

    If this fails, servers check where answers go: then say so in `roles`, and bind keys firmly.
    """
    async with stage.connected("guest") as guest, stage.connected("admin") as admin:
        assert await _answer_put_on(guest, admin, "t.00.gamma.known-to-the-attacker.log")
