"""Settings, the choice of a team, and the doctor, on real files."""

from __future__ import annotations

from pathlib import Path

import pytest

import bullpen
from bullpen.app import stores
from bullpen.app.doctor import examine_records
from bullpen.app.settings import Settings, settings_from
from bullpen.app.stores import open_teams, resolve_team
from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore


def test_options_come_before_the_environment_and_that_before_the_defaults() -> None:
    env = {"BULLPEN_HOME": "/env", "BULLPEN_TEAM": "env-team", "BULLPEN_AGENT": "env-agent"}
    given = settings_from(env, home="/option", team="option-team", agent="option-agent")
    assert (given.home, given.team, given.agent) == (
        Path("/option"),
        "option-team",
        "option-agent",
    )
    assert (given.home_source, given.team_source, given.agent_source) == ("option",) * 3
    found = settings_from(env)
    assert (found.home, found.team, found.agent) == (Path("/env"), "env-team", "env-agent")
    assert (found.home_source, found.team_source, found.agent_source) == ("environment",) * 3
    default = settings_from({"HOME": "/home/me"})
    assert (default.home, default.team, default.agent) == (
        Path("/home/me/.bullpen"),
        None,
        LEAD,
    )
    assert (default.home_source, default.team_source, default.agent_source) == ("default",) * 3


def test_empty_settings_are_none() -> None:
    env = {"BULLPEN_HOME": "", "BULLPEN_TEAM": "", "BULLPEN_AGENT": "", "HOME": "/home/me"}
    settings = settings_from(env, home="", team="", agent="")
    assert (settings.home, settings.team, settings.agent) == (
        Path("/home/me/.bullpen"),
        None,
        LEAD,
    )


def test_the_folder_of_claude_code_is_not_the_home_unless_it_is_named() -> None:
    """It cleans up there: decision 3."""
    env = {"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/home/me/claude"}
    assert settings_from(env).home == Path("/home/me/.bullpen")
    assert settings_from(env, home="~/.claude").home == Path("/home/me/.claude")


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_from({"HOME": "/home/me"}, home="~/x").home == Path("/home/me/x")
    monkeypatch.setenv("HOME", "/home/you")
    assert settings_from({}).home == Path("/home/you/.bullpen")
    with pytest.raises(Invalid, match="BULLPEN_HOME"):
        settings_from({}, home="~nobody-of-this-name/x")


def test_a_relative_home_is_the_same_folder_in_every_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)
    named = (
        settings_from({}, home="home"),
        settings_from({"BULLPEN_HOME": "home"}),
        Settings(home=Path("home"), team=None, agent=LEAD),
    )
    monkeypatch.chdir(tmp_path / "project")
    assert [each.home for each in named] == [tmp_path / "home"] * 3


def test_a_relative_home_in_a_directory_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(Invalid, match=r"'home' cannot be found.*--home"):
        settings_from({}, home="home")
    assert settings_from({}, home=tmp_path).home == tmp_path


async def test_the_only_team_is_meant_if_none_is_named(tmp_path: Path) -> None:
    settings = settings_from({}, home=tmp_path)
    async with open_teams(settings) as teams:
        with pytest.raises(NotFound, match="bullpen team create"):
            await resolve_team(teams, settings)
        await teams.create("one")
        assert await resolve_team(teams, settings) == "one"
        await teams.create("two")
        with pytest.raises(Refused, match=r"one, two\. .*--team") as error:
            await resolve_team(teams, settings)
        assert error.value.reason == "several_teams"
        named = settings_from({"BULLPEN_TEAM": "two"}, home=tmp_path)
        assert await resolve_team(teams, named) == "two"
        for number in range(8):
            await teams.create(f"more-{number}")
        with pytest.raises(Refused, match="and 2 more"):
            await resolve_team(teams, settings)


async def test_the_doctor_looks_at_one_team_or_at_all(tmp_path: Path) -> None:
    settings = settings_from({}, home=tmp_path)
    async with open_teams(settings) as teams:
        for name in ("one", "two"):
            await teams.create(name)
            await teams.open(name).tasks.add("a", by=LEAD)
            task = tmp_path / "tasks" / name / "1.json"
            task.write_text(task.read_text().replace('"pending"', '"in_progress"'))
        assert await examine_records(settings, "one", False) != []
        found = await examine_records(settings, None, True)
        assert [(item.kind, item.where, item.fixed) for item in found] == [
            ("no_owner", "tasks/one/1.json", True),
            ("no_owner", "tasks/two/1.json", True),
        ]
        assert await examine_records(settings, None, False) == []
        assert (await teams.open("two").tasks.get("1")).status == "pending"
        with pytest.raises(NotFound):
            await examine_records(settings, "three", False)


async def test_a_team_that_cannot_be_examined_is_a_finding_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listing(FileStore):
        async def teams(self) -> list[str]:
            return ["bad\nname", "gone", *await super().teams()]

    settings = settings_from({}, home=tmp_path)
    async with open_teams(settings) as teams:
        await teams.create("one")
        await teams.create("two")
        await teams.open("two").tasks.add("a", by=LEAD)
    (tmp_path / "teams" / "one" / "config.json").write_text("{")
    task = tmp_path / "tasks" / "two" / "1.json"
    task.write_text(task.read_text().replace('"pending"', '"in_progress"'))
    monkeypatch.setattr(stores, "FileStore", Listing)
    findings = await examine_records(settings, None, False)
    unusable = [finding.where for finding in findings if finding.kind == "unusable"]
    assert unusable == ["teams/bad\nname", "teams/one"]
    assert "no_owner" in {finding.kind for finding in findings}
    with pytest.raises(Invalid):
        await examine_records(settings, "bad\nname", False)


def test_the_public_names_are_few_and_all_there() -> None:
    assert len(bullpen.__all__) <= 25
    assert bullpen.__all__ == sorted(bullpen.__all__)
    for name in bullpen.__all__:
        assert getattr(bullpen, name).__name__ == name
    assert set(bullpen.__all__) <= set(dir(bullpen))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bullpen.nothing
