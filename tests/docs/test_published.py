"""What is published: workflows that are safe, a README that stands alone, schemas for editors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from support.runs.reading import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = [
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
    *ROOT.glob("examples/*/*.yml"),
]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
TEAM_FILES = sorted([*ROOT.glob("src/bullpen/**/TEAM.toml"), *ROOT.glob("examples/*/TEAM.toml")])


def test_workflows_have_no_known_weakness() -> None:
    zizmor = Path(sys.executable).with_name("zizmor")
    done = subprocess.run(
        [zizmor, "--offline", "--persona=pedantic", "--strict-collection", "--quiet",
         ROOT / ".github", *WORKFLOWS],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(WORKFLOWS) >= 5


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_an_issue_form_is_one_that_github_takes(name: str) -> None:
    path = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form) <= {"name", "description", "labels", "body"}
    fields = form["body"]
    assert len({field["id"] for field in fields}) == len(fields)
    for field in fields:
        assert field["type"] in {"checkboxes", "dropdown", "input", "textarea"}
        assert field["attributes"]["label"]


def test_links_and_pictures_work_on_the_index(from_wheel: Path) -> None:
    (metadata,) = from_wheel.glob("lib/python3*/site-packages/bullpen-*.dist-info/METADATA")
    _, _, readme = metadata.read_text(encoding="utf-8").partition("\n\n")
    readme = FENCED.sub("", readme)
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert len(targets) > 10
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    version = PROJECT["project"]["version"]
    ours = r"(!?)\[[^\[\]]*\]\((https://[^)\s#]*bullpen-dev/[^)\s#]*/v[^)\s#]*)"
    for kind, target in re.findall(ours, readme):
        assert f"/v{version}/" in target, target
        assert ("raw.githubusercontent.com" in target) is bool(kind), target
        assert (ROOT / target.partition(f"/v{version}/")[2]).exists(), target


def test_the_extra_with_everything_has_every_other_one() -> None:
    extras = set(PROJECT["project"]["optional-dependencies"])
    (everything,) = PROJECT["project"]["optional-dependencies"]["all"]
    named = re.fullmatch(r"bullpen\[(.*)\]", everything)
    assert named is not None
    assert set(named[1].split(",")) == extras - {"all", "testing"}


@pytest.mark.parametrize("path", TEAM_FILES, ids=lambda path: path.parent.name)
def test_the_first_line_of_a_team_file_names_its_schema(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    named = re.fullmatch(r"#:schema (\S+team-file\.schema\.json)", first)
    assert named is not None, first
    if named[1].startswith(".bullpen/"):
        # `bullpen init` writes the schema there, beside the file that it makes of a template.
        assert "templates" in path.parts
    else:
        schema = json.loads((path.parent / named[1]).read_text(encoding="utf-8"))
        written = tomllib.loads(path.read_text(encoding="utf-8"))
        assert list(jsonschema.Draft7Validator(schema).iter_errors(written)) == []
