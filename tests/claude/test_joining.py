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

from bullpen import joining
from bullpen.agents import processes
from bullpen.agents.launching import home_mark
from bullpen.app import settings_from
from bullpen.errors import Conflict, Invalid, NotFound, Refused, Unreadable
from bullpen.joining import Bridge, Claim, ClaudeSession
from bullpen.office import Office
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD

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
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """An office on a home of Claude Code; whatever runs in it is gone at the end."""
    home = tmp_path / "claude"
    async with Office(settings_from({"HOME": str(tmp_path)}, home=home), os.environ) as office:
        yield office
        for nonce in processes.marked().values():
            if nonce.startswith(f"{home_mark(home)}-"):
                await processes.end(None, None, None, nonce, 0)


async def idle(office: Office, tmp_path: Path) -> AgentSpec:
    """A spec of an agent that does nothing."""
    script = tmp_path / "script.toml"
    script.write_text("[agents.bob]\n[agents.alice]\n", "utf-8")
    return await office.spec(
        driver="scripted", backend="subprocess", cwd=str(tmp_path), script=str(script), claims=False
    )


def test_the_only_session_that_runs_is_meant() -> None:
    here = session("session-11111111")
    dead = session("session-22222222", alive=False, began_ms=9.0)
    assert joining.chosen([dead, here], None, home=HOME) == here


def test_without_one_that_runs_the_newest_is_meant_and_a_warning_says_so() -> None:
    old, new = session("session-11111111", alive=None), session("session-22222222", alive=False)
    assert joining.chosen([new, old], None, home=HOME) == old
    assert joining.chosen([new], None, home=HOME) == new
    assert "does not run any more" in joining.warnings(new, "bob")[0]
    assert "is not known to run" in joining.warnings(old, "bob")[0]


def test_several_sessions_that_run_are_listed() -> None:
    both = [session("session-11111111"), session("session-22222222", cwd="/other")]
    with pytest.raises(Refused, match=r"session-11111111 in /p.*session-22222222 in /other"):
        joining.chosen(both, None, home=HOME)


@pytest.mark.parametrize("wanted", ["session-22222222", "22222222-aaaa", "2222"])
def test_a_session_is_found_by_its_team_its_id_or_the_beginning_of_that(wanted: str) -> None:
    both = [session("session-11111111"), session("session-22222222", alive=False)]
    assert joining.chosen(both, wanted, home=HOME) == both[1]


def test_no_session_is_an_error_that_says_how_to_have_one() -> None:
    with pytest.raises(NotFound, match="CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"):
        joining.chosen([], None, home=HOME)
    with pytest.raises(NotFound, match="session-35fc651c"):
        joining.chosen([session()], "other", home=HOME)


async def test_sessions_are_read_from_the_files_with_whether_they_run(office: Office) -> None:
    home = office.settings.home
    put(home, config())
    gone = {**config()["leadProcess"], "procStart": "1"}
    put(home, config("session-deadbeef", leadProcess=gone, createdAt=1))
    elsewhere = {**gone, "pidSpace": "another-machine"}
    put(home, config("session-00000000", leadProcess=elsewhere, createdAt=0))
    await office.teams.create("ours")
    found = await joining.sessions(office.teams)
    running = {each.team: each.alive for each in found}
    expected = {"session-35fc651c": True, "session-deadbeef": False, "session-00000000": None}
    assert running.items() >= expected.items()
    assert found[0].team in ("session-35fc651c", "ours")


async def test_a_lead_hears_while_it_has_a_teammate_of_its_own(office: Office) -> None:
    alone = config()
    put(office.settings.home, alone)
    (first,) = await joining.sessions(office.teams)
    assert not first.hears
    assert "Start a teammate" in joining.warnings(first, "bob")[0]
    rows = [*alone["members"], member("keeper", backendType="in-process")]
    put(office.settings.home, config("session-22222222", members=rows))
    hears = {each.team: each.hears for each in await joining.sessions(office.teams)}
    assert hears["session-22222222"]


def test_the_flags_of_a_teammate_are_understood() -> None:
    words = (
        "--agent-id alice@session-1 --agent-name alice --team-name session-1 --agent-color blue"
        " --parent-session-id 1 --lead-verify-key 1.MCow --agent-type general-purpose"
        " --permission-mode acceptEdits --model claude-sonnet-4-5"
    )
    assert joining.claim_of(words.split()) == Claim(
        "alice", "session-1", mode="acceptEdits", model="claude-sonnet-4-5"
    )


@pytest.mark.parametrize("flag", ["--plan-mode-required", "--permission-mode=plan"])
def test_plan_mode_is_heard(flag: str) -> None:
    assert joining.claim_of(["--agent-id", "alice@t", flag]).plans


def test_what_is_not_known_is_left_out_by_name() -> None:
    words = "--agent-id alice@t --hologram on --agent-type poet --permission-mode bold --fast"
    claim = joining.claim_of(words.split())
    assert claim.ignored == (
        "--hologram on",
        "--fast",
        "--agent-type poet",
        "--permission-mode bold",
    )
    assert claim.mode is None


