"""Trust: what a project's files ask for counts only if a person said so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.agents.config.trust import trust, trusted
from bullpen.protocol.names import LEAD
from support.agents.trusted_projects import ALLOWING, role, settings, spec, stop_hook
from support.crews import eventually
from support.offices import Place


async def test_a_project_can_be_left_out_and_so_it_is_for_teammates(place: Place) -> None:
    settings(place, ALLOWING)
    made = await spec(place, project_settings=False)
    assert made.policy.allow == []
    await place.supervisor.spawn("alice", made, by=LEAD, ready_s=60)
    _, facts = await place.team.agents.get("alice")
    below = await spec(
        place, parent=("alice", facts), project_settings="no_project_settings" not in made.options
    )
    assert below.policy.deny == []


async def test_what_was_stored_at_spawn_stays_when_the_files_change(place: Place) -> None:
    settings(place, {"hooks": stop_hook("true"), **ALLOWING})
    trust(place.home, place.project)
    await place.supervisor.spawn("alice", await spec(place), by=LEAD, ready_s=60)
    settings(place, {})
    _, facts = await place.team.agents.get("alice")
    assert facts.spec.policy.deny == ["Bash(rm:*)"]
    assert facts.spec.hooks is not None and list(facts.spec.hooks) == ["Stop"]


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
    assert below.hooks is not None, "the end of alice's own turns is not that of others"
    assert [row["hooks"][0]["command"] for row in below.hooks["Stop"]] == ["one"]


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
    assert json.loads(listed.stdout) == {"directories": [str(project)], "outdated": []}
    (project / ".claude/settings.json").write_text(json.dumps(ALLOWING), encoding="utf-8")
    (project / ".mcp.json").write_text("{}", encoding="utf-8")
    again = bullpen(tmp_path / "home", "trust", str(project)).stdout
    for words in ("settings.json (changed): rules: 1 allow, 1 deny", ".mcp.json (new)"):
        assert words in again
    assert bullpen(tmp_path / "home", "trust", str(project), "--remove").returncode == 0
    assert bullpen(tmp_path / "home", "trust", str(project), "--remove").returncode == 3
    assert "No trusted projects." in bullpen(tmp_path / "home", "trust", "--list").stdout


def test_the_list_says_which_projects_have_to_be_trusted_again(tmp_path: Path) -> None:
    old = {"directories": ["/src/shop"]}
    (tmp_path / "trusted.json").write_text(json.dumps(old), encoding="utf-8")
    listed = bullpen(tmp_path, "trust", "--list")
    assert "/src/shop: not trusted any more" in listed.stdout
    assert "Run: bullpen trust /src/shop" in listed.stdout


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
