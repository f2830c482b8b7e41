"""The probes of `bullpen doctor --sandbox` hold here, and each kind of them has teeth."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from bullpen.agents.supervisor.sandbox_probes.examine import (
    SHAPES,
    ProbeRow,
    examine_sandbox,
    probe_as_this_user,
)
from support.doors.json_shapes import fitting

_ROOT = os.getuid() == 0


def test_nothing_gets_out_of_the_sandbox_of_any_kind_of_agent() -> None:
    rows = examine_sandbox()
    assert [row for row in rows if not row.is_fine] == []
    assert len({row.agent for row in rows}) == 4
    assert len({row.user for row in rows}) == (2 if _ROOT else 1)
    assert {row.probe.split(":")[0] for row in rows} == {
        *("file", "network", "socket", "process", "kernel")
    }
    assert len(rows) >= 120
    # Probes that must get through show that the others ran.
    assert sum(row.must == "open" for row in rows) >= 4 * 4


def _without(*words: str) -> Callable[[list[str]], list[str]]:
    """Take every run of these words away."""

    def weaken(command: list[str]) -> list[str]:
        at, size = 0, len(words)
        while at < len(command):
            if tuple(command[at : at + size]) == words:
                del command[at : at + size]
            else:
                at += 1
        return command

    return weaken


def _after(word: str, *more: str) -> Callable[[list[str]], list[str]]:
    def weaken(command: list[str]) -> list[str]:
        at = len(command) - command[::-1].index(word)
        return [*command[:at], *more, *command[at:]]

    return weaken


def _without_sockets_closed(command: list[str]) -> list[str]:
    """Take the masks over sockets away, and the private places over their directories."""
    at = 0
    while at < len(command) - 2:
        if command[at] == "--tmpfs" and "/sockets/" in command[at + 1]:
            del command[at : at + 2]
        elif command[at : at + 2] == ["--ro-bind", os.devnull] and command[at + 2].endswith("/s"):
            del command[at : at + 3]
        else:
            at += 1
    return command


def _with_home(command: list[str]) -> list[str]:
    """Show the user's home, which has a key."""
    home = next(word for word in command if word.endswith("/home") and "bullpen-probe" in word)
    at = len(command) - 1 - command[::-1].index("--remount-ro")
    return [*command[:at], "--ro-bind", home, home, *command[at:]]


def _sharing_pids(command: list[str]) -> list[str]:
    at = len(command) - 1 - command[::-1].index("--unshare-all")
    kept = ("--unshare-ipc", "--unshare-net", "--unshare-uts")
    return [*command[:at], *kept, *command[at + 1 :]]


def _without_guards(command: list[str]) -> list[str]:
    """Take the guards of files in the tree away."""
    at = 0
    while at < len(command) - 2:
        path = command[at + 2]
        if command[at] == "--ro-bind" and "/tree/" in path:
            del command[at : at + 3]
        elif command[at] == "--tmpfs" and "/tree/" in command[at + 1]:
            del command[at : at + 4]
        else:
            at += 1
    return command


_WEAKENED: list[tuple[str, Callable[[list[str]], list[str]], set[str], bool]] = [
    (
        "no filter for system calls",
        _without("--seccomp", "9"),
        {
            "network: the host of a virtual machine",
            "kernel: call add_key",
            "kernel: call bpf",
            "kernel: call io_uring_setup",
        },
        False,
    ),
    (
        "the network of the machine",
        _after("--unshare-all", "--share-net"),
        {
            "network: a server on 127.0.0.1",
            "network: a server on localhost",
            "socket: an abstract one",
            "process: share the net namespace",
        },
        False,
    ),
    (
        "user namespaces",
        _without("--disable-userns"),
        {"process: a user namespace of its own"},
        False,
    ),
    ("the user's home", _with_home, {"file: read a key in the user's home"}, False),
    (
        "sockets in visible directories",
        _without_sockets_closed,
        {
            *("socket: TMPDIR", "socket: TMUX_TMPDIR", "socket: XDG_RUNTIME_DIR"),
            *("socket: SSH_AUTH_SOCK", "socket: DBUS", "socket: elsewhere", "socket: in the tree"),
        },
        False,
    ),
    (
        "the processes of the machine",
        _sharing_pids,
        {"process: see one outside", "process: share the pid namespace"},
        False,
    ),
    (
        "files in the tree that others obey",
        _without_guards,
        {"file: write .git/config", "file: write .git/hooks/pre-commit"},
        False,
    ),
    (
        "settings of the kernel",
        _without("--ro-bind", "/proc/sys", "/proc/sys"),
        {"kernel: write /proc/sys/kernel/core_pattern", "kernel: write /proc/sys/vm/drop_caches"},
        True,
    ),
    (
        "capabilities",
        _without("--cap-drop", "ALL"),
        {"process: CapEff", "process: CapPrm", "process: change the root directory"},
        True,
    ),
]


@pytest.mark.parametrize(
    ("weaken", "found", "as_root"),
    [each[1:] for each in _WEAKENED],
    ids=[each[0].replace(" ", "-") for each in _WEAKENED],
)
async def test_a_sandbox_that_lets_something_through_is_found_out(
    weaken: Callable[[list[str]], list[str]], found: set[str], as_root: bool
) -> None:
    """Only what was taken away is found, and nothing else."""
    if as_root and not _ROOT:
        pytest.skip("an ordinary user has no such rights outside either")
    rows: list[ProbeRow] = await probe_as_this_user(weaken, SHAPES[:1])
    wrong = {row.probe for row in rows if not row.is_fine}
    assert found <= wrong, rows
    assert len(wrong) < 25


def test_the_doctor_says_how_many_probes_held_and_exits_with_1_if_one_did_not() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bullpen", "doctor", "--sandbox", "--json"],
        capture_output=True,
        check=False,
        timeout=120,
    )
    told = fitting(done.stdout.decode())
    assert done.returncode == 0, done.stderr
    assert told["wrong"] == 0
    assert told["total"] == len(told["probes"]) >= 120
    assert (told["weakness"] is None) is not _ROOT
