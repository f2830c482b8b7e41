"""Who a connected program is: fixed when it starts, and nobody else's."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.doors.mcp_house import House


@pytest.mark.parametrize(
    "words",
    [
        ("mcp", "--team", "nowhere", "--as", "ann"),
        ("mcp", "--team", "alpha", "--as", "a b"),
        ("mcp", "--team", "alpha", "--as", "cy", "--tools", "read-only"),
        ("mcp", "token", "ann", "--team", "nowhere"),
        ("mcp", "token", "a b", "--team", "alpha"),
        ("mcp", "revoke", "ann", "--team", "alpha"),
        ("mcp", "--port", "1"),
        ("mcp", "--http", "--host", "0.0.0.0"),
    ],
    ids=" ".join,
)
async def test_what_cannot_be_had_is_said_at_once(house: House, words: tuple[str, ...]) -> None:
    done = await house.type(*words)
    assert done.exit_code in (2, 3)
    assert "error: " in done.stderr
    assert done.stdout == ""


async def test_a_token_is_shown_once_and_kept_as_a_digest(house: House) -> None:
    first = (await house.type("mcp", "token", "ann", "--team", "alpha")).stdout.strip()
    file = house.home / "mcp-tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for path in house.home.rglob("*"):
        if path.is_file():
            assert first not in path.read_text(encoding="utf-8", errors="replace"), path
    assert (await house.type("mcp", "tokens")).stdout == "ann@alpha\n"
    again = await house.type("mcp", "token", "ann", "--team", "alpha")
    assert "is no longer valid" in again.stderr
    assert again.stdout.strip() not in (first, "")
    assert (await house.type("mcp", "revoke", "ann", "--team", "alpha")).exit_code == 0
    assert "No tokens" in (await house.type("mcp", "tokens")).stdout


async def test_a_file_of_tokens_that_cannot_be_read_is_not_an_empty_one(house: House) -> None:
    (house.home / "mcp-tokens.json").write_text("{", encoding="utf-8")
    for words in (("tokens",), ("token", "ann", "--team", "alpha")):
        done = await house.type("mcp", *words)
        assert done.exit_code == 5
        assert "mcp-tokens.json" in done.stderr
    assert (house.home / "mcp-tokens.json").read_text(encoding="utf-8") == "{"
