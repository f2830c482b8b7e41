"""Connections that nobody on the way can read, to servers that prove who they are."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from bullpen.errors import Invalid, Unavailable
from bullpen.fleet.auth.tls import issue

HOST = "localhost"


def test_certificates_are_renewed_by_the_same_authority(tmp_path: Path) -> None:
    first = issue(tmp_path, "a.lan")
    authority, certificate = first.ca.read_bytes(), first.certificate.read_bytes()

    again, other = issue(tmp_path, "a.lan"), issue(tmp_path, "10.0.0.7")

    assert again.ca.read_bytes() == authority
    assert again.certificate.read_bytes() != certificate
    assert other.certificate != again.certificate
    for path in (tmp_path / "tls").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("host", ["", "../x", "a b", "-a", "a/b", "a\n", ".", '"; x'])
def test_what_is_no_name_of_a_machine_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(Invalid):
        issue(tmp_path, host)

    assert list(tmp_path.iterdir()) == []


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(Unavailable) as caught:
        issue(tmp_path, HOST)

    assert "pip install cryptography" in caught.value.remedy
