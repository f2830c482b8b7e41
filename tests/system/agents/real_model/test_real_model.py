"""Native agents on a real model. It thinks poorly and torments well: every turn has to end.

The gate plays a few turns, the nightly run fifty.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.drivers.native.driver import Native
from bullpen.agents.tools.toolbox import toolbox
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk

from .real_server import RealModel, real_model

pytest.importorskip("xllamacpp", reason="needs the group real-model")

NIGHTLY = os.environ.get("BULLPEN_NIGHTLY") == "1"
TURNS = 25 if NIGHTLY else 3
WINDOW = 2_048
ANSWER = 40
TURN_S = 280.0
AGENTS = {"ann": "llamacpp:smollm2", "bob": "openai-chat:an-alias"}
# Few tools: the schemas of all would fill its window.
TOOLS = ("Read", "SendMessage", "TaskList")


def few_tools(desk: Desk) -> list[Tool[Desk]]:
    return [tool for tool in toolbox(desk) if tool.name in TOOLS]


class Worker:
    """One agent with its desk: it gets a message in each turn."""

    def __init__(self, desk: RecordingDesk, model: RealModel, folder: Path) -> None:
        self.desk = desk
        self.given: list[str] = []
        self.failed: list[TurnFailed] = []
        self._native = Native(desk.spec, model.env, limits=folder / "limits", tools=few_tools)

    async def work(self) -> None:
        """Take all turns. A turn may fail, but it ends."""
        with anyio.fail_after(60):
            await self._native.start(self.desk)
        try:
            for number in range(TURNS):
                sent = await self.desk.team.mailbox.send(
                    self.desk.agent, f"What is {number} plus {number}?", sender=LEAD
                )
                self.given.append(sent.id)
                await self._turn()
        finally:
            with anyio.CancelScope(shield=True):
                await self._native.aclose()

    async def _turn(self) -> None:
        begun = await self.desk.begin("It is your turn. Answer in a few words.")
        with anyio.fail_after(TURN_S):
            try:
                await self._native.turn(begun, self.desk)
            except TurnFailed as failed:
                self.failed.append(failed)

    def lines(self, kind: str) -> list[str]:
        """The texts of one kind in the transcript."""
        return [data["text"] for name, data in self.desk.records if name == kind]


async def test_native_agents_work_on_a_real_model_and_nothing_is_lost(tmp_path: Path) -> None:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    began = time.monotonic()
    with real_model(window=WINDOW, slots=len(AGENTS)) as model:
        workers = []
        for name, named in AGENTS.items():
            await team.roster.join(name, by=LEAD)
            folder = tmp_path / name
            folder.mkdir()
            spec = AgentSpec.new(
                driver="native",
                backend="in-process",
                cwd=str(folder),
                model=named,
                options={"max_output": ANSWER},
            )
            desk = RecordingDesk(team, name, folder, spec, env={"PATH": "/usr/bin:/bin"})
            workers.append(Worker(desk, model, tmp_path))
        async with anyio.create_task_group() as group:
            for worker in workers:
                group.start_soon(worker.work)
    usages = [usage for worker in workers for usage in worker.desk.usages]
    compacted = sum("Compacted" in text for worker in workers for text in worker.lines("note"))
    print(
        f"{TURNS * len(workers)} turns, {len(usages)} requests, {compacted} compactions,"
        f" {sum(len(worker.failed) for worker in workers)} failed turns,"
        f" {model.tokens} tokens, {time.monotonic() - began:.0f} s"
    )
    for worker in workers:
        # Every message reached the model once, or its turn failed and said why.
        assert worker.failed == []
        assert sorted(worker.desk.saw) == sorted(worker.given)
        assert f"{WINDOW} tokens (as its server says)" in worker.lines("note")[0]
        assert {window for _, window in worker.desk.contexts} == {WINDOW}
    # It answers with its own name, whatever was asked for.
    assert any("an-alias was asked for" in text for text in workers[1].lines("note"))
    booked = sum(usage.input_tokens + usage.cache_read_tokens for usage in usages)
    assert (booked, sum(usage.output_tokens for usage in usages)) == model.tokens
    assert not any(usage.estimated for usage in usages)
