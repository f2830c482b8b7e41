"""A desk and the small agent behind a driver, for tests of the ACP driver."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.contracts.driver import Capabilities
from bullpen.agents.drivers.acp.driver import Acp, AcpPace
from bullpen.agents.system.vendors.acp_presets import GENERIC, Preset
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk

AGENT = Path(__file__).parents[3] / "support/agents/tiny_agent.py"
DEADLINE_S = 60.0
PACE = AcpPace(start_s=DEADLINE_S)


def preset(part: str, **changes: Any) -> Preset:
    """The small agent in a part, as a program of which everything is known."""
    known = Capabilities(permissions=True, goes_on=True, plan_mode=True, resume=True)
    tiny = replace(
        GENERIC,
        name="tiny",
        title="Tiny",
        command=(sys.executable, str(AGENT), part),
        capabilities=known,
        asking_mode="ask",
        late_server=False,
    )
    return replace(tiny, **changes)


async def desk_in(folder: Path, **asked: Any) -> RecordingDesk:
    """The desk of ann, whose program works in `folder`."""
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    for name in ("ann", "bob"):
        await team.roster.join(name, by=LEAD)
    spec = AgentSpec.new(driver="acp", backend="in-process", cwd=str(folder), **asked)
    own = folder / "ann"
    own.mkdir()
    return RecordingDesk(team, "ann", own, spec, env={"PATH": os.environ["PATH"]})


@asynccontextmanager
async def started(of: Preset, desk: RecordingDesk, *, pace: AcpPace = PACE) -> AsyncIterator[Acp]:
    """A driver, started, and closed at the end."""
    driver = Acp(of, desk.spec, pace=pace)
    with anyio.fail_after(DEADLINE_S):
        await driver.start(desk)
    try:
        yield driver
    finally:
        with anyio.fail_after(DEADLINE_S, shield=True):
            await driver.aclose()


async def take(driver: Acp, desk: RecordingDesk) -> str:
    """A whole turn; what was said last."""
    with anyio.fail_after(DEADLINE_S):
        return (await driver.turn(await desk.begin(), desk)).text


def told(desk: RecordingDesk, what: str) -> list[dict[str, Any]]:
    """What the agent was asked of one kind, in order."""
    path = Path(desk.spec.cwd, "told.jsonl")
    rows = (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    )
    return [row for row in rows if row["what"] == what]


async def until_told(desk: RecordingDesk, what: str) -> dict[str, Any]:
    """Wait until the agent was asked something, and return it."""
    with anyio.fail_after(DEADLINE_S):
        while not (rows := told(desk, what)):  # noqa: ASYNC110 - it happens in another process
            await anyio.sleep(0.01)
    return rows[-1]
