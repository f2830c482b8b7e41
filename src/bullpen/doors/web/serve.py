"""Runs the web server of the dashboard."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import anyio

from bullpen.app.app import App
from bullpen.app.config.public_address import host_of
from bullpen.doors.http_server import HttpServer, http_config
from bullpen.doors.web.app import dashboard
from bullpen.doors.web.security import LOOPBACK, AccessCheck, WebTokens
from bullpen.errors import BullpenError, Invalid, Unavailable
from bullpen.runs.reach.for_team import person_notices
from bullpen.runs.reach.web_address import served_at

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LEFT_LOOK_S = 20.0
_HEADER_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses to open: `act` allows actions and is None for a read-only server.

    `once` makes an address that signs in one browser with all rights of the server.
    """

    act: str | None
    look: str
    once: Callable[[], str]


async def serve(
    app: App,
    team: str,
    *,
    host: str,
    port: int,
    names: Sequence[str],
    read_only: bool,
    public_url: str | None = None,
    ready: Callable[[Addresses], object],
) -> None:
    """Serve a team to everybody with a token until a signal comes; `ready` gets the addresses.

    `public_url` is where a phone reaches the server. Unless it is read-only, notices of the team
    then carry links that answer, and what an ended run has not sent yet is sent from here.

    Raises:
        Invalid: the host is not an IP address.
        NotFound: the team does not exist.
        Unavailable: the port is not free, or the store cannot be read.
    """
    board = await dashboard(app, team)
    tokens = WebTokens(read_only=read_only)
    with listening(host, port) as taken:
        bound = taken.getsockname()[1]
        public_name = () if public_url is None else (host_of(public_url),)
        hosts = (*LOOPBACK, host, *names, *public_name)
        server = HttpServer(
            http_config(
                AccessCheck(
                    board.app(),
                    tokens,
                    hosts=hosts,
                    port=bound,
                    public=board.public_app(read_only=read_only),
                ),
                h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
            )
        )

        def end() -> None:
            # Open streams would delay the shutdown.
            board.live.end("The server was stopped.")
            server.should_exit = True

        shown = names[0] if names else host
        shown = f"[{shown}]" if ":" in shown else shown
        begin = f"{public_url or f'http://{shown}:{bound}'}/?token="
        home = app.settings.home
        async with anyio.create_task_group() as group:
            group.start_soon(_end_by_signal, end)
            group.start_soon(board.run)
            if not read_only:
                group.start_soon(_send_left, app, team)
            act = None if tokens.acting is None else begin + tokens.acting
            ready(Addresses(act, begin + tokens.looking, lambda: begin + tokens.code()))
            with served_at(home, team, None if read_only else public_url):
                await server.serve(sockets=[taken])
            group.cancel_scope.cancel()


async def _send_left(app: App, team: str) -> None:
    """Send the notices that an ended run has left, such as a digest after quiet hours."""
    notices = await person_notices(app, app.teams.open(team), lambda words: None)
    while True:
        with suppress(BullpenError):
            await notices.send_left()
        await anyio.sleep(_LEFT_LOOK_S)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens on an address of this machine."""
    address = _address(host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    with taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((str(address), port))
            taken.listen(128)
        except OSError as error:
            raise Unavailable(
                f"Cannot listen on {host}:{port}: {error.strerror}.",
                remedy="Choose another --port, or omit it to use a free port.",
            ) from error
        yield taken


def reach(host: str, names: Sequence[str]) -> bool:
    """Whether other machines can reach a host. Raises Invalid if they can and `names` is empty."""
    if _address(host).is_loopback:
        return False
    if not names:
        raise Invalid(
            f"Other machines could open the dashboard on {host}.",
            remedy="To allow that, give the host name that browsers use: --allow-host NAME",
        )
    return True


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise Invalid(
            f"{host!r} is not an IP address.",
            remedy="Give an address of this machine, such as 127.0.0.1.",
        ) from None


async def _end_by_signal(end: Callable[[], object]) -> None:
    with anyio.open_signal_receiver(*_ENDINGS) as received:
        async for _ in received:
            end()
