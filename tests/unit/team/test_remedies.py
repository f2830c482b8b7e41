"""What a model is told to do after a refusal is something that its tools can do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bullpen
from bullpen.errors import Conflict, Invalid, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.team.operation.remedies import remedy_of
from bullpen.team.team import Team

SOURCE = Path(bullpen.__file__).parent
REACHED = ("team", "agents/supervisor", "agents/tools", "agents/work", "agents/runner")
"""Where refusals come from that a tool of an agent can run into."""

OF_PEOPLE = (
    # Commands, servers and hosts that only people and programs run.
    *(
        "team/forge",
        "team/moving",
        "agents/supervisor/machines",
        "agents/supervisor/sandbox_probes",
    ),
    "agents/supervisor/team_backends.py",
)
COMMAND = ("`bullpen ", "bullpen ps", ": bullpen ", "--as")


def remedies() -> Iterator[tuple[str, str]]:
    """Every remedy in the source, with its place; a name inside it is written as NAME."""
    for folder in REACHED:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            where = path.relative_to(SOURCE).as_posix()
            if where.startswith(OF_PEOPLE):
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.keyword) and node.arg == "remedy":
                    yield f"{where}:{node.value.lineno}", words(node.value)


def words(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(words, node.values))
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "NAME" if isinstance(node, ast.FormattedValue) else ""


ALL = dict(remedies())
COMMANDS = {where: text for where, text in ALL.items() if any(each in text for each in COMMAND)}


def test_remedies_are_found() -> None:
    assert len(ALL) > 150
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("where", sorted(COMMANDS))
def test_no_model_is_told_a_command_of_people(where: str) -> None:
    """It may have no shell. A command that a person is to be asked for is named as such."""
    text = COMMANDS[where]
    told = remedy_of(Refused("No.", reason="a_rule", remedy=text), ())
    assert told.startswith("Ask a person") or not any(each in told for each in COMMAND), told


def test_the_lead_is_told_of_its_tools_and_others_are_not() -> None:
    error = Refused("No.", reason="member_ended", remedy="`bullpen team resume --agent bob`")
    assert "with Task" in remedy_of(error, ("SendMessage", "Task"))
    assert "SendMessage" in remedy_of(error, ("SendMessage",))


def test_other_errors_keep_their_remedies() -> None:
    assert remedy_of(Conflict("x", remedy="Choose another name."), ()) == "Choose another name."
    assert remedy_of(Invalid("x", remedy="Write a text."), ()) == "Write a text."
    assert "TaskList" in remedy_of(Refused("x", reason="task_not_found", remedy="Look."), ())


async def test_a_full_team_and_an_ended_member_are_told_in_tools(team: Team) -> None:
    await team.agents.limit(by=LEAD, agents=1)
    spec = AgentSpec.new(driver="told", backend="in-process", cwd="/")
    await team.agents.register("ann", spec, by=LEAD, nonce="1")
    with pytest.raises(Refused) as full:
        await team.agents.register("zoe", spec, by=LEAD, nonce="2")
    assert "StopTeammate" in remedy_of(full.value, ("StopTeammate",))
    await team.agents.end("ann", "failed", by=LEAD, nonce="1", cause="why")
    with pytest.raises(Refused) as ended:
        await team.mailbox.send("ann", "Hello", sender="bob")
    assert "with Task" in remedy_of(ended.value, ("Task",))
