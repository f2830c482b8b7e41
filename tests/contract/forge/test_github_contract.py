"""The client of GitHub keeps the contract, on a stand-in that judges every request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bullpen.runs.forge.clients.github import GitHub
from bullpen.testing.forge.contract import ForgeContract
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from bullpen.testing.forge.pull_promises import known, opened
from bullpen.testing.forge.verdict_promises import VerdictPromises


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path_factory.mktemp("github")) as server:
        yield server


class TestGitHubStatuses(VerdictPromises):
    """Verdicts that are commit statuses, as CI outside of GitHub leaves them."""

    @pytest.fixture
    async def stage(self, server: GitHubStandIn, tmp_path: Path) -> AsyncIterator[GitHubStage]:
        stage = GitHubStage(server, tmp_path, by_status=True)
        yield stage
        await stage.aclose()
        assert server.violations == []

    @pytest.fixture
    def client(self, stage: GitHubStage) -> GitHub:
        return stage.client()


class TestGitHub(ForgeContract):
    @pytest.fixture
    async def stage(self, server: GitHubStandIn, tmp_path: Path) -> AsyncIterator[GitHubStage]:
        stage = GitHubStage(server, tmp_path)
        server.violations.clear()
        yield stage
        await stage.aclose()
        assert server.violations == []

    async def test_what_its_rules_do_not_let_be_merged_is_blocked_also_for_an_admin(
        self, client: GitHub, stage: GitHubStage
    ) -> None:
        await stage.protect("main")
        stage.state.ignores_rules = True
        made, other = await opened(client, stage), await opened(client, stage, "other")
        assert (await known(client, made.number)).blocked
        await stage.review(made.number, "approved")
        assert not (await client.pull(made.number)).blocked
        # The forge refuses an admin nothing: whoever merges has to look.
        assert (await known(client, other.number)).blocked
        await client.merge_pull(other.number, head=other.head, method="merge")
