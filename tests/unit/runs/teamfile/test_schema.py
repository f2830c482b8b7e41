"""The JSON Schema of team files: in step with the tables, and right by another's word."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from bullpen.runs.teamfile.project import Project
from bullpen.runs.teamfile.schema import SHIPPED, shipped
from bullpen.runs.teamfile.templates import TEAM_FILE, TEMPLATES, TemplateChoice, files_of
from support.rows import each_row
from support.runs.whole_file import WHOLE, pairs

ROOT = Path(__file__).parents[4]
REFERENCE = ROOT / "docs/reference"


def problems(text: str) -> list[str]:
    validator = jsonschema.Draft7Validator(json.loads(shipped()))
    return [error.message for error in validator.iter_errors(tomllib.loads(text))]


def test_the_schema_is_in_step_with_the_tables_and_the_page() -> None:
    path = REFERENCE / "generate_schema.py"
    spec = importlib.util.spec_from_file_location("generate_schema", path)
    assert spec is not None
    assert spec.loader is not None
    generator: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    made = generator.text()
    assert shipped() == made, "run: python docs/reference/generate_schema.py"
    assert (REFERENCE / SHIPPED.name).read_text(encoding="utf-8") == made


def test_the_schema_is_one_and_says_what_every_key_is() -> None:
    schema = json.loads(shipped())
    jsonschema.Draft7Validator.check_schema(schema)
    for table in (schema, *schema["definitions"].values()):
        for key, said in table["properties"].items():
            known = table is schema["definitions"]["TaskBudgetTable"]
            assert known or said.get("description"), key


def test_every_file_that_we_ship_is_right_by_the_schema(tmp_path: Path) -> None:
    project = Project(tmp_path, None, "main", "make test")
    texts = [
        files_of(TemplateChoice(template, driver), project)[TEAM_FILE]
        for template in TEMPLATES
        for driver in ("native", "scripted", "codex", "claude-code")
    ]
    texts += [path.read_text(encoding="utf-8") for path in ROOT.glob("examples/*/TEAM.toml")]
    assert len(texts) > 16
    for text in [*texts, WHOLE]:
        assert problems(text) == [], text[:200]


@each_row(
    "wrong",
    [
        '[team]\ngoal = "b"\n',
        '[team]\nname = "a"\n[[membr]]\nname = "x"\n',
        '[team]\nname = "a"\n[[member]]\nname = "x"\nmode = "planning"\n',
        '[team]\nname = "a"\n[[member]]\nname = "x"\nmode = "plann"\n',
        '[team]\nname = "a"\n[[backlog]]\nmarkdown = "x"\ncommand = "y"\n',
        '[team]\nname = "a"\n[[backlog]]\nneeds = ["y"]\n',
        '[team]\nname = "a"\n[unattended]\nquiet = ["late"]\n',
        '[team]\nname = "a"\n[merge]\ngate = [{kind = "comand", run = "x"}]\n',
        '[team]\nname = "a"\n[budget]\nusd = 0\n',
    ],
)
def test_a_wrong_file_is_wrong_by_the_schema(wrong: str) -> None:
    assert problems(wrong)


@each_row("number", pairs(WHOLE))
def test_a_misspelled_key_is_wrong_by_the_schema(number: int) -> None:
    lines = WHOLE.split("\n")
    lines[number] = lines[number].replace(" = ", "x = ", 1)
    assert problems("\n".join(lines))
