"""What wakes somebody, and what does not: pure, on made-up words of servers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bullpen.fleet.servers.alarms import alarms
from bullpen.fleet.servers.cluster_survey import ServerReport, read

TEAM = "TEAM_00"
NAMES = ("n1", "n2", "n3")


def stream(
    *, messages: int, last: int, leader: str | None = "n1", replicas: int = 3, **config: Any
) -> dict[str, Any]:
    """A stream as /jsz tells it."""
    return {
        "name": TEAM,
        "cluster": {"leader": leader} if leader else {},
        "config": {"num_replicas": replicas, "storage": "file", "retention": "limits", **config},
        "state": {"messages": messages, "first_seq": 1, "last_seq": last},
    }


def up(
    name: str,
    *streams: Mapping[str, Any],
    sync: bool = True,
    version: str = "2.15.1",
    meta: str = "n1",
    health: Mapping[str, Any] | None = None,
    size: int = 3,
) -> ServerReport:
    """A server that answers."""
    return read(
        f"http://{name}:8222",
        {"server_name": name, "version": version},
        health or {"status": "ok"},
        {
            "config": {"sync_always": sync},
            "meta_cluster": {"leader": meta, "cluster_size": size},
            "account_details": [{"name": "$G", "stream_detail": list(streams)}],
        },
    )


def three(*pairs: tuple[int, int], **config: Any) -> list[ServerReport]:
    """A round: for each server how many messages its copy holds, and the last sequence."""
    return [
        up(name, stream(messages=messages, last=last, **config))
        for name, (messages, last) in zip(NAMES, pairs, strict=True)
    ]


def kinds(rounds: Sequence[Sequence[ServerReport]]) -> list[str]:
    return [alarm.kind for alarm in alarms(rounds)]


def test_servers_that_are_well_wake_nobody() -> None:
    assert alarms([three((7, 9), (7, 9), (7, 9))] * 3) == []


def test_one_server_without_a_cluster_wakes_nobody() -> None:
    alone = up("n1", stream(messages=3, last=3, replicas=1), meta="", size=1)
    assert alarms([[alone]] * 3) == []


def test_a_server_that_does_not_answer_is_named() -> None:
    down = ServerReport(
        "http://n3:8222", "n3", error="The server at http://n3:8222 did not answer."
    )
    well = three((7, 9), (7, 9), (7, 9))[:2]
    (alarm,) = alarms([[*well, down]] * 3)
    assert alarm.kind == "node_down"
    assert "n3" in alarm.text


def test_a_server_that_syncs_late_is_named() -> None:
    late = [up(name, sync=name != "n2") for name in NAMES]
    (alarm,) = alarms([late] * 3)
    assert (alarm.kind, "n2" in alarm.text) == ("sync", True)
    assert "sync_interval: always" in alarm.remedy


@pytest.mark.parametrize("version", ["2.14.6", "2.9.10-beta.1"])
def test_a_server_that_is_too_old_is_named(version: str) -> None:
    old = [up(name, version=version if name == "n3" else "2.16.0-RC.1") for name in NAMES]
    (alarm,) = alarms([old] * 3)
    assert (alarm.kind, version in alarm.text) == ("node_old", True)


def test_a_server_that_says_it_is_ill_is_quoted() -> None:
    ill = [up("n1"), up("n2"), up("n3", health={"status": "unavailable", "error": "catching up"})]
    (alarm,) = alarms([ill] * 3)
    assert (alarm.kind, "catching up" in alarm.text) == ("node_ill", True)


def test_servers_without_a_leader_among_them() -> None:
    assert kinds([[up(name, meta="") for name in NAMES]] * 3) == ["no_meta_leader"]


def test_servers_of_the_cluster_that_nobody_asked() -> None:
    assert kinds([[up("n1"), up("n2")]] * 3) == ["nodes_unasked"]


def test_a_stream_without_a_leader() -> None:
    assert kinds([three((7, 9), (7, 9), (7, 9), leader=None)] * 3) == ["leaderless"]


def test_a_stream_whose_leader_does_not_say_that_it_leads() -> None:
    """Two still name the third, which is not there any more to lead."""
    rounds = [three((7, 9), (7, 9), (7, 9), leader="n3")[:2]] * 3
    assert "leaderless" in kinds(rounds)


def test_a_stream_with_a_copy_too_few() -> None:
    rounds = [[*three((7, 9), (7, 9), (7, 9))[:2], up("n3")]] * 3
    (alarm,) = alarms(rounds)
    assert (alarm.kind, "2 of 3" in alarm.text) == ("replica_missing", True)


def test_a_copy_too_few_is_explained_by_a_server_that_is_down() -> None:
    down = ServerReport("http://n3:8222", "n3", error="gone")
    assert kinds([[*three((7, 9), (7, 9), (7, 9))[:2], down]] * 3) == ["node_down"]


def test_a_copy_that_does_not_catch_up() -> None:
    (alarm,) = alarms([three((100, 100), (100, 100), (40, 40))] * 3)
    assert (alarm.kind, "n3" in alarm.text, "60" in alarm.text) == ("replica_behind", True, True)


def test_a_copy_that_has_not_yet_dropped_what_others_dropped_is_late_and_not_richer() -> None:
    assert kinds([three((50, 100), (50, 100), (40, 40))] * 3) == ["replica_behind"]


def test_a_copy_that_catches_up_wakes_nobody() -> None:
    rounds = [
        three((100, 100), (100, 100), (40, 40)),
        three((120, 120), (120, 120), (90, 90)),
        three((140, 140), (140, 140), (130, 130)),
    ]
    assert alarms(rounds) == []


def test_a_copy_with_fewer_messages_is_named_with_how_many_it_lost() -> None:
    (alarm,) = alarms([three((30_000, 30_000), (21_273, 30_000), (30_000, 30_000))] * 3)
    assert alarm.kind == "replicas_differ"
    assert "n2" in alarm.text
    assert "8727" in alarm.text


def test_two_copies_that_lost_messages_are_both_named() -> None:
    found = alarms([three((90, 100), (80, 100), (70, 100))] * 3)
    assert [alarm.kind for alarm in found] == ["replicas_differ"] * 2


def test_a_loss_is_found_while_others_write_and_snapshots_replace_messages() -> None:
    for seed in range(200):
        assert kinds(busy(random.Random(seed), lost=2_000)) == ["replicas_differ"], seed


def test_writing_alone_is_never_taken_for_a_loss() -> None:
    for seed in range(500):
        assert alarms(busy(random.Random(seed), lost=0)) == [], seed


def busy(rng: random.Random, *, lost: int) -> list[list[ServerReport]]:
    """A stream that is written to while servers are asked one after another in any order."""
    last, gone = 50_000, 20_000
    rounds = []
    for _ in range(3):
        counts = {}
        for name in rng.sample(NAMES, 3):
            steps = rng.randrange(300)
            last += steps
            gone += sum(rng.random() < 0.98 for _ in range(steps))
            missing = lost if name == "n3" else 0
            counts[name] = (last - gone - missing, last)
        rounds.append(three(*(counts[name] for name in NAMES)))
    return rounds


@pytest.mark.parametrize("config", [{"max_age": 90_000_000_000}, {"retention": "workqueue"}])
def test_messages_that_leave_by_time_or_by_being_taken_are_no_loss(config: dict[str, Any]) -> None:
    assert alarms([three((30, 50), (29, 50), (31, 50), **config)] * 3) == []
