"""What the connection to GitHub makes of answers, without a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Refused
from bullpen.runs.forge.clients.answers import Answer, KnownAnswers
from bullpen.runs.forge.clients.github import GitHub, api_of
from bullpen.runs.forge.clients.github_verdicts import TAIL_BYTES_MAX, _end, _until_error
from bullpen.runs.forge.contract import TryLater
from bullpen.team.forge.shown import IssueQuery

TOKEN = "ghp_0123456789abcdef0123456789abcdef0123"
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
MIDNIGHT = 1_767_225_600


class Script:
    """Answers requests one after another, and remembers them."""

    def __init__(self) -> None:
        self.answers: list[httpx2.Response | Exception] = []
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def say(self, status: int, content: Any = None, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = b"" if content is None else json.dumps(content).encode()
        self.answers.append(httpx2.Response(status, content=data, headers={"Date": DATE, **named}))


@pytest.fixture
def script() -> Script:
    return Script()


class Moment:
    """A monotonic clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def moment() -> Moment:
    return Moment()


@pytest.fixture
async def github(script: Script, moment: Moment) -> AsyncIterator[GitHub]:
    transport = httpx2.MockTransport(script)
    client = GitHub("octo", "shop", TOKEN, page_size=2, monotonic=moment, transport=transport)
    yield client
    await client.aclose()


async def failure(call: Any) -> BullpenError:
    with pytest.raises(BullpenError) as failed:
        await call
    assert TOKEN not in f"{failed.value!r} {failed.value}"
    return failed.value


# Where the token goes


@pytest.mark.parametrize("api", ["http://github.example.com/api/v3", "ftp://x", "api.github.com"])
def test_a_token_is_not_sent_unencrypted(api: str) -> None:
    with pytest.raises(Invalid, match="not encrypted"):
        GitHub("octo", "shop", TOKEN, api=api)


@pytest.mark.parametrize(
    "place",
    [("..", "shop"), ("octo", "."), ("octo/..", "x"), ("octo", "a?b"), ("", "x"), ("o", "a b")],
)
def test_a_repository_cannot_lead_to_another_path(place: tuple[str, str]) -> None:
    with pytest.raises(Invalid):
        GitHub(*place, TOKEN)


def test_an_enterprise_has_its_api_elsewhere() -> None:
    assert api_of("github.com") == "https://api.github.com"
    assert api_of("git.example.com") == "https://git.example.com/api/v3"


async def test_a_read_follows_a_renamed_repository(github: GitHub, script: Script) -> None:
    script.say(301, location="https://api.github.com/repositories/1/issues/1/comments")
    script.say(200, [])
    assert await github.comments(1) == []
    assert script.requests[1].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("status", [301, 302])
async def test_a_write_is_never_turned_into_a_read(
    github: GitHub, script: Script, status: int
) -> None:
    script.say(status, location="https://api.github.com/repositories/1/issues/1/comments")
    error = await failure(github.comment(1, "hello"))
    assert isinstance(error, Refused)
    assert "moved" in error.message
    assert len(script.requests) == 1


async def test_the_token_does_not_follow_to_another_server(github: GitHub, script: Script) -> None:
    script.say(301, location="https://evil.example.com/repos/octo/shop")
    assert isinstance(await failure(github.repository()), Refused)
    assert [each.url.host for each in script.requests] == ["api.github.com"]


async def test_a_circle_of_redirects_ends(github: GitHub, script: Script) -> None:
    for _ in range(4):
        script.say(301, location="/repos/octo/shop")
    assert isinstance(await failure(github.repository()), TryLater)
    assert script.answers == []


# Limits


