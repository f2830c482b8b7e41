"""Damaging one file of a valid team on purpose, and having it mended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bullpen.store.contract import Finding
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team

from .home import TEAM, Sandbox

ROOT = f"teams/{TEAM}"
OWN = f"{ROOT}/.bullpen"
EVENTS = f"{OWN}/events.jsonl"
HEAD = f"{OWN}/head"
ANN = f"{ROOT}/inboxes/ann.json"
PLAN_REQUEST = "plan_approval-1794700063000@ann@alpha"


def write(sandbox: Sandbox, path: str, data: bytes) -> None:
    (sandbox.home / path).write_bytes(data)
    sandbox.age(path)


def change(sandbox: Sandbox, path: str, changed: Callable[[Any], object]) -> None:
    """Change the JSON value of a file in place."""
    value = json.loads(sandbox.base[path])
    changed(value)
    write(sandbox, path, json.dumps(value, indent=2).encode())


def lines_of(sandbox: Sandbox) -> list[bytes]:
    return sandbox.base[EVENTS].splitlines(keepends=True)


async def mended(store: FileStore) -> list[Finding]:
    """What the doctor found and mended; nothing is left then, and all can be read."""
    findings = await store.checkup(TEAM, fix=True)
    assert findings
    await is_well(store, findings)
    return findings


async def is_well(store: FileStore, findings: list[Finding]) -> None:
    assert all(finding.fixed for finding in findings)
    assert await store.checkup(TEAM, fix=False) == []
    await Team(store, TEAM).snapshot()
    await Team(store, TEAM).events()


def quarantined(sandbox: Sandbox) -> list[Path]:
    return sorted((sandbox.home / OWN / "quarantine").iterdir())
