"""A folder of keys as an earlier version wrote it: all keys shared the account of the streams."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from bullpen.fleet.auth import claims, private_files
from bullpen.fleet.auth.keys import KeyPair, Kind, creds_text, signed
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.vault import Vault
from support.fleet.auth_stage import TENANT

_HOST = ["$JS.API.>", "t.>", "$KV.TEAMS.team.*", "p.>", "$KV.>", "spawn.*", "$JS.ACK.SPAWN.>"]


def make_older(vault: Vault, keys: dict[str, Role]) -> None:
    """Rewrite a new vault with one tenant as version 1 had it, with these keys for all teams."""
    folder = vault.directory / "tenants" / TENANT
    tenant: dict[str, Any] = json.loads((folder / "tenant.json").read_text())
    operator = KeyPair((vault.directory / "operator.seed").read_text().strip())
    signer, now_s = KeyPair.generate(Kind.ACCOUNT), int(time.time())
    readers = KeyPair.generate(Kind.ACCOUNT).public
    scope = {
        "kind": "user_scope",
        "key": signer.public,
        "role": "host",
        "template": {
            "pub": {"allow": _HOST},
            "sub": {"allow": [">"]},
            "subs": -1,
            "data": -1,
            "payload": -1,
        },
    }
    rows = [row for row in tenant["keys"] if row["role"] == "admin"]
    for name, role in keys.items():
        user = KeyPair.generate(Kind.USER)
        body = claims.user(user.public, name, role=role, account=tenant["account"], now_s=now_s)
        private_files.write(
            folder / "creds" / f"{name}.creds", creds_text(signed(body, signer), user)
        )
        rows.append(
            {"name": name, "role": str(role), "teams": [], "public": user.public, "issued_s": now_s,
             "expires_s": None, "revoked_s": None}
        )  # fmt: skip
    for row in rows:
        row.pop("older", None)
    account = claims.tenant_account(
        tenant["account"],
        TENANT,
        admin_signer=KeyPair((folder / "signing" / "admin.seed").read_text().strip()).public,
        older=[scope],
        revoked={},
        now_s=now_s,
    )
    del account["nats"]["exports"]
    reading = claims.key_account(
        readers, "readers", tenant=TENANT, tenant_account=tenant["account"], signer="",
        held=None, revoked={}, now_s=now_s,
    )  # fmt: skip
    private_files.write(folder / "account.jwt", signed(account, operator))
    private_files.write(folder / "readers.jwt", signed(reading, operator))
    (folder / "signing" / "keys.seed").unlink()
    old = {"v": 1, "name": TENANT, "account": tenant["account"], "readers": readers,
           "issued_s": now_s, "keys": rows}  # fmt: skip
    private_files.write(folder / "tenant.json", json.dumps(old))


def copy_of(path: Path) -> Path:
    """Keep a credentials file that is about to be replaced."""
    kept = path.with_name(f"older-{path.name}")
    kept.write_bytes(path.read_bytes())
    kept.chmod(0o600)
    return kept