async def test_a_limit_says_when_to_try_again_and_nothing_is_sent_until_then(
    github: GitHub, script: Script, moment: Moment
) -> None:
    reset = str(MIDNIGHT + 90)
    headers = {"x_ratelimit_remaining": "0", "x_ratelimit_reset": reset}
    script.say(403, {"message": "API rate limit exceeded"}, **headers)
    error = await failure(github.issue(1))
    assert isinstance(error, TryLater)
    assert error.after_s == 90
    assert (github.allowance().left, github.allowance().resets_s) == (0, 90)
    moment.now += 60
    error = await failure(github.comment(1, "hello"))
    assert isinstance(error, TryLater)
    assert error.after_s == 30
    assert github.allowance().resets_s == 30
    assert len(script.requests) == 1
    moment.now += 31
    script.say(404, {"message": "Not Found"})
    assert isinstance(await failure(github.issue(1)), NotFound)


@pytest.mark.parametrize(
    ("status", "message", "headers", "after"),
    [
        (403, "You have exceeded a secondary rate limit.", {"retry_after": "7"}, 7),
        (403, "You have exceeded a secondary rate limit.", {}, 60),
        (403, "You have triggered an abuse detection mechanism.", {}, 60),
        (429, "Slow down", {}, 60),
        (429, "Slow down", {"retry_after": "3"}, 3),
        (429, "Slow down", {"retry_after": "soon"}, 60),
    ],
)
async def test_a_secondary_limit_is_waited_out(
    github: GitHub,
    script: Script,
    status: int,
    message: str,
    headers: dict[str, str],
    after: float,
) -> None:
    script.say(status, {"message": message}, **headers)
    error = await failure(github.comment(1, "hello"))
    assert isinstance(error, TryLater)
    assert error.after_s == after
    assert isinstance(await failure(github.repository()), TryLater)
    assert len(script.requests) == 1


async def test_a_refusal_is_no_limit(github: GitHub, script: Script) -> None:
    script.say(403, {"message": "Resource not accessible"}, x_ratelimit_remaining="12")
    error = await failure(github.close_issue(1))
    assert isinstance(error, Refused)
    assert "Resource not accessible" in error.message


async def test_the_limit_of_searches_is_not_the_limit_of_all(
    github: GitHub, script: Script
) -> None:
    limit = {"x_ratelimit_reset": str(MIDNIGHT + 60), "x_ratelimit_remaining": "29"}
    found = {"total_count": 0, "incomplete_results": False, "items": []}
    script.say(200, found, x_ratelimit_resource="search", **limit)
    assert await github.issues(IssueQuery(query="x")) == []
    assert github.allowance().left is None


# Errors


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (401, {"message": "Bad credentials"}, Refused),
        (403, {"message": "Must have admin rights"}, Refused),
        (404, {"message": "Not Found"}, NotFound),
        (405, {"message": "Not mergeable"}, Refused),
        (409, {"message": "Head branch was modified"}, Conflict),
        (410, {"message": "This issue was deleted"}, NotFound),
        (422, {"message": "Validation Failed", "errors": [{"code": "already_exists"}]}, Conflict),
        (422, {"message": "A pull request already exists for octo:x."}, Conflict),
        (422, {"message": "Validation Failed", "errors": [{"code": "invalid"}]}, Refused),
        (422, {"message": "Validation Failed", "errors": ["words"]}, Refused),
        (451, {"message": "Unavailable for legal reasons"}, Refused),
        (500, {"message": "Server Error"}, TryLater),
        (502, None, TryLater),
        (503, ["not an object"], TryLater),
        (504, None, TryLater),
    ],
)
async def test_every_status_has_its_error(
    github: GitHub, script: Script, status: int, said: Any, kind: type[BullpenError]
) -> None:
    script.say(status, said)
    error = await failure(github.comment(1, "hello"))
    assert type(error) is kind
    if isinstance(error, Refused):
        assert error.reason == "forge_refused"


@pytest.mark.parametrize(
    "error",
    [
        httpx2.ConnectError(f"refused {TOKEN}"),
        httpx2.ReadTimeout("slow"),
        httpx2.RemoteProtocolError("cut off"),
    ],
)
async def test_what_cannot_be_reached_is_tried_later(
    github: GitHub, script: Script, error: Exception
) -> None:
    script.answers.append(error)
    assert isinstance(await failure(github.comment(1, "hello")), TryLater)


