"""The network of one sandbox: its own namespace, with the proxy of the runner as the only way out.

Inside, a proxy listens on the loopback address, and the environment names it. For programs that do
not use a proxy, every named host leads to a loopback address with a listener on its port.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from bullpen.errors import Invalid
from bullpen.sandbox.network import start_in_namespace
from bullpen.sandbox.network.host_rules import HostList
from bullpen.sandbox.network.proxy import HostProxy, Refusal, UpstreamProxy

_PROXY = ("127.0.0.1", 3128)
_PLACES_MAX = 200
_FD_MIN = 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_STAGE = (
    # Root in a user namespace of its own, to listen on ports such as 443; the sandbox that is
    # started next is in another user namespace, where it has no rights in this one.
    *("--unshare-user", "--uid", "0", "--gid", "0", "--unshare-net", "--die-with-parent"),
    *("--cap-add", "CAP_NET_BIND_SERVICE", "--cap-add", "CAP_SETFCAP", "--dev-bind", "/", "/"),
)


class SandboxNetwork:
    """The network of one sandbox, while the context is open."""

    def __init__(
        self, hosts: HostList, env: Mapping[str, str], *, refused: Refusal | None = None
    ) -> None:
        self._places = _listeners(hosts)
        self._proxy = HostProxy(hosts, upstream=UpstreamProxy.of(env), refused=refused)
        self._ours: socket.socket | None = None
        self._theirs: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Wait for the listeners of the sandbox that is started next."""
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        with theirs:
            # Small numbers are used on the way into the sandbox.
            above = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _FD_MIN)
            self._theirs = socket.socket(fileno=above)
        self._serving = asyncio.create_task(self._serve(self._ours))
        return self

    @property
    def fds(self) -> tuple[int, ...]:
        """The file descriptors that the process of the sandbox has to inherit."""
        return () if self._theirs is None else (self._theirs.fileno(),)

    def has_started(self) -> None:
        """The process has inherited its end, so that only its end keeps the socket open."""
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None

    def stage(self, bwrap: str) -> list[str]:
        """The words before the command of the sandbox, which shares this network."""
        assert self._theirs is not None
        return [
            *(bwrap, *_STAGE, "--"),
            *(sys.executable, "-I", "-S", start_in_namespace.__file__),
            str(self._theirs.fileno()),
            ",".join(f"{address} {port}" for address, port, _ in self._places),
            self._hosts_file(),
        ]

    @property
    def env(self) -> dict[str, str]:
        """The variables that lead programs to the proxy."""
        url = f"http://{_PROXY[0]}:{_PROXY[1]}"
        proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy")
        direct = ",".join(_LOOPBACK)
        return {
            **dict.fromkeys((*proxies, "all_proxy"), url),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), direct),
            "NODE_USE_ENV_PROXY": "1",
        }

    async def __aexit__(self, *error: object) -> None:
        """Close every connection of the sandbox."""
        self.has_started()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        if self._ours is not None:
            self._ours.close()
        await self._proxy.aclose()

    def _hosts_file(self) -> str:
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        lines += [f"{address} {place[0]}" for address, _, place in self._places if place]
        return "\n".join([*dict.fromkeys(lines), ""])

    async def _serve(self, ours: socket.socket) -> None:
        """Receive the listeners, and accept on them."""
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(ours)
        with suppress(OSError):
            _, fds, _, _ = socket.recv_fds(ours, 1, _PLACES_MAX + 1)
            listeners = [socket.socket(fileno=fd) for fd in fds]
            for listener, (_, _, place) in zip(listeners, self._places, strict=True):
                await self._proxy.serve(listener, place)


_Listener = tuple[str, int, tuple[str, int] | None]
"""An address and port inside, and the host and port that it leads to; None for the proxy."""


def _listeners(hosts: HostList) -> list[_Listener]:
    """The listeners of a sandbox. Raises Invalid if there are too many."""
    found: list[_Listener] = [(*_PROXY, None)]
    addresses: dict[str, str] = {}
    for host, port in hosts.places:
        if host in _LOOPBACK or host.startswith("127."):
            address = "127.0.0.1" if host == "localhost" else host
        elif ":" in host or host.replace(".", "").isdecimal():
            # An address cannot lead elsewhere; such programs have to use the proxy.
            continue
        else:
            number = len(addresses) + 1
            address = addresses.setdefault(host, f"127.77.{number // 250}.{number % 250 + 1}")
        if (address, port) != _PROXY:
            found.append((address, port, (host, port)))
    if len(found) > _PLACES_MAX:
        raise Invalid(
            f"A sandbox can name at most {_PLACES_MAX} hosts and ports.",
            remedy="Use *.DOMAIN, or --network.",
        )
    return found


def hosts_mount() -> Sequence[str]:
    """The words of the mount of the sandbox's own /etc/hosts."""
    path = os.path.realpath("/etc/hosts")
    return ("--ro-bind-data", str(start_in_namespace.HOSTS_FD), path)
