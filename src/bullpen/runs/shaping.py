"""Chooses for the new tasks of a team file who works on them: one agent, or the whole team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from anyio import to_thread

from bullpen.by_name import load
from bullpen.errors import BullpenError, Invalid, NotFound
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import now_ms
from bullpen.protocol.task import Check, Shape, Shaped
from bullpen.protocol.team import TeamConfig
from bullpen.runs.teamfile.backlog.backlog import Item
from bullpen.runs.teamfile.read import TeamFile
from bullpen.runs.teamfile.tables import MemberTable, ShapeTable
from bullpen.team.budget.cost import cost_of
from bullpen.team.budget.shape import Choice, Measured, NewTask, Past, choose, files_named
from bullpen.team.tasks.reviews.rules import same_as_author
from bullpen.team.team import Team


def shaping_of(file: TeamFile, team: Team, cwd: str) -> Shaping | None:
    """Return what chooses for a file's tasks; None if it does not ask for that."""
    return None if file.shape is None else Shaping(file, file.shape, team, Path(cwd))


class Shaping:
    """The choices for one team file's tasks."""

    def __init__(self, file: TeamFile, table: ShapeTable, team: Team, folder: Path) -> None:
        """`folder` is the project: tasks name files in it."""
        self._file = file
        self._table = table
        self._members = file.teammates
        self._team = team
        self._folder = folder
        # The team of the same file that ran before; by default, the one that goes on.
        self.former: TeamConfig | None = None
        # What evals said, once they were read.
        self._evals: Mapping[Shape, Measured] | None = None

    async def look(self) -> None:
        """Read the evals that the choice uses. Raises Invalid."""
        if self._evals is not None:
            return
        folders = [self._file.folder / each for each in self._table.eval_folders]
        if not folders:
            self._evals = {}
            return
        measured = load("bullpen.runs.eval.eval_report:shapes_measured_in")
        try:
            self._evals = await to_thread.run_sync(measured, *folders)
        except BullpenError as error:
            raise Invalid(
                f"{self._file.path}: `evals` in `[shape]` cannot be used: {error}",
                remedy="Name a folder with results of `bullpen eval run`, or remove `evals`.",
            ) from None

    async def shaped(self, items: Sequence[Item]) -> list[Item]:
        """Return new tasks with how they are worked on; those done alone have an owner."""
        if not items:
            return []
        new = [self._new_task(item) for item in items]
        if self._table.choose == "auto":
            choices = choose(
                new,
                await self._past(),
                members=len(self._members),
                reviewed=self._table.review is not None,
                tried=self._table.try_other,
            )
        else:
            choices = {
                each.key: Choice(self._table.choose, "the team file says so") for each in new
            }
        return [self._item(item, choices) for item in items]

    async def _past(self) -> Past:
        """Return what coordination cost the team so far, and what evals say."""
        await self.look()
        try:
            config = self.former or await self._team.agents.config()
        except NotFound:
            return Past(evals=self._evals)
        share = cost_of(config, (), now_ms=now_ms()).coordination_share
        return Past(share, evals=self._evals)

    def _new_task(self, item: Item) -> NewTask:
        return NewTask(
            item.source,
            item.after,
            item.effort,
            files_named(f"{item.subject}\n{item.description}", self._is_file),
            is_tested=any(check.kind == "command" for check in item.checks),
            is_given=item.owner is not None or bool(item.needs),
        )

    def _is_file(self, name: str) -> bool:
        try:
            return (self._folder / name).is_file()
        except (OSError, ValueError):
            return False

    def _item(self, item: Item, choices: Mapping[str, Choice]) -> Item:
        choice = choices[item.source]
        shape = Shaped.new(shape=choice.shape, why=choice.why, is_trial=choice.is_trial)
        review = self._review if choice.shape == "solo+review" else None
        owner, checks = item.owner, item.checks
        if choice.shape != "team" and owner is None:
            owner = self._able(item, review)
        if review is not None and all(check.kind != "review" for check in checks):
            checks = (*checks, review)
        return replace(item, shape=shape, owner=owner, checks=checks)

    @property
    def _review(self) -> Check | None:
        return None if self._table.review is None else self._table.review.stated

    def _able(self, item: Item, review: Check | None) -> str | None:
        """Return the first member that has the skills for a task, and is not like its reviewer."""
        needs = set(item.needs)
        return next(
            (
                each.name
                for each in self._members
                if needs <= set(each.skills)
                and (review is None or same_as_author(review, _spec(each)) is None)
            ),
            None,
        )


def _spec(member: MemberTable) -> AgentSpec:
    """Return what is known here of a member: its driver and its model."""
    return AgentSpec.new(driver=member.driver, backend=member.backend, cwd=".", model=member.model)
