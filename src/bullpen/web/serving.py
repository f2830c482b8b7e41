"""Serving the dashboard: where it listens, who is let in, and how it ends."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import uvicorn

from bullpen.errors import Invalid, Unavailable
from bullpen.office import Office
from bullpen.web.app import dashboard
from bullpen.web.security import LOOPBACK, Gate, Tokens

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_GRACE_S = 1
_HEADER_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where to look: `act` is None if nobody can do anything there."""

    act: str | None
    look: str


async def serve(
    office: Office,
    team: str,
    *,
    host: str,
    port: int,
    names: Sequence[str],
    read_only: bool,
    ready: Callable[[Addresses], object],
) -> None:
    """Show a team to everybody with a token until a signal comes. `ready` hears the addresses.

    Raises:
        Invalid: the host is no address of this machine.
        NotFound: there is no such team.
        Unavailable: the port cannot be had, or the store cannot be read.
    """
    board = await dashboard(office, team)
    tokens = Tokens(read_only=read_only)
    with listening(host, port) as taken:
        bound = taken.getsockname()[1]
        hosts = (*LOOPBACK, host, *names)
        server = Server(
            uvicorn.Config(
                Gate(board.app(), tokens, hosts=hosts, port=bound),
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=_GRACE_S,
                h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
            )
        )

        def end() -> None:
            # Whoever looks is let go first: open streams would hold up the end.
            board.live.end("The server has ended.")
            server.should_exit = True

        shown = names[0] if names else host
        shown = f"[{shown}]" if ":" in shown else shown
        begin = f"http://{shown}:{bound}/?token="
        async with anyio.create_task_group() as group:
            group.start_soon(_end_by_signal, end)
            group.start_soon(board.run)
            act = None if tokens.acting is None else begin + tokens.acting
            ready(Addresses(act, begin + tokens.looking))
            await server.serve(sockets=[taken])
            group.cancel_scope.cancel()


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens at an address of this machine."""
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
                f"Cannot listen at {host}:{port}: {error.strerror}.",
                remedy="Name another --port, or leave it out for a free one.",
            ) from error
        yield taken


def reach(host: str, names: Sequence[str]) -> bool:
    """Whether other machines reach a host; for that, the names by which they ask must be given.

    Raises:
        Invalid: the host is no address, or is not loopback and no name was given.
    """
    if _address(host).is_loopback:
        return False
    if not names:
        raise Invalid(
            f"Everybody who reaches {host} could try to open the dashboard.",
            remedy="If that is meant, name the host that browsers ask for: --allow-host NAME",
        )
    return True


class Server(uvicorn.Server):
    """A server that leaves signals to us: it would raise them again when it has ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise Invalid(
            f"{host!r} is no address.", remedy="Name one of this machine, such as 127.0.0.1."
        ) from None


async def _end_by_signal(end: Callable[[], object]) -> None:
    with anyio.open_signal_receiver(*_ENDINGS) as received:
        async for _ in received:
            end()
