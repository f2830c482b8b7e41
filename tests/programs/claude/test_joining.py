"""Which session is meant, what Claude Code says of a teammate, and members of ours in its files."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark
from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.errors import Conflict, Invalid, NotFound, Refused, Unreadable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.runs import guests
from bullpen.runs.guests import Bridge, ClaudeSession, GuestClaim

HOME = Path("/home/of/claude")


def session(team: str = "session-35fc651c", **fields: Any) -> ClaudeSession:
    known = {"session_id": f"{team[-8:]}-aaaa", "cwd": "/p", "began_ms": 1.0, "alive": True}
    return ClaudeSession(**{"team": team, "hears": True, **known, **fields})


def config(name: str = "session-35fc651c", **fields: Any) -> dict[str, Any]:
    """A team as the newest version writes it when its session starts."""
    pid = os.getpid()
    start = processes.start_of(pid)
    assert start is not None
    space = os.readlink("/proc/self/ns/pid")
    lead = {
        "agentId": f"{LEAD}@{name}",
        "name": LEAD,
        "agentType": LEAD,
        "joinedAt": 1794696426856,
        "tmuxPaneId": "leader",
        "cwd": "/p",
        "subscriptions": [],
        "backendType": "in-process",
    }
    return {
        "name": name,
        "createdAt": round(time.time() * 1000),
        "leadAgentId": f"{LEAD}@{name}",
        "leadSessionId": f"{name[-8:]}-0000-4000-8000-000000000000",
        "leadProcess": {
            "pid": pid,
            "pidSpace": f"{processes.host_name()}#{space}",
            "claimedAt": 1794696426854,
            "procStart": start.partition("-")[0],
        },
        "theirs": {"kept": True},
        "members": [lead],
        **fields,
    }


def member(name: str, **fields: Any) -> dict[str, Any]:
    """A teammate as a lead adds it before it starts its pane."""
    return {
        "agentId": f"{name}@session-35fc651c",
        "name": name,
        "color": "blue",
        "tmuxPaneId": "%1",
        "theirs": 1,
        "backendType": "tmux",
        **fields,
    }


def put(home: Path, team: dict[str, Any]) -> Path:
    folder: Path = home / "teams" / team["name"]
    (folder / "inboxes").mkdir(parents=True)
    (home / "tasks" / team["name"]).mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(team, indent=2), "utf-8")
    return folder


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    return found


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    """An app on a home of Claude Code; whatever runs in it is gone at the end."""
    home = tmp_path / "claude"
    async with App(settings_from({"HOME": str(tmp_path)}, home=home), os.environ) as app:
        yield app
        for nonce in processes.marked().values():
            if nonce.startswith(f"{home_mark(home)}-"):
                await processes.end(None, None, None, nonce, 0)


async def idle(app: App, tmp_path: Path) -> AgentSpec:
    """A spec of an agent that does nothing."""
    script = tmp_path / "script.toml"
    script.write_text("[agents.bob]\n[agents.alice]\n", "utf-8")
    return await app.resolve(
        SpawnRequest(
            driver="scripted",
            backend="subprocess",
            cwd=str(tmp_path),
            script=str(script),
            claims=False,
        )
    )


def test_the_only_session_that_runs_is_meant() -> None:
    here = session("session-11111111")
    dead = session("session-22222222", alive=False, began_ms=9.0)
    assert guests.chosen([dead, here], None, home=HOME) == here


def test_without_one_that_runs_the_newest_is_meant_and_a_warning_says_so() -> None:
    old, new = session("session-11111111", alive=None), session("session-22222222", alive=False)
    assert guests.chosen([new, old], None, home=HOME) == old
    assert guests.chosen([new], None, home=HOME) == new
    assert "is not running" in guests.warnings(new, "bob")[0]
    assert "may not be running" in guests.warnings(old, "bob")[0]


def test_several_sessions_that_run_are_listed() -> None:
    both = [session("session-11111111"), session("session-22222222", cwd="/other")]
    with pytest.raises(Refused, match=r"session-11111111 in /p.*session-22222222 in /other"):
        guests.chosen(both, None, home=HOME)


@pytest.mark.parametrize("wanted", ["session-22222222", "22222222-aaaa", "2222"])
def test_a_session_is_found_by_its_team_its_id_or_the_beginning_of_that(wanted: str) -> None:
    both = [session("session-11111111"), session("session-22222222", alive=False)]
    assert guests.chosen(both, wanted, home=HOME) == both[1]


def test_no_session_is_an_error_that_says_how_to_have_one() -> None:
    with pytest.raises(NotFound, match="CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"):
        guests.chosen([], None, home=HOME)
    with pytest.raises(NotFound, match="session-35fc651c"):
        guests.chosen([session()], "other", home=HOME)


async def test_sessions_are_read_from_the_files_with_whether_they_run(app: App) -> None:
    home = app.settings.home
    put(home, config())
    gone = {**config()["leadProcess"], "procStart": "1"}
    put(home, config("session-deadbeef", leadProcess=gone, createdAt=1))
    elsewhere = {**gone, "pidSpace": "another-machine"}
    put(home, config("session-00000000", leadProcess=elsewhere, createdAt=0))
    await app.teams.create("ours")
    found = await guests.sessions(app.teams)
    running = {each.team: each.alive for each in found}
    expected = {"session-35fc651c": True, "session-deadbeef": False, "session-00000000": None}
    assert running.items() >= expected.items()
    assert found[0].team in ("session-35fc651c", "ours")


async def test_a_lead_hears_while_it_has_a_teammate_of_its_own(app: App) -> None:
    alone = config()
    put(app.settings.home, alone)
    (first,) = await guests.sessions(app.teams)
    assert not first.hears
    assert "Start a teammate" in guests.warnings(first, "bob")[0]
    rows = [*alone["members"], member("keeper", backendType="in-process")]
    put(app.settings.home, config("session-22222222", members=rows))
    hears = {each.team: each.hears for each in await guests.sessions(app.teams)}
    assert hears["session-22222222"]


def test_the_flags_of_a_teammate_are_understood() -> None:
    words = (
        "--agent-id alice@session-1 --agent-name alice --team-name session-1 --agent-color blue"
        " --parent-session-id 1 --lead-verify-key 1.MCow --agent-type general-purpose"
        " --permission-mode acceptEdits --model claude-sonnet-4-5"
    )
    assert guests.claim_of(words.split()) == GuestClaim(
        "alice", "session-1", mode="acceptEdits", model="claude-sonnet-4-5"
    )


@pytest.mark.parametrize("flag", ["--plan-mode-required", "--permission-mode=plan"])
def test_plan_mode_is_heard(flag: str) -> None:
    assert guests.claim_of(["--agent-id", "alice@t", flag]).plans


def test_what_is_not_known_is_left_out_by_name() -> None:
    words = "--agent-id alice@t --hologram on --agent-type poet --permission-mode bold --fast"
    claim = guests.claim_of(words.split())
    assert claim.ignored == (
        "--hologram on",
        "--fast",
        "--agent-type poet",
        "--permission-mode bold",
    )
    assert claim.mode is None


def test_without_a_teammate_there_is_no_bridge() -> None:
    with pytest.raises(Invalid, match="--agent-name and --team-name"):
        guests.claim_of(["--model", "x"])


def test_the_bridge_is_what_the_file_and_the_environment_say(tmp_path: Path) -> None:
    assert guests.read_bridge(tmp_path, {}) == Bridge()
    (tmp_path / "bridge.toml").write_text('driver = "codex"\nmodel = "gpt-5.5"\n', "utf-8")
    assert guests.read_bridge(tmp_path, {}) == Bridge(driver="codex", model="gpt-5.5")
    named = guests.read_bridge(tmp_path, {guests.BRIDGE_DRIVER: "goose"})
    assert named.driver == "goose"


@pytest.mark.parametrize("text", ["driver = ", "drivers = 'codex'", "claims = 'perhaps'"])
def test_a_bridge_file_with_a_mistake_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "bridge.toml").write_text(text, "utf-8")
    with pytest.raises(Unreadable, match=r"bridge\.toml"):
        guests.read_bridge(tmp_path, {})


async def test_an_agent_of_ours_takes_the_place_that_the_lead_made(
    app: App, tmp_path: Path
) -> None:
    team = config()
    team["members"].append(member("alice"))
    folder = put(app.settings.home, team)
    claim = GuestClaim("alice", team["name"], plans=True, mode="plan")
    bridge = Bridge(driver="scripted", script=str(tmp_path / "script.toml"), mode="acceptEdits")
    await idle(app, tmp_path)
    launch = await guests.take_place(app, claim, bridge, cwd=str(tmp_path))
    assert launch.argv[-2:] == ("agent", "run")
    assert launch.env["BULLPEN_AGENT"] == "alice"
    after = read(folder)
    assert after["theirs"] == {"kept": True}
    (row,) = [each for each in after["members"] if each["name"] == "alice"]
    assert row.items() >= member("alice").items()
    spec = row["bullpen"]["spec"]
    assert (spec["mode"], spec["policy"]["approver"]) == ("plan", "inbox")
    with pytest.raises(Conflict):
        await guests.take_place(app, claim, bridge, cwd=str(tmp_path))


async def test_a_guest_keeps_its_things_out_of_the_folders_of_claude_code(
    app: App, tmp_path: Path
) -> None:
    folder = put(app.settings.home, config())
    spec = await idle(app, tmp_path)
    await guests.enter(app, folder.name, "bob", spec, ready_s=60)
    path = await app.supervisor(folder.name).transcript("bob")
    assert path.is_relative_to(app.settings.home / "bullpen")
    assert not (app.settings.home / "agents").exists()
    left = await guests.leave(app, folder.name, "bob", reason="enough")
    assert (left.end, left.cause) == ("stopped", "enough")
    assert [row["name"] for row in read(folder)["members"]] == [LEAD]
    again = await guests.leave(app, folder.name, "bob", reason="enough")
    assert again.cause == "it had left before"


async def test_a_guest_whose_team_is_removed_ends_and_says_so(app: App, tmp_path: Path) -> None:
    folder = put(app.settings.home, config())
    spec = await idle(app, tmp_path)
    await guests.enter(app, folder.name, "bob", spec, ready_s=60)
    await guests.leave(app, folder.name, "bob", reason="the words of an earlier guest")
    await guests.enter(app, folder.name, "bob", spec, ready_s=60)
    left: list[guests.Left] = []

    async def wait() -> None:
        left.append(await guests.stay(app, folder.name, "bob"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.sleep(0.5)
            away = folder.rename(folder.with_name(f"{folder.name}.deleted-1"))
            shutil.rmtree(away)
    assert left[0].cause == "the team was deleted"
    assert list((app.settings.home / "teams").iterdir()) == []


async def test_a_guest_answers_the_bare_request_of_a_foreign_lead_and_leaves(
    app: App, tmp_path: Path
) -> None:
    folder = put(app.settings.home, config())
    script = tmp_path / "agreeing.toml"
    answer = '{type = "shutdown_response", request_id = "{request}", approve = true}'
    turn = f'when = "mail"\nsteps = [{{tool = "SendMessage", input = {answer}}}]'
    script.write_text(f"[[agents.bob.turns]]\n{turn}\n", "utf-8")
    spec = (await idle(app, tmp_path)).evolve(script=str(script))
    await guests.enter(app, folder.name, "bob", spec, ready_s=60)
    asked = {"type": "shutdown_request", "requestId": "shutdown-1@bob", "from": LEAD}
    row = {"from": LEAD, "text": json.dumps({**asked, "timestamp": "now"}), "timestamp": "now"}
    inbox = folder / "inboxes" / "bob.json"
    inbox.write_text(json.dumps([{**row, "read": False}], indent=2), "utf-8")
    with anyio.fail_after(60):
        left = await guests.stay(app, folder.name, "bob")
    assert (left.end, left.cause) == (
        "finished",
        f"agreed to the shutdown that {LEAD} asked for",
    )
    assert [row["name"] for row in read(folder)["members"]] == [LEAD]
    told = json.loads((folder / "inboxes" / f"{LEAD}.json").read_text("utf-8"))
    assert any('"shutdown_approved"' in each["text"] for each in told)
