"""Real programs that go on after their turn are stopped after one request, and it counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.acp.driver import Acp
from bullpen.agents.drivers.claude_code.driver import ClaudeCodeDriver
from bullpen.agents.drivers.claude_code.lead import message_of_lead
from bullpen.agents.system.vendors.acp_presets import PRESETS
from bullpen.agents.system.vendors.programs import command_of
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_stage import take, until
from bullpen.testing.models import Call, ModelRequest, Reply

from .brain import ProgramBrain
from .claude_code_puppet import ClaudeCodePuppet
from .puppet import AcpPuppet, ProgramPuppet
from .real_programs import CLAUDE_CODE_VERSIONS

WATCHED_S = 3.0


class Script:
    """A model that calls one tool, and has more to say whenever it is asked again."""

    def __init__(self, tool: str, **given: Any) -> None:
        self._call = Call(tool, given)
        self.asked = 0

    def __call__(self, request: ModelRequest) -> Reply:
        self.asked += 1
        return Reply("", (self._call,)) if self.asked == 1 else Reply(f"Answer {self.asked}.")


@asynccontextmanager
async def playing(
    name: str, script: Script, folder: Path, **changes: Any
) -> AsyncIterator[tuple[Acp, RecordingDesk]]:
    """The driver of a program with this model, and a desk. `changes` are those of its preset."""
    puppet = AcpPuppet(name, folder)
    puppet.mock.brain = ProgramBrain(script)
    with puppet.mock:
        desk = await desk_in(folder, puppet)
        preset = replace(PRESETS[name], command=command_of(puppet.spec), **changes)
        driver = Acp(preset, puppet.spec)
        await driver.start(desk)
        try:
            yield driver, desk
        finally:
            await driver.aclose()


async def desk_in(folder: Path, puppet: ProgramPuppet) -> RecordingDesk:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    await team.roster.join("ann", by=LEAD)
    own = folder / "ann"
    own.mkdir()
    return RecordingDesk(team, "ann", own, puppet.spec, env=puppet.env)


def stops(desk: RecordingDesk) -> list[str]:
    texts = [data["text"] for kind, data in desk.records if kind == "trouble"]
    return [text for text in texts if "worked although no turn was running" in text]


async def test_codex_with_a_goal_is_stopped_and_what_it_used_is_booked(tmp_path: Path) -> None:
    script = Script("create_goal", objective="Paint everything.")
    # Presets turn goals off; here they are on, so that there is something to stop.
    goals_on = (("CODEX_CONFIG", '{"features":{"goals":true}}'),)
    async with playing("codex", script, tmp_path, fixed_env=goals_on) as (driver, desk):
        await take(driver, desk)
        in_turn = len(desk.usages)
        await until(lambda: bool(stops(desk)))
        await anyio.sleep(WATCHED_S)
        assert script.asked <= 3, "one request more than the turn made"
        (extra,) = desk.usages[in_turn:]
        # An estimate: the turn's own report of its last request may come after the turn.
        assert extra.requests in (1, 2)
        assert extra.input_tokens > 5_000
        # The goal is part of the conversation: Codex goes on with it whenever that is loaded.
        with pytest.raises(TurnFailed, match="went on with earlier work by itself"):
            await take(driver, desk)
        with pytest.raises(TurnFailed):
            await take(driver, desk)
        with pytest.raises(TurnFailed, match="after each of its last 3 turns") as caught:
            await take(driver, desk)
        assert caught.value.for_good
        assert script.asked <= 5, "at most one request for each time that it was loaded"


@pytest.mark.nightly
async def test_claude_with_a_schedule_is_stopped_and_what_it_used_is_booked(
    tmp_path: Path,
) -> None:
    script = Script("CronCreate", cron="*/1 * * * *", prompt="Paint everything.")
    async with playing("claude", script, tmp_path) as (driver, desk):
        await take(driver, desk)
        in_turn = len(desk.usages)
        await until(lambda: bool(stops(desk)))
        assert script.asked == 3
        (extra,) = desk.usages[in_turn:]
        assert (extra.requests, extra.unpriced) == (1, 0)
        assert extra.cost_usd > 0
        assert (await take(driver, desk)).text == "Answer 4."


async def test_claude_code_that_is_woken_by_another_is_stopped_and_what_it_used_is_booked(
    tmp_path: Path,
) -> None:
    puppet = ClaudeCodePuppet(CLAUDE_CODE_VERSIONS[-1], tmp_path)
    puppet.say("Done.")
    puppet.use_tool("Bash", {"command": f"touch {tmp_path}/made"})
    puppet.say("And done.")
    puppet.say("Here I am again.")
    with puppet.mock:
        desk = await desk_in(tmp_path, puppet)
        driver = ClaudeCodeDriver(puppet.spec, puppet.env)
        await driver.start(desk)
        try:
            await take(driver, desk)
            in_turn = len(desk.usages)
            # As a message of another program, which no turn of ours announced.
            driver._mirror.put([message_of_lead("Make a file.")])
            await until(lambda: bool(stops(desk)))
            await until(lambda: len(desk.usages) > in_turn)
            await anyio.sleep(WATCHED_S)
            assert len(puppet.requests(desk)) == 2
            assert sum(each.requests for each in desk.usages[in_turn:]) == 1
            assert desk.wanted == []
            await take(driver, desk)
        finally:
            await driver.aclose()
    assert not (tmp_path / "made").exists()
    assert "You went on working after your last turn" in puppet.requests(desk)[-1]
