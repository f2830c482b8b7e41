"""Promises about branches and pull requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import pytest

from bullpen.errors import Conflict, NotFound, Refused
from bullpen.runs.forge.contract import ForgeClient, MergeMethod
from bullpen.team.forge.shown import PullRequest
from bullpen.testing.forge.stage import ForgeStage

WAIT_S = 60.0
"""How long a test waits until a forge has worked something out."""

BRANCHES = ("plain", "bullpen/night/task-1", "a#b", "100%", "größer", "a+b&c=d")

T = TypeVar("T")


async def eventually(read: Callable[[], Awaitable[T]], right: Callable[[T], bool]) -> T:
    """Read until the answer is right; return it."""
    with anyio.fail_after(WAIT_S):
        while not right(found := await read()):  # noqa: ASYNC110
            await anyio.sleep(0.1)
        return found


async def opened(
    client: ForgeClient, stage: ForgeStage, branch: str = "change", base: str = "main"
) -> PullRequest:
    """Return a new pull request with one commit that adds the file `BRANCH.txt`."""
    await stage.push(branch, {f"{branch}.txt": f"{branch}\n" * 9}, base=base)
    return await client.open_pull(
        title=f"Add {branch}", body=f"Text of {branch}", branch=branch, base=base
    )


async def known(client: ForgeClient, number: int) -> PullRequest:
    """Return a pull request when the forge knows whether it can be merged."""
    return await eventually(lambda: client.pull(number), lambda one: one.mergeable is not None)


class PullPromises:
    """Every promise about pull requests. A subclass has the fixtures `stage` and `client`."""

    # Branches

    @pytest.mark.parametrize("branch", BRANCHES)
    async def test_a_branch_is_found_and_deleted(
        self, client: ForgeClient, stage: ForgeStage, branch: str
    ) -> None:
        assert await client.branch_head(branch) is None
        commit = await stage.push(branch, {"a.txt": "a"})
        assert await client.branch_head(branch) == commit
        await client.delete_branch(branch)
        assert await client.branch_head(branch) is None
        await client.delete_branch(branch)

    async def test_a_branch_is_not_taken_for_one_whose_name_goes_on(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        await stage.push("task-10", {"a.txt": "a"})
        await stage.push("night/1", {"b.txt": "b"})
        assert await client.branch_head("task-1") is None
        assert await client.branch_head("night") is None
        await client.delete_branch("task-1")
        assert await client.branch_head("task-10") is not None

    async def test_a_branch_has_its_newest_commit(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        first = await stage.push("change", {"a.txt": "a"})
        assert await client.branch_head("change") == first
        second = await stage.push("change", {"a.txt": "b"}, force=True)
        assert second != first
        assert await client.branch_head("change") == second

    # Opening

    async def test_a_pull_request_is_opened_and_shown(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        head = await stage.push("bullpen/shop/task-1", {"a.txt": "a"})
        text = "Closes #1\n\n<!-- bullpen:shop/1/pull/1:MAC -->\n| a | b |"
        made = await client.open_pull(
            title="Add a & <b>", body=text, branch="bullpen/shop/task-1", base="main"
        )
        shown = await client.pull(made.number)
        for each in (made, shown, *await client.open_pulls()):
            assert (each.number, each.title, each.body) == (made.number, "Add a & <b>", text)
            assert (each.branch, each.head, each.base) == ("bullpen/shop/task-1", head, "main")
            assert (each.is_open, each.merged, each.draft) == (True, False, False)
            assert each.merge_commit is None
            assert each.author.login == stage.login("team")
            assert each.author.trusted
            assert each.url.endswith(f"/{made.number}")
        assert (await known(client, made.number)).mergeable is True

    async def test_a_draft_is_one(self, client: ForgeClient, stage: ForgeStage) -> None:
        await stage.push("change", {"a.txt": "a"})
        made = await client.open_pull(
            title="Later", body="", branch="change", base="main", draft=True
        )
        shown = await client.pull(made.number)
        assert (shown.draft, shown.title) == (True, "Later")

    async def test_a_second_pull_request_of_a_branch_is_a_conflict(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        first = await opened(client, stage)
        with pytest.raises(Conflict):
            await client.open_pull(title="Again", body="", branch="change", base="main")
        assert [each.number for each in await client.pulls_of_branch("change")] == [first.number]

    async def test_a_branch_that_does_not_exist_has_no_pull_request(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        await stage.push("change", {"a.txt": "a"})
        for branch, base in (("missing", "main"), ("change", "missing")):
            with pytest.raises((Refused, NotFound)):
                await client.open_pull(title="No", body="", branch=branch, base=base)
        assert await client.open_pulls() == []

    async def test_an_issue_is_no_pull_request(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        number = await stage.issue("An issue")
        with pytest.raises(NotFound):
            await client.pull(number)

    # Finding

    async def test_the_pull_requests_of_a_branch_are_returned_newest_first(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        assert await client.pulls_of_branch("change") == []
        first = await opened(client, stage)
        await client.close_pull(first.number)
        second = await opened(client, stage, "change-2")
        third = await client.open_pull(title="Again", body="", branch="change", base="main")
        found = await client.pulls_of_branch("change")
        assert [(each.number, each.is_open) for each in found] == [
            (third.number, True),
            (first.number, False),
        ]
        assert [each.number for each in await client.pulls_of_branch("change-2")] == [second.number]

    async def test_open_pull_requests_are_returned_oldest_first_from_all_pages(
        self, stage: ForgeStage
    ) -> None:
        client = stage.client(page_size=2)
        made = [await opened(client, stage, f"change-{each}") for each in range(5)]
        await client.close_pull(made[1].number)
        found = await client.open_pulls()
        assert [each.number for each in found] == [each.number for each in made if each != made[1]]

    async def test_one_that_does_not_exist_is_not_found(self, client: ForgeClient) -> None:
        calls = (
            client.pull(99),
            client.edit_pull(99, title="x"),
            client.close_pull(99),
            client.reviews(99),
            client.threads(99),
            client.merge_pull(99, head="0" * 40, method="merge"),
        )
        for call in calls:
            with pytest.raises(NotFound):
                await call

    # Changing

    async def test_title_and_text_are_changed_one_by_one(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await client.edit_pull(made.number, title="New title")
        shown = await client.pull(made.number)
        assert (shown.title, shown.body) == ("New title", "Text of change")
        await client.edit_pull(made.number, body="")
        shown = await client.pull(made.number)
        assert (shown.title, shown.body) == ("New title", "")

    async def test_a_draft_stays_one_with_a_new_title(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        await stage.push("change", {"a.txt": "a"})
        made = await client.open_pull(title="A", body="", branch="change", base="main", draft=True)
        await client.edit_pull(made.number, title="B")
        shown = await client.pull(made.number)
        assert (shown.title, shown.draft) == ("B", True)

    async def test_a_push_moves_the_head(self, client: ForgeClient, stage: ForgeStage) -> None:
        made = await opened(client, stage)
        head = await stage.push("change", {"b.txt": "b"}, base="change")
        shown = await eventually(lambda: client.pull(made.number), lambda one: one.head == head)
        assert shown.head != made.head

    async def test_closing_it_twice_is_fine(self, client: ForgeClient, stage: ForgeStage) -> None:
        made = await opened(client, stage)
        for _ in range(2):
            await client.close_pull(made.number)
            shown = await client.pull(made.number)
            assert (shown.is_open, shown.merged) == (False, False)
        assert await client.open_pulls() == []

    async def test_a_conflict_is_shown(self, client: ForgeClient, stage: ForgeStage) -> None:
        made = await opened(client, stage)
        await stage.push("main", {"change.txt": "something else\n"})
        shown = await eventually(lambda: client.pull(made.number), lambda x: x.mergeable is False)
        with pytest.raises(Refused) as refused:
            await client.merge_pull(made.number, head=shown.head, method="merge")
        assert refused.value.reason == "forge_refused"
        assert not (await client.pull(made.number)).merged

    # Merging

    @pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
    async def test_a_merge_is_on_the_base(
        self, client: ForgeClient, stage: ForgeStage, method: MergeMethod
    ) -> None:
        made = await opened(client, stage)
        await stage.push("main", {"other.txt": "other"})
        await eventually(lambda: client.pull(made.number), lambda one: one.mergeable is True)
        commit = await client.merge_pull(made.number, head=made.head, method=method)
        assert await client.branch_head("main") == commit
        shown = await client.pull(made.number)
        assert (shown.is_open, shown.merged, shown.merge_commit) == (False, True, commit)
        assert [each.merged for each in await client.pulls_of_branch("change")] == [True]
        assert await client.open_pulls() == []

    async def test_it_is_not_merged_when_its_head_has_moved(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        main = await client.branch_head("main")
        head = await stage.push("change", {"b.txt": "b"}, base="change")
        await eventually(
            lambda: client.pull(made.number), lambda one: (one.head, one.mergeable) == (head, True)
        )
        with pytest.raises(Conflict):
            await client.merge_pull(made.number, head=made.head, method="merge")
        assert await client.branch_head("main") == main
        await client.merge_pull(made.number, head=head, method="merge")

    async def test_it_is_merged_once(self, client: ForgeClient, stage: ForgeStage) -> None:
        made = await opened(client, stage)
        await known(client, made.number)
        commit = await client.merge_pull(made.number, head=made.head, method="merge")
        with pytest.raises((Refused, Conflict)):
            await client.merge_pull(made.number, head=made.head, method="merge")
        assert await client.branch_head("main") == commit

    async def test_one_that_a_person_merged_is_merged(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        assert not (await known(client, made.number)).merged
        await stage.merge(made.number)
        shown = await client.pull(made.number)
        assert (shown.merged, shown.is_open) == (True, False)
        assert shown.merge_commit == await client.branch_head("main")

    async def test_a_closed_one_is_not_merged(self, client: ForgeClient, stage: ForgeStage) -> None:
        made = await opened(client, stage)
        await client.close_pull(made.number)
        with pytest.raises((Refused, Conflict)):
            await client.merge_pull(made.number, head=made.head, method="merge")
        assert not (await client.pull(made.number)).merged

    async def test_a_protected_branch_refuses_a_merge_without_an_approval(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        await stage.protect("main")
        made = await opened(client, stage)
        await known(client, made.number)
        with pytest.raises(Refused) as refused:
            await client.merge_pull(made.number, head=made.head, method="merge")
        assert refused.value.reason == "forge_refused"
        await stage.review(made.number, "approved")
        await client.merge_pull(made.number, head=made.head, method="merge")
        assert (await client.pull(made.number)).merged

    async def test_a_pull_request_of_a_deleted_branch_is_still_shown(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        made = await opened(client, stage)
        await known(client, made.number)
        await client.merge_pull(made.number, head=made.head, method="merge")
        await client.delete_branch("change")
        shown = await client.pull(made.number)
        assert (shown.branch, shown.head, shown.merged) == ("change", made.head, True)
        assert [each.number for each in await client.pulls_of_branch("change")] == [made.number]
