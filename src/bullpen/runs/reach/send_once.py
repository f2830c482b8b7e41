"""Sends one notice and says how that went: a program of its own, so that it can be killed.

It reads an order as JSON from its standard input, where no other process can read the address, and
prints its answer as one line of JSON.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

_WHY_MAX = 300
_GONE = frozenset({404, 410})
_REDIRECTS_FROM, _REDIRECTS_TO = 300, 400


class _Heard(logging.Handler):
    """Keeps the last thing that a library complained about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()


def main() -> None:
    """Carry out the order on standard input."""
    order = json.loads(sys.stdin.buffer.read())
    try:
        answer = _push(order) if order["way"] == "push" else _apprise(order)
    except ModuleNotFoundError as error:
        answer = {"ok": False, "why": f"{error.name} is missing: pip install 'bullpen[notify]'"}
    except Exception as error:
        # What libraries raise is not known; it must not be lost.
        answer = {"ok": False, "why": f"{type(error).__name__}: {error}"[:_WHY_MAX]}
    print(json.dumps(answer))


def _apprise(order: dict[str, Any]) -> dict[str, Any]:
    """Send by apprise, or with `check` only look whether it knows the address."""
    import apprise

    heard = _Heard()
    logger = logging.getLogger("apprise")
    logger.addHandler(heard)
    logger.propagate = False
    asset = apprise.AppriseAsset(
        app_id="Bullpen",
        app_desc="Teams of coding agents",
        app_url="https://bullpen-dev.github.io/bullpen",
        async_mode=False,
        secure_logging=True,
        http_redirects=False,
        default_service_retry=0,
        # Pictures of apprise on somebody else's server.
        image_url_mask="",
        image_url_logo="",
        storage_mode="memory",
    )
    service = apprise.Apprise.instantiate(order["url"], asset=asset)
    if service is None:
        return {"ok": False, "why": "apprise cannot use the address", "final": True}
    if order["way"] == "check":
        return {"ok": True, "why": ""}
    # The address must not lead elsewhere, nor send twice: we try again ourselves.
    service.redirects = False
    service.retry = 0
    sender = apprise.Apprise(asset=asset)
    sender.add(service)
    sent = sender.notify(
        title=order["title"],
        body=order["body"],
        body_format=apprise.NotifyFormat.TEXT,
        interpret_escapes=False,
    )
    return {"ok": bool(sent), "why": "" if sent else heard.last[:_WHY_MAX] or "it was refused"}


def _push(order: dict[str, Any]) -> dict[str, Any]:
    """Push to one browser."""
    import py_vapid
    import pywebpush
    import requests

    class Straight(requests.Session):
        """A session that follows nobody to another address."""

        def request(self, *args: Any, **options: Any) -> requests.Response:
            return super().request(*args, **{**options, "allow_redirects": False})

    browser = order["browser"]
    with Straight() as session:
        pusher = pywebpush.WebPusher(
            {
                "endpoint": browser["endpoint"],
                "keys": {"p256dh": browser["p256dh"], "auth": browser["auth"]},
            },
            requests_session=session,
        )
        vapid = py_vapid.Vapid02.from_pem(order["key"].encode())
        headers = vapid.sign({"sub": order["subject"], "aud": order["audience"]})
        answer = pusher.send(
            json.dumps(order["payload"], ensure_ascii=False).encode(),
            {**headers, "Urgency": "high", "Topic": order["topic"]},
            ttl=order["ttl_s"],
            timeout=order["timeout_s"],
        )
    status = answer.status_code
    ok = 200 <= status < _REDIRECTS_FROM
    moved = _REDIRECTS_FROM <= status < _REDIRECTS_TO
    why = "it wants to send us elsewhere" if moved else f"status {status}"
    return {"ok": ok, "why": "" if ok else why, "gone": status in _GONE}


if __name__ == "__main__":
    main()
