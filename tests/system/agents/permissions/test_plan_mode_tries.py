"""Everything that an agent can try in plan mode: nothing is written, run or completed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bullpen.agents.system.transcript import rows
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.protocol.task import Check
from support.crews import eventually
from support.offices import Place, opened

NO_ANSWER = Policy.new(approver="human", plan_approver="human", allow=["Bash", "Write"])


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def step(name: str, /, **given: object) -> dict[str, object]:
    return {"tool": name, "input": given, "may_fail": True}


def script(agent: str, *steps: dict[str, object]) -> str:
    done = toml([*steps, {"say": f"{agent} is through"}])
    return f'[[agents.{agent}.turns]]\nwhen = "task"\nsteps = {done}\n'


def tries(folder: Path) -> list[dict[str, object]]:
    """What an agent in plan mode tries; each leaves a file in the folder if it gets through."""

    def check(name: str) -> dict[str, object]:
        return {"kind": "command", "name": "z", "run": f"touch {folder}/{name}"}

    hidden = {"checks": [check("meta")], "bullpen": {"checks": [check("meta2")]}}
    project = f"{folder}/project"
    return [
        step("Write", file_path=f"{project}/x1", content="x"),
        step("Edit", file_path=f"{project}/a.txt", old_string="a", new_string="b"),
        step("Bash", command=f": > {project}/x2"),
        step("Bash", command="true"),
        step("Bash", command="cat < a.txt"),
        step("Bash", command=f"touch {project}/x3", run_in_background=True),
        step("TaskCreate", subject="c", description="d", checks=[check("stated")]),
        step("TaskUpdate", taskId="{task}", checks=[check("restated")]),
        step("TaskUpdate", taskId="{task}", metadata=hidden),
        step("SpawnTeammate", name="kid", prompt="x"),
        step("SpawnTeammate", name="kid2", prompt="x", mode="bypassPermissions"),
        step("StopTeammate", name="bob"),
        step("KillShell", shell_id="1"),
        step("TaskUpdate", taskId="{task}", status="completed", report="r"),
    ]


async def through(place: Place, agent: str) -> list[dict[str, object]]:
    """The transcript of an agent, when it has tried everything."""

    def found() -> list[dict[str, object]]:
        paths = place.home.glob(f"agents/*/{agent}/transcript.jsonl")
        return [row for path in paths for row in rows(path)]

    await eventually(lambda: any(f"{agent} is through" in str(row) for row in found()))
    return found()


def refused(transcript: list[dict[str, object]], name: str) -> list[bool]:
    return [
        bool(row["error"]) for row in transcript if row["kind"] == "result" and row["name"] == name
    ]


async def test_an_agent_that_starts_in_plan_mode_gets_nothing_through(tmp_path: Path) -> None:
    async with opened(tmp_path) as place:
        (place.project / "a.txt").write_text("a")
        checks = [Check.new(name="lead", kind="command", run=f"touch {tmp_path}/check")]
        one = await place.team.tasks.add("one", by=LEAD, checks=checks)
        await place.spawn(
            "ann",
            script("ann", *tries(tmp_path)),
            mode="plan",
            policy=NO_ANSWER,
            claims=True,
        )
        transcript = await through(place, "ann")
        after = await place.team.tasks.get(one.id)
        members = [member.name for member in (await place.team.agents.config()).roster]
    assert sum(row["kind"] == "tool" for row in transcript) == len(tries(tmp_path))
    assert [row for row in transcript if row["kind"] == "result" and not row["error"]] == []
    assert (after.status, len(after.facts.checks)) == ("in_progress", 1)
    assert "plan_mode" in str(transcript)
    assert members == [LEAD, "ann"]
    there = set(os.listdir(tmp_path))
    assert os.listdir(place.project) == ["a.txt"]
    assert (place.project / "a.txt").read_text() == "a"
    assert there & {"check", "stated", "restated", "meta", "meta2"} == set()


async def test_an_agent_that_enters_plan_mode_leaves_nothing_running(tmp_path: Path) -> None:
    async with opened(tmp_path) as place:
        two = await place.team.tasks.add("two", by=LEAD)
        late = "touch begun; sleep 1; touch late_job"
        await place.spawn(
            "bob",
            script(
                "bob",
                step("Bash", command=late, run_in_background=True),
                step("Bash", command="until [ -e begun ]; do sleep 0.05; done"),
                step("EnterPlanMode"),
                step("Write", file_path="late_write", content="x"),
                {"sleep": 1.5},
                step("TaskUpdate", taskId="{task}", status="completed", report="r"),
            ),
            mode="acceptEdits",
            policy=NO_ANSWER,
            claims=True,
        )
        transcript = await through(place, "bob")
        after = await place.team.tasks.get(two.id)
    assert refused(transcript, "EnterPlanMode") == [False]
    assert refused(transcript, "Write") == refused(transcript, "TaskUpdate") == [True]
    assert after.status == "in_progress"
    assert os.listdir(place.project) == ["begun"]
