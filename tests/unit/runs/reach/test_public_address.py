"""Where a phone reaches the dashboard: what is taken as an address, and which one counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.app.config.public_address import checked_address, host_of
from bullpen.errors import Invalid
from bullpen.protocol import json_text
from bullpen.runs.reach.for_team import public_url
from bullpen.runs.reach.home_files import write_private
from bullpen.runs.reach.web_address import address_of, served_at
from support.rows import each_row

SETTING = "https://setting.example.com"
SERVED = "https://served.example.com"


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://team.example.com", "https://team.example.com"),
        ("https://Team.Example.com/", "https://team.example.com"),
        ("https://team.example.com:8443", "https://team.example.com:8443"),
        ("http://127.0.0.1:8700", "http://127.0.0.1:8700"),
        ("http://localhost:8700/", "http://localhost:8700"),
        ("http://[::1]:8700", "http://[::1]:8700"),
    ],
)
def test_an_address_is_https_or_on_this_machine(given: str, address: str) -> None:
    assert checked_address(given) == address
    assert host_of(address) in address


@each_row(
    "given",
    [
        "", "team.example.com", "http://team.example.com", "ftp://team.example.com", "https://",
        "https://me@team.example.com", "https://me:pw@team.example.com",
        "https://team.example.com/path", "https://team.example.com?a=b", "https://team.example.com#a",
        "https://team.example.com:port", "https://team.example.com\n", "https://team\x00.example.com",
        'https://team.example.com"', "https://<b>.example.com", "https://tëam.example.com",
        "javascript:alert(1)", "http://127.0.0.1.evil.example",
    ],
)  # fmt: skip
def test_what_a_phone_could_not_use_safely_is_refused(given: str) -> None:
    with pytest.raises(Invalid):
        checked_address(given)


def test_where_the_team_is_served_counts_before_the_setting(tmp_path: Path) -> None:
    assert address_of(tmp_path, "alpha", None) is None
    assert address_of(tmp_path, "alpha", SETTING) == SETTING
    with served_at(tmp_path, "alpha", SERVED):
        assert address_of(tmp_path, "alpha", SETTING) == SERVED
        assert address_of(tmp_path, "beta", SETTING) == SETTING
    assert address_of(tmp_path, "alpha", SETTING) == SETTING
    with served_at(tmp_path, "alpha", None):
        assert address_of(tmp_path, "alpha", None) is None


def test_the_record_of_a_server_that_was_killed_does_not_count(tmp_path: Path) -> None:
    with served_at(tmp_path, "../alpha", SERVED):
        (path,) = (tmp_path / "reach" / "web").iterdir()
        row = json_text.loads(path.read_bytes())
    row["process"]["pid"], row["process"]["start"] = os.getpid(), "long ago"
    write_private(path, json_text.dumps_line(row))
    assert address_of(tmp_path, "../alpha", None) is None


def test_the_setting_is_the_persons_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULLPEN_CONFIG", str(tmp_path / "config.toml"))
    assert public_url(tmp_path) is None
    (tmp_path / "config.toml").write_text(f'public_url = "{SETTING}"\n')
    assert public_url(tmp_path) == SETTING
    monkeypatch.setenv("BULLPEN_PUBLIC_URL", SERVED)
    assert public_url(tmp_path) == SERVED
