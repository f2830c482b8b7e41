"""The merge queue of a team, as commands show and handle it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.work.merge_checks import open_queue
from bullpen.doors.cli.session import Session, directory
from bullpen.errors import Refused, Unavailable
from bullpen.protocol.clock import iso
from bullpen.protocol.task import Check, Merge, Step, Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.teamfile.backlog.boxes import boxes_of
from bullpen.runs.teamfile.tables import MergeTable
from bullpen.runs.teamfile.team_records import merge_settings
from bullpen.team.tasks.merge_rules import output_end, queue_order
from bullpen.team.team import Team
from bullpen.view.text import Cell
from bullpen.workspace.git.task_commits import parse_author
from bullpen.workspace.merge_queue.queue import Queue, Stepped

_PAUSE_S = 2.0
_PAUSE_MAX_S = 60.0
_WHY = {
    "conflict": "conflicts with the target",
    "checks": "checks fail on the target",
    "missing": "commits are missing",
    "guarded": "changes guarded paths without approval",
    "review": "a review asks for changes",
    "promise": "does not fit the team's promises",
    "nothing": "its changes are on the target already",
}


class MergeCommands:
    """What `bullpen merge` does."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._page = session.page
        self._steps: list[Stepped] = []

    def show_line(self) -> None:
        """Where work goes, what waits in which order, and what came back."""

        async def look(team: Team) -> tuple[MergeSettings | None, list[Task]]:
            return await team.merges.settings(), (await team.tasks.list()).tasks

        settings, tasks = self._session.with_team(look)
        waiting = queue_order(tasks)
        back = [task for task in tasks if _state(task) == "returned"]
        if self._page.json:
            self._page.value(
                "merge-queue/1",
                {
                    "settings": None if settings is None else settings.raw,
                    "line": [_json(task) for task in waiting],
                    "returned": [_json(task) for task in back],
                },
            )
            return
        if settings is None:
            self._page.line("This team has no merge queue. Configure one: bullpen merge set")
        else:
            self._settings(settings)
        self._table("Waiting to be merged", waiting)
        self._table("Returned", back)
        if settings is not None and not waiting and not back:
            self._page.line("The merge queue is empty.")

    def _settings(self, settings: MergeSettings) -> None:
        gate = "; ".join(check.run or check.name for check in settings.gate) or "nothing"
        self._page.fields(
            [
                ("target", f"{settings.target} in {settings.repository}"),
                ("gate", gate),
                ("batch", f"up to {settings.batch} tasks together"),
                ("retries", f"{settings.retries}"),
                ("setup", settings.setup or ""),
                ("after", settings.after or ""),
                ("author", settings.author or "as git is configured"),
            ]
        )

    def _table(self, title: str, tasks: Sequence[Task]) -> None:
        if not tasks:
            return
        self._page.line()
        self._page.title(f"{title}:")
        rows = []
        for task in tasks:
            record = task.facts.merge
            assert record is not None
            rows.append(
                (
                    f"#{task.id}",
                    record.by,
                    record.commit[:12],
                    str(record.tries),
                    Cell(_how(record), "attention" if record.state == "returned" else ""),
                    task.subject,
                )
            )
        self._page.table(("task", "by", "commit", "tries", "state", "subject"), rows)

    def show_log(self, task_id: str | None) -> None:
        """The steps that were recorded, the oldest first."""

        async def look(team: Team) -> list[Task]:
            if task_id is not None:
                return [await team.tasks.get(task_id)]
            return (await team.tasks.list()).tasks

        steps = _steps(self._session.with_team(look))
        if self._page.json:
            told = [{"tasks": ids, **step.raw} for ids, step in steps]
            self._page.value("merge-log/1", {"steps": told})
            return
        if not steps:
            self._page.line("The merge queue has done nothing yet.")
            return
        rows = [
            (
                iso(step.at_ms),
                step.what,
                " ".join(f"#{id_}" for id_ in step.batch or ids),
                "" if step.passed is None else "passed" if step.passed else "failed",
                (step.onto or "")[:12],
                (step.commit or "")[:12],
                _in_a_line(step),
            )
            for ids, step in steps
        ]
        self._page.table(("when", "what", "tasks", "result", "onto", "commit", "detail"), rows)
        judged = [step for _, step in steps if step.passed is not None]
        output = (judged[-1].detail or "").split("\n")[1:] if judged else []
        if output and judged[-1].passed is False:
            self._page.line("")
            self._page.line(Cell("Output of the last failure:", "attention"))
            self._page.block("\n".join(output), indent=2)

    def run(self, *, once: bool) -> None:
        """Be the queue."""

        async def be(team: Team) -> None:
            settings = await _settings_of(team)
            home = self._session.settings.home
            boxes = await boxes_of(team, settings)
            queue = await open_queue(team, settings, home=home, environ=os.environ, boxes=boxes)
            with queue.locked():
                if once:
                    self._tell(await queue.step(), once=True)
                    return
                await self._until_nothing_waits(queue)

        self._session.with_team(be)
        if self._page.json and not self._page.jsonl:
            self._page.value("merge-run/1", {"steps": self._steps})

    async def _until_nothing_waits(self, queue: Queue) -> None:
        pause_s = _PAUSE_S
        while True:
            try:
                stepped = await queue.step()
            except Unavailable as error:
                stepped = Stepped(held=str(error))
            self._tell(stepped, once=False)
            if stepped is None:
                return
            if stepped.held is None or stepped.merged or stepped.returned:
                pause_s = _PAUSE_S
                continue
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _tell(self, stepped: Stepped | None, *, once: bool) -> None:
        if self._page.json:
            if stepped is not None:
                self._steps.append(stepped)
                if self._page.jsonl:
                    self._page.json_line("merge-step/1", stepped)
            return
        if stepped is None:
            if once:
                self._page.line("The merge queue is empty.")
            return
        if stepped.merged:
            ids = ", ".join(f"#{id_}" for id_ in stepped.merged)
            self._page.line(f"merged {ids}; the target is at {stepped.target[:12]}")
        for id_, why in stepped.returned.items():
            self._page.line(f"#{id_} was returned: {_WHY[why]} (see: bullpen merge log {id_})")
        if stepped.trouble is not None:
            self._page.warn(stepped.trouble)
        if stepped.held is not None:
            self._page.warn(f"merging is blocked: {stepped.held}")
        self._page.flush()

    def configure(
        self,
        *,
        target: str | None,
        gate: list[str] | None,
        batch: int | None,
        retries: int | None,
        texts: Mapping[str, str | None],
    ) -> None:
        """Show or change where work goes. An empty text takes a setting away."""
        if author := (texts.get("author") or "").strip():
            parse_author(author)
        changes: dict[str, Any] = {
            key: text.strip() or None for key, text in texts.items() if text is not None
        }
        numbers = {"batch": batch, "retries": retries}
        changes |= {key: number for key, number in numbers.items() if number is not None}
        if gate is not None:
            checks = [_check(command) for command in gate if command.strip()]
            changes["gate"] = [check.raw for check in checks]

        async def change(team: Team) -> MergeSettings | None:
            settings = await team.merges.settings()
            if not changes and target is None:
                return settings
            by, voice = await self._session.identity.speaks(team)
            if settings is None or target is not None:
                here = directory(None) if settings is None else str(_where(settings))
                found = await anyio.to_thread.run_sync(
                    merge_settings, MergeTable(target=target), here
                )
                settings = found if settings is None else settings.evolve(target=found.target)
            return await team.merges.configure(settings.evolve(**changes), by=by, voice=voice)

        settings = self._session.with_team(change)
        if self._page.json:
            value = {"settings": None if settings is None else settings.raw}
            self._page.value("merge-settings/1", value)
        elif settings is None:
            self._page.line("This team has no merge queue. Configure one with --target BRANCH")
        else:
            self._settings(settings)


