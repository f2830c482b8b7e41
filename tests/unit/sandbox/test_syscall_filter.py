"""The filter for system calls, run by a small machine of our own."""

from __future__ import annotations

import errno
import struct

import pytest

from bullpen.sandbox.syscall_filter import syscall_filter

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SOCKET = {"x86_64": 41, "aarch64": 198}
_IOCTL = {"x86_64": 16, "aarch64": 29}
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_OPEN = {"x86_64": 257, "aarch64": 56}
_ALLOWED = 0


def _answer(machine: str, number: int, *args: int, audit: int | None = None) -> int:
    """The error that the kernel would give; 0 if the call is allowed."""
    words = syscall_filter(machine)
    assert words is not None
    data = struct.pack("=IIQ", number, audit or _AUDIT[machine], 0)
    data += struct.pack("=6Q", *args, *([0] * (6 - len(args))))
    program = list(struct.iter_unpack("=HBBI", words))
    at, value = 0, 0
    while True:
        code, yes, no, constant = program[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        elif code == 0x15:
            at += yes if value == constant else no
        elif code == 0x35:
            at += yes if value >= constant else no
        else:
            assert code == 0x06
            return _ALLOWED if constant == 0x7FFF0000 else constant & 0xFFFF


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_only_sockets_that_namespaces_cover_can_be_made(machine: str) -> None:
    for family in range(50):
        expected = _ALLOWED if family in (1, 2, 10, 16) else errno.EAFNOSUPPORT
        assert _answer(machine, _SOCKET[machine], family, 1) == expected
    # The kernel looks at the low half only.
    assert _answer(machine, _SOCKET[machine], (1 << 32) | 40) == errno.EAFNOSUPPORT


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_nothing_is_typed_into_a_terminal_and_keys_are_closed(machine: str) -> None:
    assert _answer(machine, _IOCTL[machine], 0, 0x5412) == errno.EPERM
    assert _answer(machine, _IOCTL[machine], 0, 0x541C) == errno.EPERM
    assert _answer(machine, _IOCTL[machine], 0, 0x5413) == _ALLOWED
    assert _answer(machine, _KEYCTL[machine], 0) == errno.ENOSYS
    assert _answer(machine, 425, 0) == errno.ENOSYS
    assert _answer(machine, _OPEN[machine], 0) == _ALLOWED


def test_calls_with_the_numbers_of_another_machine_are_refused() -> None:
    assert _answer("x86_64", 102, audit=0x40000003) == errno.ENOSYS
    assert _answer("x86_64", 0x40000000 | 41, 40) == errno.ENOSYS


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert syscall_filter("riscv64") is None
