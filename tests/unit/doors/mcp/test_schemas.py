"""The inputs of our tools are those that models were taught: names, types, what is required.

Ours may have more fields, all optional. What a field of a SendMessage needs depends on its type,
which a flat schema cannot say: there the calls themselves are the judge.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from bullpen.agents.drivers.tool_server.mcp_server import described
from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.doors.mcp.member import ConnectedMember
from bullpen.protocol.names import LEAD

# Tool, field, type, whether it is required.
KNOWN = [
    ("TeamCreate", "team_name", "string", True),
    ("TeamCreate", "description", "string", False),
    ("TeamCreate", "agent_type", "string", False),
    ("SendMessage", "type", "string", False),
    ("SendMessage", "recipient", "string", False),
    ("SendMessage", "content", "string", False),
    ("SendMessage", "summary", "string", False),
    ("SendMessage", "request_id", "string", False),
    ("SendMessage", "approve", "boolean", False),
    ("SendMessage", "to", "string", False),
    ("SendMessage", "message", "string", False),
    ("SendMessage", "message", "object", False),
    ("TaskCreate", "subject", "string", True),
    ("TaskCreate", "description", "string", True),
    ("TaskCreate", "activeForm", "string", False),
    ("TaskCreate", "metadata", "object", False),
    ("TaskGet", "taskId", "string", True),
    ("TaskUpdate", "taskId", "string", True),
    ("TaskUpdate", "status", "string", False),
    ("TaskUpdate", "subject", "string", False),
    ("TaskUpdate", "description", "string", False),
    ("TaskUpdate", "activeForm", "string", False),
    ("TaskUpdate", "owner", "string", False),
    ("TaskUpdate", "addBlocks", "array", False),
    ("TaskUpdate", "addBlockedBy", "array", False),
    ("TaskUpdate", "metadata", "object", False),
    ("NotesRead", "name", "string", False),
    ("NotesWrite", "name", "string", True),
    ("NotesWrite", "text", "string", True),
    ("NotesWrite", "version", "integer", False),
    ("Promise", "action", "string", True),
    ("Promise", "promise", "string", False),
    ("Promise", "taskId", "string", False),
    ("Promise", "text", "string", False),
    ("Promise", "path", "string", False),
    ("Promise", "signature", "string", False),
    ("Promise", "command", "string", False),
    ("SpawnTeammate", "name", "string", True),
    ("SpawnTeammate", "prompt", "string", True),
    ("SpawnTeammate", "agent_type", "string", False),
    ("SpawnTeammate", "model", "string", False),
    ("SpawnTeammate", "mode", "string", False),
    ("ExitPlanMode", "plan", "string", True),
    ("WaitForMail", "timeout_seconds", "number", False),
    ("ApproveRequest", "request_id", "string", True),
    ("ApproveRequest", "approve", "boolean", True),
    ("ApproveRequest", "feedback", "string", False),
    ("ApproveRequest", "updated_input", "object", False),
]
WITHOUT_INPUT = ("TeamDelete", "TaskList", "TeamStatus")
OLD_FORM: dict[str, dict[str, Any]] = {
    "message": {"recipient": "ann", "content": "Go", "summary": "a word"},
    "broadcast": {"content": "Go", "summary": "a word"},
    "shutdown_request": {"recipient": "ann"},
    "shutdown_response": {"request_id": "shutdown-1@ann", "approve": True},
    "plan_approval_response": {"request_id": "p-1", "recipient": "ann", "approve": True},
}
NEW_FORM: list[Any] = [
    "Go",
    {"type": "shutdown_request", "reason": "Done"},
    {"type": "shutdown_response", "request_id": "shutdown-1@ann", "approve": False, "reason": "no"},
    {"type": "plan_approval_response", "request_id": "p-1", "approve": True, "feedback": "good"},
]


@pytest.fixture
async def schemas(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """The schema of every tool of a lead, as a client sees it."""
    async with App(Settings(tmp_path, None, LEAD), {}) as app:
        seat = ConnectedMember(app, LEAD, team=None, cwd=str(tmp_path), tool_set="all")
        tools = [described(tool) for tool in seat.tools]
        return {tool.name: json.loads(json.dumps(tool.input_schema)) for tool in tools}


def types_of(schema: dict[str, Any], field: dict[str, Any]) -> set[str]:
    """The JSON types that a field may have; null stands for a field that is left out."""
    if "$ref" in field:
        return types_of(schema, schema["$defs"][field["$ref"].rpartition("/")[2]])
    if "anyOf" in field:
        return {name for each in field["anyOf"] for name in types_of(schema, each)} - {"null"}
    return {field["type"]} - {"null"}


@pytest.mark.parametrize(("tool", "name", "kind", "required"), KNOWN)
async def test_a_field_that_models_know_is_there(
    schemas: dict[str, dict[str, Any]], tool: str, name: str, kind: str, required: bool
) -> None:
    schema = schemas[tool]
    assert kind in types_of(schema, schema["properties"][name])
    assert (name in schema.get("required", [])) is required


async def test_nothing_else_is_required_and_nothing_unknown_is_taken(
    schemas: dict[str, dict[str, Any]],
) -> None:
    for tool, schema in schemas.items():
        known = {name for owner, name, _, required in KNOWN if owner == tool and required}
        if tool != "StopTeammate":
            assert set(schema.get("required", [])) == known, tool
        assert schema["additionalProperties"] is False, tool
    for tool in WITHOUT_INPUT:
        assert schemas[tool]["properties"] == {}


async def test_the_states_of_a_task_are_those_that_models_know(
    schemas: dict[str, dict[str, Any]],
) -> None:
    status = schemas["TaskUpdate"]["properties"]["status"]["anyOf"][0]
    assert set(status["enum"]) == {"pending", "in_progress", "completed", "deleted"}


@pytest.mark.parametrize("kind", OLD_FORM)
async def test_the_old_form_of_a_message_is_taken(
    schemas: dict[str, dict[str, Any]], kind: str
) -> None:
    jsonschema.validate({"type": kind, **OLD_FORM[kind]}, schemas["SendMessage"])


@pytest.mark.parametrize("message", NEW_FORM, ids=str)
async def test_the_new_form_of_a_message_is_taken(
    schemas: dict[str, dict[str, Any]], message: Any
) -> None:
    jsonschema.validate(
        {"to": "ann", "summary": "a word", "message": message}, schemas["SendMessage"]
    )
