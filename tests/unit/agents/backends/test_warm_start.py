"""What names a warm parent, and what its messages hold."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from bullpen.agents.backends.warm_start import inherited, wire
from bullpen.agents.backends.warm_start.process_image import ROOM_BYTES, ProcessImage
from bullpen.agents.backends.warm_start.starter import WarmStart
from bullpen.agents.contracts.backend import Launch
from bullpen.sandbox.outside_sockets import WARM_PARENTS, socket_mounts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has warm starts")


def test_what_a_library_may_read_when_it_is_imported_names_the_parent() -> None:
    names = [
        inherited.key("warm", ("json",), {}),
        inherited.key("other", ("json",), {}),
        inherited.key("warm", ("json", "csv"), {}),
        *(inherited.key("warm", ("json",), {name: "x"}) for name in inherited.AT_START),
    ]
    assert len(set(names)) == len(names)


def test_what_differs_between_agents_does_not_name_the_parent() -> None:
    one, two = (
        inherited.key("warm", (), {"BULLPEN_NONCE": text, "MY_KEY": text, "TMPDIR": f"/{text}"})
        for text in "ab"
    )
    assert one == two


def test_a_parent_gets_only_a_fixed_list_of_variables() -> None:
    kept = {"HOME": "/h", "LANG": "C"}
    # The first agent's folder for temporary files may be gone before the parent.
    left = {"ANTHROPIC_API_KEY": "k", "HTTPS_PROXY": "http://u:p@x", "TMPDIR": "/t"}
    assert inherited.environment_at_start({**kept, **left}) == kept


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONHASHSEED", "LD_PRELOAD", "OPENSSL_CONF"])
def test_some_variables_need_a_new_process(name: str) -> None:
    assert inherited.needs_own_start({"PATH": "/bin", name: ""}) == name
    assert inherited.needs_own_start({"PATH": "/bin", "MY_PYTHON": ""}) is None


def test_a_launch_without_modules_is_not_forked() -> None:
    launch = Launch("alpha", "ann", "n", ("sh",), {}, "/", "/nowhere/log")
    assert WarmStart("no_such_module").start(launch) is None


def test_an_environment_has_room_or_not() -> None:
    image = ProcessImage(range(8), range(100, 100 + ROOM_BYTES))
    assert image.holds({"A": "x" * (ROOM_BYTES - 3)})
    assert not image.holds({"A": "x" * (ROOM_BYTES - 2)})


def test_messages_keep_bytes_that_are_no_text() -> None:
    here, there = socket.socketpair()
    with here, there:
        odd = os.fsdecode(b"\xff\xfe\n\x01")
        wire.send(here, {"env": {"ODD": odd}})
        wire.send(here, {"pid": 1})
        assert wire.receive(there) == {"env": {"ODD": odd}}
        assert wire.receive(there) == {"pid": 1}
        here.close()
        with pytest.raises(EOFError):
            wire.receive(there)


def test_a_sandbox_that_shows_the_folder_of_the_sockets_hides_it() -> None:
    hidden = ("--tmpfs", WARM_PARENTS)
    above = os.path.dirname(WARM_PARENTS)
    assert hidden in [each.words for each in socket_mounts({}, [above], [])]
    # One can connect to a socket that one may only read.
    assert hidden in [each.words for each in socket_mounts({}, [], [above])]
    assert hidden not in [each.words for each in socket_mounts({}, ["/project"], [])]
