"""The client of Gitea on the recorded answers of a real server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bullpen.errors import Unavailable
from bullpen.runs.forge.clients.gitea import GiteaClient
from support.forge.gitea_tour import ADDRESS, RECORDED, Player, tour


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return kept


def client_of(recorded: dict[str, Any], player: Player) -> GiteaClient:
    return GiteaClient(ADDRESS, "acme", recorded["name"], "token", transport=player)


async def test_everything_is_shown_as_the_server_said_it(recorded: dict[str, Any]) -> None:
    player = Player(recorded["answers"])
    client = client_of(recorded, player)
    assert await tour(client, recorded["issue"], recorded["pull"]) == recorded["seen"]
    assert player.left == []


def test_what_was_recorded_is_about_trusted_people_and_strangers(recorded: dict[str, Any]) -> None:
    seen = recorded["seen"]
    assert [each["author"]["trusted"] for each in seen["comments"]] == [True, False]
    assert [each["state"] for each in seen["reviews"]] == [
        # The server dismisses what somebody said before they approved.
        "dismissed",
        "commented",
        "approved",
    ]
    assert [each["resolved"] for each in seen["threads after"]] == [seen["resolved"], False]
    assert [each["body"] for each in seen["threads after"][0]["comments"]] == ["one", "done"]
    assert [(each["name"], each["state"]) for each in seen["verdicts"]] == [
        ("ci / test", "success")
    ]
    assert seen["issue"]["blocked_by"] == [seen["issue"]["number"] - 1]
    assert (seen["after"]["merged"], seen["closed"]["is_open"]) == (True, False)
    assert [seen[name].partition(":")[0] for name in ("no issue", "no comments")] == [
        "NotFound"
    ] * 2
    assert seen["a second pull request"].startswith("Conflict:")
    assert seen["an issue with an open blocker"].startswith("Refused:")
    assert seen["a wrong head"].startswith("Conflict:")


async def test_any_answer_of_another_shape_is_unavailable(recorded: dict[str, Any]) -> None:
    """Each answer in turn is replaced by one of another kind; nothing but our errors comes out."""
    readable = [
        number
        for number, note in enumerate(recorded["answers"])
        if note["status"] in (200, 201) and note["body"]
    ]
    assert len(readable) > 20
    for number in readable:
        answers = [dict(each) for each in recorded["answers"]]
        answers[number]["body"] = '{"surprise": [null]}'
        client = client_of(recorded, Player(answers))
        # An answer that is only checked for its status may say anything.
        if answers[number]["asked"].startswith(("PATCH ", "POST ")) and _is_unread(answers[number]):
            continue
        with pytest.raises(Unavailable):
            await tour(client, recorded["issue"], recorded["pull"])


def _is_unread(note: dict[str, Any]) -> bool:
    path = note["asked"].partition(" ")[2]
    return (
        note["asked"].startswith("PATCH ")
        or path.endswith(("/merge", "/resolve"))
        or (path.endswith("/labels") and "/issues/" in path)
    )
