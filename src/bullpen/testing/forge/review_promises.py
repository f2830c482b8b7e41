"""Promises about reviews and threads on lines."""

from __future__ import annotations

import pytest

from bullpen.errors import NotFound, Refused
from bullpen.runs.forge.contract import ForgeClient
from bullpen.team.forge.shown import ReviewState
from bullpen.testing.forge.issue_promises import MANY
from bullpen.testing.forge.pull_promises import eventually, opened
from bullpen.testing.forge.stage import ForgeStage, LineNote


def note(text: str, line: int = 1) -> LineNote:
    """Return a comment on a line of the file that `opened` adds."""
    return LineNote("change.txt", line, text)


class ReviewPromises:
    """Every promise about reviews. A subclass has the fixtures `stage` and `client`."""

    @pytest.mark.parametrize("state", ["approved", "changes_requested", "commented", "dismissed"])
    async def test_a_review_is_shown_with_the_commit_that_it_judged(
        self, client: ForgeClient, stage: ForgeStage, state: ReviewState
    ) -> None:
        made = await opened(client, stage)
        assert await client.reviews(made.number) == []
        await stage.review(made.number, state, "my words")
        head = await stage.push("change", {"b.txt": "b"}, base="change")
        await eventually(lambda: client.pull(made.number), lambda one: one.head == head)
        (shown,) = await client.reviews(made.number)
        assert (shown.state, shown.commit, shown.body) == (state, made.head, "my words")
        assert (shown.author.login, shown.author.trusted) == (stage.login("reviewer"), True)
        assert shown.id
        assert shown.at
        assert shown.url.startswith("http")

    async def test_reviews_are_returned_oldest_first(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "changes_requested", "no")
        await stage.review(made.number, "commented", "hm", role="stranger")
        await stage.review(made.number, "approved", "yes")
        found = await client.reviews(made.number)
        assert [each.body for each in found] == ["no", "hm", "yes"]
        assert [each.author.trusted for each in found] == [True, False, True]

    async def test_reviews_of_all_pages_are_returned(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        bodies = [f"review {each}" for each in range(MANY)]
        for body in bodies:
            await stage.review(made.number, "commented", body)
        assert [each.body for each in await client.reviews(made.number)] == bodies

    async def test_what_is_not_submitted_is_not_shown(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "pending", "not yet", notes=[note("not yet either")])
        assert await client.reviews(made.number) == []
        assert await client.threads(made.number) == []

    async def test_our_own_unsubmitted_review_is_not_shown_either(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "pending", notes=[note("not yet")], role="team")
        assert await client.reviews(made.number) == []
        assert await client.threads(made.number) == []

    # Threads

    async def test_threads_of_all_pages_are_returned_oldest_first(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        assert await client.threads(made.number) == []
        notes = [note(f"note {each}", 1 + each % 9) for each in range(MANY)]
        for one in notes:
            await stage.review(made.number, "commented", notes=[one])
        found = await client.threads(made.number)
        # A forge may take comments on one line for one thread.
        assert sorted(one.body for each in found for one in each.comments) == sorted(
            one.body for one in notes
        )
        assert {each.line for each in found} == set(range(1, 10))
        firsts = [int(each.comments[0].body.removeprefix("note ")) for each in found]
        assert firsts == sorted(firsts)
        assert {each.path for each in found} == {"change.txt"}
        assert not any(each.resolved for each in found)

    async def test_one_review_begins_several_threads(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(
            made.number, "changes_requested", "see below", notes=[note("one", 2), note("two", 7)]
        )
        found = await client.threads(made.number)
        shown = [(each.path, each.line, [one.body for one in each.comments]) for each in found]
        assert shown == [("change.txt", 2, ["one"]), ("change.txt", 7, ["two"])]
        (review,) = await client.reviews(made.number)
        assert (review.body, review.state) == ("see below", "changes_requested")

    async def test_a_thread_has_all_its_comments(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "commented", notes=[note("begin", 3)])
        answers = [f"answer {each}" for each in range(MANY)]
        await stage.answer(made.number, "begin", *answers, role="stranger")
        (thread,) = await client.threads(made.number)
        assert [each.body for each in thread.comments] == ["begin", *answers]
        people = [each.author for each in thread.comments]
        assert (people[0].login, people[0].trusted) == (stage.login("reviewer"), True)
        assert {(each.login, each.trusted) for each in people[1:]} == {
            (stage.login("stranger"), False)
        }
        assert len({each.id for each in thread.comments}) == MANY + 1
        assert all(each.url.startswith("http") and each.at for each in thread.comments)

    async def test_an_answer_is_in_its_thread(self, client: ForgeClient, stage: ForgeStage) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "commented", notes=[note("one", 2), note("two", 7)])
        first, second = await client.threads(made.number)
        text = "Done. <!-- bullpen:shop/1/reply/1:MAC -->"
        written = await client.reply(made.number, second, text)
        assert (written.body, written.author.login) == (text, stage.login("team"))
        found = await client.threads(made.number)
        assert [[each.body for each in one.comments] for one in found] == [["one"], ["two", text]]
        assert found[0] == first
        assert found[1].comments[1].id == written.id
        assert (found[1].id, found[1].resolved) == (second.id, False)

    async def test_comments_in_threads_are_not_among_the_others(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.comment(made.number, "whole")
        await stage.review(made.number, "commented", "summary", notes=[note("line")])
        assert [each.body for each in await client.comments(made.number)] == ["whole"]

    async def test_a_thread_survives_a_new_head(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "commented", notes=[note("old", 5)])
        head = await stage.push("change", {"change.txt": "all is new\n"}, base="change")
        await eventually(lambda: client.pull(made.number), lambda one: one.head == head)
        (thread,) = await client.threads(made.number)
        assert (thread.path, [each.body for each in thread.comments]) == ("change.txt", ["old"])
        await client.reply(made.number, thread, "still here")
        (thread,) = await client.threads(made.number)
        assert [each.body for each in thread.comments] == ["old", "still here"]

    async def test_a_thread_is_resolved(self, client: ForgeClient, stage: ForgeStage) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "commented", notes=[note("one", 2), note("two", 7)])
        first, second = await client.threads(made.number)
        done = await client.resolve(made.number, first)
        assert done is stage.abilities.resolves_threads
        found = {each.id: each.resolved for each in await client.threads(made.number)}
        assert found == {first.id: done, second.id: False}
        assert await client.resolve(made.number, first) is done

    async def test_a_thread_that_a_person_resolved_is_resolved(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await stage.review(made.number, "commented", notes=[note("one", 2), note("two", 7)])
        assert [each.resolved for each in await client.threads(made.number)] == [False, False]
        await stage.resolve(made.number, "two")
        assert [each.resolved for each in await client.threads(made.number)] == [False, True]

    async def test_a_thread_that_does_not_exist_has_no_answer(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        other = await opened(client, stage, "other")
        await stage.review(made.number, "commented", notes=[note("one")])
        (thread,) = await client.threads(made.number)
        with pytest.raises((NotFound, Refused)):
            await client.reply(99, thread, "nowhere")
        assert await client.threads(other.number) == []
