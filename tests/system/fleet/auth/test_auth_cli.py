"""`bullpen auth` as people and programs use it, and the secrets that it never shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from support.fleet.auth_commands import SEED, Run
from support.fleet.auth_stage import KeyedCluster, connected, until


async def test_from_first_key_to_revocation_no_secret_is_shown_anywhere(
    tmp_path: Path, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ok(*words: str) -> str:
        result: Any = await to_thread.run_sync(lambda: run(*words))
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    await ok("init", "--tenant", "acme")
    assert not SEED.search(await ok("config", "--resolver", "accounts"))
    keys = home / "auth"
    async with KeyedCluster(tmp_path / "servers", keys, more="debug: true\n") as cluster:
        monkeypatch.setenv("BULLPEN_STORE", cluster.url)
        creds = Path((await ok("mint", "host", "web-1")).strip())
        assert "In force on 1 server." in await ok("push")
        secrets = {seed for path in keys.rglob("*") if path.is_file() for seed in _seeds(path)}
        async with connected(cluster.url, creds, name="web-1") as caller:
            assert "In force on 1 server." in await ok("revoke", "web-1")
            await until(lambda: caller.nc.is_closed, caller)
        await ok("tenant", "add", "late")
        process = Path(f"/proc/{cluster.pid(0)}")
        everything = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()

    assert len(secrets) >= 6, "operator, push, signers, admin, web-1"
    for path in (tmp_path / "servers").rglob("*"):
        if path.is_file():
            everything += path.read_bytes()
    assert (tmp_path / "servers" / "n1" / "nats-server.log").stat().st_size > 0
    assert not [seed[:4] for seed in secrets if seed.encode() in everything]


def _seeds(path: Path) -> list[str]:
    return SEED.findall(path.read_text(encoding="utf-8", errors="replace"))
