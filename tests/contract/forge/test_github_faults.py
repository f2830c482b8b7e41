"""Limits, failures and oddities of GitHub, on the stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import httpx2
import pytest

from bullpen.errors import NotFound
from bullpen.runs.forge.clients.github import GitHub
from bullpen.runs.forge.contract import TryLater
from bullpen.team.forge.shown import IssueQuery
from bullpen.testing.forge.github.extract import EVENTS
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from bullpen.testing.forge.github.state import PullRow
from bullpen.testing.forge.github.webhooks import Webhooks
from bullpen.testing.forge.pull_promises import opened
from bullpen.testing.forge.stage import LineNote


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path_factory.mktemp("github")) as server:
        yield server


@pytest.fixture
async def stage(server: GitHubStandIn, tmp_path: Path) -> AsyncIterator[GitHubStage]:
    stage = GitHubStage(server, tmp_path)
    server.violations.clear()
    server.seen.clear()
    yield stage
    server.limit("")
    await stage.aclose()
    assert server.violations == []


# Limits


async def test_the_primary_limit_stops_reads_writes_and_graphql(
    stage: GitHubStage, server: GitHubStandIn
) -> None:
    number = await stage.issue("An issue")
    server.limit("primary", 1_800)
    for call in ("read", "write", "graphql"):
        client = stage.client()
        with pytest.raises(TryLater) as limited:
            if call == "read":
                await client.issue(number)
            elif call == "write":
                await client.comment(number, "hello")
            else:
                await client.threads(number)
        assert limited.value.after_s is not None
        assert 1_700 < limited.value.after_s <= 1_801
    server.limit("")
    assert await stage.client().comments(number) == []


@pytest.mark.parametrize(("said", "waits"), [(17, 17), (None, 60)])
async def test_the_secondary_limit_is_waited_out(
    stage: GitHubStage, server: GitHubStandIn, said: int | None, waits: float
) -> None:
    client = stage.client()
    number = await stage.issue("An issue")
    server.limit("secondary", said)
    with pytest.raises(TryLater) as limited:
        await client.comment(number, "hello")
    assert limited.value.after_s == waits
    before = server.count()
    with pytest.raises(TryLater):
        await client.issue(number)
    assert server.count() == before


async def test_looking_at_everything_again_costs_nothing_of_the_limit(stage: GitHubStage) -> None:
    client = stage.client()
    number = await stage.issue("Talk", labels=("bullpen",))
    await stage.comment(number, *(f"comment {each}" for each in range(35)))
    made = await opened(client, stage)
    await stage.verdict(made.head, "test", "success")

    async def look() -> tuple[object, ...]:
        return (
            await client.issues(IssueQuery(labels=("bullpen",))),
            await client.comments(number),
            await client.open_pulls(),
            await client.pull(made.number),
            await client.reviews(made.number),
            await client.verdicts(made.head),
            await client.branch_head("main"),
        )

    first = await look()
    left = client.allowance().left
    assert await look() == first
    assert client.allowance().left == left


async def test_only_labels_that_change_are_written(
    stage: GitHubStage, server: GitHubStandIn
) -> None:
    client = stage.client()
    number = await stage.issue("Labels", labels=("old", "Kept"))
    server.seen.clear()
    for _ in range(2):
        await client.set_labels(number, add=("new", "kept"), remove=("old", "never", "there"))
    assert set((await client.issue(number)).labels) == {"Kept", "new"}
    writes = [each.operation for each in server.seen if each.method != "GET"]
    assert writes == ["issues/create-label", "issues/add-labels", "issues/remove-label"]


async def test_all_open_pull_requests_are_one_request(
    stage: GitHubStage, server: GitHubStandIn
) -> None:
    client = stage.client()
    for each in range(3):
        await opened(client, stage, f"change-{each}")
    before = server.count()
    assert len(await client.open_pulls()) == 3
    assert server.count() - before == 1


# Failures


@pytest.mark.parametrize("status", [500, 502, 503, 0])
async def test_a_read_that_fails_is_tried_later(
    stage: GitHubStage, server: GitHubStandIn, status: int
) -> None:
    client = stage.client()
    number = await stage.issue("An issue")
    server.fail_read(status)
    with pytest.raises(TryLater):
        await client.issue(number)
    assert (await client.issue(number)).number == number


@pytest.mark.parametrize("status", [502, 0])
@pytest.mark.parametrize("after", [False, True])
async def test_a_write_that_fails_may_have_happened(
    stage: GitHubStage, server: GitHubStandIn, after: bool, status: int
) -> None:
    client = stage.client()
    number = await stage.issue("An issue")
    server.fail_write(2, after=after, status=status)
    await client.comment(number, "first")
    with pytest.raises(TryLater):
        await client.comment(number, "second")
    found = [each.body for each in await client.comments(number)]
    assert found == (["first", "second"] if after else ["first"])


@pytest.mark.parametrize("after", [False, True])
async def test_a_thread_that_could_not_be_resolved_may_be(
    stage: GitHubStage, server: GitHubStandIn, after: bool
) -> None:
    client = stage.client()
    made = await opened(client, stage)
    await stage.review(made.number, "commented", notes=[note()])
    (thread,) = await client.threads(made.number)
    server.fail_write(after=after)
    with pytest.raises(TryLater):
        await client.resolve(made.number, thread)
    assert (await client.threads(made.number))[0].resolved is after


async def test_nobody_there_is_tried_later(stage: GitHubStage) -> None:
    token = stage.token("team")
    client = GitHub("octo", "shop", token, api="http://127.0.0.1:1")
    with anyio.fail_after(60), pytest.raises(TryLater) as failed:
        await client.repository()
    assert token not in str(failed.value)
    await client.aclose()


# People and places


async def test_the_token_of_an_app_has_a_name_too(
    stage: GitHubStage, server: GitHubStandIn
) -> None:
    app = server.account("bullpen[bot]", "write", is_app=True)
    me = await stage.client(token=app.token).me()
    assert (me.login, me.trusted) == ("bullpen[bot]", True)


@pytest.mark.parametrize("fork", ["stan/shop", "octo/copy"])
async def test_a_branch_of_a_fork_is_never_taken_for_ours(stage: GitHubStage, fork: str) -> None:
    """Not even if the owner is the same: GitHub then lists it with those of our branch."""
    head = await stage.push("bullpen/shop/task-1", {"a.txt": "a"})
    with stage.server.lock:
        pull = PullRow("bullpen/shop/task-1", "main", head, fork=fork)
        stage.state.add_issue(stage.account("stranger"), "Mine", None, pull)
    client = stage.client()
    assert await client.pulls_of_branch("bullpen/shop/task-1") == []
    (shown,) = await client.open_pulls()
    assert shown.branch == f"{fork.partition('/')[0]}:bullpen/shop/task-1"
    assert not shown.author.trusted


async def test_somebody_who_deleted_the_account_is_a_ghost(stage: GitHubStage) -> None:
    number = await stage.issue("An issue")
    with stage.server.lock:
        stage.state.issues[number].author = None
    author = (await stage.client().issue(number)).author
    assert (author.login, author.trusted) == ("ghost", False)


async def test_what_is_pushed_to_the_base_is_merged(stage: GitHubStage) -> None:
    client = stage.client()
    made = await opened(client, stage)
    head = await stage.push("main", {"b.txt": "b"}, base="change")
    shown = await client.pull(made.number)
    assert (shown.merged, shown.is_open) == (True, False)
    assert await client.branch_head("main") == head


async def test_a_pull_request_whose_branch_is_deleted_is_closed(stage: GitHubStage) -> None:
    client = stage.client()
    made = await opened(client, stage)
    await client.delete_branch("change")
    shown = await client.pull(made.number)
    assert (shown.is_open, shown.merged) == (False, False)


async def test_a_stranger_cannot_push(stage: GitHubStage) -> None:
    with pytest.raises(RuntimeError, match="403"):
        await stage.push("change", {"a.txt": "a"}, role="stranger")
    assert await stage.client().branch_head("change") is None


async def test_a_log_that_is_gone_leaves_the_step(stage: GitHubStage) -> None:
    commit = await stage.push("change", {"a.txt": "a"})
    await stage.verdict(commit, "test", "failure", step="Run pytest", log="boom")
    with stage.server.lock:
        stage.state.checks[-1].log = ""
    (verdict,) = await stage.client().verdicts(commit)
    assert (verdict.step, verdict.tail) == ("Run pytest", None)


async def test_the_log_of_a_failure_is_read_once(stage: GitHubStage, server: GitHubStandIn) -> None:
    commit = await stage.push("change", {"a.txt": "a"})
    await stage.verdict(commit, "test", "failure", step="Run pytest", log="boom")
    client = stage.client()
    first = await client.verdicts(commit)
    assert await client.verdicts(commit) == first
    assert server.count("actions/download-job-logs-for-workflow-run") == 1


# The stand-in itself


@pytest.mark.parametrize(
    ("method", "path", "body", "wrong"),
    [
        ("GET", "/repos/octo/{name}/isues", None, "no such call"),
        ("GET", "/repos/octo/{name}/issues?lables=x", None, "unknown parameter lables"),
        ("GET", "/repos/octo/{name}/issues?state=opened", None, "state: it: 'opened'"),
        ("POST", "/repos/octo/{name}/issues/1/comments", {}, "'body' is a required property"),
        ("POST", "/repos/octo/{name}/issues/1/comments", {"body": 1}, "not of type 'string'"),
        ("POST", "/repos/octo/{name}/issues/1/comments", {"body": "", "x": 1}, "unknown key x"),
        ("POST", "/graphql", {"query": "{ viewer { name } }"}, "Cannot query field 'name'"),
    ],
)
async def test_a_request_that_is_not_as_published_is_found(
    stage: GitHubStage,
    server: GitHubStandIn,
    method: str,
    path: str,
    body: object,
    wrong: str,
) -> None:
    await stage.issue("An issue")
    headers = {
        "Authorization": f"Bearer {stage.token('team')}",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "test",
    }
    url = server.origin + path.format(name=stage.name)
    async with httpx2.AsyncClient() as http:
        await http.request(method, url, headers=headers, json=body if body is not None else None)
    found = list(server.violations)
    server.violations.clear()
    assert len(found) >= 1
    assert wrong in found[0]


async def test_an_answer_that_is_not_as_published_is_found(
    stage: GitHubStage, server: GitHubStandIn
) -> None:
    number = await stage.issue("An issue")
    with server.lock:
        stage.state.issues[number].created = "yesterday"
        stage.state.issues[number].title = 7  # type: ignore[assignment]
    await stage.client().issue(number)
    found = list(server.violations)
    server.violations.clear()
    assert any("title: 7 is not of type 'string'" in each for each in found)


@pytest.mark.parametrize(
    "name", [f"{event}.{each}" if each else event for event in EVENTS for each in EVENTS[event]]
)
async def test_every_delivery_is_as_published_and_signed(stage: GitHubStage, name: str) -> None:
    number = await stage.issue("An issue", "text")
    made = await opened(stage.client(), stage)
    if name.endswith("closed"):
        await stage.close_issue(number)
        await stage.client().close_pull(made.number)
    about = made.number if name.startswith("pull") else number
    hooks = Webhooks(stage.state, stage.server.origin, "secret")
    sender = stage.account("stranger")
    first, second = (
        hooks.delivery(name, number=about, commit=made.head, sender=sender) for _ in range(2)
    )
    assert first.headers["X-GitHub-Delivery"] != second.headers["X-GitHub-Delivery"]
    assert first.headers["X-Hub-Signature-256"] == second.headers["X-Hub-Signature-256"]
    assert first.content["repository"]["full_name"] == f"octo/{stage.name}"
    assert first.content["sender"]["login"] == "stan"


async def test_a_delivery_that_is_not_as_published_is_not_made(stage: GitHubStage) -> None:
    await stage.issue("An issue")
    hooks = Webhooks(stage.state, stage.server.origin, "secret")
    with pytest.raises(ValueError, match="published shape"):
        hooks.delivery("issues.opened", number=1, state="shut")


async def test_another_repository_is_not_found(stage: GitHubStage) -> None:
    with pytest.raises(NotFound):
        await stage.client(repository="other").branch_head("main")


def note() -> LineNote:
    return LineNote("change.txt", 1, "look here")
