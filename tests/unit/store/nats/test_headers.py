"""Headers of messages, as servers write them."""

from __future__ import annotations

import pytest

from bullpen.store.nats.client.mux import headers_in


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"NATS/1.0\r\n\r\n", {}),
        (b"NATS/1.0 503\r\n\r\n", {"Status": "503"}),
        (b"NATS/1.0 404 Message Not Found\r\n\r\n", {"Status": "404"}),
        (
            b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 7\r\n\r\n",
            {"Status": "204", "Nats-Num-Pending": "0", "Nats-Last-Sequence": "7"},
        ),
        (
            b"NATS/1.0\r\nNats-Sequence: 12\r\nNats-Subject: t.00.a.b.log\r\n\r\n",
            {"Nats-Sequence": "12", "Nats-Subject": "t.00.a.b.log"},
        ),
        (b"NATS/1.0\r\nOwn:no space\r\nEmpty:\r\n\r\n", {"Own": "no space", "Empty": ""}),
    ],
)
def test_every_header_is_found(data: bytes, found: dict[str, str]) -> None:
    assert headers_in(data) == found
