"""`bullpen forge` as people type it, with a stand-in for GitHub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.runs.forge.landing.proofs import NO_TESTS
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from support.git.repositories import git
from support.runs.unattended_team import git_environment


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHubStandIn]:
    with GitHubStandIn(tmp_path / "github") as server:
        yield server


@pytest.fixture
async def stage(server: GitHubStandIn, tmp_path: Path) -> AsyncIterator[GitHubStage]:
    stage = GitHubStage(server, tmp_path / "people")
    yield stage
    await stage.aclose()
    assert server.violations == []


@dataclass
class Person:
    """Somebody who types commands in a clone."""

    clone: Path
    home: Path

    def types(self, *words: str, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        kept = {key: val for key, val in os.environ.items() if not key.startswith("BULLPEN_")}
        return subprocess.run(
            [sys.executable, "-m", "bullpen", *words],
            cwd=self.clone,
            env={**kept, **git_environment(), **self._own_files(), **env},
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def _own_files(self) -> dict[str, str]:
        config = self.home.with_name("config.toml")
        return {"BULLPEN_HOME": str(self.home), "BULLPEN_CONFIG": str(config)}

    def gets(self, *words: str, **env: str) -> Any:
        ran = self.types(*words, "--json", **env)
        assert ran.returncode in (0, 1), ran.stderr
        return json.loads(ran.stdout)


@pytest.fixture
def person(tmp_path: Path, stage: GitHubStage) -> Person:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(stage.state.git.folder), str(clone))
    git(clone, "remote", "set-url", "origin", stage.clone_url)
    return Person(clone, tmp_path / "home")


async def test_a_person_sets_a_forge_logs_in_and_checks_and_syncs(
    person: Person, stage: GitHubStage
) -> None:
    page = f"{stage.server.origin}/{stage.owner}/{stage.name}"
    assert person.types("team", "create", "alpha").returncode == 0
    missing = person.types("forge", "check")
    assert missing.returncode != 0
    assert "uses no forge" in missing.stderr
    said = person.gets(
        "forge", "set", "--url", page, "--kind", "github", "--api", stage.server.origin,
        "--label", "agents",
    )  # fmt: skip
    assert said["settings"]["labels"] == ["agents"]

    found = person.gets("forge", "check")
    assert not found["ready"]
    assert {each["what"]: each["ok"] for each in found["answers"]} == {
        "work": False, "token": False,
    }  # fmt: skip
    assert person.types("merge", "set", "--target", "main").returncode == 0
    token = stage.token("team")
    kept = person.types("forge", "login", given=f"{token}\n")
    assert kept.returncode == 0, kept.stderr
    assert token not in kept.stdout + kept.stderr
    found = person.gets("forge", "check")
    assert found["ready"], found

    number = await stage.issue("Add a cart", labels=["agents"])
    told = person.gets("forge", "sync")["told"]
    # A team that nothing tests hears so.
    assert told == [f"1 issues became tasks: #{number}", NO_TESTS]
    (row,) = person.gets("forge", "status")["tasks"]
    assert (row["task"], row["issue"], row["state"]) == ("1", number, "waiting")
    assert len(stage.state.issues[number].comments) == 1
    assert "#1" in person.types("forge", "status").stdout
    assert person.types("forge", "resume", "1").returncode == 0

    assert person.gets("forge", "unset")["settings"] is None
    assert "no forge" in person.types("forge", "set").stdout
    assert person.gets("forge", "login", page, "--forget")["kept"] is False
    assert not [*(person.home / "forge").glob("*.token")]


async def test_a_token_without_rights_and_a_wrong_one_are_told(
    person: Person, stage: GitHubStage
) -> None:
    page = f"{stage.server.origin}/{stage.owner}/{stage.name}"
    person.types("team", "create", "alpha")
    person.types("merge", "set", "--target", "main")
    person.types("forge", "set", "--url", page, "--kind", "github", "--api", stage.server.origin)
    stranger = {FORGE_TOKEN: stage.token("stranger")}
    found = person.gets("forge", "check", **stranger)
    assert [each["what"] for each in found["answers"] if not each["ok"]] == ["rights"]
    refused = person.types("forge", "sync", **stranger)
    assert refused.returncode != 0
    assert "may not push" in refused.stderr
    wrong = {FORGE_TOKEN: "wrong-0123456789abcdef0123456789abcdef"}
    ran = person.types("forge", "check", **wrong)
    assert ran.returncode == 1
    assert wrong[FORGE_TOKEN] not in ran.stdout + ran.stderr


async def test_a_new_user_gets_a_team_file_from_a_clone(person: Person, stage: GitHubStage) -> None:
    ran = person.types("init", "--forge", "--driver", "scripted")
    assert ran.returncode == 0, ran.stderr
    assert "bullpen forge login" in ran.stdout
    text = (person.clone / "TEAM.toml").read_text("utf-8")
    assert f'url = "{stage.server.origin}/{stage.owner}/{stage.name}"' in text
    assert not (person.clone / "BACKLOG.md").exists()
    # That stand-in is no Gitea, which is what an unknown host is taken for.
    text = text.replace("labels =", f'kind = "github"\napi = "{stage.server.origin}"\nlabels =')
    (person.clone / "TEAM.toml").write_text(text, "utf-8")
    found = person.gets(
        "forge", "check", "--file", "TEAM.toml", **{FORGE_TOKEN: stage.token("team")}
    )
    assert found["ready"], found
    git(person.clone, "remote", "remove", "origin")
    refused = person.types("init", "--forge", "--force")
    assert refused.returncode != 0
    assert "no remote" in refused.stderr


async def test_a_token_on_the_command_line_or_in_an_address_is_refused(person: Person) -> None:
    for words in (
        ["forge", "login", "https://me:hunter2@git.example/a/b"],
        ["forge", "login", "--token", "hunter2"],
    ):
        ran = person.types(*words, given="x\n")
        assert ran.returncode != 0
        assert not (person.home / "forge").exists()


async def test_a_person_gets_the_address_and_the_secret_of_the_webhook(
    person: Person, stage: GitHubStage
) -> None:
    page = f"{stage.server.origin}/{stage.owner}/{stage.name}"
    assert person.types("team", "create", "alpha").returncode == 0
    assert "uses no forge" in person.types("forge", "hook").stderr
    person.gets("forge", "set", "--url", page, "--kind", "github")
    first = person.gets("forge", "hook")
    assert first["url"] is None
    assert len(first["secret"]) >= 43
    assert "issues" in first["events"]
    assert person.gets("forge", "hook")["secret"] == first["secret"]
    person.types("config", "set", "public_url", "https://team.example.com")
    new = person.gets("forge", "hook", "--new")
    assert new["url"] == "https://team.example.com/forge/hook"
    assert new["secret"] != first["secret"]
    said = person.types("forge", "hook").stdout
    assert new["secret"] in said
    assert "https://team.example.com/forge/hook" in said
