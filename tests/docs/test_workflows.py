"""The workflows run the parts of the tests that a change needs, and require them of a merge."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from support.runs.reading import ROOT

GITHUB = ROOT / ".github"
PARTS = {"gate", "pages", "programs", "timing", "macos"}
LONGEST_MIN = 90


def jobs(name: str) -> dict[str, Any]:
    """The jobs of a workflow."""
    text = (GITHUB / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


def calls(name: str) -> list[str]:
    """What the jobs of a workflow call `.ci/run` with."""
    runs = [step.get("run", "") for job in jobs(name).values() for step in job["steps"]]
    return [words.strip() for run in runs for words in re.findall(r"\.ci/run\b(.*)", run)]


def needed(*paths: str) -> dict[str, str]:
    """The parts that a change of these paths needs, or does not."""
    done = subprocess.run(
        ["bash", str(GITHUB / "changed_parts.sh")],
        input="".join(f"{path}\n" for path in paths),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return dict(line.split("=") for line in done.stdout.split())


@pytest.mark.parametrize("name", ["ci", "nightly", "release"])
def test_every_job_of_a_workflow_ends_and_runs_a_part_that_there_is(name: str) -> None:
    for job in jobs(name).values():
        assert 5 <= job["timeout-minutes"] <= LONGEST_MIN
    parts = {part for words in calls(name) for part in re.findall(r"--part (\w+)", words)}
    assert parts <= PARTS
    assert calls(name)


def test_ci_runs_every_part_and_the_night_everything_in_shards() -> None:
    assert sorted(calls("ci")) == ["", "--part macos", "--part pages", "--part programs"]
    everything = jobs("nightly")["everything"]
    shards = everything["strategy"]["matrix"]["shard"]
    assert shards == list(range(1, len(shards) + 1))
    assert f'--all --shard "$SHARD/{len(shards)}"' in calls("nightly")
    assert "--part timing" in calls("nightly")
    assert sorted(calls("release")) == ["", "--part pages"]


@pytest.mark.parametrize(
    ("path", "pages", "programs"),
    [
        ("src/bullpen/team/tasks/rules.py", "false", "false"),
        ("docs/quickstart.md", "true", "false"),
        ("examples/standing-team/run.sh", "true", "false"),
        ("README.md", "true", "false"),
        ("CHANGELOG.md", "true", "false"),
        ("src/bullpen/doors/cli/commands.py", "true", "false"),
        ("src/bullpen/agents/drivers/acp/connection.py", "false", "true"),
        ("tests/programs/pins.py", "false", "true"),
        ("src/bullpen/doors/mcp/server.py", "true", "true"),
        ("src/bullpen/doors/acp/wire.py", "true", "true"),
        ("uv.lock", "true", "true"),
        (".ci/run", "true", "true"),
    ],
)
def test_a_change_needs_the_parts_that_test_what_it_touches(
    path: str, pages: str, programs: str
) -> None:
    assert needed("SECURITY.md", path) == {"pages": pages, "programs": programs}


def test_every_path_that_makes_a_part_needed_exists() -> None:
    script = (GITHUB / "changed_parts.sh").read_text(encoding="utf-8")
    cases = re.findall(r"^ +([\w./*| -]+)\)$", script, re.MULTILINE)
    assert len(cases) == 5
    for pattern in "|".join(cases).split("|"):
        assert (ROOT / pattern.strip().removesuffix("/*")).exists(), pattern


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
@pytest.mark.parametrize(
    ("gate", "pages", "programs", "may_be_merged"),
    [
        ("success", "success", "skipped", True),
        ("failure", "success", "skipped", False),
        ("cancelled", "success", "skipped", False),
        ("success", "skipped", "skipped", False),
        ("success", "failure", "skipped", False),
        ("success", "success", "failure", False),
    ],
)
def test_a_part_is_skipped_only_if_the_change_does_not_need_it(
    gate: str, pages: str, programs: str, may_be_merged: bool
) -> None:
    chosen = {"result": "success", "outputs": {"pages": "true", "programs": "false"}}
    assert required(chosen, gate, pages, programs) is may_be_merged


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_nothing_is_merged_if_the_parts_could_not_be_chosen() -> None:
    assert not required({"result": "failure", "outputs": {}}, "success", "skipped", "skipped")
    assert not required({"result": "success", "outputs": {}}, "success", "skipped", "skipped")


def required(changes: dict[str, Any], gate: str, pages: str, programs: str) -> bool:
    """What the job `required` says of these results."""
    needs = {
        "changes": changes,
        "gate": {"result": gate},
        "pages": {"result": pages},
        "programs": {"result": programs},
    }
    assert list(needs) == jobs("ci")["required"]["needs"]
    words = ["jq", "--exit-status", "--from-file", str(GITHUB / "required.jq")]
    done = subprocess.run(
        words, input=json.dumps(needs), capture_output=True, text=True, timeout=60
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode == 0
