"""Which credentials a command uses for which servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.app.server_keys import credentials_for, key_file
from bullpen.app.settings import settings_from, store_variables

OURS = "nats://127.0.0.1:5222"


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = key_file(tmp_path, 5222)
    path.parent.mkdir()
    path.write_text("S", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "url", [OURS, "nats://localhost:5222", "nats://127.0.0.1:5221,127.0.0.1:5222"]
)
def test_the_key_of_a_server_is_found_by_its_address(tmp_path: Path, key: str, url: str) -> None:
    assert credentials_for(url, settings_from({}, home=tmp_path)) == key


@pytest.mark.parametrize(
    "url",
    [
        "nats://127.0.0.1:5223",
        "nats://127.0.0.1",
        "nats://example.com:5222",
        "nats://127.0.0.1:5222,example.com:5222",
        "tls://127.0.0.1:5222",
        "nats://127.0.0.1:../server-keys/5222",
        "host:/run/5222",
        "files:/tmp",
        "",
    ],
)
def test_no_other_server_is_shown_the_key(tmp_path: Path, key: str, url: str) -> None:
    assert Path(key).exists()
    assert credentials_for(url, settings_from({}, home=tmp_path)) is None


def test_the_usual_port_need_not_be_written(tmp_path: Path, key: str) -> None:
    usual = Path(key).rename(key_file(tmp_path, 4222))
    assert credentials_for("nats://127.0.0.1", settings_from({}, home=tmp_path)) == str(usual)


def test_a_stated_key_is_for_the_stated_store(tmp_path: Path, key: str) -> None:
    stated = replace(settings_from({}, home=tmp_path), creds="me.creds")
    assert credentials_for(OURS, replace(stated, store=OURS)) == "me.creds"
    # Such as a move from servers of others to one of this home.
    cell = "tls://cell:4222"
    assert credentials_for(OURS, replace(stated, store=cell)) == key
    assert credentials_for(cell, replace(stated, store=cell)) == "me.creds"


def test_other_processes_are_not_told_where_the_key_is(tmp_path: Path, key: str) -> None:
    told = store_variables(settings_from({}, home=tmp_path, store=OURS))
    assert key not in told.values()
    assert set(told) == {"BULLPEN_STORE"}
