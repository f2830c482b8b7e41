"""What the servers answer to a message that should be stored."""

from __future__ import annotations

from typing import Any, cast

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.store.nats.client import api_requests, mux
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer


async def stored(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> int:
    async def ask(*args: Any, **options: Any) -> Msg:
        return Msg(cast("Client", None), "", "", answer, None)

    monkeypatch.setattr(mux, "ask", ask)
    client = cast("Client", None)
    return await api_requests.append(client, "t.log", b"{}", expect=4, timeout_s=1.0)


@pytest.mark.parametrize(
    "answer",
    [
        b'{"stream":"TEAM_01", "seq":7}',
        b'{"stream":"TEAM_01","seq":7}',
        b'{"stream":"TEAM_01", "seq":7, "domain":"hub"}',
        b'{"stream":"TEAM_01", "seq":7,"duplicate": true}',
        b'{ "seq": 7, "stream": "TEAM_01" }',
    ],
)
async def test_the_number_of_a_stored_message_is_read_in_any_form(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    assert await stored(monkeypatch, answer) == 7


@pytest.mark.parametrize(
    ("answer", "head"),
    [
        (b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"}}', 9),
        (b'{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}', None),
        (b'{"error":{"err_code":10071,"description":"sequence: 9"},"stream":"T","seq":0}', 9),
        (b'{"stream":"T","seq":0,"error":{"err_code":10071,"description":"sequence: 9"}}', 9),
    ],
)
async def test_a_refusal_is_never_taken_for_a_number(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, head: int | None
) -> None:
    with pytest.raises(HeadMoved) as refused:
        await stored(monkeypatch, answer)
    assert refused.value.head == head


async def test_other_refusals_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApiError, match="no space"):
        await stored(monkeypatch, b'{"error":{"err_code":10023,"description":"no space"}}')


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"stream":"TEAM_01"}', b'{"stream":"T","seq":7'])
async def test_what_is_no_answer_leaves_open_whether_it_was_stored(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    with pytest.raises(NoAnswer):
        await stored(monkeypatch, answer)
