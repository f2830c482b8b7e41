"""Notices to services: what ntfy, Slack, Telegram and browsers receive, and what fails how."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from bullpen.protocol.clock import iso
from bullpen.runs.reach.browsers import Browsers
from bullpen.runs.reach.courier import ProcessCourier
from bullpen.runs.reach.notice_text import Link, Notice, notice_of
from bullpen.view.notable_events import Happening
from support.reach.pushed import SubscribedBrowser
from support.reach.receivers import Receiver, created, receiver

pytestmark = pytest.mark.anyio

LINK = "https://team.example.com/answer/abcdefgh234567"
HOSTILE = (
    "<b>bold</b> <!channel> <https://evil.example|safe> [safe](https://evil.example) *now*"
    " @everyone www.evil.example javascript:alert(1) `code` &lt;i&gt; mailto:a@evil.example"
)
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/"
TELEGRAM = "tgram://123456789:abcdefg_hijklmnop/12315544/"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Receiver]:
    async with receiver(tmp_path) as found:
        yield found


def courier(service: Receiver) -> ProcessCourier:
    return ProcessCourier({**os.environ, **service.environ})


def asked(text: str = "bob asks: Bash git push origin main") -> Notice:
    happening = Happening("asked", "alpha", iso(1), text, agent="bob", seq=4, request="perm-1")
    links = [Link("Allow", f"{LINK}a"), Link("Deny", f"{LINK}b"), Link("Open", f"{LINK}c")]
    return notice_of(
        "alpha", [happening], links=lambda _: links, redacted=lambda text: text, tag="0" * 32
    )


async def test_ntfy_gets_the_words_and_the_links(service: Receiver) -> None:
    address = f"ntfy://127.0.0.1:{service.port}/alerts"
    found = await courier(service).send(address, asked(), timeout_s=30)
    assert found.ok, found.why
    (got,) = service.received
    assert got.fields == {
        "topic": "alerts",
        "title": "Bullpen: alpha needs you",
        "message": (
            f"bob asks: Bash git push origin main\n\nAllow: {LINK}a\nDeny: {LINK}b\nOpen: {LINK}c"
        ),
    }
    assert "x-icon" not in got.headers, "no picture of somebody else is loaded"


async def test_slack_gets_the_words_without_markup_and_our_links(service: Receiver) -> None:
    found = await courier(service).send(SLACK, asked(f"bob asks: {HOSTILE}"), timeout_s=30)
    assert found.ok, found.why
    (got,) = service.to("hooks.slack.com")
    said = json.dumps(got.fields, ensure_ascii=False)
    assert f"{LINK}a" in said
    for trick in (
        "<!channel",
        "<https",
        "](http",
        "evil.example",
        "javascript:",
        "@everyone",
        "*now*",
    ):
        assert trick not in said, trick


async def test_telegram_gets_the_words_without_markup_and_our_links(service: Receiver) -> None:
    found = await courier(service).send(TELEGRAM, asked(f"bob asks: {HOSTILE}"), timeout_s=30)
    assert found.ok, found.why
    got = service.to("api.telegram.org")[-1]
    assert got.path == "/bot123456789:abcdefg_hijklmnop/sendMessage"
    text = got.fields["text"]
    assert f"{LINK}a" in text
    for trick in ("<b>bold", "<!channel", "evil.example", "javascript:", "@everyone", "<i>"):
        assert trick not in text, trick


async def test_a_browser_gets_what_it_alone_can_read_signed_by_the_home(
    service: Receiver, tmp_path: Path
) -> None:
    service.respond = created
    browser, browsers = SubscribedBrowser(), Browsers(tmp_path / "home")
    found = await courier(service).push(
        browser.of("alpha"), browsers.private_key(), asked(), timeout_s=30
    )
    assert found.ok, found.why
    (got,) = service.to("push.example.com")
    assert b"git push" not in got.body
    said = browser.read(got.body)
    assert said == {
        "title": "Bullpen: alpha needs you",
        "words": "bob asks: Bash git push origin main",
        "link": f"{LINK}c",
        "actions": {"allow": f"{LINK}a", "deny": f"{LINK}b"},
        "tag": "0" * 32,
    }
    assert got.headers["urgency"] == "high"
    assert got.headers["topic"] == "0" * 32
    assert int(got.headers["ttl"]) > 3_600
    _check_signature(got.headers["authorization"], browsers.public_key())


def _check_signature(authorization: str, public: str) -> None:
    """The token names our key and the service, and was signed with it."""
    fields = dict(
        part.strip().split("=", 1) for part in authorization.removeprefix("vapid ").split(",")
    )
    assert fields["k"] == public
    head, body, signature = fields["t"].split(".")
    claims = json.loads(_bytes(body))
    assert claims["aud"] == "https://push.example.com"
    assert time.time() < claims["exp"] <= time.time() + 24 * 3_600
    raw = _bytes(signature)
    der = utils.encode_dss_signature(
        int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    )
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(public))
    key.verify(der, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize(("status", "gone"), [(404, True), (410, True), (429, False), (500, False)])
async def test_a_browser_that_is_gone_is_told_apart_from_one_that_fails(
    service: Receiver, tmp_path: Path, status: int, gone: bool
) -> None:
    service.respond = lambda _: (status, {}, b"no")
    key = Browsers(tmp_path / "home").private_key()
    found = await courier(service).push(SubscribedBrowser().of("alpha"), key, asked(), timeout_s=30)
    assert (found.ok, found.gone) == (False, gone)
    assert str(status) in found.why


async def test_nobody_is_followed_to_another_address(service: Receiver, tmp_path: Path) -> None:
    service.respond = lambda _: (307, {"Location": "https://api.telegram.org/stolen"}, b"")
    key = Browsers(tmp_path / "home").private_key()
    there = courier(service)
    pushed = await there.push(SubscribedBrowser().of("alpha"), key, asked(), timeout_s=30)
    assert not pushed.ok
    assert "elsewhere" in pushed.why
    for address in (f"ntfy://127.0.0.1:{service.port}/alerts?redirect=yes&retry=3&wait=0", SLACK):
        sent = await there.send(address, asked(), timeout_s=30)
        assert not sent.ok
    assert service.to("api.telegram.org") == []
    assert len(service.received) == 3, "and nothing is tried again by the library"


async def test_a_refusal_is_told_without_the_secrets_of_the_address(service: Receiver) -> None:
    service.respond = lambda got: (401, {}, b"wrong token " + got.path.encode())
    found = await courier(service).send(TELEGRAM, asked(), timeout_s=30)
    assert not found.ok
    assert found.why
    assert "abcdefg_hijklmnop" not in found.why
    assert "123456789" not in found.why


async def test_a_service_that_hangs_is_given_up_in_time(service: Receiver) -> None:
    service.silent_s = 600
    address = f"ntfy://127.0.0.1:{service.port}/alerts?rto=500"
    with anyio.fail_after(120):
        found = await courier(service).send(address, asked(), timeout_s=4)
    assert not found.ok
    assert "longer than 4 s" in found.why


async def test_an_address_that_apprise_does_not_know_is_found_before_anything_is_sent(
    service: Receiver,
) -> None:
    there = courier(service)
    assert not (await there.check("nonsense://example", timeout_s=60)).ok
    assert (await there.check(SLACK, timeout_s=60)).ok
    assert service.received == []
