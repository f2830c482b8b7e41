"""Requests to Gitea: whole lists, unchanged answers, failures that say what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.runs.forge.clients.gitea_requests import ANSWER_BYTES_MAX, READS_MAX, GiteaRequests
from bullpen.runs.forge.contract import TryLater
from support.rows import each_row

TOKEN = "0123456789abcdef0123456789abcdef01234567"

Answers = Callable[[httpx2.Request], httpx2.Response]


class Entry(BaseModel):
    id: int


def requests(
    answers: Answers, url: str = "https://forge.example/sub", **given: Any
) -> GiteaRequests:
    return GiteaRequests(url, TOKEN, transport=httpx2.MockTransport(answers), **given)


def always(status: int, content: object = None, **headers: str) -> Answers:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(_: httpx2.Request) -> httpx2.Response:
        body = b"" if content is None else json.dumps(content).encode()
        return httpx2.Response(status, content=body, headers=named)

    return answer


def paged(
    entries: list[int], *, cap: int = 50, total: bool = True, link: bool = False
) -> tuple[Answers, list[str]]:
    """A list of a server with pages of at most `cap`, and what it was asked."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        size = min(int(request.url.params["limit"]), cap)
        begin = (int(request.url.params["page"]) - 1) * size
        page = [{"id": each} for each in entries[begin : begin + size]]
        headers = {"X-Total-Count": str(len(entries))} if total else {}
        if link:
            following = '<x>; rel="next"' if begin + size < len(entries) else '<x>; rel="prev"'
            headers["Link"] = following
        return httpx2.Response(200, json=page, headers=headers)

    return answer, asked


# Lists


@each_row("count", [0, 1, 49, 50, 51, 100, 101])
@each_row("cap", [50, 20])
@each_row(("total", "link"), [(True, False), (False, True), (False, False)])
async def test_all_pages_are_read_however_the_server_counts_them(
    count: int, cap: int, total: bool, link: bool
) -> None:
    answers, _ = paged(list(range(1, count + 1)), cap=cap, total=total, link=link)
    found = await requests(answers).all(Entry, "/list")
    assert [each.id for each in found] == list(range(1, count + 1))


async def test_one_page_is_one_request() -> None:
    answers, asked = paged([1, 2, 3])
    await requests(answers).all(Entry, "/list", {"state": "open"})
    assert asked == ["https://forge.example/sub/api/v1/list?state=open&page=1&limit=50"]


async def test_a_list_without_pages_is_read_once() -> None:
    asked = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        page = [{"id": each} for each in range(200)]
        return httpx2.Response(200, json=page, headers={"X-Total-Count": "200"})

    assert len(await requests(answer).all(Entry, "/list")) == 200
    assert len(asked) == 1


async def test_entries_that_are_counted_but_not_shown_end_no_list() -> None:
    shown = {1: [], 2: [{"id": 51}]}

    def answer(request: httpx2.Request) -> httpx2.Response:
        page = shown.get(int(request.url.params["page"]), [])
        return httpx2.Response(200, json=page, headers={"X-Total-Count": "51"})

    assert [each.id for each in await requests(answer).all(Entry, "/list")] == [51]


async def test_a_list_that_changes_between_two_pages_is_read_again() -> None:
    entries = list(range(1, 61))
    answers, asked = paged(entries)

    def answer(request: httpx2.Request) -> httpx2.Response:
        answered = answers(request)
        if len(asked) == 1:
            # What was on the second page moves to the first, which is read already.
            del entries[0]
        return answered

    found = await requests(answer).all(Entry, "/list")
    assert [each.id for each in found] == list(range(2, 61))
    assert len(asked) == 4


async def test_a_list_that_never_stands_still_is_read_later() -> None:
    asked: list[int] = []

    def answer(_: httpx2.Request) -> httpx2.Response:
        asked.append(1)
        page = [{"id": len(asked)}]
        return httpx2.Response(200, json=page, headers={"X-Total-Count": str(60 + len(asked))})

    with pytest.raises(TryLater):
        await requests(answer).all(Entry, "/list")
    assert len(asked) == 2 * READS_MAX


# Unchanged answers


async def test_an_unchanged_answer_is_what_it_was() -> None:
    seen: list[str | None] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        tag = request.headers.get("if-none-match")
        seen.append(tag)
        if tag == '"a"':
            return httpx2.Response(304)
        return httpx2.Response(200, json={"id": 7}, headers={"ETag": '"a"'})

    client = requests(answer)
    assert [(await client.get(Entry, "/one")).id for _ in range(3)] == [7, 7, 7]
    assert (await client.get(Entry, "/two")).id == 7
    assert seen == [None, '"a"', '"a"', None]


# Failures


