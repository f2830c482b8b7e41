"""Short stories of issues, each to its end, and what must be on the forge then."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import anyio

from bullpen.errors import NotFound
from bullpen.protocol.forge import WriteKind
from bullpen.runs.forge.contract import ForgeClient
from bullpen.testing.forge.stage import ForgeStage, LineNote
from support.forge.killed_story import Case, Site, site_of
from support.forge.killed_worker import TEAM, Death
from support.git.repositories import git


async def reviewed(site: Site) -> None:
    """CI is red, a thread and a question wait; then all is well, and the forge merges."""
    stage, case = site.stage, site.cases["reviewed"]
    await site.until(case.is_taken)
    await site.until(case.is_settled)
    head = await case.hand_in()
    await site.until(case.is_shown)
    await site.until(case.is_settled)
    pull, file = await case.pull(), f"done-{(await case.task()).id}.txt"
    # As long as CI runs, nothing goes back: then everything does at once.
    await stage.verdict(head, "test", "pending")
    await stage.review(pull, "commented", notes=[LineNote(file, 1, "Rename this.")])
    await stage.comment(pull, f"@{stage.login('team')} which version is this for?")
    await stage.verdict(head, "test", "failure")
    await site.until(case.is_back)
    await site.until(case.is_settled)
    head = await case.hand_in()
    await site.until(case.is_pushed)
    await site.until(case.is_settled)
    await stage.verdict(head, "test", "success")
    await site.until(case.is_over)


async def closed(site: Site) -> None:
    """Somebody closes the issue while its pull request is open."""
    stage, case = site.stage, site.cases["closed"]
    await site.until(case.is_taken)
    await site.until(case.is_settled)
    head = await case.hand_in()
    await site.until(case.is_shown)
    await site.until(case.is_settled)
    await stage.verdict(head, "test", "pending")
    await stage.close_issue(case.issue)
    await site.until(case.is_over)


async def queued(site: Site) -> None:
    """The merge queue of the team merges, which gives the work another commit."""
    case = site.cases["queued"]
    await site.until(case.is_taken)
    await site.until(case.is_settled)
    head = await case.hand_in()
    await site.until(case.is_shown)
    await site.until(case.is_settled)
    git(site.clone, "merge", "--quiet", "--no-ff", "-m", "merge", head)
    landed = git(site.clone, "rev-parse", "main")
    task = await case.task()
    assert task.facts.merge is not None
    attempts = {task.id: task.facts.merge.attempt}
    await site.team.merges.about_to_land({task.id: landed}, attempts, {})
    await site.team.merges.landed(attempts, [], tell=False)
    await site.until(case.is_over)


async def one(site: Site) -> None:
    """Only the longest of them."""
    await site.case("reviewed")
    site.start()
    await reviewed(site)


async def whole(site: Site) -> None:
    """All of them at the same time, but for the end: who merges is a setting of the team."""
    for name in ("reviewed", "closed"):
        await site.case(name)
    site.start()
    async with anyio.create_task_group() as group:
        group.start_soon(reviewed, site)
        group.start_soon(closed, site)
    await site.merge_by("queue")
    await site.case("queued")
    await queued(site)


async def check(site: Site) -> None:
    """Everything is there once, and nothing is left to do."""
    client, merges = site.stage.client("team"), 0
    for name, case in site.cases.items():
        await check_case(client, site, case, name)
        merges += name != "closed"
    pulls = [await case.pull() for case in site.cases.values()]
    issues = [case.issue for case in site.cases.values()]
    assert await _numbers(client) == sorted(issues + pulls), "each issue has one pull request"
    main = await client.branch_head("main")
    assert git(site.clone, "rev-parse", "main") == main, "the target here moved along"
    assert git(site.clone, "rev-list", "--count", "--merges", "main") == str(merges)


async def check_case(client: ForgeClient, site: Site, case: Case, name: str) -> None:
    """Everything about one issue is there once."""
    told, team = site.told(), site.stage.login("team")
    task, work, pull = await case.task(), await case.work(), await client.pull(await case.pull())
    assert all(each.state != "due" for each in work.writes), told
    # A merge that was not recorded is seen, and then nobody wants to make it.
    assert {each.kind for each in work.writes if each.state == "dropped"} <= {"merge"}, told
    assert await client.branch_head(f"bullpen/{TEAM}/task-{task.id}") is None
    issue = await client.issue(case.issue)
    assert not issue.is_open
    (state,) = [c for c in await client.comments(case.issue) if c.author.login == team]
    assert not pull.is_open
    answers = [each for each in await client.comments(pull.number) if each.author.login == team]
    threads = await client.threads(pull.number)
    if name == "closed":
        assert (pull.merged, task.facts.given_up is None) == (False, False), told
        assert issue.labels == ("bullpen: given up",), told
    else:
        assert (task.status, issue.labels) == ("completed", ("bullpen: merged",)), told
        assert "merged" in state.body
    if name != "reviewed":
        assert (answers, threads) == ([], [])
        return
    assert pull.merged
    assert git(site.clone, "show", f"main:done-{task.id}.txt") == "attempt 2"
    assert len(answers) == 1, told
    assert "About comment." in answers[0].body
    (thread,) = threads
    assert thread.resolved
    assert [each.author.login == team for each in thread.comments] == [False, True], told
    assert "About thread." in thread.comments[1].body
    assert work.rounds == 1


async def _numbers(client: ForgeClient) -> list[int]:
    """The numbers of all issues and pull requests: each new one has the next."""
    found: list[int] = []
    while True:
        try:
            await client.issue(len(found) + 1)
        except NotFound:
            try:
                await client.pull(len(found) + 1)
            except NotFound:
                return found
        found.append(len(found) + 1)


STORIES = {"one": one, "whole": whole}


async def play(
    stage: ForgeStage, folder: Path, story: str, death: Death | None, **settings: object
) -> Site:
    """Play a story with workers that are killed, and check what is there at its end."""
    url = stage.clone_url.removesuffix(".git")
    site = await site_of(stage, folder, url, death, **settings)
    try:
        await STORIES[story](site)
        site.stop()
        await check(site)
    finally:
        site.stop()
    assert site.restarts == len(site.writes.kills())
    return site


async def play_all_kills(
    stage: ForgeStage, folder: Path, *, after: bool, **settings: object
) -> int:
    """Kill workers at every single write of a story with all kinds; return how many those were."""
    site = await play(stage, folder, "whole", Death("each", after), **settings)
    wished = [write.kind for case in site.cases.values() for write in (await case.work()).writes]
    assert set(wished) == set(get_args(WriteKind))
    assert site.writes.spared(after=after) == [], site.told()
    return len(site.writes.made(after=after))
