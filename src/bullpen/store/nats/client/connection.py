"""A process's connection to NATS: opened when first needed, kept, and reopened."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats import errors as nats_errors
from nats.aio.client import Client

from bullpen.errors import Invalid, Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.clock import iso
from bullpen.store.nats.client.api_requests import Reader
from bullpen.store.nats.client.mux import DirectClient, complaint

_log = logging.getLogger(__name__)


class _NoTalkOfTls(logging.Filter):
    """Hides an asyncio warning about how the library ends TLS connections."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "eof_received() has no effect" not in str(record.msg)


_NO_TALK = _NoTalkOfTls()
_NOBODY_S = 1.0
"""How long to wait for a server when nobody listens: it may be starting."""

SCHEMES = ("nats://", "tls://")

_SEED = re.compile(r"SU[A-Z2-7]{56}")
_WHERE_KEYS_ARE = (
    "Servers of `bullpen server start` have theirs in the home that started them, in server-keys."
)

_LED_S = 2.0
"""How long a stream that stored something keeps its leader: an election takes four seconds."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which servers, with which credentials: a `.creds` file, or the seed of a server's key."""

    servers: tuple[str, ...]
    creds: Path | None = None
    ca: Path | None = None

    @classmethod
    def parse(cls, url: str, *, creds: str | None = None, ca: str | None = None) -> Endpoint:
        """Parse an address such as `nats://one:4222,two:4222`. Raises Invalid."""
        scheme = next((each for each in SCHEMES if url.startswith(each)), None)
        hosts = [] if scheme is None else [each.strip() for each in url[len(scheme) :].split(",")]
        if scheme is None or not all(hosts):
            raise Invalid(
                f"{url!r} is not an address of NATS servers.",
                remedy="Write nats://host:4222, or several hosts separated by commas.",
            )
        if any("@" in host for host in hosts):
            raise Invalid(
                "The address of NATS servers must not contain a user or password, because "
                "others could see it.",
                remedy="Set BULLPEN_CREDS to the path of a .creds file.",
            )
        return cls(
            tuple(scheme + host.removeprefix(scheme) for host in hosts),
            None if not creds else Path(creds).expanduser(),
            None if not ca else Path(ca).expanduser(),
        )

    def __str__(self) -> str:
        return ",".join(self.servers)


@dataclass(frozen=True, slots=True)
class Bearer:
    """What credentials say about their owner."""

    name: str | None = None
    teams: tuple[str, ...] = ()
    reads_only: bool = False
    expires_s: int | None = None
    is_server_key: bool = False
    is_admin: bool = False

    @property
    def may_create(self) -> bool:
        """Return whether they allow to create streams."""
        return self.name is None or self.is_admin

    @property
    def is_bound(self) -> bool:
        """Return whether they are for certain teams only."""
        return bool(self.teams)

    @property
    def asks_leaders(self) -> bool:
        """Return whether they allow to ask the leader of a stream for a message."""
        return not self.is_bound and not self.reads_only


def bearer_of(creds: Path | None) -> Bearer:
    """Return whose credentials are in a file. Raises Unavailable if it has none."""
    if creds is None:
        return Bearer()
    try:
        text = creds.read_text(encoding="utf-8")
        if _SEED.fullmatch(text.strip()):
            return Bearer(is_server_key=True)
        lines = text.splitlines()
        at = next(index for index, line in enumerate(lines) if "BEGIN NATS USER JWT" in line)
        payload = lines[at + 1].strip().split(".")[1]
        claims = json_text.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        tags = [str(tag) for tag in claims.get("nats", {}).get("tags") or ()]
        name = str(claims["name"])
        expires_s = int(claims["exp"]) if claims.get("exp") else None
    except (OSError, ValueError, KeyError, IndexError, StopIteration) as error:
        raise Unavailable(
            f"The credentials in {creds} cannot be used: {type(error).__name__}.",
            remedy="Set BULLPEN_CREDS to a file that `bullpen auth mint` or "
            "`bullpen server start` wrote.",
        ) from None
    teams = tuple(tag.removeprefix("team:") for tag in tags if tag.startswith("team:"))
    return Bearer(name, teams, "role:read-only" in tags, expires_s, is_admin="role:admin" in tags)


