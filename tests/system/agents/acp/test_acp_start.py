"""How a program is started: its login, its forced settings, and servers that it starts late."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.acp.driver import AcpPace
from bullpen.errors import Unavailable

from .acp_stage import PACE, desk_in, preset, started, take, told


async def test_a_program_that_wants_a_login_gets_the_only_one_it_offers(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("one login"), desk) as driver:
        assert await take(driver, desk) == "Done."
    assert [row["method"] for row in told(desk, "authenticate")] == ["api-key"]


async def test_of_several_logins_the_presets_is_taken(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("two logins", auth_method="browser"), desk):
        pass
    assert [row["method"] for row in told(desk, "authenticate")] == ["browser"]


async def test_logins_that_nobody_can_choose_from_are_named(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    with pytest.raises(Unavailable, match=r"api-key \(Api-Key\), browser \(Browser\)") as caught:
        async with started(preset("two logins"), desk):
            pass
    assert "Log in once" in caught.value.remedy
    assert told(desk, "authenticate") == []


@pytest.mark.parametrize("late", [True, None])
async def test_a_program_may_start_the_teams_server_with_its_first_prompt(
    tmp_path: Path, late: bool | None
) -> None:
    desk = await desk_in(tmp_path)
    pace = AcpPace(start_s=PACE.start_s, maybe_late_s=0.5)
    async with started(preset("late server", late_server=late), desk, pace=pace) as driver:
        assert await take(driver, desk) == "Done."


async def test_a_turn_without_the_teams_tools_fails_and_says_so(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    pace = AcpPace(start_s=PACE.start_s, server_s=0.2, maybe_late_s=0.2)
    async with started(preset("no server", late_server=None), desk, pace=pace) as driver:
        with pytest.raises(TurnFailed, match="without the team's tools"):
            await take(driver, desk)


async def test_forced_settings_are_sent_and_written_before_every_start(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    of = preset(
        "",
        session_meta={"vendor": {"ask": True}},
        forced_files=(("forced.json", "{}"),),
        forced_args=("--policy", "{folder}/forced.json"),
        fixed_env=(("SETTINGS", "{folder}/forced.json"),),
    )
    for _ in range(2):
        (desk.folder / "forced.json").unlink(missing_ok=True)
        (desk.folder / "forced.json").symlink_to(tmp_path / "elsewhere")
        async with started(of, desk):
            assert (desk.folder / "forced.json").read_text() == "{}"
            assert not (tmp_path / "elsewhere").exists()
    assert [row["meta"]["vendor"] for row in told(desk, "meta")] == [{"ask": True}] * 2
