"""Promises about reviews that are posted."""

from __future__ import annotations

import pytest

from bullpen.errors import Conflict, NotFound
from bullpen.runs.forge.contract import ForgeClient, LinesRefused
from bullpen.team.forge.shown import LineRemark
from bullpen.testing.forge.pull_promises import eventually, opened
from bullpen.testing.forge.review_promises import note
from bullpen.testing.forge.stage import ForgeStage

MARK = "<!-- bullpen:review/1/review/1:0123456789abcdef0123456789abcdef -->"


class PostingPromises:
    """Every promise about posting a review. A subclass has the fixtures `stage` and `client`."""

    async def test_a_posted_review_only_comments_and_has_its_lines(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        remarks = [LineRemark("change.txt", 2, f"two\n\n{MARK}"), LineRemark("change.txt", 7, "x")]
        body = f"Some **words** with Ümläute.\n\n{MARK}"
        posted = await client.post_review(
            made.number, commit=made.head, body=body, comments=remarks
        )
        assert (posted.state, posted.commit, posted.body) == ("commented", made.head, body)
        assert (posted.author.login, posted.url[:4]) == (stage.login("team"), "http")
        (shown,) = await client.reviews(made.number)
        assert shown == posted
        found = await client.threads(made.number)
        assert [(each.path, each.line) for each in found] == [("change.txt", 2), ("change.txt", 7)]
        assert [each.comments[0].body for each in found] == [each.body for each in remarks]

    async def test_a_review_without_lines_is_posted(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        posted = await client.post_review(made.number, commit=made.head, body="words")
        assert [each.id for each in await client.reviews(made.number)] == [posted.id]
        assert await client.threads(made.number) == []

    async def test_a_review_of_an_earlier_commit_is_of_that_commit(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        head = await stage.push("change", {"b.txt": "b"}, base="change")
        await eventually(lambda: client.pull(made.number), lambda one: one.head == head)
        remark = LineRemark("change.txt", 3, "old")
        await client.post_review(made.number, commit=made.head, body="x", comments=[remark])
        (shown,) = await client.reviews(made.number)
        assert shown.commit == made.head

    async def test_a_line_that_is_not_shown_is_refused_and_nothing_is_posted(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        if not stage.abilities.refuses_lines:
            pytest.skip("this forge takes comments on any line")
        made = await opened(client, stage)
        for remark in (LineRemark("README.md", 1, "x"), LineRemark("change.txt", 999, "x")):
            with pytest.raises(LinesRefused):
                await client.post_review(
                    made.number, commit=made.head, body="words", comments=[remark]
                )
        assert await client.reviews(made.number) == []
        assert await client.threads(made.number) == []

    async def test_an_unsubmitted_review_of_the_account_is_not_submitted_with_it(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "pending", notes=[note("not yet")], role="team")
        remark = LineRemark("change.txt", 2, "mine")
        with pytest.raises(Conflict) as refused:
            await client.post_review(made.number, commit=made.head, body="words", comments=[remark])
        assert "discard" in refused.value.remedy
        assert await client.reviews(made.number) == []
        assert await client.threads(made.number) == []

    async def test_another_ones_unsubmitted_review_is_no_obstacle(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "pending", notes=[note("not yet")])
        await client.post_review(made.number, commit=made.head, body="words")
        assert [each.body for each in await client.reviews(made.number)] == ["words"]

    async def test_a_pull_request_that_does_not_exist_gets_no_review(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("no pull request")
        for missing in (number, 404_404):
            with pytest.raises(NotFound):
                await client.post_review(missing, commit="0" * 40, body="words")
