"""What the client of Gitea decides by itself: who is trusted, what can be merged, what failed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import anyio
import httpx2
import pytest

from bullpen.errors import NotFound, Refused
from bullpen.runs.forge.clients.gitea import SETTLE_S, GiteaClient
from bullpen.runs.forge.clients.gitea_people import TRUST_S
from bullpen.runs.forge.clients.gitea_verdicts import TAIL_BYTES_MAX, tail_of
from bullpen.runs.forge.contract import TryLater
from bullpen.team.forge.shown import IssueQuery, Person

REPO: dict[str, Any] = {
    "id": 1,
    "owner": {"login": "acme"},
    "name": "shop",
    "default_branch": "main",
    "html_url": "https://forge.example/acme/shop",
    "clone_url": "https://forge.example/acme/shop.git",
    "permissions": {"push": True},
}
COMMIT = "ab" * 20


class Server:
    """A server of which each test says what is at which path."""

    def __init__(self, pages: Mapping[str, object]) -> None:
        self.pages: dict[str, object] = {"": REPO, **pages}
        self.asked: list[str] = []
        self.now = 0.0

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path.removeprefix("/api/v1").removeprefix("/repos/acme/shop")
        self.asked.append(f"{request.method} {path}")
        page = self.pages.get(f"{request.method} {path}", self.pages.get(path, 404))
        if isinstance(page, int):
            return httpx2.Response(page, json={"message": "no"})
        if isinstance(page, bytes):
            return httpx2.Response(200, content=page)
        total = {"X-Total-Count": str(len(page))} if isinstance(page, list) else {}
        return httpx2.Response(200, json=page, headers=total)

    def client(
        self,
        answer: Callable[[httpx2.Request], httpx2.Response] | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> GiteaClient:
        transport = httpx2.MockTransport(answer or self.answer)
        return GiteaClient(
            "https://forge.example",
            "acme",
            "shop",
            "token",
            transport=transport,
            monotonic=lambda: self.now,
            sleep=sleep,
        )


def issue(number: int, **given: Any) -> dict[str, Any]:
    shown = {"id": number, "number": number, "title": f"Issue {number}", "state": "open"}
    return {**shown, "user": {"login": "anna"}, **given}


def pull(number: int, **given: Any) -> dict[str, Any]:
    end = {"label": "main", "ref": "main", "sha": "0" * 40, "repo_id": 1, "repo": REPO}
    head = {**end, "label": "change", "ref": "change", "sha": COMMIT}
    return {**issue(number), "mergeable": True, "base": end, "head": head, **given}


def may(permission: str) -> dict[str, str]:
    return {"permission": permission}


# Who is trusted


@pytest.mark.parametrize(
    ("permission", "trusted"),
    [
        ("owner", True),
        ("admin", True),
        ("write", True),
        ("read", False),
        ("none", False),
        ("", False),
    ],
)
async def test_trusted_is_who_may_write(permission: str, trusted: bool) -> None:
    server = Server({"/issues/1": issue(1), "/collaborators/anna/permission": may(permission)})
    assert (await server.client().issue(1)).author == Person("anna", trusted)


async def test_an_account_that_is_gone_is_not_trusted() -> None:
    server = Server({"/issues/1": issue(1), "/issues/2": issue(2, user=None)})
    client = server.client()
    assert (await client.issue(1)).author == Person("anna", False)
    assert (await client.issue(2)).author == Person("ghost", False)


async def test_who_moved_the_repository_here_did_not_write_its_issues() -> None:
    server = Server(
        {
            "/issues/1": issue(1, original_author="mallory"),
            "/collaborators/anna/permission": may("owner"),
        }
    )
    assert (await server.client().issue(1)).author == Person("mallory", False)


async def test_rights_are_asked_for_again_after_some_minutes() -> None:
    permission = "/collaborators/anna/permission"
    server = Server({"/issues/1": issue(1), permission: may("write")})
    client = server.client()
    for _ in range(3):
        assert (await client.issue(1)).author.trusted
    assert server.asked.count(f"GET {permission}") == 1
    server.pages[permission] = may("read")
    server.now = TRUST_S
    assert not (await client.issue(1)).author.trusted


async def test_a_failure_to_ask_is_not_taken_for_a_no() -> None:
    server = Server({"/issues/1": issue(1), "/collaborators/anna/permission": 502})
    with pytest.raises(TryLater):
        await server.client().issue(1)


async def test_without_the_right_to_ask_those_who_can_be_assigned_are_trusted() -> None:
    server = Server(
        {
            "/issues/1": issue(1),
            "/issues/2": issue(2, user={"login": "mallory"}),
            "/collaborators/anna/permission": 403,
            "/collaborators/mallory/permission": 403,
            "/assignees": [{"login": "acme"}, {"login": "Anna"}],
        }
    )
    client = server.client()
    assert (await client.issue(1)).author.trusted
    assert not (await client.issue(2)).author.trusted
    assert server.asked.count("GET /assignees") == 1


async def test_in_an_organization_being_assignable_is_not_enough() -> None:
    server = Server(
        {
            "/issues/1": issue(1),
            "/collaborators/anna/permission": 403,
            "/assignees": [{"login": "anna"}],
        }
    )
    assert not (await server.client().issue(1)).author.trusted


# Issues


async def test_the_server_leaves_out_labels_that_it_does_not_know_but_the_client_does_not() -> None:
    listed = [issue(2, labels=[{"id": 1, "name": "a"}]), issue(1), issue(3, pull_request={})]
    server = Server({"/issues": listed})
    client = server.client()
    assert [each.number for each in await client.issues(IssueQuery())] == [1, 2]
    assert [each.number for each in await client.issues(IssueQuery(labels=("a",)))] == [2]
    assert await client.issues(IssueQuery(labels=("a", "b"))) == []
    assert await client.issues(IssueQuery(milestone="1.0")) == []


async def test_an_assignee_that_nobody_is_has_no_issues() -> None:
    server = Server({"/issues": 404})
    assert await server.client().issues(IssueQuery(assignee="nobody")) == []
    server.pages[""] = 404
    with pytest.raises(NotFound):
        await server.client().issues(IssueQuery(assignee="nobody"))


async def test_only_blockers_of_the_same_repository_count() -> None:
    here, there = {"full_name": "acme/shop"}, {"full_name": "acme/other"}
    server = Server(
        {
            "/issues/1": issue(1, repository=here),
            "/issues/1/dependencies": [
                issue(7, repository=here),
                issue(3, repository=here, state="closed"),
                issue(4, repository=there),
                issue(0, title="HIDDEN"),
            ],
        }
    )
    assert (await server.client().issue(1)).blocked_by == (3, 7)


@pytest.mark.parametrize("comment_id", ["", "7/../9", "-1", "٣", "9" * 30, "abc"])
async def test_a_comment_is_named_by_a_number(comment_id: str) -> None:
    server = Server({})
    with pytest.raises(NotFound):
        await server.client().edit_comment(comment_id, "x")
    assert server.asked == []


@pytest.mark.parametrize("branch", ["../../user", "a/../b", "/x"])
async def test_a_branch_leads_to_no_other_path(branch: str) -> None:
    server = Server({})
    client = server.client()
    assert await client.branch_head(branch) is None
    await client.delete_branch(branch)
    assert server.asked == ["GET ", "GET "]


async def test_no_branch_is_told_from_no_repository() -> None:
    server = Server({"": 404})
    with pytest.raises(NotFound):
        await server.client().branch_head("main")


# Pull requests


async def test_a_no_is_believed_when_the_server_has_had_time_to_look() -> None:
    server = Server({"/pulls/1": pull(1, mergeable=False)})
    client = server.client()
    assert (await client.pull(1)).mergeable is None
    server.now = SETTLE_S - 0.1
    assert (await client.pull(1)).mergeable is None
    server.now = SETTLE_S
    assert (await client.pull(1)).mergeable is False
    moved = pull(1, mergeable=False)
    moved["head"]["sha"] = "cd" * 20
    server.pages["/pulls/1"] = moved
    assert (await client.pull(1)).mergeable is None
    server.pages["/pulls/1"] = pull(1)
    assert (await client.pull(1)).mergeable is True


async def test_a_draft_is_not_said_to_be_in_conflict() -> None:
    server = Server({"/pulls/1": pull(1, mergeable=False, draft=True, title="WIP: Add a")})
    client = server.client()
    await client.pull(1)
    server.now = SETTLE_S * 2
    shown = await client.pull(1)
    assert (shown.mergeable, shown.draft, shown.title) == (None, True, "Add a")


async def test_a_branch_of_a_fork_is_not_taken_for_ours() -> None:
    fork = {"label": "change", "ref": "change", "sha": COMMIT, "repo_id": 2}
    repo = {**REPO, "owner": {"login": "mallory"}}
    listed = [pull(1), pull(2, head={**fork, "repo": repo}), pull(3, head={**fork, "repo_id": -1})]
    server = Server({"/pulls": listed})
    client = server.client()
    shown = [each.branch for each in await client.open_pulls()]
    assert shown == ["change", "mallory:change", ":change"]
    assert [each.number for each in await client.pulls_of_branch("change")] == [1]


async def test_a_merge_of_files_in_conflict_is_refused() -> None:
    server = Server({"/pulls/1": pull(1), "POST /pulls/1/merge": 409})
    with pytest.raises(Refused) as refused:
        await server.client().merge_pull(1, head=COMMIT, method="merge")
    assert refused.value.reason == "forge_refused"


async def test_a_merge_that_is_refused_while_the_server_looks_is_tried_again() -> None:
    server = Server({"/pulls/1": pull(1, mergeable=False)})
    tries: Iterator[object] = iter((405, 405, 405, {}))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/merge"):
            server.pages["POST /pulls/1/merge"] = next(tries)
        answered = server.answer(request)
        if server.asked.count("POST /pulls/1/merge") == 4:
            server.pages["/pulls/1"] = pull(1, merged=True, merge_commit_sha="ef" * 20)
        return answered

    client = server.client(answer, sleep)
    assert await client.merge_pull(1, head=COMMIT, method="merge") == "ef" * 20
    assert len(slept) == 3


async def test_a_merge_that_stays_refused_is_refused_in_the_end() -> None:
    server = Server({"/pulls/1": pull(1, mergeable=False), "POST /pulls/1/merge": 405})
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with pytest.raises(Refused):
        await server.client(sleep=sleep).merge_pull(1, head=COMMIT, method="merge")
    assert 0 < sum(slept) <= SETTLE_S


@pytest.mark.parametrize(
    ("given", "tries"), [({}, 2), ({"draft": True}, 1), ({"state": "closed", "merged": True}, 1)]
)
async def test_what_does_not_pass_is_not_waited_for(given: dict[str, Any], tries: int) -> None:
    """An approval that is missing, a draft, and one that is merged already."""
    server = Server({"/pulls/1": pull(1, **given), "POST /pulls/1/merge": 405})
    with pytest.raises(Refused):
        await server.client().merge_pull(1, head=COMMIT, method="merge")
    assert server.asked.count("POST /pulls/1/merge") == tries


# Threads


async def test_an_answer_is_a_review_where_there_is_no_call_for_answers() -> None:
    review = {"id": 5, "state": "COMMENT", "comments_count": 1, "user": {"login": "anna"}}
    ours = {"id": 6, "state": "COMMENT", "comments_count": 1, "user": {"login": "team"}}
    line = {"id": 50, "body": "why?", "user": {"login": "anna"}, "path": "a.py", "position": 3}
    line |= {"pull_request_review_id": 5, "commit_id": COMMIT}
    sent: list[dict[str, Any]] = []
    server = Server(
        {
            "/user": {"login": "team"},
            "/pulls/1/reviews": [review],
            "/pulls/1/reviews/5/comments": [line],
            "POST /pulls/1/reviews": ours,
        }
    )

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST" and request.url.path.endswith("/reviews"):
            sent.append(json.loads(request.content))
            written = {**line, "id": 60, "user": {"login": "team"}, "pull_request_review_id": 6}
            written["body"] = sent[0]["comments"][0]["body"]
            server.pages["/pulls/1/reviews/6/comments"] = [written]
            server.pages["/pulls/1/reviews"] = [review, ours]
        return server.answer(request)

    client = server.client(answer)
    (thread,) = await client.threads(1)
    made = await client.reply(1, thread, "Because.")
    assert (made.id, made.body) == ("60", "Because.")
    assert (sent[0]["event"], sent[0]["commit_id"]) == ("COMMENT", COMMIT)
    assert [(each["path"], each["new_position"]) for each in sent[0]["comments"]] == [("a.py", 3)]
    (after,) = await client.threads(1)
    assert [each.body for each in after.comments] == ["why?", "Because."]
    # On the server's pages the answer is a conversation of its own, so both are resolved.
    server.pages |= {f"POST /pulls/comments/{each}/resolve": {} for each in (50, 60)}
    reads = server.asked.count("GET /pulls/1/reviews")
    assert await client.resolve(1, after)
    # What was shown is not read again: with many reviews, that takes as many requests.
    assert server.asked.count("GET /pulls/1/reviews") == reads
    resolved = [each for each in server.asked if each.endswith("/resolve")]
    assert resolved == ["POST /pulls/comments/50/resolve", "POST /pulls/comments/60/resolve"]


async def test_what_is_not_submitted_is_no_review_and_no_thread() -> None:
    """An administrator's token, and one's own, are shown it too."""
    states = ("PENDING", "REQUEST_REVIEW", "", "APPROVED")
    reviews = [
        {"id": number, "state": state, "comments_count": 1, "user": {"login": "anna"}}
        for number, state in enumerate(states)
    ]
    pages = {"/pulls/1/reviews": reviews, "/pulls/1/reviews/3/comments": []}
    client = Server({"/user": {"login": "team"}, **pages}).client()
    assert [each.state for each in await client.reviews(1)] == ["approved"]
    assert await client.threads(1) == []


async def test_a_version_without_a_call_to_resolve_says_so() -> None:
    review = {"id": 5, "state": "COMMENT", "comments_count": 1, "user": {"login": "anna"}}
    line = {"id": 50, "body": "why?", "user": {"login": "anna"}, "path": "a.py", "position": 3}
    comments = [{**line, "pull_request_review_id": 5}]
    pages = {"/pulls/1/reviews": [review], "/pulls/1/reviews/5/comments": comments}
    client = Server({"/user": {"login": "team"}, **pages}).client()
    (thread,) = await client.threads(1)
    assert await client.resolve(1, thread) is False


# Verdicts


async def test_a_state_that_nobody_knows_is_no_success() -> None:
    told = [{"id": 1, "status": "glorious", "context": "a"}, {"id": 2, "status": "warning"}]
    server = Server({f"/commits/{COMMIT}/statuses": told})
    shown = {each.name: each.state for each in await server.client().verdicts(COMMIT)}
    assert shown == {"": "failure", "a": "pending"}


async def test_only_a_whole_commit_is_asked_for() -> None:
    server = Server({})
    for commit in ("main", "abc", "../x", COMMIT + "\n", COMMIT.upper()):
        with pytest.raises(NotFound):
            await server.client().verdicts(commit)
    assert server.asked == []


def failed_job(**given: Any) -> dict[str, object]:
    job = {
        "id": 31,
        "name": "test",
        "head_sha": COMMIT,
        "html_url": "https://forge.example/acme/shop/actions/runs/5/jobs/31",
        "steps": [
            {"name": "Set up job", "conclusion": "success"},
            {"name": "Run pytest", "conclusion": "failure"},
        ],
    }
    told = {
        "id": 1,
        "status": "failure",
        "context": "ci / test",
        "target_url": "/acme/shop/actions/runs/5/jobs/31",
        "description": "Failing after 3s",
    }
    return {
        f"/commits/{COMMIT}/statuses": [told],
        "/actions/jobs/31": {**job, **given},
        "/actions/jobs/31/logs": b"2026-11-19T03:00:00.0000000Z one\n2026-11-19T03:00:01.5Z two\n",
    }


async def test_a_failed_job_of_actions_has_its_step_and_its_log() -> None:
    (shown,) = await Server(failed_job()).client().verdicts(COMMIT)
    assert (shown.step, shown.tail) == ("Run pytest", "one\ntwo")
    assert shown.url == "https://forge.example/acme/shop/actions/runs/5/jobs/31"


async def test_no_step_is_named_if_each_is_said_to_have_failed() -> None:
    steps = [{"name": name, "conclusion": "failure"} for name in ("Set up job", "Run pytest")]
    (shown,) = await Server(failed_job(steps=steps)).client().verdicts(COMMIT)
    assert (shown.step, shown.tail) == (None, "one\ntwo")


async def test_the_step_is_then_the_one_that_the_log_says_failed_last() -> None:
    names = ("Set up job", "Try lint", "Run pytest", "Upload")
    server = Server(failed_job(steps=[{"name": each, "conclusion": "failure"} for each in names]))
    rows = ["Failure - Main Try lint", "Failure - Main Run pytest", "Failure - Main rm -rf /"]
    said = [f"2026-11-19T03:00:00.0000000Z   \u274c  {row}" for row in rows]
    server.pages["/actions/jobs/31/logs"] = "\n".join(said).encode()
    (shown,) = await server.client().verdicts(COMMIT)
    assert shown.step == "Run pytest"


async def test_a_job_of_another_commit_is_not_taken_for_it() -> None:
    (shown,) = await Server(failed_job(head_sha="cd" * 20)).client().verdicts(COMMIT)
    assert (shown.step, shown.tail) == (None, "Failing after 3s")
    assert shown.url == f"https://forge.example/acme/shop/commit/{COMMIT}"


@pytest.mark.parametrize("status", [404, 403, 500])
async def test_a_log_that_is_gone_leaves_the_step(status: int) -> None:
    server = Server(failed_job())
    server.pages["/actions/jobs/31/logs"] = status
    (shown,) = await server.client().verdicts(COMMIT)
    assert (shown.step, shown.tail) == ("Run pytest", None)


@pytest.mark.parametrize("line", ["x" * 100, "größer", "世界", "🐂" * 30])
def test_the_tail_of_a_log_is_short_and_has_whole_lines(line: str) -> None:
    log = "".join(f"2026-11-19T03:00:00.1Z {line} {each}\n" for each in range(1_000)).encode()
    for cut in range(5):
        end = log + f"{line} {'!' * cut}".encode()
        tail = tail_of(end[-TAIL_BYTES_MAX * 2 :])
        assert tail is not None
        assert len(tail.encode()) <= TAIL_BYTES_MAX
        assert tail.splitlines()[-2] == f"{line} 999"
        assert all(each.startswith(line) for each in tail.splitlines())


def test_an_empty_log_has_no_tail() -> None:
    assert tail_of(b"") is None
    assert tail_of(b"\n \n") is None
