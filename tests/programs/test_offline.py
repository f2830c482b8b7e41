"""No program of these tests can contact anything but this machine."""

from __future__ import annotations

import errno
import os
import socket
import sys

import pytest

OUTSIDE = "192.0.2.1"
"""An address that is kept for examples: nobody has it."""


def test_the_programs_are_tested_without_a_network() -> None:
    if not os.environ.get("BULLPEN_OFFLINE"):
        if os.environ.get("CI") and sys.platform == "linux":
            pytest.fail("CI has to run these tests with bash .ci/offline")
        pytest.skip("run these tests with bash .ci/offline to shut them off")
    with socket.create_server(("127.0.0.1", 0)) as here:
        socket.create_connection(here.getsockname()).close()
    with pytest.raises(OSError) as caught:
        socket.create_connection((OUTSIDE, 443), timeout=5).close()
    assert caught.value.errno == errno.ENETUNREACH
