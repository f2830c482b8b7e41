"""The mock model server without a port: the SDKs' connections end in a thread of this process."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from http.server import ThreadingHTTPServer
from types import TracebackType
from unittest import mock

from bullpen.testing.models import Brain, MockModels
from bullpen.testing.models.server import _Handler, _Server
from support.connections import connections_to

_numbers = itertools.count(1)


class InProcessModels(MockModels):
    """A model server for the SDKs of this process, for the duration of a `with` block.

    Everything is as in `MockModels` but for the network: a connection to its host is one end of a
    pair of sockets, and the mock answers at the other end.
    """

    def __init__(self, brain: Brain) -> None:
        super().__init__(brain, strict=True)
        self.host = f"models-{next(_numbers)}.invalid"
        self._connected = ExitStack()

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def __enter__(self) -> InProcessModels:
        server = _UnboundServer(self)
        self._connected.callback(server.server_close)
        self._connected.enter_context(
            connections_to(self.host, lambda end: server.process_request(end, (self.host, 80)))
        )
        # An SDK asks for the name of the machine, which the standard library asks `uname` for.
        self._connected.enter_context(mock.patch("platform.platform", lambda: "a machine"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connected.close()
        super().__exit__(kind, error, trace)


class _UnboundServer(_Server):
    """Connections are handed to it; it listens nowhere."""

    def __init__(self, models: MockModels) -> None:
        self.mock = models
        address = ("127.0.0.1", 0)
        ThreadingHTTPServer.__init__(self, address, _Handler, bind_and_activate=False)