def test_without_a_teammate_there_is_no_bridge() -> None:
    with pytest.raises(Invalid, match="--agent-name and --team-name"):
        joining.claim_of(["--model", "x"])


def test_the_bridge_is_what_the_file_and_the_environment_say(tmp_path: Path) -> None:
    assert joining.read_bridge(tmp_path, {}) == Bridge()
    (tmp_path / "bridge.toml").write_text('driver = "codex"\nmodel = "gpt-5.5"\n', "utf-8")
    assert joining.read_bridge(tmp_path, {}) == Bridge(driver="codex", model="gpt-5.5")
    named = joining.read_bridge(tmp_path, {joining.BRIDGE_DRIVER: "goose"})
    assert named.driver == "goose"


@pytest.mark.parametrize("text", ["driver = ", "drivers = 'codex'", "claims = 'perhaps'"])
def test_a_bridge_file_with_a_mistake_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "bridge.toml").write_text(text, "utf-8")
    with pytest.raises(Unreadable, match=r"bridge\.toml"):
        joining.read_bridge(tmp_path, {})


async def test_an_agent_of_ours_takes_the_place_that_the_lead_made(
    office: Office, tmp_path: Path
) -> None:
    team = config()
    team["members"].append(member("alice"))
    folder = put(office.settings.home, team)
    claim = Claim("alice", team["name"], plans=True, mode="plan")
    bridge = Bridge(driver="scripted", script=str(tmp_path / "script.toml"), mode="acceptEdits")
    await idle(office, tmp_path)
    launch = await joining.take_place(office, claim, bridge, cwd=str(tmp_path))
    assert launch.argv[-2:] == ("agent", "run")
    assert launch.env["BULLPEN_AGENT"] == "alice"
    after = read(folder)
    assert after["theirs"] == {"kept": True}
    (row,) = [each for each in after["members"] if each["name"] == "alice"]
    assert row.items() >= member("alice").items()
    spec = row["bullpen"]["spec"]
    assert (spec["mode"], spec["policy"]["approver"]) == ("plan", "inbox")
    with pytest.raises(Conflict):
        await joining.take_place(office, claim, bridge, cwd=str(tmp_path))


async def test_a_guest_keeps_its_things_out_of_the_folders_of_claude_code(
    office: Office, tmp_path: Path
) -> None:
    folder = put(office.settings.home, config())
    spec = await idle(office, tmp_path)
    await joining.enter(office, folder.name, "bob", spec, ready_s=60)
    path = await office.supervisor(folder.name).transcript("bob")
    assert path.is_relative_to(office.settings.home / "bullpen")
    assert not (office.settings.home / "agents").exists()
    left = await joining.leave(office, folder.name, "bob", reason="enough")
    assert (left.end, left.cause) == ("stopped", "enough")
    assert [row["name"] for row in read(folder)["members"]] == [LEAD]
    again = await joining.leave(office, folder.name, "bob", reason="enough")
    assert again.cause == "it had left before"


async def test_a_guest_whose_team_is_removed_ends_and_says_so(
    office: Office, tmp_path: Path
) -> None:
    folder = put(office.settings.home, config())
    spec = await idle(office, tmp_path)
    await joining.enter(office, folder.name, "bob", spec, ready_s=60)
    await joining.leave(office, folder.name, "bob", reason="the words of an earlier guest")
    await joining.enter(office, folder.name, "bob", spec, ready_s=60)
    left: list[joining.Left] = []

    async def wait() -> None:
        left.append(await joining.stay(office, folder.name, "bob"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.sleep(0.5)
            away = folder.rename(folder.with_name(f"{folder.name}.deleted-1"))
            shutil.rmtree(away)
    assert left[0].cause == "the team was deleted"
    assert list((office.settings.home / "teams").iterdir()) == []


async def test_a_guest_answers_the_bare_request_of_a_foreign_lead_and_leaves(
    office: Office, tmp_path: Path
) -> None:
    folder = put(office.settings.home, config())
    script = tmp_path / "agreeing.toml"
    answer = '{type = "shutdown_response", request_id = "{request}", approve = true}'
    turn = f'when = "mail"\nsteps = [{{tool = "SendMessage", input = {answer}}}]'
    script.write_text(f"[[agents.bob.turns]]\n{turn}\n", "utf-8")
    spec = (await idle(office, tmp_path)).evolve(script=str(script))
    await joining.enter(office, folder.name, "bob", spec, ready_s=60)
    asked = {"type": "shutdown_request", "requestId": "shutdown-1@bob", "from": LEAD}
    row = {"from": LEAD, "text": json.dumps({**asked, "timestamp": "now"}), "timestamp": "now"}
    inbox = folder / "inboxes" / "bob.json"
    inbox.write_text(json.dumps([{**row, "read": False}], indent=2), "utf-8")
    with anyio.fail_after(60):
        left = await joining.stay(office, folder.name, "bob")
    assert (left.end, left.cause) == (
        "finished",
        f"agreed to the shutdown that {LEAD} asked for",
    )
    assert [row["name"] for row in read(folder)["members"]] == [LEAD]
    told = json.loads((folder / "inboxes" / f"{LEAD}.json").read_text("utf-8"))
    assert any('"shutdown_approved"' in each["text"] for each in told)
