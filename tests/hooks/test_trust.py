"""Trust: what a project's files ask for counts only if a person said so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crews import eventually
from offices import Place

from bullpen.agents.trust import NAME, distrust, hooks_of_people, is_trusted, trust, trusted
from bullpen.errors import NotFound, Refused, Unreadable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy


def settings(place: Place, told: object) -> Path:
    path = place.project / ".claude/settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def role(place: Place, front: str) -> None:
    path = place.project / ".claude/agents/reviewer.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: reviewer\n{front}---\nReview.\n", encoding="utf-8")


def stop_hook(command: str) -> dict[str, Any]:
    return {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}


ALLOWING = {"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Bash(rm:*)"]}}


async def spec(place: Place, **fields: Any) -> AgentSpec:
    return await place.spec("[agents.alice]\n", **{"mode": None, **fields})


async def test_a_project_with_settings_must_be_trusted_first(place: Place) -> None:
    path = settings(place, ALLOWING)
    with pytest.raises(Refused, match=str(path)) as caught:
        await spec(place)
    assert caught.value.reason == "not_trusted"
    assert f"bullpen trust {place.project}" in caught.value.remedy
    trust(place.home, place.project)
    rights = (await spec(place)).rights
    assert (rights.allow, rights.deny) == (["Bash(ls:*)"], ["Bash(rm:*)"])


async def test_a_project_can_be_left_out_and_so_it_is_for_teammates(place: Place) -> None:
    settings(place, ALLOWING)
    made = await spec(place, project_settings=False)
    assert made.rights.allow == []
    await place.supervisor.spawn("alice", made, by=LEAD, ready_s=60)
    _, facts = await place.team.agents.get("alice")
    below = await spec(
        place, parent=("alice", facts), project_settings="no_project_settings" not in made.options
    )
    assert below.rights.deny == []


@pytest.mark.parametrize("told", [{}, {"model": "opus"}, {"permissions": {"allow": []}}])
async def test_settings_that_change_nothing_need_no_trust(place: Place, told: object) -> None:
    settings(place, told)
    assert (await spec(place)).mode == "default"


async def test_the_users_own_files_always_count(place: Place) -> None:
    own = place.folder / "user/.claude/settings.json"
    own.parent.mkdir()
    own.write_text(json.dumps(ALLOWING), encoding="utf-8")
    assert (await spec(place)).rights.deny == ["Bash(rm:*)"]


async def test_what_was_stored_at_spawn_stays_when_the_files_change(place: Place) -> None:
    settings(place, {"hooks": stop_hook("true"), **ALLOWING})
    trust(place.home, place.project)
    await place.supervisor.spawn("alice", await spec(place), by=LEAD, ready_s=60)
    settings(place, {})
    _, facts = await place.team.agents.get("alice")
    assert facts.asked.rights.deny == ["Bash(rm:*)"]
    assert facts.asked.hooks is not None and list(facts.asked.hooks) == ["Stop"]


@pytest.mark.parametrize(
    "front",
    ["permissionMode: acceptEdits\n", f"hooks: {json.dumps(stop_hook('true'))}\n"],
)
async def test_a_role_that_runs_or_allows_something_must_be_trusted(
    place: Place, front: str
) -> None:
    role(place, front)
    for project in (True, False):
        with pytest.raises(Refused) as caught:
            await spec(place, role="reviewer", project_settings=project)
        assert caught.value.reason == "not_trusted"
    trust(place.home, place.project)
    assert (await spec(place, role="reviewer")).role == "reviewer"


async def test_a_role_of_another_kind_needs_no_trust(place: Place) -> None:
    role(place, "tools: Read, Bash(git log:*)\npermissionMode: plan\n")
    made = await spec(place, role="reviewer")
    assert made.mode == "plan" and (made.tools or [])[:2] == ["Read", "Bash(git log:*)"]


async def test_the_mode_is_asked_for_else_the_roles_else_the_settings(place: Place) -> None:
    settings(place, {"permissions": {"defaultMode": "acceptEdits"}})
    trust(place.home, place.project)
    role(place, "permissionMode: plan\n")
    assert (await spec(place)).mode == "acceptEdits"
    assert (await spec(place, role="reviewer")).mode == "plan"
    assert (await spec(place, role="reviewer", mode="dontAsk")).mode == "dontAsk"


async def test_a_rule_that_is_none_is_refused_when_it_is_asked_for(place: Place) -> None:
    with pytest.raises(Refused, match="there is no tool 'Bsh'"):
        await spec(place, policy=Policy.new(allow=["Bsh(x)"]))


async def test_hooks_of_files_role_and_parent_add_up(place: Place) -> None:
    settings(place, {"hooks": stop_hook("one")})
    role(place, f"hooks: {json.dumps(stop_hook('two'))}\n")
    trust(place.home, place.project)
    made = await spec(place, role="reviewer")
    assert made.hooks is not None
    assert [row["hooks"][0]["command"] for row in made.hooks["Stop"]] == ["two", "one"]
    await place.supervisor.spawn("alice", made, by=LEAD, ready_s=60)
    _, facts = await place.team.agents.get("alice")
    below = await spec(place, parent=("alice", facts))
    assert below.hooks == made.hooks


def test_trust_holds_for_a_git_tree_and_for_no_other_tree_in_it(tmp_path: Path) -> None:
    home, tree = tmp_path / "home", tmp_path / "tree"
    for folder in (tree / ".git", tree / "src", tree / "vendor/other/.git"):
        folder.mkdir(parents=True)
    assert trust(home, tree) == tree
    known = trusted(home)
    assert is_trusted(tree, known) and is_trusted(tree / "src", known)
    assert not is_trusted(tree / "vendor/other", known)
    assert not is_trusted(tmp_path, known)


def test_trust_is_of_the_real_directory(tmp_path: Path) -> None:
    home, real, other = tmp_path / "home", tmp_path / "real", tmp_path / "other"
    real.mkdir()
    other.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    assert trust(home, link) == real
    assert is_trusted(link, trusted(home))
    link.unlink()
    link.symlink_to(other)
    assert not is_trusted(link, trusted(home))


def test_trust_can_be_taken_back(tmp_path: Path) -> None:
    trust(tmp_path / "home", tmp_path)
    assert distrust(tmp_path / "home", tmp_path)
    assert not distrust(tmp_path / "home", tmp_path)
    assert trusted(tmp_path / "home") == []


def test_what_does_not_exist_cannot_be_trusted(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        trust(tmp_path / "home", tmp_path / "gone")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"directories": [1]}'])
def test_a_list_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable):
        trusted(tmp_path)


def test_the_hooks_of_a_trusted_project_count_for_people_too(tmp_path: Path) -> None:
    home, user, project = tmp_path / "home", tmp_path / "user", tmp_path / "project"
    for folder, command in ((user, "mine"), (project, "ours")):
        (folder / ".claude").mkdir(parents=True)
        text = json.dumps({"hooks": stop_hook(command)})
        (folder / ".claude/settings.json").write_text(text, encoding="utf-8")

    def commands() -> list[str]:
        found = hooks_of_people(project, user_home=user, home=home)
        return [hook.command for hook in found.hooks]

    assert commands() == ["mine"]
    trust(home, project)
    assert commands() == ["ours", "mine"]


def bullpen(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bullpen", "--home", str(home), *words],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=60,
        check=False,
    )


def test_a_person_trusts_lists_and_removes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    told = {**ALLOWING, "hooks": stop_hook("./check"), "model": "opus"}
    (project / ".claude/settings.json").write_text(json.dumps(told), encoding="utf-8")
    done = bullpen(tmp_path / "home", "trust", str(project))
    assert done.returncode == 0, done.stderr
    for words in (f"Trusted: {project}", "1 allow, 1 deny", "Stop ./check", "model is not used"):
        assert words in done.stdout
    listed = bullpen(tmp_path / "home", "trust", "--list", "--json")
    assert json.loads(listed.stdout) == {"directories": [str(project)]}
    assert bullpen(tmp_path / "home", "trust", str(project), "--remove").returncode == 0
    assert bullpen(tmp_path / "home", "trust", str(project), "--remove").returncode == 3
    assert "No project is trusted." in bullpen(tmp_path / "home", "trust", "--list").stdout


TRUSTS = """
[agents.alice]
[[agents.alice.turns]]
when = "start"
steps = [{{ tool = "Bash", input = {{ command = "{command}" }}, may_fail = true }}]
"""


@pytest.mark.parametrize("backend", ["subprocess", "in-process"])
@pytest.mark.parametrize("hidden", ["{}", "exec env -u BULLPEN_NONCE bash -c '{}'"])
async def test_an_agent_cannot_trust(place: Place, hidden: str, backend: str) -> None:
    done = place.folder / "done"
    said = place.folder / "said"
    trusting = f"{sys.executable} -m bullpen trust {place.project} --json"
    command = hidden.format(f"{trusting} > {said}; touch {done}")
    await place.spawn("alice", TRUSTS.format(command=command), prompt="Go", backend=backend)
    await eventually(done.exists, within_s=60)
    assert trusted(place.home) == []
    error = json.loads(said.read_text(encoding="utf-8"))["error"]
    assert error["reason"] in ("not_a_person", "other_identity")
