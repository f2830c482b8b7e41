"""Short stories of one issue, each to its end, and what must be on the forge then."""

from __future__ import annotations

from pathlib import Path

from bullpen.errors import NotFound
from bullpen.runs.forge.contract import ForgeClient
from bullpen.testing.forge.stage import ForgeStage, LineNote
from support.forge.killed_story import Site, site_of
from support.forge.killed_worker import Death
from support.git.repositories import git

BRANCH = "bullpen/alpha/task-1"
ISSUE, PULL = 1, 2


async def reviewed(site: Site) -> None:
    """CI is red, a thread and a question wait; then all is well, and the forge merges."""
    stage = site.stage
    assert await stage.issue("Add a cart") == ISSUE
    site.start()
    await site.until(site.is_taken)
    head = await site.hand_in()
    await site.until(site.is_shown)
    # As long as CI runs, nothing goes back: then everything does at once.
    await stage.verdict(head, "test", "pending")
    await stage.review(PULL, "commented", notes=[LineNote("done.txt", 1, "Rename this.")])
    await stage.comment(PULL, f"@{stage.login('team')} which version is this for?")
    await stage.verdict(head, "test", "failure")
    await site.until(site.is_back)
    head = await site.hand_in()
    await site.until(site.is_pushed)
    await stage.verdict(head, "test", "success")
    await site.until(site.is_over)
    site.stop()


async def closed(site: Site) -> None:
    """Somebody closes the issue while its pull request is open."""
    stage = site.stage
    assert await stage.issue("Add a cart") == ISSUE
    site.start()
    await site.until(site.is_taken)
    head = await site.hand_in()
    await site.until(site.is_shown)
    await stage.verdict(head, "test", "pending")
    await stage.close_issue(ISSUE)
    await site.until(site.is_over)
    site.stop()


async def queued(site: Site) -> None:
    """The merge queue of the team merges, which gives the work another commit."""
    assert await site.stage.issue("Add a cart") == ISSUE
    site.start()
    await site.until(site.is_taken)
    head = await site.hand_in()
    await site.until(site.is_shown)
    git(site.clone, "merge", "--quiet", "--no-ff", "-m", "merge", head)
    landed = git(site.clone, "rev-parse", "main")
    record = (await site.team.tasks.get("1")).facts.merge
    assert record is not None
    attempts = {"1": record.attempt}
    await site.team.merges.about_to_land({"1": landed}, attempts, {})
    await site.team.merges.landed(attempts, [], tell=False)
    await site.until(site.is_over)
    site.stop()


async def check(site: Site, story: str) -> None:
    """Everything is there once, and nothing is left to do."""
    client, told = site.stage.client("team"), site.told()
    team = site.stage.login("team")
    task, work = await site.team.tasks.get("1"), await site.work()
    assert all(each.state != "due" for each in work.writes), told
    # A merge that was not recorded is seen, and then nobody wants to make it.
    assert {each.kind for each in work.writes if each.state == "dropped"} <= {"merge"}, told
    assert await client.branch_head(BRANCH) is None
    issue = await client.issue(ISSUE)
    assert not issue.is_open
    (state,) = [each for each in await client.comments(ISSUE) if each.author.login == team]
    label = "bullpen: merged" if story != "closed" else issue.labels[0]
    assert issue.labels == (label,), told
    assert await _numbers(client) == [ISSUE, PULL], "there is one pull request"
    pull = await client.pull(PULL)
    assert not pull.is_open
    answers = [each for each in await client.comments(PULL) if each.author.login == team]
    threads = await client.threads(PULL)
    merged = await client.branch_head("main")
    commits = git(site.clone, "rev-list", "--count", "--merges", merged or "").strip()
    if story == "closed":
        assert (pull.merged, task.facts.given_up is None, commits) == (False, False, "0"), told
        assert (answers, threads) == ([], [])
        return
    assert (task.status, commits) == ("completed", "1"), told
    assert git(site.clone, "rev-parse", "main") == merged, "the target here moved along"
    assert "merged" in state.body
    if story == "queued":
        assert (answers, threads) == ([], [])
        return
    assert pull.merged
    assert git(site.clone, "show", "main:done.txt") == "attempt 2"
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


# The most writes that each makes on any forge, or somewhat more.
WRITES = {"reviewed": 32, "closed": 18, "queued": 20}
STORIES = {"reviewed": reviewed, "closed": closed, "queued": queued}


async def play(
    stage: ForgeStage, folder: Path, story: str, death: Death, **settings: object
) -> Site:
    """Play a story with workers that are killed, and check what is there at its end."""
    url = stage.clone_url.removesuffix(".git")
    merge = "queue" if story == "queued" else "forge"
    site = await site_of(stage, folder, url, death, merge=merge, **settings)
    try:
        await STORIES[story](site)
        await check(site, story)
    finally:
        site.stop()
    assert site.restarts == len(site.writes.kills())
    return site
