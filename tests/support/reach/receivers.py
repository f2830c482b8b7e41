"""HTTP receivers on loopback that pass for the hosts of services, with their own certificate."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS = ("hooks.slack.com", "api.telegram.org", "push.example.com")


@dataclass(slots=True)
class Received:
    """One request."""

    host: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The body, as JSON or as a form."""
        if self.body[:1] == b"{":
            found: dict[str, Any] = json.loads(self.body)
            return found
        return {key: values[-1] for key, values in parse_qs(self.body.decode()).items()}


Answer = tuple[int, dict[str, str], bytes]
Respond = Callable[[Received], Answer]


def fine(got: Received) -> Answer:
    """What services say if all is well."""
    if got.host == "hooks.slack.com":
        return 200, {"Content-Type": "text/html"}, b"ok"
    return 200, {"Content-Type": "application/json"}, b'{"ok": true, "result": {}}'


def created(_: Received) -> Answer:
    """What the service of a browser says if all is well."""
    return 201, {}, b""


@dataclass(slots=True)
class Receiver:
    """A receiver that listens. As a proxy it passes for every host there is."""

    port: int
    environ: dict[str, str]
    received: list[Received] = field(default_factory=list)
    respond: Respond = fine
    # How long it lets others wait.
    silent_s: float = 0.0

    def to(self, host: str) -> list[Received]:
        """What came for a host."""
        return [each for each in self.received if each.host == host]


@asynccontextmanager
async def receiver(folder: Path, *, hosts: Sequence[str] = HOSTS) -> AsyncIterator[Receiver]:
    """A receiver on loopback, and in `environ` what makes programs use it for all other hosts."""
    authority, context = _certificates(folder, hosts)
    found = Receiver(0, {})

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _serve(found, context, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    found.environ = {
        "HTTPS_PROXY": f"http://127.0.0.1:{found.port}",
        "REQUESTS_CA_BUNDLE": str(authority),
        "NO_PROXY": "127.0.0.1",
    }
    async with server:
        yield found


async def _serve(
    found: Receiver,
    context: ssl.SSLContext,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    host = "127.0.0.1"
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        if method == "CONNECT":
            host = path.partition(":")[0]
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await writer.drain()
            await writer.start_tls(context)
            continue
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Received(host, method, path, headers, body)
        found.received.append(request)
        await asyncio.sleep(found.silent_s)
        status, more, answer = found.respond(request)
        lines = [f"HTTP/1.1 {status} Answer", f"Content-Length: {len(answer)}"]
        lines += [f"{name}: {value}" for name, value in more.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + answer)
        await writer.drain()


def _certificates(folder: Path, hosts: Sequence[str]) -> tuple[Path, ssl.SSLContext]:
    """The file of an authority of this test, and the context of a server that it vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Receivers of tests")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "receivers.pem", folder / "receivers.key"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return public, context
