"""What only a real Gitea shows of its client, beyond the contract suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import NotFound, Refused, Unavailable
from bullpen.runs.forge.clients.gitea import GiteaClient
from bullpen.runs.forge.contract import TryLater
from bullpen.testing.forge.pull_promises import eventually, opened
from bullpen.testing.forge.review_promises import note
from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage, Roles, open_stage


async def test_an_administrator_of_the_repository_is_told_who_may_write(
    gitea: GiteaServer, roles: Roles, tmp_path: Path
) -> None:
    async with open_stage(gitea, roles, tmp_path, rights="admin") as stage:
        numbers = [await stage.issue("Please", role=role) for role in ("reviewer", "stranger")]
        client = stage.client()
        authors = [(await client.issue(each)).author for each in numbers]
        assert [each.trusted for each in authors] == [True, False]


async def test_a_thread_in_a_file_that_is_gone_is_answered_and_resolved(stage: GiteaStage) -> None:
    client = stage.client()
    made = await opened(client, stage)
    await stage.review(made.number, "commented", notes=[note("old", 5)])
    head = await stage.push("change", {"other.txt": "all else\n"}, base="main", force=True)
    await eventually(lambda: client.pull(made.number), lambda one: one.head == head)
    (thread,) = await client.threads(made.number)
    await client.reply(made.number, thread, "That file is gone.")
    (thread,) = await client.threads(made.number)
    assert [each.body for each in thread.comments] == ["old", "That file is gone."]
    assert await client.resolve(made.number, thread)
    assert [each.resolved for each in await client.threads(made.number)] == [True]


async def test_people_answer_below_our_answer(stage: GiteaStage) -> None:
    client = stage.client()
    made = await opened(client, stage)
    await stage.review(made.number, "commented", notes=[note("begin", 3)])
    (thread,) = await client.threads(made.number)
    await client.reply(made.number, thread, "ours")
    ours = next(each for each in await stage.notes(made.number) if each["body"].startswith("ours"))
    await stage.answer(made.number, ours["body"], "not yet")
    (thread,) = await client.threads(made.number)
    assert [each.body for each in thread.comments] == ["begin", "ours", "not yet"]


async def test_a_new_complaint_about_a_resolved_line_is_a_new_thread(stage: GiteaStage) -> None:
    client = stage.client()
    made = await opened(client, stage)
    await stage.review(made.number, "commented", notes=[note("first", 3)])
    (thread,) = await client.threads(made.number)
    assert await client.resolve(made.number, thread)
    await stage.review(made.number, "commented", notes=[note("second", 3)])
    found = await client.threads(made.number)
    assert [(each.comments[0].body, each.resolved) for each in found] == [
        ("first", True),
        ("second", False),
    ]


async def test_a_pull_request_that_the_server_still_looks_at_is_merged(stage: GiteaStage) -> None:
    client = stage.client()
    made = await opened(client, stage)
    commit = await client.merge_pull(made.number, head=made.head, method="merge")
    assert await client.branch_head("main") == commit


async def test_an_issue_with_an_open_blocker_is_not_closed(stage: GiteaStage) -> None:
    client = stage.client()
    first, second = [await stage.issue(f"Step {each}") for each in range(2)]
    await stage.block(second, by=first)
    with pytest.raises(Refused):
        await client.close_issue(second)
    assert (await client.issue(second)).is_open


async def test_a_branch_of_a_fork_with_our_name_is_not_ours(
    gitea: GiteaServer, roles: Roles, stage: GiteaStage
) -> None:
    token = roles.tokens["stranger"]
    at = f"/repos/{stage.owner}/{stage.name}"
    gitea.call("POST", f"{at}/forks", {"name": f"fork-{stage.name}"}, token=token)
    fork = f"/repos/{stage.login('stranger')}/fork-{stage.name}"
    file = {"content": "aGVsbG8=", "message": "x", "new_branch": "bullpen/shop/task-1"}
    gitea.call("POST", f"{fork}/contents/evil.txt", file, token=token)
    head = f"{stage.login('stranger')}:bullpen/shop/task-1"
    asked = {"title": "Mine", "head": head, "base": "main"}
    gitea.call("POST", f"{at}/pulls", asked, token=token)
    client = stage.client()
    assert await client.pulls_of_branch("bullpen/shop/task-1") == []
    (shown,) = await client.open_pulls()
    assert (shown.branch, shown.author.trusted) == (head, False)


async def test_a_page_that_is_no_interface_is_unavailable(gitea: GiteaServer) -> None:
    client = GiteaClient(f"{gitea.url}/acme", "acme", "shop", "token")
    try:
        with pytest.raises((NotFound, Unavailable)):
            await client.repository()
    finally:
        await client.aclose()


async def test_a_server_that_is_gone_is_tried_later() -> None:
    client = GiteaClient("http://127.0.0.1:1", "acme", "shop", "token")
    try:
        with pytest.raises(TryLater):
            await client.repository()
    finally:
        await client.aclose()
