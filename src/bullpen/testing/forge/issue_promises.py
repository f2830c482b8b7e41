"""Promises about issues, their comments and labels."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from bullpen.errors import NotFound, Refused
from bullpen.runs.forge.contract import ForgeClient
from bullpen.team.forge.shown import IssueQuery
from bullpen.testing.forge.stage import ForgeStage, Role

MANY = 35
"""More than the client gets on one page."""

ROLES: tuple[Role, ...] = ("team", "reviewer", "stranger")

TEXTS = (
    "plain",
    "two\nlines\n\nand `code`",
    "Grüße, 世界, 🐂",
    "<script>alert(1)</script> <!-- hidden --> & &amp; \\ %s {}",
    "```\nlog\n```\n- [ ] #1",
)


class IssuePromises:
    """Every promise about issues. A subclass has the fixtures `stage` and `client`."""

    # Which issues

    async def test_all_open_issues_are_returned_oldest_first(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        assert await client.issues(IssueQuery()) == []
        numbers = [await stage.issue(f"Issue {each}") for each in range(MANY)]
        await stage.close_issue(numbers[3])
        found = await client.issues(IssueQuery())
        assert [each.number for each in found] == [n for n in numbers if n != numbers[3]]
        assert all(each.is_open for each in found)

    async def test_pull_requests_are_no_issues(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("An issue")
        await stage.push("change", {"a.txt": "a"})
        pull = await client.open_pull(title="A pull", body="", branch="change", base="main")
        assert [each.number for each in await client.issues(IssueQuery())] == [number]
        with pytest.raises(NotFound):
            await client.issue(pull.number)

    async def test_every_label_of_a_query_must_be_there(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        both = await stage.issue("Both", labels=("bullpen", "good first issue"))
        one = await stage.issue("One", labels=("bullpen",))
        await stage.issue("None")
        assert await numbers(client, labels=("bullpen",)) == [both, one]
        assert await numbers(client, labels=("bullpen", "good first issue")) == [both]
        assert await numbers(client, labels=("no such label",)) == []
        assert await numbers(client, labels=("bullpen", "no such label")) == []

    async def test_a_query_names_an_assignee(self, client: ForgeClient, stage: ForgeStage) -> None:
        ours = await stage.issue("Ours", assignee="team")
        await stage.issue("Theirs", assignee="reviewer")
        await stage.issue("Nobody's")
        assert await numbers(client, assignee=stage.login("team")) == [ours]

    async def test_a_query_names_a_milestone_by_its_title(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        late = await stage.issue("Late", milestone="1.0", labels=("bullpen",))
        await stage.issue("Later", milestone="2.0", labels=("bullpen",))
        await stage.issue("Never", labels=("bullpen",))
        assert await numbers(client, milestone="1.0") == [late]
        assert await numbers(client, milestone="1.0", labels=("bullpen",)) == [late]
        assert await numbers(client, milestone="1.0", labels=("other",)) == []
        assert await numbers(client, milestone="9.9") == []

    async def test_a_query_has_words_for_the_search_of_the_forge(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        if not stage.abilities.searches_words:
            pytest.skip("this forge has no search")
        found = await stage.issue("Crash on start", labels=("bullpen",))
        await stage.issue("Crash on stop")
        await stage.issue("Typo", labels=("bullpen",))
        assert await numbers(client, query="crash", labels=("bullpen",)) == [found]

    # One issue

    async def test_an_issue_is_returned_with_everything(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue(
            "Grüße & <b>more</b>",
            "line 1\nline 2",
            labels=("bullpen", "a/b c"),
            assignee="team",
            milestone="1.0",
        )
        for shown in (await client.issue(number), *await client.issues(IssueQuery())):
            assert (shown.number, shown.title, shown.body) == (
                number,
                "Grüße & <b>more</b>",
                "line 1\nline 2",
            )
            assert sorted(shown.labels) == ["a/b c", "bullpen"]
            assert shown.assignees == (stage.login("team"),)
            assert (shown.milestone, shown.is_open) == ("1.0", True)
            assert shown.url.endswith(f"/{number}")
            assert shown.updated

    async def test_an_issue_without_a_text_has_an_empty_one(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        shown = await client.issue(await stage.issue("No text"))
        assert (shown.body, shown.labels, shown.assignees, shown.milestone) == ("", (), (), None)
        assert (shown.blocked_by, shown.children) == ((), ())

    async def test_only_who_may_write_here_is_trusted(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        asked = {role: await stage.issue("Please", role=role) for role in ROLES}
        for role, number in asked.items():
            author = (await client.issue(number)).author
            assert (author.login, author.trusted) == (stage.login(role), role != "stranger")
        listed = await client.issues(IssueQuery())
        assert [each.author.trusted for each in listed] == [True, True, False]

    async def test_a_closed_issue_is_still_shown(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Over")
        await stage.close_issue(number)
        assert not (await client.issue(number)).is_open
        assert await client.issues(IssueQuery()) == []

    async def test_an_issue_that_does_not_exist_is_not_found(self, client: ForgeClient) -> None:
        calls: list[Awaitable[object]] = [
            client.issue(99),
            client.comments(99),
            client.close_issue(99),
            client.comment(99, "x"),
            client.set_labels(99, add=("x",)),
        ]
        for call in calls:
            with pytest.raises(NotFound):
                await call

    async def test_what_blocks_an_issue_is_shown(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        if not stage.abilities.records_blocking:
            pytest.skip("this forge does not record what blocks an issue")
        first, second, third = [await stage.issue(f"Step {each}") for each in range(3)]
        await stage.block(third, by=first)
        await stage.block(third, by=second)
        assert sorted((await client.issue(third)).blocked_by) == [first, second]
        assert (await client.issue(first)).blocked_by == ()

    async def test_the_parts_of_an_issue_are_shown(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        if not stage.abilities.records_children:
            pytest.skip("this forge does not record parts of an issue")
        whole, one, two = [await stage.issue(f"Part {each}") for each in range(3)]
        await stage.add_child(whole, one)
        await stage.add_child(whole, two)
        assert sorted((await client.issue(whole)).children) == [one, two]
        assert (await client.issue(one)).children == ()

    async def test_closing_twice_is_fine(self, client: ForgeClient, stage: ForgeStage) -> None:
        number = await stage.issue("Over")
        for _ in range(2):
            await client.close_issue(number)
            assert not (await client.issue(number)).is_open

    # Comments

    async def test_comments_of_all_pages_are_returned_oldest_first(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Much talk")
        assert await client.comments(number) == []
        bodies = [f"comment {each}" for each in range(MANY)]
        await stage.comment(number, *bodies)
        found = await client.comments(number)
        assert [each.body for each in found] == bodies
        assert len({each.id for each in found}) == MANY

    async def test_a_comment_is_written_as_it_is(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Talk")
        written = [await client.comment(number, text) for text in TEXTS]
        found = await client.comments(number)
        assert [each.body for each in found] == list(TEXTS)
        assert [each.id for each in found] == [each.id for each in written]
        assert found == written
        assert {each.author.login for each in found} == {stage.login("team")}
        assert all(each.url.startswith("http") and each.at for each in found)

    async def test_a_comment_says_who_wrote_it(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Talk")
        for role in ROLES:
            await stage.comment(number, f"by {role}", role=role)
        people = [each.author for each in await client.comments(number)]
        assert [each.login for each in people] == [stage.login(role) for role in ROLES]
        assert [each.trusted for each in people] == [True, True, False]

    async def test_a_comment_is_changed(self, client: ForgeClient, stage: ForgeStage) -> None:
        number = await stage.issue("Talk")
        first = await client.comment(number, "first")
        second = await client.comment(number, "second")
        await client.edit_comment(first.id, "changed")
        found = [(each.id, each.body) for each in await client.comments(number)]
        assert found == [(first.id, "changed"), (second.id, "second")]

    async def test_a_comment_that_does_not_exist_cannot_be_changed(
        self, client: ForgeClient
    ) -> None:
        with pytest.raises(NotFound):
            await client.edit_comment("987654321", "changed")

    async def test_a_stranger_cannot_change_what_others_wrote(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Talk")
        comment = await client.comment(number, "ours")
        with pytest.raises((Refused, NotFound)):
            await stage.client("stranger").edit_comment(comment.id, "theirs")
        assert [each.body for each in await client.comments(number)] == ["ours"]

    # Labels

    async def test_a_label_that_is_missing_is_created(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Labels", labels=("kept",))
        added = ("bullpen: working", "a/b", "größer", "100% + #1?")
        await client.set_labels(number, add=added)
        assert sorted((await client.issue(number)).labels) == sorted(("kept", *added))

    async def test_labels_are_added_and_removed_in_one_call(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Labels", labels=("old", "a/b c", "kept"))
        await client.set_labels(number, add=("new",), remove=("old", "a/b c"))
        assert sorted((await client.issue(number)).labels) == ["kept", "new"]

    async def test_setting_labels_twice_is_fine(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Labels")
        for _ in range(2):
            await client.set_labels(number, add=("new",), remove=("never there",))
            assert (await client.issue(number)).labels == ("new",)
        for _ in range(2):
            await client.set_labels(number, remove=("new",))
            assert (await client.issue(number)).labels == ()
        await client.set_labels(number)

    async def test_a_pull_request_has_labels_and_comments_too(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        await stage.push("change", {"a.txt": "a"})
        pull = await client.open_pull(title="A pull", body="", branch="change", base="main")
        await client.set_labels(pull.number, add=("bullpen",))
        await client.comment(pull.number, "hello")
        assert (await client.pull(pull.number)).labels == ("bullpen",)
        assert [each.body for each in await client.comments(pull.number)] == ["hello"]

    async def test_a_stranger_cannot_set_labels_or_close(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("Ours")
        stranger = stage.client("stranger")
        for call in (stranger.set_labels(number, add=("mine",)), stranger.close_issue(number)):
            with pytest.raises(Refused):
                await call
        shown = await client.issue(number)
        assert (shown.labels, shown.is_open) == ((), True)


async def numbers(
    client: ForgeClient,
    labels: tuple[str, ...] = (),
    assignee: str | None = None,
    milestone: str | None = None,
    query: str | None = None,
) -> list[int]:
    """Return the numbers of the issues that a query names."""
    found = await client.issues(IssueQuery(labels, assignee, milestone, query))
    return [each.number for each in found]
