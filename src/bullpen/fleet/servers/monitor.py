"""Asks a server's monitoring port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPHandler, HTTPSHandler, ProxyHandler, build_opener

from anyio import to_thread

from bullpen.errors import Unavailable

ANSWER_S = 5.0
_ANSWER_BYTES_MAX = 256 * 1024 * 1024


async def ask(base_url: str, path: str, *, timeout_s: float = ANSWER_S) -> dict[str, Any]:
    """Return a server's answer to a question such as `/varz`. Raises Unavailable."""
    return await to_thread.run_sync(_ask, base_url, path, timeout_s, abandon_on_cancel=True)


def _ask(base_url: str, path: str, timeout_s: float) -> dict[str, Any]:
    url = base_url.rstrip("/") + path
    # The environment may name a proxy for everything; servers are asked directly.
    opener = build_opener(ProxyHandler({}), HTTPHandler(), HTTPSHandler())
    try:
        try:
            with opener.open(url, timeout=timeout_s) as answer:
                data = answer.read(_ANSWER_BYTES_MAX)
        except HTTPError as error:
            # An unhealthy server reports it with a status and still answers.
            with error:
                data = error.read(_ANSWER_BYTES_MAX)
        found = json.loads(data)
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"The server at {base_url} did not answer {path}: {_why(error)}.",
            remedy="Check that it runs and that its monitoring port can be reached.",
        ) from error
    if not isinstance(found, dict):
        raise Unavailable(
            f"The server at {base_url} did not answer {path} with a JSON object.",
            remedy="Check that this is the monitoring port of a nats-server.",
        )
    return found


def _why(error: Exception) -> object:
    reason = getattr(error, "reason", None) or error
    return getattr(reason, "strerror", None) or reason


def streams_of(jsz: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the streams in an answer to `/jsz?accounts=1&streams=1`, by account and name."""
    return {
        (account["name"], stream["name"]): stream
        for account in jsz.get("account_details") or ()
        for stream in account.get("stream_detail") or ()
    }
