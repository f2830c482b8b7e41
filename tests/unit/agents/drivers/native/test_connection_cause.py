"""What an agent says of a connection that failed: the system's words, not "Connection error"."""

from __future__ import annotations

import socket
import ssl

from bullpen.agents.drivers.native.provider.connection_cause import connection_cause


def caused(first: Exception) -> Exception:
    """An error as a model's library raises it, some steps away from its cause."""
    try:
        try:
            raise first
        except Exception as error:
            raise OSError("All connection attempts failed") from error
    except Exception:
        try:
            raise RuntimeError("Connection error.")
        except RuntimeError as last:
            return last


def test_a_host_that_does_not_exist_is_told_from_one_that_refuses() -> None:
    nowhere = socket.gaierror(-2, "Name or service not known")
    assert connection_cause(caused(nowhere)) == (
        "the name of the host is not known (Name or service not known)"
    )
    refused = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)")
    assert connection_cause(caused(refused)) == "Connection refused"


def test_a_certificate_that_is_rejected_is_named() -> None:
    bad = ssl.SSLCertVerificationError(1, "certificate verify failed")
    bad.verify_message = "self-signed certificate"
    assert connection_cause(caused(bad)) == "the certificate was rejected (self-signed certificate)"


def test_an_error_of_no_system_has_no_cause() -> None:
    assert connection_cause(RuntimeError("Connection error.")) is None


def test_a_circle_of_causes_ends() -> None:
    error = RuntimeError("round")
    error.__context__ = error
    assert connection_cause(error) is None
