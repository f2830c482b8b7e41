"""R-4.2: which modes each driver can be spawned in, and what holds then, as it is stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.drivers import registry
from bullpen.agents.drivers.registry import DRIVERS, capabilities_of, check_spec
from bullpen.agents.drivers.unsupported import unkept
from bullpen.app.effective_rights import Effective, effective_of
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.permissions.policy_view import PolicyViews, effective_json
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import MODES, Policy, Sandbox
from support.offices import TEAM, Place

# What happens when it reads inside, reads outside, writes inside, writes outside, runs a command:
# + it does, ? it asks, - it is denied. x: it cannot be spawned in that mode.
TABLE = """
driver       default  acceptEdits  bypassPermissions  plan   delegate  dontAsk
native       +????    +?+??        +++++              +?---  +?+??     +----
scripted     +????    +?+??        +++++              +?---  +?+??     +----
claude-code  +????    +?+??        +++++              +?---  +?+??     +----
codex        ++???    +++??        +++++              ++---  +++??     ++---
claude       ++???    +++??        +++++              ++---  +++??     ++---
goose        ++???    +++??        +++++              ++---  +++??     ++---
opencode     ++???    +++??        +++++              ++---  +++??     ++---
gemini       ++???    +++??        +++++              ++---  +++??     ++---
qwen         ++???    +++??        +++++              ++---  +++??     ++---
copilot      ++???    +++??        +++++              ++---  +++??     ++---
vibe         ++???    +++??        +++++              ++---  +++??     ++---
acp          ++???    +++??        +++++              x      +++??     ++---
"""
SIGNS = {"allow": "+", "ask": "?", "deny": "-"}


def rows() -> list[tuple[str, str, str]]:
    """The table as triples of driver, mode and what holds."""
    head, *lines = (line.split() for line in TABLE.strip().splitlines())
    return [
        (line[0], mode, cell)
        for line in lines
        for mode, cell in zip(head[1:], line[1:], strict=True)
    ]


async def spec_of(place: Place, driver: str, mode: str | None, **fields: Any) -> AgentSpec:
    """An agent with this driver in this mode, and what that driver cannot do without."""
    needs: dict[str, Any] = {"acp": {"command": ["goose"]}, "scripted": {"script": "x.toml"}}
    return await place.app.resolve(
        SpawnRequest(
            driver=driver,
            backend="subprocess",
            cwd=str(place.project),
            mode=mode,
            **needs.get(driver, {}),
            **fields,
        )
    )


async def rights_of(place: Place, spec: AgentSpec) -> Effective:
    await place.team.agents.register("alice", spec, by=LEAD, nonce="n")
    return await effective_of(place.app, TEAM, "alice")


def verdicts(found: Effective, outside: Path) -> str:
    """What comes of one call of each sort."""
    inside = Path(found.rights.cwd) / "a.txt"
    calls = [
        ("Read", str(inside)),
        ("Read", str(outside)),
        ("Write", str(inside)),
        ("Write", str(outside)),
        ("Bash", "make all"),
    ]
    given = [
        (tool, {"file_path": value, "content": ""} if tool == "Write" else value)
        for tool, value in calls
    ]
    rules = found.verdict
    lacks = found.lacks
    return "".join(
        "-" if tool in lacks else SIGNS[rules(tool, value).ruling.effect] for tool, value in given
    )


def otherwise(found: Effective) -> str:
    """The same as the page about an agent shows it."""
    kinds: list[tuple[Any, bool]] = [
        ("read", True),
        ("read", False),
        ("write", True),
        ("write", False),
        ("run", True),
    ]
    return "".join(SIGNS[found.otherwise(kind, inside=inside)] for kind, inside in kinds)


def test_the_table_has_every_driver_and_every_mode() -> None:
    assert {(driver, mode) for driver, mode, _ in rows()} == {
        (driver, mode) for driver in DRIVERS for mode in MODES
    }


@pytest.mark.parametrize(("driver", "mode", "holds"), rows())
async def test_a_mode_holds_for_a_driver_as_the_table_says_or_is_refused(
    place: Place, programs: Path, tmp_path: Path, driver: str, mode: str, holds: str
) -> None:
    """R-4.2: matrix mode x driver."""
    spec = await spec_of(place, driver, mode)
    environ = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    if holds == "x":
        with pytest.raises(Invalid, match=f"The driver {driver!r} has no plan mode"):
            check_spec(spec, environ=environ)
        return
    check_spec(spec, environ=environ)
    found = await rights_of(place, spec)
    assert (found.rights.mode, found.driver) == (mode, driver)
    assert verdicts(found, tmp_path / "outside.txt") == holds
    assert otherwise(found) == holds


FOREIGN = [driver for driver in DRIVERS if driver not in ("native", "scripted")]
READS_UNASKED = [driver for driver in FOREIGN if driver != "claude-code"]
READING = ["Read(.env)", "Read", "Grep(//etc/**)", "LS", "read(.env)"]


@pytest.mark.parametrize("driver", READS_UNASKED)
@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_rules_about_reading_are_refused_by_name_where_nobody_asks(
    place: Place, programs: Path, driver: str, effect: str
) -> None:
    environ = {"PATH": str(programs)}
    for rule in READING:
        spec = (await spec_of(place, driver, None)).evolve(policy={effect: [rule]})
        with pytest.raises(Invalid, match="reads files without asking") as refused:
            check_spec(spec, environ=environ)
        assert rule in refused.value.message
    other = await spec_of(place, driver, None, policy=Policy.new(**{effect: ["Bash(rm:*)"]}))
    check_spec(other, environ=environ)
    allowed = await spec_of(place, driver, None, policy=Policy.new(allow=["Read"]))
    check_spec(allowed, environ=environ)


@pytest.mark.parametrize("driver", ["native", "scripted", "claude-code"])
async def test_rules_about_reading_hold_where_it_is_asked(
    place: Place, programs: Path, driver: str
) -> None:
    spec = await spec_of(place, driver, None, policy=Policy.new(deny=["Read(.env)"]))
    check_spec(spec, environ={"PATH": str(programs)})
    found = await rights_of(place, spec)
    assert found.verdict("Read", ".env").outcome == "deny"


@pytest.mark.parametrize("driver", FOREIGN)
async def test_every_program_can_run_whole_in_a_sandbox_and_not_without_bubblewrap(
    place: Place, programs: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy.new(sandbox=Sandbox.new().raw)
    spec = await spec_of(place, driver, None, policy=policy)
    assert unkept(spec, capabilities_of(driver)) == []
    monkeypatch.setattr(registry, "check_sandbox", _not_there)
    with pytest.raises(Unavailable, match="no bubblewrap here"):
        check_spec(spec, environ={"PATH": str(programs)})


def _not_there() -> None:
    raise Unavailable("no bubblewrap here")


SHOWN = {
    "goose": ("it asks before it changes files or runs commands; it reads without asking", True),
    "claude-code": ("it asks before it reads, changes or runs anything", False),
    "acp": ("only if the program asks, which is untested", True),
}


@pytest.mark.parametrize("driver", SHOWN)
async def test_an_agent_can_be_shown_with_what_is_enforced_and_what_is_not(
    place: Place, driver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """R-9.7: a member can print its effective definition."""
    words, unasked = SHOWN[driver]
    found = await rights_of(place, await spec_of(place, driver, "acceptEdits"))
    page = Page(json=False)
    PolicyViews(page).effective(found)
    page.flush()
    text = " ".join(capsys.readouterr().out.split())
    assert f"driver: {driver}:" in text
    assert words in text
    assert "tools: its own, treated as Read, Write, Edit, Bash; TaskCreate" in text
    told = effective_json(found)
    assert (told["driver"], told["readsUnasked"]) == (driver, unasked)
    assert told["otherwise"]["read"]["outside"] == ("allow" if unasked else "ask")
    assert told["afterEdit"] == {} and "after edit" not in text


async def test_the_commands_after_an_edit_are_shown(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = {"*.py": ["ruff format {file}", "ruff check {file}"]}
    spec = (await spec_of(place, "native", "acceptEdits")).evolve(after_edit=commands)
    found = await rights_of(place, spec)
    page = Page(json=False)
    PolicyViews(page).effective(found)
    page.flush()
    assert "*.py: ruff format {file}; ruff check {file}" in capsys.readouterr().out
    assert effective_json(found)["afterEdit"] == commands
