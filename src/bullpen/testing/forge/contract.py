"""What every client of a forge promises: one test for each promise. Subclass it to check a client.

class TestMyForge(ForgeContract):
    @pytest.fixture
    async def stage(self) -> AsyncIterator[ForgeStage]:
        async with my_forge() as stage:
            yield stage

The stage is a repository of its own for each test, on a running forge.
"""

from __future__ import annotations

import pytest

from bullpen.errors import NotFound, Refused
from bullpen.runs.forge.contract import ForgeClient
from bullpen.testing.forge.issue_promises import IssuePromises
from bullpen.testing.forge.posting_promises import PostingPromises
from bullpen.testing.forge.pull_promises import PullPromises
from bullpen.testing.forge.review_promises import ReviewPromises
from bullpen.testing.forge.stage import ForgeStage
from bullpen.testing.forge.verdict_promises import VerdictPromises


class ForgeContract(IssuePromises, PullPromises, ReviewPromises, PostingPromises, VerdictPromises):
    """Every promise of `ForgeClient`. A subclass has a fixture `stage`."""

    @pytest.fixture
    def client(self, stage: ForgeStage) -> ForgeClient:
        """Return a client with the token of the team and pages of 30."""
        return stage.client()

    async def test_it_knows_whose_token_it_has(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        me = await client.me()
        assert (me.login, me.trusted) == (stage.login("team"), True)

    async def test_it_shows_the_repository(self, client: ForgeClient, stage: ForgeStage) -> None:
        shown = await client.repository()
        assert (shown.owner, shown.name) == (stage.owner, stage.name)
        assert (shown.default_branch, shown.may_push) == ("main", True)
        assert shown.url.startswith("http")
        assert shown.clone_url == stage.clone_url

    async def test_a_stranger_may_not_push(self, stage: ForgeStage) -> None:
        stranger = stage.client("stranger")
        assert not (await stranger.repository()).may_push
        assert (await stranger.me()).trusted is False

    async def test_a_repository_that_does_not_exist_is_not_found(self, stage: ForgeStage) -> None:
        missing = stage.client(repository="no-such-repository")
        with pytest.raises(NotFound):
            await missing.repository()
        with pytest.raises(NotFound):
            await missing.issue(1)

    async def test_a_wrong_token_is_refused_and_not_shown(self, stage: ForgeStage) -> None:
        token = "wrong-0123456789abcdef0123456789abcdef01234567"
        client = stage.client(token=token)
        for call in (client.me(), client.comment(1, "x"), client.threads(1)):
            with pytest.raises(Refused) as refused:
                await call
            assert refused.value.reason == "forge_refused"
            assert "token" in refused.value.remedy
            assert token not in str(refused.value)
        assert token not in repr(client)

    async def test_a_right_token_is_in_no_error(self, stage: ForgeStage) -> None:
        client = stage.client("stranger")
        for call in (client.issue(404_404), client.set_labels(404_404, add=("x",))):
            with pytest.raises((NotFound, Refused)) as failed:
                await call
            assert stage.token("stranger") not in f"{failed.value!r} {failed.value}"

    async def test_reading_the_same_again_costs_no_request_of_the_limit(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        if not stage.abilities.counts_requests:
            pytest.skip("this forge does not count requests")
        number = await stage.issue("Read me")
        first = await client.issue(number), await client.comments(number)
        left = client.allowance().left
        assert left is not None
        again = await client.issue(number), await client.comments(number)
        assert again == first
        assert client.allowance().left == left
        await stage.comment(number, "news")
        assert [each.body for each in await client.comments(number)] == ["news"]

    async def test_what_changed_is_read_anew(self, client: ForgeClient, stage: ForgeStage) -> None:
        number = await stage.issue("Read me")
        assert (await client.issue(number)).is_open
        assert (await client.issue(number)).is_open
        await stage.close_issue(number)
        assert not (await client.issue(number)).is_open
