"""The tools by their names, agent types, permission modes, rules and plans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.config.definitions import find
from bullpen.agents.config.spec import SpawnFiles, SpawnRequest, resolve
from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.drivers.native.instructions import system_text
from bullpen.agents.hooks.hook_set import HookSet
from bullpen.agents.permissions.decide import decide
from bullpen.agents.tools.toolbox import TOOLS, lacking, toolbox
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import MODES, Mode
from bullpen.team.requests.mode_rules import Effect, Kind
from support.agents.planners import Planner, hire, submitted, wrote
from support.crews import Crew, eventually

from .page import shows

if TYPE_CHECKING:
    from support.agents.tools_fixtures import MakeBench

HOOKS = ("TeammateIdle", "TaskCompleted", "TaskCreated", "SubagentStart", "SubagentStop", "Stop")


@dataclass
class Spawns:
    """Colleagues that write down whom they are asked for."""

    asked: list[Wanted] = field(default_factory=list)
    members: bool = True

    async def spawn(self, wanted: Wanted) -> str:
        self.asked.append(wanted)
        return f"{wanted.name} is ready."


def judged(tool: str, kind: Kind, mode: Mode, given: Mapping[str, Any], **rules: Any) -> Effect:
    rights = Rights(mode, "/srv/tree", "/home/me", **rules)
    return decide(Call(tool, given, kind), rights).effect


async def made(tmp_path: Path, **request: Any) -> AgentSpec:
    (tmp_path / "repo/.git").mkdir(parents=True, exist_ok=True)
    files = SpawnFiles(tmp_path / ".bullpen", {"HOME": str(tmp_path)})
    asked = SpawnRequest(cwd=str(tmp_path / "repo"), driver="scripted", script="x", **request)
    return await resolve(asked, files)


@shows("tool-names")
def test_tool_names() -> None:
    known = {"Read", "Write", "Edit", "Bash", "BashOutput", "KillShell", "Glob", "Grep", "Task"}
    known |= {"TaskCreate", "TaskGet", "TaskUpdate", "TaskList", "SendMessage"}
    known |= {"TeamCreate", "TeamDelete", "EnterPlanMode", "ExitPlanMode"}
    assert known <= {tool.name for tool in TOOLS}


@shows("notebook-edit")
async def test_notebook_edit(make_bench: MakeBench) -> None:
    ann = make_bench("ann", tools=["Read", "NotebookEdit"])
    cell = {"cell_type": "code", "execution_count": 1, "id": "a", "metadata": {}, "outputs": [{}]}
    book = {"cells": [{**cell, "source": ["1"]}], "nbformat": 4, "nbformat_minor": 5}
    (ann.cwd / "a.ipynb").write_text(json.dumps(book))
    await ann.ok("Read", file_path="a.ipynb")
    edit = {"notebook_path": "a.ipynb", "cell_id": "a", "new_source": "2"}
    await ann.ok("NotebookEdit", **edit)
    await ann.ok("NotebookEdit", **edit, cell_type="markdown", edit_mode="insert")
    first, second = json.loads((ann.cwd / "a.ipynb").read_text())["cells"]
    assert first == {**cell, "execution_count": None, "outputs": [], "source": ["2"]}
    assert (second["cell_type"], second["source"]) == ("markdown", ["2"])
    await ann.ok("NotebookEdit", **edit, edit_mode="delete")
    assert json.loads((ann.cwd / "a.ipynb").read_text())["cells"] == [second]


@shows("task-tool")
async def test_task_tool(make_bench: MakeBench) -> None:
    app = Spawns()
    await make_bench(LEAD, colleagues=app).ok(
        "Task",
        description="Look around",
        prompt="Look.",
        subagent_type="Explore",
        name="eve",
        team_name="crew",
        mode="plan",
        model="haiku",
        run_in_background=True,
    )
    assert app.asked == [Wanted("eve", "Look.", role="Explore", model="haiku", mode="plan")]


@shows("agent-types")
async def test_agent_types(tmp_path: Path) -> None:
    reading = {"Read", "Glob", "Grep"}
    for name, has, lacks in (
        ("general-purpose", {*reading, "Write", "Edit", "Bash"}, set()),
        ("Explore", reading, {"Write", "Edit", "Bash"}),
        ("Plan", reading, {"Write", "Edit", "Bash"}),
        ("Bash", {"Bash"}, {*reading, "Write", "Edit"}),
    ):
        spec = await made(tmp_path, role=name)
        missing = lacking(spec, mode="acceptEdits", is_lead=False, may_spawn=False)
        assert lacks <= set(missing) and not has & set(missing), name


@shows("own-types")
async def test_own_types(tmp_path: Path) -> None:
    (tmp_path / "repo/.claude/agents").mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    text = "---\nname: tester\ndescription: Tests\ntools: Read, Bash\nmodel: haiku\n---\nTest it.\n"
    (tmp_path / "repo/.claude/agents/tester.md").write_text(text)
    found = find("tester", tmp_path / "repo", tmp_path)
    assert (found.name, found.instructions.strip()) == ("tester", "Test it.")


@shows("rules-of-the-user")
def test_rules_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/CLAUDE.md").write_text("Use tabs.")
    spec = AgentSpec.new(driver="native", backend="in-process", cwd=str(tmp_path / "repo"))
    assert "Use tabs." in system_text("ann", "crew", False, spec)


@shows("modes")
def test_modes() -> None:
    assert set(MODES) == {
        *("default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk"),
    }
    inside, outside = {"file_path": "/srv/tree/a"}, {"file_path": "/etc/a"}
    assert judged("Read", "read", "acceptEdits", inside) == "allow"
    assert judged("Edit", "write", "acceptEdits", inside) == "allow"
    assert judged("Edit", "write", "acceptEdits", outside) == "ask"
    assert judged("Edit", "write", "default", inside) == "ask"
    assert judged("Edit", "write", "plan", inside) == "deny"
    assert judged("Edit", "write", "dontAsk", inside) == "deny"
    assert judged("Bash", "run", "bypassPermissions", {"command": "make"}) == "allow"


@shows("rules")
def test_rules() -> None:
    git, push = {"command": "git log -1"}, {"command": "git log; git push"}
    allow, deny = ("Bash(git:*)",), ("Bash(git push:*)",)
    assert judged("Bash", "run", "default", git, allow=allow) == "allow"
    assert judged("Bash", "run", "bypassPermissions", push, allow=allow, deny=deny) == "deny"
    notes = {"file_path": "/home/me/notes/a.md"}
    assert judged("Read", "read", "default", notes, allow=("Read(~/notes/**)",)) == "allow"


@shows("tool-lists")
async def test_tool_lists(make_bench: MakeBench) -> None:
    bench = make_bench("ann", tools=["Read", "Bash"], disallowed_tools=["Bash"])
    assert "Bash" not in {tool.name for tool in toolbox(bench.desk)}
    await bench.refused("Write", file_path="x", content="y")


@shows("settings-json")
async def test_settings_json(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    said = {
        "permissions": {
            "allow": ["Bash(make:*)"],
            "deny": ["Read(.env)"],
            "defaultMode": "acceptEdits",
            "disableBypassPermissionsMode": "disable",
        },
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
    }
    (tmp_path / ".claude/settings.json").write_text(json.dumps(said))
    spec = await made(tmp_path)
    assert (spec.policy.allow, spec.policy.deny) == (["Bash(make:*)"], ["Read(.env)"])
    assert spec.mode == "acceptEdits" and "Stop" in (spec.hooks or {})
    with pytest.raises(Refused) as error:
        await made(tmp_path, mode="bypassPermissions")
    assert error.value.reason == "mode_disabled"


@shows("delegate")
async def test_delegate(make_bench: MakeBench) -> None:
    lead = make_bench(LEAD, mode="delegate", colleagues=Spawns())
    has = {tool.name for tool in toolbox(lead.desk)}
    assert {"Task", "SendMessage", "TaskCreate", "TaskUpdate", "TaskList"} <= has
    assert not {"Read", "Write", "Edit", "Bash", "Glob", "Grep"} & has
    # Its teammates keep their tools.
    assert "Bash" in {tool.name for tool in toolbox(make_bench("ann").desk)}


@shows("plan-mode")
async def test_plan_mode(crew: Crew, tmp_path: Path) -> None:
    model = Planner("# First", "# Second")
    ann = await hire(crew, model)
    first = await submitted(crew.team)
    assert "Write" not in {tool.name for tool in toolbox(ann.desk)}
    await crew.team.approvals.answer(
        first.id, approve=False, by=LEAD, voice="human", feedback="tests first"
    )
    second = await submitted(crew.team, 2)
    assert second.id != first.id and not wrote(tmp_path)
    assert any("tests first" in text for text in model.told)
    with pytest.raises(Refused):
        await crew.team.approvals.answer(second.id, approve=True, by="alice", voice="agent")
    await crew.team.approvals.answer(second.id, approve=True, by=LEAD, voice="human")
    await eventually(lambda: wrote(tmp_path))


@shows("hook-events")
def test_hook_events() -> None:
    command = {"hooks": [{"type": "command", "command": "true"}]}
    found = HookSet.of({event: [command] for event in HOOKS})
    assert not found.unused