async def test_words_of_the_forge_are_one_short_line_without_the_token(
    github: GitHub, script: Script
) -> None:
    script.say(403, {"message": f"no\n\x1b[31m {TOKEN} " + "x" * 9_000})
    error = await failure(github.close_issue(1))
    assert "[token]" in error.message
    assert "\n" not in error.message
    assert "\x1b" not in error.message
    assert len(error.message) < 500


@pytest.mark.parametrize("content", [b"<html>", b"", b"\xff"])
async def test_what_is_no_json_is_tried_later(
    github: GitHub, script: Script, content: bytes
) -> None:
    script.answers.append(httpx2.Response(200, content=content))
    assert isinstance(await failure(github.repository()), TryLater)


async def test_an_answer_that_lacks_something_is_tried_later(
    github: GitHub, script: Script
) -> None:
    answers: tuple[Any, ...] = ({}, [], {"owner": None})
    for said in answers:
        script.say(200, said)
        assert isinstance(await failure(github.repository()), TryLater)
    script.say(200, ["text"])
    assert isinstance(await failure(github.comments(1)), TryLater)


async def test_a_strange_date_or_address_does_no_harm(github: GitHub, script: Script) -> None:
    script.say(301, location="http://[x")
    assert isinstance(await failure(github.repository()), BullpenError)
    headers = {"x_ratelimit_remaining": "5", "x_ratelimit_reset": "5", "Date": "yesterday"}
    script.say(404, {"message": "Not Found"}, **headers)
    assert isinstance(await failure(github.repository()), NotFound)
    assert github.allowance().left == 5


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("NOT_FOUND", NotFound), ("FORBIDDEN", Refused), ("RATE_LIMITED", TryLater), (None, TryLater)],
)
async def test_errors_of_graphql_are_errors(
    github: GitHub, script: Script, kind: str | None, expected: type[BullpenError]
) -> None:
    script.say(200, {"data": None, "errors": [{"type": kind, "message": "no"}]})
    assert type(await failure(github.threads(1))) is expected


# Lists


async def test_a_full_page_is_not_the_last_one_though_it_is_unchanged(
    github: GitHub, script: Script
) -> None:
    """A page that was full and the last one stays unchanged when a new page follows it."""
    script.say(200, [comment(1), comment(2)], etag='"one"')
    script.say(200, [], etag='"none"')
    assert len(await github.comments(1)) == 2
    script.say(304, etag='"one"')
    script.say(200, [comment(3)], etag='"new"')
    assert [each.id for each in await github.comments(1)] == ["1", "2", "3"]
    sent = [each.headers.get("if-none-match") for each in script.requests]
    assert sent == [None, None, '"one"', '"none"']


async def test_a_list_that_fails_on_its_second_page_is_no_short_list(
    github: GitHub, script: Script
) -> None:
    script.say(200, [comment(1), comment(2)])
    script.say(502)
    assert isinstance(await failure(github.comments(1)), TryLater)


async def test_a_search_that_is_not_complete_is_no_answer(github: GitHub, script: Script) -> None:
    script.say(200, {"total_count": 1, "incomplete_results": True, "items": []})
    assert isinstance(await failure(github.issues(IssueQuery(query="x"))), TryLater)
    script.say(200, {"total_count": 1_001, "incomplete_results": False, "items": []})
    error = await failure(github.issues(IssueQuery(query="x")))
    assert isinstance(error, Refused)
    assert "Narrow" in error.remedy


async def test_issues_of_other_repositories_are_left_out(github: GitHub, script: Script) -> None:
    others = ["octo/other", "evil/shop", "octo/shop/pulls"]
    items = [
        {**issue(n), "repository_url": f"https://api.github.com/repos/{each}"}
        for n, each in enumerate(others, start=2)
    ]
    ours = {**issue(1), "repository_url": "https://api.github.com/repos/Octo/Shop"}
    found = {"total_count": 4, "incomplete_results": False}
    script.say(200, {**found, "items": [ours, items[0]]})
    script.say(200, {**found, "items": items[1:]})
    query = IssueQuery(query="repo:evil/shop", labels=('a"b',))
    assert [each.number for each in await github.issues(query)] == [1]
    assert 'label:"a\\"b"' in script.requests[0].url.params["q"]


