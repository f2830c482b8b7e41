"""R-6.2: one ordered log, and replaying it gives the state that was live, at every event of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.names import LEAD
from bullpen.protocol.record import Wire
from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.view.follow import TeamFollower
from bullpen.view.scene import Scene, scene_of
from bullpen.view.story import Span, story_of

from .view_teams import NAMES, Fate

STEPS = 120


async def made(store: Store) -> Team:
    teams = Teams(store)
    await teams.create("alpha", cwd="/")
    for name in NAMES[:2]:
        await teams.open("alpha").roster.join(name, by=LEAD)
    return teams.open("alpha")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["memory", "files"])
async def test_a_replay_up_to_any_event_is_the_team_as_it_was_then(
    kind: str, seed: int, tmp_path: Path
) -> None:
    store: Store = MemoryStore() if kind == "memory" else FileStore(tmp_path, fsync=False)
    team = await made(store)
    following, fate = TeamFollower(team), Fate(team, seed)
    live: dict[int, Scene] = {}
    for _ in range(STEPS):
        await fate.strike()
        looked = await following.look()
        story = following.story
        # What following has put together bit by bit is what the store holds.
        now = await store.read("alpha")
        assert story.seq == now.seq
        assert {each: _stated(task) for each, task in story.tasks.items()} == {
            each: _stated(task) for each, task in now.tasks.items()
        }
        assert [_stated(member) for member in story.members.values()] == [
            _stated(member) for member in now.team.roster
        ]
        assert {each: _stated(request) for each, request in story.requests.items()} == {
            each: _stated(request) for each, request in now.requests.items()
        }
        for member in now.team.roster:
            mailbox = await team.mailbox.read(member.name)
            assert story.unread(member.name) == len(mailbox.unread)
        live[story.seq] = scene_of(story, now_ms=0)
        # Cards are kept from look to look, and are as good as new ones.
        assert looked.tasks == live[story.seq].tasks
        assert [card.tasks for card in looked.members] == [
            card.tasks for card in live[story.seq].members
        ]
    events = await team.events()
    assert len(live) > STEPS / 4
    for seq, scene in live.items():
        assert scene_of(story_of(events[:seq]), now_ms=0) == scene
    told, followed = story_of(events), following.story
    assert (told.said, told.told, told.spans, told.spending, told.moved_ms) == (
        followed.said,
        followed.told,
        followed.spans,
        followed.spending,
        followed.moved_ms,
    )
    for spans in told.spans.values():
        _follow_each_other(spans)
    await store.aclose()


def _stated(record: Wire) -> dict[str, Any]:
    return {key: value for key, value in record.raw.items() if value is not None}


def _follow_each_other(spans: list[Span]) -> None:
    for before, after in pairwise(spans):
        assert before.to_ms is not None
        assert before.from_ms <= before.to_ms <= after.from_ms
        assert before.state != after.state or before.to_ms < after.from_ms


async def test_mail_that_was_given_to_a_model_is_unread_until_the_model_has_seen_it() -> None:
    team = await made(MemoryStore())
    sent = await team.mailbox.send("ann", "Hello", sender=LEAD)
    unread = []
    for how in ("injected", "seen"):
        await team.mailbox.mark("ann", [sent.id], how)
        unread.append(story_of(await team.events()).unread("ann"))
    assert unread == [1, 0]


async def test_a_log_with_a_hole_is_no_story() -> None:
    team = await made(MemoryStore())
    events = await team.events()
    with pytest.raises(ValueError, match="cannot follow"):
        story_of(events[1:])
