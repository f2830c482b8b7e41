"""Which rights a token of a real Gitea lacks, as the server says it."""

from __future__ import annotations

from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage


async def test_a_token_with_few_scopes_is_told_which_ones_it_lacks(
    gitea: GiteaServer, stage: GiteaStage
) -> None:
    assert await stage.client("team").missing_rights() == []
    few = gitea.new_token(
        stage.login("team"), name="few", scopes="read:repository,read:issue,read:user"
    )
    client = stage.client("team", token=few)
    assert await client.missing_rights() == ["write:issue", "write:repository"]