def issue(number: int) -> dict[str, Any]:
    return {
        "number": number,
        "title": "T",
        "state": "open",
        "html_url": f"https://github.com/octo/shop/issues/{number}",
        "updated_at": DATE,
        "user": {"login": "ann"},
        "author_association": "NONE",
    }


def comment(number: int, association: str | None = "NONE") -> dict[str, Any]:
    return {
        "id": number,
        "user": {"login": "ann"},
        "author_association": association,
        "body": "b",
        "html_url": "https://github.com/x",
        "created_at": DATE,
    }


# People


async def test_where_an_answer_does_not_say_who_may_write_that_is_asked_once(
    github: GitHub, script: Script, moment: Moment
) -> None:
    script.say(201, comment(1, None))
    script.say(200, {"permission": "write"})
    assert (await github.comment(1, "x")).author.trusted
    script.say(201, comment(2, None))
    assert (await github.comment(1, "x")).author.trusted
    moment.now += 601
    script.say(201, comment(3, None))
    script.say(200, {"permission": "read"})
    assert not (await github.comment(1, "x")).author.trusted
    assert script.answers == []


@pytest.mark.parametrize("association", ["FIRST_TIMER", "CONTRIBUTOR", "MANNEQUIN", "owner", "?"])
async def test_an_association_that_is_not_known_is_not_trusted(
    github: GitHub, script: Script, association: str
) -> None:
    script.say(201, comment(1, association))
    assert not (await github.comment(1, "x")).author.trusted


async def test_a_deleted_account_is_not_trusted(github: GitHub, script: Script) -> None:
    script.say(201, {**comment(1, "OWNER"), "user": None})
    author = (await github.comment(1, "x")).author
    assert (author.login, author.trusted) == ("ghost", False)


# Answers that are kept


def test_the_oldest_answers_are_forgotten() -> None:
    known = KnownAnswers(bytes_max=10, entries_max=2)
    known.keep("a", Answer(1, "1"), 4)
    known.keep("b", Answer(2, "2"), 4)
    assert known.get("a") == Answer(1, "1")
    known.keep("c", Answer(3, "3"), 4)
    assert known.get("b") is None
    assert known.get("a") == Answer(1, "1")
    known.keep("d", Answer(4, "4"), 10)
    assert (known.get("a"), known.get("c")) == (None, None)
    known.keep("e", Answer(5, "5"), 11)
    assert known.get("e") is None
    known.keep("f", Answer(6, ""), 1)
    assert known.get("f") is None
    known.keep("d", Answer(7, "7"), 2)
    assert known.get("d") == Answer(7, "7")


# Logs


def test_a_log_ends_with_its_last_error_and_has_no_times() -> None:
    log = (
        "\ufeff2026-01-01T00:00:00.1234567Z first\r\n"
        "2026-01-01T00:00:01.1234567Z \x1b[31mred\x1b[0m\n"
        "2026-01-01T00:00:02.1234567Z ##[error]Process completed with exit code 1.\n"
        "2026-01-01T00:00:03.1234567Z Post job cleanup.\n"
    )
    end = "##[error]Process completed with exit code 1.\n"
    assert _until_error(log) == f"first\nred\n{end}"
    assert _until_error("no error\nhere") == "no error\nhere"
    assert _until_error("##[error]cut") == "##[error]cut"


@pytest.mark.parametrize("line", ["x" * 99, "世" * 33, "🐂" * 2_000])
def test_the_end_of_a_text_is_bounded_and_whole(line: str) -> None:
    found = _end(f"{line}\n" * 200)
    assert len(found.encode()) <= TAIL_BYTES_MAX
    assert "\ufffd" not in found
    assert found.endswith(f"{line[-9:]}\n")
    assert _end("short") == "short"