async def _settings_of(team: Team) -> MergeSettings:
    settings = await team.merges.settings()
    if settings is None:
        raise Refused(
            f"Team {team.name!r} has no merge queue.",
            reason="no_merge",
            remedy="Configure one: bullpen merge set --target main --gate 'make test'",
        )
    return settings


def _where(settings: MergeSettings) -> Path:
    return Path(settings.repository) / settings.inside


def _check(command: str) -> Check:
    return Check.new(name=command, kind="command", run=command)


def _state(task: Task) -> str | None:
    record = task.facts.merge
    return None if record is None else record.state


def _how(record: Merge) -> str:
    """The state of a piece of work in a few words."""
    if record.state == "returned":
        files = f": {', '.join(record.files)}" if record.files else ""
        return f"{_WHY[record.why or 'checks']}{files}"
    if record.candidate is not None:
        return f"about to be merged as {record.candidate[:12]}"
    last = next((step for step in reversed(record.steps) if step.passed is not None), None)
    if last is None:
        return "waiting"
    return f"failed with {' '.join(f'#{id_}' for id_ in last.batch)}"


def _json(task: Task) -> dict[str, Any]:
    record = task.facts.merge
    return {"task": task.id, "subject": task.subject, **({} if record is None else record.raw)}


def _in_a_line(step: Step) -> str:
    """Return what a step says: its first line, and how the output of a failed check ends."""
    detail = step.detail or ""
    first = detail.split("\n")[0]
    return f"{first} {output_end(detail)}" if step.passed is False else first


def _steps(tasks: Iterable[Task]) -> list[tuple[list[str], Step]]:
    """Every step once, with the tasks that have it in their record."""
    found: dict[str, tuple[list[str], Step]] = {}
    for task in tasks:
        record = task.facts.merge
        for step in () if record is None else record.steps:
            # What was done with several is in the record of each.
            alone = "" if step.batch and step.what != "rebased" else task.id
            key = f"{alone} {step.raw}"
            found.setdefault(key, ([], step))[0].append(task.id)
    return sorted(found.values(), key=lambda pair: pair[1].at_ms)
