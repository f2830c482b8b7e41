"""Which address the token of a forge is sent to."""

from __future__ import annotations

import pytest

from bullpen.protocol.forge import ForgeSettings
from bullpen.runs.forge.connect import open_client
from bullpen.runs.forge.token import Token


@pytest.mark.parametrize(
    ("page", "api", "sent_to"),
    [
        ("https://github.com/acme/shop", None, "https://api.github.com"),
        ("https://github.corp.example/acme/shop", None, "https://github.corp.example/api/v3"),
        (
            "https://github.corp.example/acme/shop",
            "https://api.corp.example",
            "https://api.corp.example",
        ),
    ],
)
async def test_the_token_of_a_github_is_sent_to_no_other_one(
    page: str, api: str | None, sent_to: str
) -> None:
    settings = ForgeSettings.new(repository=page, kind="github", api=api)
    opened = open_client(settings, Token("0123456789abcdef", "test"))
    assert opened.client._connection.api == sent_to  # type: ignore[attr-defined]
    await opened.aclose()
