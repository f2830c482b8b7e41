"""The key of development servers is minted once, and is the same for all servers of a cluster."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bullpen.app.server_keys import FOLDER, key_file
from bullpen.errors import Unreadable
from bullpen.fleet.servers.server_key import ensure_key
from bullpen.store.nats.client.connection import bearer_of


def test_it_is_minted_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    key = ensure_key(home, [4222])
    assert ensure_key(home, [4222]) == key
    assert ensure_key(home, [4300]).public != key.public
    assert sorted(each.name for each in (home / FOLDER).iterdir()) == ["4222.nk", "4300.nk"]


def test_every_server_of_a_cluster_has_the_same(tmp_path: Path) -> None:
    ensure_key(tmp_path, [4223])
    key = ensure_key(tmp_path, [4222, 4223, 4224])
    assert {ensure_key(tmp_path, [port]).public for port in (4222, 4223, 4224)} == {key.public}


def test_only_its_user_reads_it(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o755)
    ensure_key(tmp_path, [1, 2])
    key_file(tmp_path, 1).chmod(0o644)
    ensure_key(tmp_path, [1, 2])
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700
    assert {stat.S_IMODE(key_file(tmp_path, at).stat().st_mode) for at in (1, 2)} == {0o600}


def test_connections_know_its_form(tmp_path: Path) -> None:
    ensure_key(tmp_path, [1])
    bearer = bearer_of(key_file(tmp_path, 1))
    assert bearer.is_server_key
    assert bearer.name is None
    assert not bearer.is_bound


@pytest.mark.parametrize("text", ["", "SUA", "\N{SNOWMAN}", "SUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"])
def test_a_damaged_one_is_refused_without_its_text(tmp_path: Path, text: str) -> None:
    ensure_key(tmp_path, [1])
    key_file(tmp_path, 1).write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable) as caught:
        ensure_key(tmp_path, [1])
    assert not text or text not in str(caught.value)
