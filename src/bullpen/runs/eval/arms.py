"""The arms of an eval as team files: one agent, one agent and a reviewer, a team."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bullpen.protocol.names import LEAD
from bullpen.runs.eval.clones import BRANCH
from bullpen.runs.eval.suite import EvalTask
from bullpen.runs.teamfile.read import TeamFile, read_team_file
from bullpen.runs.teamfile.tables import (
    BudgetTable,
    GuardedTable,
    MemberTable,
    MergeTable,
    ModelEffort,
    RetentionTable,
    TaskTable,
    TeamTable,
    UnattendedTable,
    WebTable,
    WorkspaceTable,
)

REVIEWER = "reviewer"
REVIEW_FILE = "REVIEW.md"
APPROVED = "APPROVED"

_TEAMMATES = ("ann", "ben")

_JUDGED = """

Your work is judged by tests that you cannot see. They run on the files of this project as they are
when you finish. Nobody answers questions: decide for yourself, then finish."""

_PARTS = "\n\nIt has these parts, which can be done side by side:\n"

_REVIEW = """Review a change. This directory is a copy of the project with the change in it; the
commit HEAD is the project before it. What the change was made for:

{instructions}

Look for what is wrong or missing, not for style. Change nothing but the file {file}. Write into it
what has to be corrected, most important first. If nothing has to be, write only {approved}. Then
complete the task."""

_REWORK = """{instructions}

This was worked on already: the files here have the change. A reviewer says about it:

<review>
{review}
</review>

Correct what is right in it. The review is advice, not an order."""


@dataclass(frozen=True, slots=True)
class ArmAgents:
    """Which agents work in the arms. A team file has its own for the arm `team`."""

    driver: str = "native"
    backend: str = "in-process"
    model: str | None = None
    effort: ModelEffort | None = None
    # Absolute.
    script: Path | None = None
    command: tuple[str, ...] = ()
    team_file: Path | None = None

    def member(self, name: str) -> MemberTable:
        """Return one agent."""
        return MemberTable(
            name=name,
            driver=self.driver,
            backend=self.backend,
            model=self.model,
            effort=self.effort,
            script=None if self.script is None else str(self.script),
            command=list(self.command) or None,
            mode="acceptEdits",
        )


def solo(task: EvalTask, agents: ArmAgents, usd: float | None) -> TeamFile:
    """Return the team of one agent."""
    return _file(task.instructions + _JUDGED, agents, usd, name="eval-solo")


def rework(task: EvalTask, agents: ArmAgents, usd: float | None, review: str) -> TeamFile:
    """Return the team of one agent that works on what a reviewer found."""
    text = _REWORK.format(instructions=task.instructions, review=review)
    return _file(text + _JUDGED, agents, usd, name="eval-rework")


def reviewer(task: EvalTask, agents: ArmAgents, usd: float | None) -> TeamFile:
    """Return the team of one agent that reviews a change and writes down what it finds."""
    text = _REVIEW.format(instructions=task.instructions, file=REVIEW_FILE, approved=APPROVED)
    file = _file(None, agents, usd, name="eval-review")
    item = TaskTable(id="review", subject="Review the change", description=text)
    return replace(file, teammates=(agents.member(REVIEWER),), tasks=(item,))


def team(task: EvalTask, agents: ArmAgents, usd: float | None) -> TeamFile:
    """Return the team of the arm `team`: of a team file, or a lead with two teammates.

    Raises:
        NotFound, Invalid: the team file cannot be used.
    """
    if agents.team_file is None:
        members = tuple(agents.member(name) for name in _TEAMMATES)
        file = _file(_goal(task), agents, usd, name="eval-team")
        return replace(
            file,
            teammates=members,
            workspace=WorkspaceTable(kind="worktree", dirty="leave"),
            merge=MergeTable(target=BRANCH),
        )
    file = read_team_file(agents.team_file)
    merge = file.merge and file.merge.model_copy(update={"target": BRANCH})
    update = {"name": "eval-team", "goal": None if file.lead is None else _goal(task)}
    return replace(
        file,
        team=file.team.model_copy(update=update),
        budget=BudgetTable(usd=usd or None),
        workspace=file.workspace.model_copy(update={"root": None, "remote": None}),
        merge=merge,
        # This arm is the team, whatever evals say.
        shape=None,
        # A trial has no forge, tells nobody, and keeps nothing.
        forge=None,
        notify=(),
        retention=RetentionTable(),
        tasks=() if file.lead is not None else tuple(_tasks(task)),
        backlog=(),
    )


def _goal(task: EvalTask) -> str:
    parts = [f"- {part.subject}\n\n{part.description}\n" for part in task.parts]
    return task.instructions + (_PARTS + "\n".join(parts) if parts else "") + _JUDGED


def _tasks(task: EvalTask) -> Sequence[TaskTable]:
    """Return the tasks of a team without a lead."""
    if not task.parts:
        text = task.instructions + _JUDGED
        return [TaskTable(id="1", subject=task.title, description=text)]
    return [
        TaskTable(id=str(at), subject=part.subject, description=part.description + _JUDGED)
        for at, part in enumerate(task.parts, 1)
    ]


def _file(goal: str | None, agents: ArmAgents, usd: float | None, *, name: str) -> TeamFile:
    return TeamFile(
        path=Path(f"/{name}.toml"),
        team=TeamTable(name=name, goal=goal),
        budget=BudgetTable(usd=usd or None),
        workspace=WorkspaceTable(),
        merge=None,
        shape=None,
        forge=None,
        guarded=GuardedTable(),
        unattended=UnattendedTable(),
        retention=RetentionTable(),
        models={},
        notify=(),
        mcp_servers={},
        web=WebTable(),
        after_edit={},
        lead=None if goal is None else agents.member(LEAD),
        teammates=(),
        tasks=(),
        backlog=(),
    )
