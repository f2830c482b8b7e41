"""Says why a connection to a model's API failed; the libraries only say that it did."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

_DEPTH_MAX = 20


def connection_cause(error: BaseException) -> str | None:
    """The system's words for what broke a connection, such as "Connection refused", or None."""
    found = None
    for each in _chain(error):
        match each:
            case ssl.SSLCertVerificationError():
                found = f"the certificate was rejected ({each.verify_message})"
            case ssl.SSLError():
                found = f"TLS failed ({each.reason or each})"
            case socket.gaierror():
                found = f"the name of the host is not known ({each.strerror})"
            case OSError(errno=int(number)):
                found = os.strerror(number)
    return found


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what caused it, the first cause last."""
    each: BaseException | None = error
    for _ in range(_DEPTH_MAX):
        if each is None:
            return
        yield each
        each = each.__cause__ or each.__context__