class _TlsClient(DirectClient):
    """A client that never sends anything unencrypted.

    The library would, to a server that does not ask for TLS, whatever its address says. Its first
    words are the key's token and a signature, with which whoever reads them could log in elsewhere.
    """

    def _connect_command(self) -> bytes:
        writer = getattr(self._transport, "_io_writer", None)
        if writer is None or writer.get_extra_info("ssl_object") is None:
            raise nats_errors.SecureConnRequiredError
        return super()._connect_command()


class NatsConnection:
    """One connection, shared by everything in a process that uses these servers."""

    def __init__(self, endpoint: Endpoint, *, connect_s: float = 5.0) -> None:
        self.endpoint = endpoint
        self.bearer = bearer_of(endpoint.creds)
        self._connect_s = connect_s
        self._client: Client | None = None
        self._reader: Reader | None = None
        self._connecting = asyncio.Lock()
        self._closed = False
        self.on_reconnect: list[Callable[[], None]] = []
        self._led: dict[str, float] = {}

    @property
    def open_client(self) -> Client | None:
        """Return the client if it is connected or reconnects on its own; `client` opens one."""
        found = self._client
        return None if found is None or found.is_closed else found

    async def client(self) -> Client:
        """Return the connected client. Raises Unavailable if no server can be reached in time."""
        if (found := self.open_client) is not None:
            return found
        async with self._connecting:
            if self._closed:
                raise Unavailable("The store was closed.", remedy="Open it again.")
            if self._client is None or self._client.is_closed:
                self._refuse_ended()
                self._client = await self._connect()
                self._reader = Reader(self._client)
            return self._client

    def _refuse_ended(self) -> None:
        """Raise Unavailable if the key expired, unless its file was replaced."""
        self.bearer = bearer_of(self.endpoint.creds)
        ends_s = self.bearer.expires_s
        if ends_s is not None and ends_s <= time.time():
            raise Unavailable(
                f"The key {self.bearer.name!r} expired at {iso(ends_s * 1000)}.",
                remedy=f"Ask for a new one (bullpen auth rotate {self.bearer.name}), and put it "
                f"into {self.endpoint.creds}.",
            )

    async def reader(self) -> Reader:
        """Return what reads many messages at once."""
        await self.client()
        assert self._reader is not None
        return self._reader

    def was_led(self, stream: str, asked: float) -> None:
        """Record that a majority of servers stored something after this moment."""
        self._led[stream] = max(asked, self._led.get(stream, 0.0))

    def is_led(self, stream: str) -> bool:
        """Return whether the leader of a stream can be believed without a check."""
        return time.monotonic() - self._led.get(stream, 0.0) < _LED_S

    async def _connect(self) -> Client:
        if self._wants_tls:
            logging.getLogger("asyncio").addFilter(_NO_TALK)
        client = _TlsClient() if self._wants_tls else DirectClient()
        refusals: list[Exception] = []
        closing: list[asyncio.Task[None]] = []

        async def note(error: Exception) -> None:
            refusals.append(error)
            if _is_about_key(error) and client.is_reconnecting:
                # The library would try for ever.
                closing.append(asyncio.create_task(client.close()))
            # By default the library prints a traceback to the terminal.
            _log.info("nats: %s", error)
            complaint(client, error)

        # A separate task: the library can swallow a cancellation and continue forever.
        options = {**self._options(), "error_cb": note}
        connecting = asyncio.create_task(client.connect(**options))
        deadline = time.monotonic() + self._connect_s
        try:
            while not connecting.done() and time.monotonic() < deadline:
                await asyncio.wait({connecting}, timeout=0.05)
                if _is_hopeless(refusals, self._connect_s - (deadline - time.monotonic())):
                    break
            if connecting.done():
                connecting.result()
                return client
            raise self._unreachable(_told(refusals, refusals[-1] if refusals else TimeoutError()))
        except (nats_errors.Error, OSError, TimeoutError, ValueError) as error:
            raise self._unreachable(_told(refusals, error)) from None
        finally:
            if not client.is_connected:
                await _abandon(client)
                await _end(connecting)

    @property
    def _wants_tls(self) -> bool:
        return self.endpoint.ca is not None or self.endpoint.servers[0].startswith("tls://")

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "servers": list(self.endpoint.servers),
            "name": f"bullpen {os.getpid()}",
            "reconnected_cb": self._came_up,
            "closed_cb": self._was_given_up,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.25,
            "connect_timeout": 2,
            "ping_interval": 5,
            "max_outstanding_pings": 2,
            "pending_size": 32 * 1024 * 1024,
            # All subjects are made of tokens.
            "skip_subject_validation": True,
        }
        if self.endpoint.creds is not None:
            form = "nkeys_seed" if self.bearer.is_server_key else "user_credentials"
            options[form] = str(self.endpoint.creds)
        if self.bearer.name is not None:
            options["inbox_prefix"] = f"_INBOX_{self.bearer.name}"
        if self._wants_tls:
            try:
                options["tls"] = ssl.create_default_context(cafile=self.endpoint.ca)
            except OSError as error:
                raise Unavailable(
                    f"The certificate {self.endpoint.ca} cannot be read: {error.strerror}.",
                    remedy="Set BULLPEN_CA to the certificate file of the servers' CA.",
                ) from None
        return options

    def _unreachable(self, error: BaseException) -> Unavailable:
        why = str(error) or type(error).__name__
        remedy = "Start one with `bullpen server start`, or correct BULLPEN_STORE."
        if _is_about_key(error) and self.bearer.name is not None:
            return Unavailable(
                f"{self.endpoint} refuses the key {self.bearer.name!r}: it was revoked or "
                "replaced, or is not known there yet.",
                remedy=f"Put the current key into {self.endpoint.creds}, or run: bullpen auth push",
            )
        if _is_about_key(error) and self.bearer.is_server_key:
            return Unavailable(
                f"{self.endpoint} refuses the key in {self.endpoint.creds}: it is the key of other "
                "servers.",
                remedy=f"Set BULLPEN_CREDS to the key of these servers. {_WHERE_KEYS_ARE}",
            )
        if _is_about_key(error) and self.endpoint.creds is None:
            return Unavailable(
                f"{self.endpoint} requires a key, and there is none for it.",
                remedy=f"Set BULLPEN_CREDS to the file with your key. {_WHERE_KEYS_ARE}",
            )
        if _is_about_key(error) or isinstance(error, ConnectionResetError | BrokenPipeError):
            # Some servers close the connection before they have said why.
            remedy = "Check the credentials (BULLPEN_CREDS) and TLS (tls://, BULLPEN_CA)."
        return Unavailable(f"No NATS server answers at {self.endpoint}: {why}.", remedy=remedy)

    async def _came_up(self) -> None:
        for tell in self.on_reconnect:
            tell()

    async def _was_given_up(self) -> None:
        """Tell the listeners if the library gave the connection up after a server's refusal."""
        if self._client is not None and self._client.is_closed and not self._closed:
            await self._came_up()

    async def aclose(self) -> None:
        """Close the connection for good."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await _abandon(client)


async def _abandon(client: Client) -> None:
    closing = asyncio.create_task(client.close())
    try:
        await asyncio.wait({closing}, timeout=2.0)
    finally:
        closing.cancel()
    # While it looks for a server, the library cancels its own closing: nobody cancelled this task.
    if closing.done() and not closing.cancelled() and (error := closing.exception()) is not None:
        _log.debug("closing a connection failed: %s", error)


def _is_about_key(error: BaseException) -> bool:
    """Return whether a server refused a key."""
    said = str(error).lower()
    return "authorization" in said or "authentication" in said


def _told(refusals: list[Exception], error: Exception) -> Exception:
    """Return the refusal that says most: after one of a key, the closed connection follows."""
    return next((each for each in refusals if _is_about_key(each)), error)


def _is_hopeless(refusals: list[Exception], waited_s: float) -> bool:
    """Return whether waiting for a connection is useless."""
    if any(_is_about_key(error) for error in refusals):
        return True
    if any(isinstance(error, nats_errors.SecureConnRequiredError) for error in refusals):
        return True
    nobody = all(isinstance(error, ConnectionRefusedError) for error in refusals)
    return nobody and bool(refusals) and waited_s > _NOBODY_S


async def _end(task: asyncio.Task[None]) -> None:
    for _ in range(20):
        if task.done():
            break
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
    if task.done() and not task.cancelled():
        task.exception()  # Known: those waiting for it have been told.
