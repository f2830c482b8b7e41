"""The folder of keys: what is in it, who can read it, what is remembered."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def vault(tmp_path: Path, clock: Clock) -> Vault:
    made = Vault(tmp_path / "keys", now=clock)
    made.create()
    made.add_tenant("acme")
    return made


def _mint_many(directory: str, first: int) -> None:
    vault = Vault(Path(directory))
    for number in range(first, first + 10):
        vault.mint("acme", f"h{number}", Role.HOST)


def test_keys_that_are_minted_at_the_same_time_are_all_remembered(vault: Vault) -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=_mint_many, args=(str(vault.directory), first)) for first in (0, 10)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    names = {key.name for key in vault.tenant("acme").keys}
    assert names == {"admin", *(f"h{number}" for number in range(20))}