@each_row(
    ("status", "error"),
    [
        (301, NotFound),
        (307, NotFound),
        (400, Refused),
        (401, Refused),
        (403, Refused),
        (404, NotFound),
        (405, Refused),
        (409, Conflict),
        (412, Refused),
        (422, Refused),
        (423, Refused),
        (429, TryLater),
        (500, TryLater),
        (502, TryLater),
        (503, TryLater),
    ],
)
async def test_each_failure_is_one_of_our_errors(status: int, error: type[BullpenError]) -> None:
    client = requests(always(status, {"message": "the words of the forge."}))
    with pytest.raises(error) as failed:
        await client.do("POST", "/x?secret=1", {})
    assert type(failed.value) is error
    assert "the words of the forge" in failed.value.message
    assert "forge.example" in failed.value.message
    assert "secret" not in failed.value.message
    if isinstance(failed.value, Refused):
        assert failed.value.reason == "forge_refused"


async def test_a_wrong_token_names_the_command_that_sets_another() -> None:
    with pytest.raises(Refused) as refused:
        await requests(always(401, {"message": "user does not exist"})).get(Entry, "/x")
    assert "bullpen forge login" in refused.value.remedy


async def test_a_server_says_how_long_to_wait() -> None:
    with pytest.raises(TryLater) as later:
        await requests(always(429, {}, Retry_After="17")).get(Entry, "/x")
    assert later.value.after_s == 17.0
    # A proxy may say it with another status.
    with pytest.raises(TryLater):
        await requests(always(403, {}, Retry_After="17")).get(Entry, "/x")


@pytest.mark.parametrize(
    "error",
    [
        httpx2.ConnectError(f"no route for {TOKEN}"),
        httpx2.ReadTimeout(""),
        httpx2.RemoteProtocolError("cut"),
    ],
)
async def test_a_server_that_does_not_answer_is_asked_later(error: httpx2.HTTPError) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        raise error

    with pytest.raises(TryLater) as later:
        await requests(answer).get(Entry, "/x")
    assert TOKEN not in str(later.value)
    assert "forge.example" in str(later.value)


async def test_the_token_is_in_no_error_even_if_the_server_repeats_it() -> None:
    client = requests(always(422, {"message": f"bad token {TOKEN}"}))
    with pytest.raises(Refused) as refused:
        await client.do("POST", f"/x/{TOKEN}", {})
    assert TOKEN not in f"{refused.value} {refused.value!r} {client!r}"
    assert "[token]" in str(refused.value)


async def test_a_token_in_the_address_is_not_in_errors() -> None:
    client = requests(always(500, {}), url="https://me:hidden@forge.example")
    with pytest.raises(TryLater) as later:
        await client.get(Entry, "/x")
    assert "hidden" not in str(later.value)


async def test_a_redirect_is_not_followed() -> None:
    asked = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        return httpx2.Response(307, headers={"Location": "https://evil.example/"})

    with pytest.raises(NotFound):
        await requests(answer).get(Entry, "/x")
    assert asked == ["forge.example"]


@pytest.mark.parametrize(
    "content",
    [
        b"<html>login</html>",
        b"",
        b"null",
        b"[]",
        b'{"id": "seven"}',
        b'{"no": 1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
async def test_an_answer_of_another_shape_is_unavailable(content: bytes) -> None:
    client = requests(lambda _: httpx2.Response(200, content=content))
    with pytest.raises(Unavailable) as failed:
        await client.get(Entry, "/x")
    assert not isinstance(failed.value, TryLater)
    assert "forge.example" in failed.value.message


@pytest.mark.parametrize("content", [{"id": 1}, None, [1], [{"id": 1}, {}]])
async def test_a_list_of_another_shape_is_unavailable(content: object) -> None:
    with pytest.raises(Unavailable) as failed:
        await requests(always(200, content, X_Total_Count="1")).all(Entry, "/x")
    assert not isinstance(failed.value, TryLater)


async def test_an_endless_answer_is_cut_off() -> None:
    async def endless() -> Any:
        while True:
            yield b" " * 2**20

    sent = 0

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=counted())

    async def counted() -> Any:
        nonlocal sent
        async for piece in endless():
            sent += len(piece)
            yield piece

    with pytest.raises(Unavailable):
        await requests(answer).get(Entry, "/x")
    assert sent <= ANSWER_BYTES_MAX + 2 * 2**20


async def test_hostile_words_of_a_server_stay_on_one_short_line() -> None:
    words = "x\n\x1b[31mred\x00" + "y" * 10_000
    with pytest.raises(Refused) as refused:
        await requests(always(422, {"message": words})).get(Entry, "/x")
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 500


async def test_the_allowance_is_what_the_last_answer_said() -> None:
    now = 100.0
    client = requests(
        always(200, {"id": 1}, X_RateLimit_Remaining="41", RateLimit_Reset="30"),
        monotonic=lambda: now,
    )
    assert (client.allowance().left, client.allowance().resets_s) == (None, None)
    await client.get(Entry, "/x")
    now = 110.0
    assert (client.allowance().left, client.allowance().resets_s) == (41, 20.0)


async def test_only_the_end_of_a_long_text_is_kept() -> None:
    async def pieces() -> Any:
        for each in range(1000):
            yield f"line {each}\n".encode()

    client = requests(lambda _: httpx2.Response(200, content=pieces()))
    assert (await client.end_of("/log", 18)).decode() == "line 998\nline 999\n"
    assert await requests(always(416)).end_of("/log", 18) == b""
    with pytest.raises(NotFound):
        await requests(always(404)).end_of("/log", 18)
