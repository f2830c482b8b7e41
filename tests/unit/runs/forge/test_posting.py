"""A review is posted once, whatever happens to the forge or to the process that posts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bullpen.errors import Conflict, Refused, Unavailable
from bullpen.protocol.task import Check
from bullpen.runs.forge.contract import LinesRefused, TryLater
from bullpen.runs.forge.place import place_of
from bullpen.runs.forge.token import forge_folder
from bullpen.runs.review.posting import TRIES_MAX, Poster
from bullpen.team.forge.review_bodies import ReviewOf, ReviewText, review_text
from bullpen.team.forge.shown import LineRemark, Review
from bullpen.team.tasks.reviews.verdict import Words
from bullpen.workspace.git.ref_names import component
from bullpen.workspace.merge_queue.lock import only_holder
from support.forge.memory_forge import URL, Killed, MemoryClient, MemoryForge

KEY = b"key of this home"
PLACE = place_of(URL)
CHECK = Check.new(name="review", kind="review", by="codex")
WHICH = ReviewOf("git.example/acme/shop", 7, "a" * 40, CHECK)


def text_of(*lines: LineRemark) -> ReviewText:
    made = review_text(Words("change", "No."), WHICH, KEY, shown={}, clean=lambda text: text)
    return ReviewText(made.body, lines)


WITH = text_of(LineRemark("a.txt", 1, "wrong"))
WITHOUT = text_of()


@dataclass
class Slept:
    seconds: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@dataclass
class Stage:
    forge: MemoryForge
    poster: Poster
    slept: Slept

    async def post(self) -> tuple[str, bool]:
        done = await self.poster.post(WHICH, WITH, WITHOUT)
        return done.url, done.is_new

    @property
    def urls(self) -> list[str]:
        return [each.url for each in self.forge.all_reviews.get(7, [])]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    forge, slept = MemoryForge(), Slept()
    return Stage(forge, Poster(MemoryClient(forge), PLACE, tmp_path / "home", KEY, slept), slept)


async def test_posting_twice_posts_once(stage: Stage) -> None:
    url, is_new = await stage.post()
    assert is_new
    assert await stage.post() == (url, False)
    assert stage.urls == [url]
    assert len(stage.forge.all_threads[7]) == 1


@pytest.mark.parametrize("after", [False, True])
async def test_a_kill_between_the_look_and_the_record_posts_once(stage: Stage, after: bool) -> None:
    stage.forge.kill_at, stage.forge.kill_after = 0, after
    with pytest.raises(Killed):
        await stage.post()
    assert len(stage.urls) == after
    url, is_new = await stage.post()
    assert is_new is not after
    assert stage.urls == [url]


class Unsure(MemoryClient):
    """Its first posts happen, but the answer is lost."""

    lost = 1

    async def post_review(
        self, number: int, *, commit: str, body: str, comments: Sequence[LineRemark] = ()
    ) -> Review:
        made = await super().post_review(number, commit=commit, body=body, comments=comments)
        if self.lost:
            self.lost -= 1
            raise TryLater("The answer was lost.", after_s=7.5)
        return made


async def test_a_post_whose_answer_was_lost_is_found(stage: Stage, tmp_path: Path) -> None:
    poster = Poster(Unsure(stage.forge), PLACE, tmp_path / "home", KEY, stage.slept)
    done = await poster.post(WHICH, WITH, WITHOUT)
    assert (stage.urls, done.is_new, stage.slept.seconds) == ([done.url], False, [7.5])


class Down(MemoryClient):
    """It takes no post."""

    why: Exception = TryLater("git.example failed (502).")

    async def post_review(
        self, number: int, *, commit: str, body: str, comments: Sequence[LineRemark] = ()
    ) -> Review:
        self._forge.writes.append(f"try {len(comments)}")
        raise self.why


async def test_a_forge_that_stays_down_is_told_and_not_asked_for_ever(
    stage: Stage, tmp_path: Path
) -> None:
    poster = Poster(Down(stage.forge), PLACE, tmp_path / "home", KEY, stage.slept)
    with pytest.raises(Unavailable) as failed:
        await poster.post(WHICH, WITH, WITHOUT)
    assert "may not be posted" in failed.value.message
    assert "not posted twice" in failed.value.remedy
    # A forge that fails because of a line gets them all in the text at last.
    assert stage.forge.writes == ["try 1", "try 1", "try 0", "try 0"]
    assert len(stage.slept.seconds) == TRIES_MAX


async def test_a_long_limit_of_requests_is_not_waited_for(stage: Stage, tmp_path: Path) -> None:
    client = Down(stage.forge)
    client.why = TryLater("It limits requests.", after_s=3_600)
    poster = Poster(client, PLACE, tmp_path / "home", KEY, stage.slept)
    with pytest.raises(Unavailable, match="limits requests"):
        await poster.post(WHICH, WITH, WITHOUT)
    assert stage.slept.seconds == []


class Picky(MemoryClient):
    """It takes no comments on lines."""

    async def post_review(
        self, number: int, *, commit: str, body: str, comments: Sequence[LineRemark] = ()
    ) -> Review:
        if comments:
            raise LinesRefused("Line could not be resolved.", reason="forge_refused")
        return await super().post_review(number, commit=commit, body=body)


async def test_lines_that_the_forge_refuses_are_in_the_text(stage: Stage, tmp_path: Path) -> None:
    poster = Poster(Picky(stage.forge), PLACE, tmp_path / "home", KEY, stage.slept)
    done = await poster.post(WHICH, WITH, WITHOUT)
    assert stage.urls == [done.url]
    assert stage.forge.all_reviews[7][0].body == WITHOUT.body
    assert stage.slept.seconds == []


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("api refused (403): Resource not accessible by token", "Pull requests"),
        ("git.example answered 403 to POST", "write:repository"),
        ("api refused (422): commit_id is not part of it", "run the same command again"),
    ],
)
async def test_a_refusal_says_what_to_do(
    stage: Stage, tmp_path: Path, said: str, remedy: str
) -> None:
    client = Down(stage.forge)
    client.why = Refused(said, reason="forge_refused")
    poster = Poster(client, PLACE, tmp_path / "home", KEY, stage.slept)
    with pytest.raises(Refused) as refused:
        await poster.post(WHICH, WITH, WITHOUT)
    assert remedy in refused.value.remedy
    assert said in refused.value.message
    assert refused.value.reason == "forge_refused"
    assert stage.forge.writes == ["try 1"]


async def test_while_another_process_posts_there_nothing_is_posted(
    stage: Stage, tmp_path: Path
) -> None:
    folder = forge_folder(tmp_path / "home")
    folder.mkdir(parents=True)
    lock = folder / f"posting-{component('git.example/acme/shop/7')}.lock"
    with only_holder(lock, lambda holder: holder), pytest.raises(Conflict, match="posts to #7 now"):
        await stage.post()
    assert stage.urls == []
    assert (await stage.post())[1]
