"""One JSON convention: what is printed for programs, its schemas, and that breaks are noticed."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import jsonschema  # type: ignore[import-untyped]
import pytest

import bullpen
from bullpen.doors.cli.commands import COMMANDS
from bullpen.doors.cli.output import json_schemas
from bullpen.doors.cli.output.json_schemas import printed, schema_of, shipped
from support.doors.every_command import commands
from support.doors.json_shapes import faults, fitting, fitting_lines

SOURCE = Path(bullpen.__file__).parent
REFERENCE = Path(__file__).parents[4] / "docs/reference"
PRINTS_NO_JSON = {
    "agent run": "is an agent",
    "bridge": "becomes the program of an agent",
    "acp": "speaks ACP",
    "tui": "needs a terminal",
}
OF_OTHERS = {"trace_id", "span_id", "msg_id"}
"""Keys that OpenTelemetry and Claude Code named."""

OPEN = re.compile(r".*Record|row|queued|answerable|loggedStep")
"""Definitions of records, which keep keys that Bullpen does not know."""

_NAMED = re.compile(r'"(?:bullpen/)?([a-z][a-z-]+)/(\d+)"')


# --- the schemas


def test_every_schema_is_printed_and_everything_printed_has_a_schema() -> None:
    texts = [path.read_text("utf-8") for path in SOURCE.glob("doors/cli/**/*.py")]
    texts.append((SOURCE / "runs/watch/notify.py").read_text("utf-8"))
    named = {found for text in texts for found in _NAMED.findall(text)}
    assert named == {(each.name, each.version) for each in printed()}


def test_every_command_has_a_schema_unless_it_prints_nothing_for_programs() -> None:
    said = {name for each in printed() for name in each.commands}
    # `bullpen` alone shows the team that is here.
    assert said - {"*", "bullpen"} <= set(COMMANDS)
    assert set(commands()) - said == set(PRINTS_NO_JSON)


def test_the_schemas_are_valid_and_each_stands_alone() -> None:
    jsonschema.Draft202012Validator.check_schema(shipped())
    # Checking one takes as long as all other tests of a file: most runs check one in five.
    one_in = 1 if os.environ.get("BULLPEN_NIGHTLY") else 5
    checked = [each for each in printed() if crc32(each.name.encode()) % one_in == 0]
    assert len(checked) > 5
    for each in checked:
        alone = schema_of(each.name)
        jsonschema.Draft202012Validator.check_schema(alone)
        missing = jsonschema.Draft202012Validator(alone).iter_errors({})
        assert any("'schema' is a required property" in each.message for each in missing)


def test_every_key_is_in_camel_case() -> None:
    wrong = [
        f"{name}: {key}"
        for name, schema in shipped()["$defs"].items()
        for key in _keys(schema)
        if not re.fullmatch(r"[a-z][a-zA-Z0-9]*", key) and key not in OF_OTHERS
    ]
    assert wrong == []


def test_objects_of_our_own_allow_no_other_keys() -> None:
    found = [
        name
        for name, schema in shipped()["$defs"].items()
        if not OPEN.fullmatch(name)
        for part in _parts(schema)
        if "properties" in part and "allOf" not in part
        if part.get("additionalProperties") is not False
    ]
    assert found == []


def test_only_the_command_that_prints_them_reads_the_schemas() -> None:
    module = json_schemas.__name__
    readers = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if f"from {module} import" in path.read_text("utf-8")
    ]
    assert readers == ["doors/cli/runs/schema.py"]


def test_the_page_and_the_published_copy_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate", REFERENCE / "generate_json.py")
    assert spec is not None
    assert spec.loader is not None
    generate: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    remedy = "Run: python docs/reference/generate_json.py"
    assert generate.PAGE.read_text("utf-8") == generate.page(), remedy
    assert generate.COPY.read_bytes() == json_schemas.SHIPPED.read_bytes(), remedy


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and every schema in it."""
    if isinstance(schema, list):
        for each in schema:
            yield from _parts(each)
    elif isinstance(schema, dict):
        yield schema
        for each in schema.values():
            yield from _parts(each)


def _keys(schema: Any) -> Iterator[str]:
    for part in _parts(schema):
        if isinstance(part.get("properties"), dict):
            yield from part["properties"]


# --- breaks are noticed

SAMPLES = (
    "team list", "team show", "member list", "task list", "task graph", "ps", "inbox alice",
    "events", "requests", "summary", "cost", "drivers", "team limits", "schema --list",
    "trust --list", "init --list", "mcp tokens", "merge list", "merge set", "config list",
    "config path", "docs",
)  # fmt: skip


