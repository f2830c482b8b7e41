"""The example of issues in CI runs as it is: a shell is the runner, and agents follow a script."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from anyio import to_thread
from anyio.abc import TaskGroup

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.stage import GitHubStage
from bullpen.testing.forge.github.state import IssueRow
from support.git.repositories import git
from support.runs.unattended_team import WORKS, git_environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "issues-in-ci"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def read(name: str) -> Any:
    """Return what a file of the example says."""
    return yaml.safe_load((EXAMPLE / name).read_text("utf-8"))


def steps(name: str) -> list[dict[str, Any]]:
    if name == "action.yml":
        return list(read(name)["runs"]["steps"])
    return [step for job in read(name)["jobs"].values() for step in job["steps"]]


def uses(found: list[dict[str, Any]], what: str) -> dict[str, Any]:
    (step,) = [step for step in found if str(step.get("uses", "")).startswith(what)]
    return step


def filled(values: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """Return values with their expressions filled in; one that is not known is an error."""
    return {
        key: EXPRESSION.sub(lambda found: known[found[1]], str(value))
        for key, value in values.items()
    }


@dataclass
class Runner:
    """Runs the job of the workflow in a shell, each time on a new machine with the same folders."""

    stage: GitHubStage
    folder: Path
    people: TaskGroup
    home_is_lost: bool = False

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def machine(self) -> Path:
        return self.folder / "machine"

    @property
    def project(self) -> Path:
        return self.machine / "work" / "shop"

    @property
    def summary(self) -> Path:
        return self.folder / "summary.md"

    async def runs(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        return await to_thread.run_sync(partial(self._runs, inputs))

    def _runs(self, inputs: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(self.machine, ignore_errors=True)
        project = self.project
        project.mkdir(parents=True)
        git(project, "clone", "--quiet", str(self.stage.state.git.folder), ".")
        git(project, "remote", "set-url", "origin", self.stage.clone_url)
        asked = uses(steps("issues.yml"), "$/")
        env = {
            **{key: val for key, val in os.environ.items() if not key.startswith("BULLPEN_")},
            **git_environment(),
            **filled(asked["env"], {"secrets.ANTHROPIC_API_KEY": "none"}),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.machine / "home"),
            "GITHUB_ACTION_PATH": str(project / asked["uses"].removeprefix("$/")),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        given = filled(asked["with"], {"secrets.BULLPEN_FORGE_TOKEN": self.stage.token("team")})
        defaults = {key: row.get("default") for key, row in read("action.yml")["inputs"].items()}
        known = {f"inputs.{key}": str(val) for key, val in {**defaults, **given, **inputs}.items()}
        home = self.machine / "home" / ".bullpen"
        done: subprocess.CompletedProcess[str] | None = None
        for step in steps("action.yml"):
            if "restore" in str(step.get("uses")):
                if self.cache.is_dir() and not self.home_is_lost:
                    shutil.copytree(self.cache, home, symlinks=True)
            elif "save" in str(step.get("uses")):
                if home.is_dir():
                    shutil.rmtree(self.cache, ignore_errors=True)
                    shutil.copytree(home, self.cache, symlinks=True, ignore=_sockets)
            else:
                assert done is None
                # What GitHub runs for `shell: bash`.
                done = subprocess.run(
                    ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                    cwd=project, env={**env, **filled(step["env"], known)},
                    stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=120, check=False,
                )  # fmt: skip
        assert done is not None
        return done


async def judge(stage: GitHubStage) -> None:
    """Be the CI of the repository: every head is green, until cancelled."""
    judged: set[str] = set()
    while True:
        with stage.server.lock:
            heads = {row.pull.head for row in pulls(stage) if row.pull is not None}
        for head in heads - judged:
            await stage.verdict(head, "test", "success")
        judged |= heads
        await anyio.sleep(0.1)


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_socket()]


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


@pytest.fixture
async def runner(tmp_path: Path, stage: GitHubStage) -> AsyncIterator[Runner]:
    """The repository with the files of the example, and a script in place of a model."""
    text = (EXAMPLE / "TEAM.toml").read_text("utf-8")
    origin = stage.server.origin
    text = text.replace(
        "https://github.com/OWNER/REPOSITORY", f"{origin}/{stage.owner}/{stage.name}"
    )
    more = f'kind = "github"\napi = "{origin}"\npoll_s = 1\nlabels ='
    text = text.replace("labels =", more)
    text = text.replace("count = 3", 'driver = "scripted"\nscript = "script.toml"')
    text = text.replace('"acceptEdits"', '"bypassPermissions"\nbackend = "in-process"')
    files = {
        "TEAM.toml": text,
        "script.toml": WORKS.format(name="worker"),
        ".github/actions/issues/action.yml": (EXAMPLE / "action.yml").read_text("utf-8"),
        ".github/actions/issues/issues.sh": (EXAMPLE / "issues.sh").read_text("utf-8"),
    }
    await stage.push("main", files, role="reviewer")
    async with anyio.create_task_group() as group:
        yield Runner(stage, tmp_path, group)
        group.cancel_scope.cancel()


def pulls(stage: GitHubStage) -> list[IssueRow]:
    return [row for row in stage.state.issues.values() if row.pull is not None]


@pytest.mark.pages
async def test_an_issue_becomes_a_merged_pull_request_and_the_next_run_does_nothing_twice(
    runner: Runner, stage: GitHubStage
) -> None:
    first = await stage.issue("Greet\n::error::people", labels=["agents"])
    stranger = await stage.issue("$(touch owned)", role="stranger", labels=["agents"])
    runner.people.start_soon(judge, stage)
    done = await runner.runs()
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = pulls(stage)
    assert row.pull is not None
    assert row.pull.merged
    assert "done-1.txt" in git(runner.project, "ls-tree", "--name-only", "main")
    # What is between the first line and the last is no command to the runner.
    said = done.stdout.splitlines()
    word = said[0].removeprefix("::stop-commands::")
    assert len(word) == 32
    assert said[-1] == f"::{word}::"
    assert "- **tasks**: 1 merged" in runner.summary.read_text("utf-8")

    comments = [len(row.comments) for row in stage.state.issues.values()]
    runner.summary.unlink()
    done = await runner.runs()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing was run" in done.stdout
    assert pulls(stage) == [row]
    assert [len(row.comments) for row in stage.state.issues.values()] == comments
    assert stage.state.issues[first].state == "closed"
    assert stage.state.issues[stranger].state == "open"
    # The budget of a run is on top of what the team has used.
    team = tomllib.loads((runner.project / ".issues-run.toml").read_text("utf-8"))
    assert team["budget"]["usd"] == pytest.approx(10.01)
    # What is kept between runs has no token.
    token = stage.token("team").encode()
    files = [path for path in runner.cache.rglob("*") if path.is_file()]
    assert runner.cache / "forge" / "marker.key" in files
    assert [path for path in files if token in path.read_bytes()] == []


@pytest.mark.pages
async def test_the_next_run_goes_on_with_an_open_pull_request_but_not_without_the_records(
    runner: Runner, stage: GitHubStage
) -> None:
    number = await stage.issue("Greet", labels=["agents"])
    # CI has said nothing when the time is over.
    done = await runner.runs(until="10s")
    assert done.returncode == 2, done.stdout + done.stderr
    (row,) = pulls(stage)
    assert row.state == "open"

    runner.home_is_lost = True
    done = await runner.runs()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "records of these branches are lost" in done.stderr
    assert pulls(stage) == [row]

    runner.home_is_lost = False
    runner.people.start_soon(judge, stage)
    done = await runner.runs()
    assert done.returncode == 0, done.stdout + done.stderr
    assert pulls(stage) == [row]
    assert row.pull is not None
    assert row.pull.merged
    assert stage.state.issues[number].state == "closed"
    assert len(stage.state.issues[number].comments) == 1


def test_no_words_of_others_are_in_a_script() -> None:
    for step in [*steps("issues.yml"), *steps("action.yml")]:
        assert "${{" not in step.get("run", "")
        # A pinned action, or the one of this repository.
        assert "run" in step or re.search(r"^\$/|@[0-9a-f]{40}$", step["uses"])
    text = (EXAMPLE / "issues.yml").read_text("utf-8")
    assert "github.event.issue" not in text
    assert set(EXPRESSION.findall(text)) == {
        "secrets.BULLPEN_FORGE_TOKEN",
        "secrets.ANTHROPIC_API_KEY",
    }


def test_the_workflow_has_few_rights_and_runs_once_at_a_time() -> None:
    workflow = read("issues.yml")
    # YAML reads the key `on` as a truth.
    assert set(workflow[True]) == {"schedule", "issues", "workflow_dispatch"}
    assert workflow[True]["issues"] == {"types": ["labeled"]}
    assert workflow["permissions"] == {}
    assert workflow["concurrency"] == {"group": "issues", "cancel-in-progress": False}
    (job,) = workflow["jobs"].values()
    assert job["permissions"] == {"contents": "read"}
    label = tomllib.loads((EXAMPLE / "TEAM.toml").read_text("utf-8"))["forge"]["labels"]
    assert job["if"].endswith(f"github.event.label.name == '{label[0]}'")
    checkout = uses(job["steps"], "actions/checkout@")["with"]
    assert checkout["persist-credentials"] is False
    assert checkout["fetch-depth"] == 0


def test_the_action_is_called_with_what_it_takes_and_keeps_the_home() -> None:
    action, found = read("action.yml"), steps("action.yml")
    given = uses(steps("issues.yml"), "$/")["with"]
    assert set(given) <= set(action["inputs"])
    assert {key for key, row in action["inputs"].items() if row.get("required")} <= set(given)
    assert action["runs"]["using"] == "composite"
    restore, save = uses(found, "actions/cache/restore@"), uses(found, "actions/cache/save@")
    assert (found[0], found[-1]) == (restore, save)
    assert save["if"] == "always()"
    assert save["with"] == {key: restore["with"][key] for key in ("path", "key")}
    assert save["with"]["path"] == "~/.bullpen"
    assert save["with"]["key"].startswith(restore["with"]["restore-keys"])
    (step,) = [step for step in found if "run" in step]
    assert step["shell"] == "bash"
    assert FORGE_TOKEN in step["env"]
