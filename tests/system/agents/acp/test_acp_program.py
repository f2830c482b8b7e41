"""The program of an ACP driver: how it starts, breaks, and ends with all that it started."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.acp.driver import Acp, AcpPace
from bullpen.agents.drivers.acp.program_process import LOG
from bullpen.agents.system import processes
from bullpen.errors import Unavailable
from bullpen.testing.desks import RecordingDesk

from .acp_stage import desk_in, preset, started, take, told, until_told

WORDS = "import sys, time; print('I say nothing.', file=sys.stderr, flush=True); time.sleep(3600)"
MUTE = (sys.executable, "-S", "-c", WORDS)


async def test_a_program_that_never_answers_is_given_up_with_its_last_words(
    tmp_path: Path,
) -> None:
    """R-2.1g: nobody is a member before its program has proved that it answers."""
    desk = await desk_in(tmp_path)
    with pytest.raises(Unavailable, match="did not initialize within 5 s") as caught:
        async with started(preset("", command=MUTE), desk, pace=AcpPace(start_s=5.0)):
            pass
    assert "I say nothing." in caught.value.message


@pytest.mark.parametrize(
    ("pipe", "words"),
    [(1, "no JSON\\n" * 4_000), (2, "log\\n" * 9_000)],
    ids=["lines that are no JSON", "a log"],
)
async def test_a_program_that_only_floods_its_pipes_is_given_up_and_leaves_little(
    tmp_path: Path, pipe: int, words: str
) -> None:
    desk = await desk_in(tmp_path)
    flood = "import os, time\nend = time.time() + 60\nwhile time.time() < end:\n"
    flood += f"    os.write({pipe}, b'{words}')"
    with pytest.raises(Unavailable):
        async with started(
            preset("", command=(sys.executable, "-S", "-c", flood)), desk, pace=AcpPace(start_s=3.0)
        ):
            pass
    assert sum(file.stat().st_size for file in desk.folder.rglob("*")) < 20_000_000


async def test_a_program_that_does_not_start_the_teams_server_is_given_up(tmp_path: Path) -> None:
    """R-7.1: who lacks the team's tools is refused at the start."""
    desk = await desk_in(tmp_path)
    with pytest.raises(Unavailable, match="did not start the team's tool server"):
        async with started(preset("no server"), desk, pace=AcpPace(server_s=0.5)):
            pass


async def test_a_program_of_another_version_of_the_protocol_is_refused(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    with pytest.raises(Unavailable, match="speaks version 9"):
        async with started(preset("version 9"), desk):
            pass


async def test_a_program_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    missing = preset("", command=("no-such-agent", "--acp"), install="npm install -g no-such-agent")
    with pytest.raises(Unavailable, match="no-such-agent") as caught:
        async with started(missing, desk):
            pass
    assert caught.value.remedy == "Install it: npm install -g no-such-agent."


async def test_a_program_that_dies_in_a_turn_is_started_again_for_the_next(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("dies"), desk) as driver:
        with pytest.raises(TurnFailed, match="ended in the middle of a turn") as caught:
            await take(driver, desk)
        assert "exited with code 3" in caught.value.message
        assert "Out of cheese." in caught.value.message
        assert caught.value.partial == "I begin."
        assert await take(driver, desk) == "Again."
    assert told(desk, "load") == [{"what": "load", "session": "s-1"}]
    assert "Out of cheese." in (desk.folder / LOG).read_text("utf-8")


async def test_what_is_no_message_of_the_protocol_is_passed_over_and_kept(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("babbles"), desk) as driver:
        assert await take(driver, desk) == "Done."
    log = (desk.folder / LOG).read_text("utf-8")
    assert "npm warn: this is no JSON" in log
    assert "sings" in log


async def test_two_megabytes_of_words_come_back_whole(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("floods"), desk) as driver:
        text = await take(driver, desk)
    assert len(text) == 2_000 * 1_024
    assert text.startswith("00000x") and text[1_999 * 1_024 :].startswith("01999x")


async def test_a_program_that_talks_for_ever_fails_its_turn_and_fills_no_memory(
    tmp_path: Path,
) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("endless"), desk, pace=AcpPace(cancel_s=2.0)) as driver:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(TurnFailed, match="without an end") as caught:
            await take(driver, desk)
        grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert caught.value.failure == "endless"
        assert set(caught.value.partial) == {"y"} and len(caught.value.partial) < 1_000_000
        assert grown_mb < 200
        assert await take(driver, desk) == "Again."


async def test_a_program_that_hears_no_cancel_is_killed_with_its_commands(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("deaf"), desk, pace=AcpPace(cancel_s=0.3)) as driver:
        async with anyio.create_task_group() as group:
            group.start_soon(driver.turn, await desk.begin(), desk)
            child = (await until_told(desk, "child"))["pid"]
            group.cancel_scope.cancel()
        assert not runs(child)
        assert await take(driver, desk) == "Again."


async def test_a_command_that_outlives_its_cancelled_turn_is_ended(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("careless"), desk) as driver:
        async with anyio.create_task_group() as group:
            group.start_soon(driver.turn, await desk.begin(), desk)
            child = (await until_told(desk, "child"))["pid"]
            group.cancel_scope.cancel()
        assert told(desk, "cancel")
        assert not runs(child)


async def test_nothing_of_it_is_left_when_it_is_closed(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("careless"), desk) as driver:
        async with anyio.create_task_group() as group:
            group.start_soon(broken_off, driver, desk)
            child = (await until_told(desk, "child"))["pid"]
            # As when the runner is told to end: it closes the driver, whatever goes on.
            await driver.aclose()
        assert not runs(child)


async def test_a_turn_that_the_program_breaks_off_has_failed(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("gives up"), desk) as driver:
        with pytest.raises(TurnFailed, match="aborted its turn without a reason") as caught:
            await take(driver, desk)
    assert caught.value.partial == "I begin."


async def broken_off(driver: Acp, desk: RecordingDesk) -> None:
    with pytest.raises(TurnFailed):
        await driver.turn(await desk.begin(), desk)


def runs(pid: int) -> bool:
    """Whether a process of that pid runs."""
    row = processes.look(pid)
    return row is not None and row.runs


async def test_a_program_that_shouts_fills_no_log_and_spends_no_money(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("shouts"), desk) as driver:
        assert await take(driver, desk) == "Done."
    log = (desk.folder / LOG).read_text("utf-8")
    assert len(log) < 2_000_000
    assert all(usage.cost_usd < 1 for usage in desk.usages)
