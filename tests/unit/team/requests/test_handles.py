"""The few characters by which people name a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.protocol import names
from bullpen.protocol.request import Request
from bullpen.team.requests.handles import handles, named, without_ids


def _requests(*ids: str) -> list[Request]:
    return [
        Request.new(id=each, kind="permission", sender="a", to="team-lead", created_ms=1)
        for each in ids
    ]


ids = st.one_of(
    st.builds(
        lambda ms, suffix: names.permission_request_id(now_ms=ms, suffix=suffix),
        st.integers(1, 10**13),
        st.text("0123abcd", min_size=7, max_size=7),
    ),
    st.builds(
        lambda ms, name: names.plan_request_id(name, "calc", now_ms=ms),
        st.integers(10**12, 10**12 + 50),
        st.sampled_from(["alice", "bob"]),
    ),
    st.text(min_size=1, max_size=12),
)


@given(st.lists(ids, min_size=1, max_size=12, unique=True))
def test_a_handle_names_exactly_its_request(all_ids: list[str]) -> None:
    there = _requests(*all_ids)
    for request_id, handle in handles(there).items():
        assert [each.id for each in named(there, handle)] == [request_id]


def test_handles_are_the_last_four_characters_of_what_tells_requests_apart() -> None:
    there = _requests("perm-1794733791974-6ddb899", "plan_approval-1794733844065@bob@calc", "odd")
    assert list(handles(there).values()) == ["b899", "4065", "odd"]


def test_handles_grow_where_they_would_be_the_same() -> None:
    there = _requests("perm-1-aaab899", "perm-2-cccb899")
    assert list(handles(there).values()) == ["ab899", "cb899"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("perm-1-", ["perm-1-6ddb899"]),
        ("b899", ["perm-1-6ddb899"]),
        ("899", []),
        ("", []),
        ("perm-", ["perm-1-6ddb899", "perm-2-1234567"]),
        ("perm-2-1234567", ["perm-2-1234567"]),
    ],
)
def test_requests_are_found_by_beginning_and_end(wanted: str, found: list[str]) -> None:
    there = _requests("perm-1-6ddb899", "perm-2-1234567")
    assert [each.id for each in named(there, wanted)] == found


@pytest.mark.parametrize(
    "request_id",
    ["perm-1794828177377-39274b6", "question-1794828177377-a1", "plan_approval-1794828177377@bob"],
)
def test_a_line_can_do_without_the_ids_in_brackets(request_id: str) -> None:
    assert without_ids(f"permission for Bash ls ({request_id})") == "permission for Bash ls"
    assert without_ids("waits for (perm-1)") == "waits for (perm-1)"
