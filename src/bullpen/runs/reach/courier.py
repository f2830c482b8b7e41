"""Carries one notice to one place, each time by a program of its own that can be killed."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from bullpen.agents.system.secrets import Redactor
from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.runs.reach import send_once
from bullpen.runs.reach.browsers import Browser
from bullpen.runs.reach.notice_text import Notice
from bullpen.workspace.merge_queue.user_command import run_command

_PROGRAM = shlex.join([sys.executable, "-P", "-m", send_once.__name__])
_PUSH_WORDS_BYTES_MAX = 2_000
_WHY_MAX = 300
_TTL_S = 12 * 60 * 60
_CONNECT_S = 10.0
_SUBJECT = "https://bullpen-dev.github.io"


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a delivery went. `gone`: there is nobody at that place any more."""

    ok: bool
    why: str = ""
    gone: bool = False


class Courier(Protocol):
    """What carries notices."""

    async def send(self, address: str, notice: Notice, *, timeout_s: float) -> Delivery:
        """Send to an address of apprise."""

    async def push(
        self, browser: Browser, key: bytes, notice: Notice, *, timeout_s: float
    ) -> Delivery:
        """Push to a browser."""


class ProcessCourier:
    """Starts a program for each notice. A service that hangs is killed with it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    async def check(self, address: str, *, timeout_s: float) -> Delivery:
        """Find out whether apprise knows an address. Nothing is sent."""
        return await self._carry({"way": "check", "url": address}, address, timeout_s)

    async def send(self, address: str, notice: Notice, *, timeout_s: float) -> Delivery:
        """Send to an address of apprise."""
        order = {"way": "apprise", "url": address, "title": notice.title, "body": notice.body}
        return await self._carry(order, address, timeout_s)

    async def push(
        self, browser: Browser, key: bytes, notice: Notice, *, timeout_s: float
    ) -> Delivery:
        """Push to a browser."""
        parts = urlsplit(browser.endpoint)
        order = {
            "way": "push",
            "browser": asdict(browser),
            "key": key.decode(),
            "subject": _SUBJECT,
            "audience": f"{parts.scheme}://{parts.netloc}",
            "payload": payload_of(notice),
            "topic": notice.tag,
            "ttl_s": _TTL_S,
            "timeout_s": min(_CONNECT_S, timeout_s),
        }
        return await self._carry(order, browser.endpoint, timeout_s)

    async def _carry(self, order: Mapping[str, Any], address: str, timeout_s: float) -> Delivery:
        ended = await run_command(
            f"exec {_PROGRAM}",
            # Nothing of a project is imported.
            cwd=Path("/"),
            env=self._environ,
            seconds=timeout_s,
            given=json.dumps(order).encode(),
        )
        how, _, said = ended.words.partition("\n")
        try:
            answer = json.loads(said.rsplit("\n", 1)[-1])
            found = Delivery(bool(answer["ok"]), str(answer["why"]), bool(answer.get("gone")))
        except (ValueError, KeyError, TypeError):
            found = Delivery(False, how if ended.code is None else f"{how}: {said}")
        return Delivery(found.ok, _without_secrets(found.why, address), found.gone)


def payload_of(notice: Notice) -> dict[str, Any]:
    """What a browser gets, as its service worker reads it."""
    words = "\n".join(notice.lines).encode()[:_PUSH_WORDS_BYTES_MAX].decode(errors="ignore")
    links = {each.words.partition(" ")[0].lower(): each.address for each in notice.links}
    first = links.get("open") or next(iter(links.values()), "/")
    return {
        "title": notice.title,
        "words": words,
        "link": first,
        "actions": {name: links[name] for name in ("allow", "deny") if name in links},
        "tag": notice.tag,
    }


def _without_secrets(text: str, address: str) -> str:
    """Text without any part of an address that could be a secret."""
    parts = {part for part in re.split(r"[/:@?&=,#\s]+", address) if part}
    hidden = Redactor({f"ADDRESS_TOKEN_{number}": part for number, part in enumerate(parts)})
    return re.sub(r"ADDRESS_TOKEN_\d+", "ADDRESS", hidden.text(one_line(text, _WHY_MAX)))
