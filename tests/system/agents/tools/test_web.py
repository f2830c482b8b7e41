"""WebFetch against a real server on this machine, which only a sandbox that names it may reach."""

from __future__ import annotations

import datetime
import gzip
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bullpen.agents.contracts.tool import Attachment
from bullpen.agents.permissions.rule_language.web_address import WebAddress
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.agents.tools.web.fetch import Fetched, Moved, Reach, fetch
from bullpen.errors import Unavailable
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.sandbox.network.host_rules import HostList, host_rule
from support.agents.pictures import pdf, png

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench, MakeBench


class Site(BaseHTTPRequestHandler):
    """A few pages."""

    seen: list[str] = []  # noqa: RUF012 - emptied by the fixture

    def do_GET(self) -> None:
        self.seen.append(f"{self.path} {self.headers['host']}")
        match self.path:
            case "/":
                self._send(
                    b"<title>Home</title><h1>Hello</h1><a href='/next'>next</a>", "text/html"
                )
            case "/moved":
                self._send(b"", "text/html", 302, location="/")
            case "/away":
                self._send(b"", "text/html", 302, location="https://example.org/there")
            case "/packed":
                body = gzip.compress(b"packed words")
                self._send(body, "text/plain", content_encoding="gzip")
            case "/a.png":
                self._send(png(), "image/png")
            case "/a.pdf":
                self._send(pdf("Hello there"), "application/pdf")
            case "/endless":
                self.send_response(200)
                self.end_headers()
                try:
                    while True:
                        self.wfile.write(b"word " * 20_000)
                except OSError:
                    pass
            case _:
                self._send(b"gone", "text/plain", 404)

    def _send(self, body: bytes, kind: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    Site.seen.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def browser(make_bench: MakeBench, site: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """An agent whose sandbox names the server and its port."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    return make_bench("ann", policy=Policy.new(sandbox=Sandbox.new(hosts=[site])).raw)


async def test_a_page_is_fetched_and_links_are_whole(browser: Bench, site: str) -> None:
    for path in ("/", "/moved"):
        told = await browser.ok("WebFetch", url=f"http://{site}{path}", prompt="What is there?")
        assert "Title: Home\n\n# Hello" in told and f"[next](http://{site}/next)" in told
    assert Site.seen == [f"/ {site}", f"/moved {site}", f"/ {site}"]


async def test_other_answers_are_told(browser: Bench, site: str) -> None:
    assert "packed words" in await browser.ok("WebFetch", url=f"http://{site}/packed")
    away = await browser.ok("WebFetch", url=f"http://{site}/away")
    assert "another host" in away and "https://example.org/there" in away
    assert "404 Not Found" in await browser.refused("WebFetch", url=f"http://{site}/gone")
    endless = await browser.ok("WebFetch", url=f"http://{site}/endless")
    assert "[Cut here" in endless and len(endless) < 60_000


async def test_an_image_and_a_pdf_are_seen(browser: Bench, site: str) -> None:
    shown: list[Attachment] = []
    tools = toolbox(browser.desk)
    for name in ("a.png", "a.pdf"):
        given = {"url": f"http://{site}/{name}"}
        text, failed = await call(tools, "WebFetch", given, browser.desk, attach=shown.append)
        assert not failed, text
    assert [each.media_type for each in shown] == ["image/png", "application/pdf"]
    assert "Hello there" in shown[1].instead


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "[::1]"])
async def test_this_machine_is_not_reached_without_such_a_sandbox(
    make_bench: MakeBench, site: str, name: str
) -> None:
    port = site.rpartition(":")[2]
    url = f"http://{name}:{port}/"
    for policy in (None, Policy.new(sandbox=Sandbox.new(network=True)).raw):
        ann = make_bench("ann", policy=policy)
        told = await ann.refused("WebFetch", url=url)
        assert "private network" in told or "not a plain URL" in told
    boxed = make_bench("ann", policy=Policy.new(sandbox=Sandbox.new()).raw)
    assert "do not have the tool" in await boxed.refused("WebFetch", url=url)
    assert Site.seen == []


async def test_a_search_endpoint_of_this_machine_is_reached(
    make_bench: MakeBench, site: str
) -> None:
    ann = make_bench("ann", options={"search_url": f"http://{site}/find?q={{query}}"})
    assert "404" in await ann.refused("WebSearch", query="two words")
    assert Site.seen == [f"/find?q=two%20words {site}"]


def certificate(name: str) -> tuple[bytes, bytes]:
    """A certificate for a name that nobody else signed, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.public_bytes(pem), key.private_bytes(pem, form, plain)


@pytest.fixture
def secure_port(tmp_path: Path) -> Iterator[int]:
    """The port of a server with a certificate for site.test."""
    made, key = certificate("site.test")
    (tmp_path / "site.pem").write_bytes(made + key)
    Site.seen.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "site.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_certificate_must_be_for_the_name_although_an_address_is_connected_to(
    secure_port: int, tmp_path: Path
) -> None:
    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def get(name: str, trusted: ssl.SSLContext | None) -> Fetched | Moved:
        address = WebAddress.of(f"https://{name}:{secure_port}/packed")
        assert address is not None
        hosts = HostList((host_rule(address.place),))
        transport = None if trusted is None else httpx2.AsyncHTTPTransport(verify=trusted)
        return await fetch(address, Reach(hosts, find=here, transport=transport))

    def trusting() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(tmp_path / "site.pem"))

    found = await get("site.test", trusting())
    assert isinstance(found, Fetched) and found.body == b"packed words"
    assert Site.seen == [f"/packed site.test:{secure_port}"]
    with pytest.raises(Unavailable, match="certificate"):
        await get("other.test", trusting())
    with pytest.raises(Unavailable, match="certificate"):
        await get("site.test", None)
    assert len(Site.seen) == 1
