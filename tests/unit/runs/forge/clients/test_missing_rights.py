"""Which rights of a token are missing, as each forge says it, without any change there."""

from __future__ import annotations

import httpx2
import pytest

from bullpen.runs.forge.clients.gitea import GiteaClient
from bullpen.runs.forge.clients.github import GitHub


def github_of(lacking: str, seen: list[str]) -> GitHub:
    """A GitHub on which a token has all rights but one."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(f"{request.method} {request.url.path}")
        if lacking and lacking in request.url.path:
            return httpx2.Response(
                403,
                json={"message": "Resource not accessible by personal access token"},
                headers={"X-Accepted-GitHub-Permissions": f"{lacking}=write"},
            )
        if "/git/refs/" in request.url.path:
            return httpx2.Response(422, json={"message": "Reference does not exist"})
        return httpx2.Response(404, json={"message": "Not Found"})

    return GitHub("acme", "shop", "s3cret", transport=httpx2.MockTransport(answer))


@pytest.mark.parametrize(("lacking", "named"), [("issues", ["issues=write"]), ("", [])])
async def test_github_says_which_permission_a_fine_grained_token_lacks(
    lacking: str, named: list[str]
) -> None:
    seen: list[str] = []
    client = github_of(lacking, seen)
    assert await client.missing_rights() == named
    await client.aclose()
    assert all(each.endswith(("/0", "/such-branch", "/statuses")) for each in seen)


@pytest.mark.parametrize("lacks", [True, False])
async def test_gitea_says_which_scope_a_token_lacks(lacks: bool) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if lacks and "/issues/" in request.url.path:
            said = (
                "token does not have at least one of required scope(s), required=[write:issue],"
                " token scope=read:issue"
            )
            return httpx2.Response(403, json={"message": said})
        return httpx2.Response(404, json={"message": "not found"})

    client = GiteaClient(
        "https://git.example", "acme", "shop", "s3cret", transport=httpx2.MockTransport(answer)
    )
    assert await client.missing_rights() == (["write:issue"] if lacks else [])
    await client.aclose()