@pytest.mark.parametrize("line", SAMPLES)
def test_a_key_that_is_dropped_renamed_or_new_does_not_fit(
    run: Callable[..., Any], team: str, line: str
) -> None:
    value = fitting(run(*line.split(), "--json").stdout)
    alone = schema_of(value["schema"])
    for key in {"schema", *alone["required"]}:
        dropped = {name: each for name, each in value.items() if name != key}
        assert faults(dropped), f"{key} was dropped"
        assert faults({**dropped, f"{key}Too": value[key]}), f"{key} was renamed"
    if alone.get("additionalProperties") is False:
        assert faults({**value, "another": 1})


def test_breaks_far_inside_are_noticed(run: Callable[..., Any], team: str) -> None:
    value = fitting(run("ps", "--json").stdout)
    for key in value["agents"][0]:
        broken = copy.deepcopy(value)
        broken["agents"][0][f"{key}_"] = broken["agents"][0].pop(key)
        assert faults(broken), key
    broken = copy.deepcopy(value)
    broken["agents"][0]["unread"] = "3"
    assert faults(broken)


def test_an_object_without_a_schema_and_a_list_do_not_fit() -> None:
    assert faults([]) != []
    assert faults({"teams": []}) != []


# --- one object, or one on each line


@pytest.mark.parametrize(
    "line",
    [
        "events --follow", "inbox alice --follow", "logs alice --follow", "ps --watch",
        "team show --watch", "requests --watch", "team mirror --into x", "host run",
        "telemetry --logs",
    ],
)  # fmt: skip
def test_a_command_without_an_end_refuses_json_and_names_jsonl(
    run: Callable[..., Any], team: str, line: str
) -> None:
    result = run(*line.split(), "--json")
    assert result.exit_code == 2
    error = fitting(result.stdout)["error"]
    assert (error["reason"], error["remedy"]) == (
        "needs_jsonl",
        "Pass --jsonl instead of --json.",
    )


def test_either_form_of_json_is_meant(run: Callable[..., Any], team: str) -> None:
    result = run("--json", "task", "list", "--jsonl")
    assert result.exit_code == 2
    assert "pass --json or --jsonl, not both" in fitting(result.stdout)["error"]["message"]


@pytest.mark.parametrize("line", ["ps", "task list", "team show", "task show 1", "cost"])
def test_jsonl_gives_the_same_object_on_one_line(
    run: Callable[..., Any], team: str, line: str
) -> None:
    whole = fitting(run(*line.split(), "--json").stdout)
    (one,) = fitting_lines(run(*line.split(), "--jsonl").stdout)
    times = {"takenMs": None}
    assert {**one, **times} == {**whole, **times}


@pytest.mark.parametrize(
    ("line", "key", "schema"),
    [
        ("events", "events", "bullpen/event/1"),
        ("inbox alice", "messages", "bullpen/inbox-message/1"),
    ],
)
def test_jsonl_gives_a_line_for_each_of_several(
    run: Callable[..., Any], team: str, line: str, key: str, schema: str
) -> None:
    run("send", "alice", "one")
    run("send", "alice", "two")
    rows = fitting(run(*line.split(), "--json").stdout)[key]
    lines = fitting_lines(run(*line.split(), "--jsonl").stdout)
    assert len(rows) > 1
    assert lines == [{"schema": schema, **row} for row in rows]


def test_an_error_is_an_object_too(run: Callable[..., Any], team: str) -> None:
    whole = run("task", "show", "99", "--json").stdout
    line = run("task", "show", "99", "--jsonl").stdout
    assert fitting(whole)["error"]["kind"] == "not_found"
    assert fitting_lines(line) == [json.loads(whole)]


# --- bullpen schema


def test_a_schema_is_printed_by_its_name_or_by_the_command(run: Callable[..., Any]) -> None:
    named = json.loads(run("schema", "agents").stdout)
    assert named["properties"]["schema"] == {"const": "bullpen/agents/1"}
    assert set(named["$defs"]) >= {"agent", "usageRecord", "problem"}
    for words in (("ps",), ("bullpen/agents/1",), ("agents/1",)):
        assert json.loads(run("schema", *words, "--json").stdout) == named
    tasks = json.loads(run("schema", "task", "list").stdout)
    assert tasks["properties"]["schema"] == {"const": "bullpen/tasks/1"}


def test_without_a_name_it_is_the_schema_of_team_files(run: Callable[..., Any]) -> None:
    alone = run("schema").stdout
    assert json.loads(alone)["title"] == "A team file of Bullpen"
    assert run("schema", "team-file").stdout == alone


def test_a_name_that_is_no_schema_or_stands_for_several_is_refused(run: Callable[..., Any]) -> None:
    unknown = run("schema", "agents/2")
    assert (unknown.exit_code, "bullpen schema --list" in unknown.stderr) == (3, True)
    several = run("schema", "up")
    assert several.exit_code == 2
    assert "outcome" in several.stderr
