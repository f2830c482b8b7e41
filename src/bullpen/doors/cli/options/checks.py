"""The options that say what proves a task done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from bullpen.by_name import load
from bullpen.doors.cli.options.option import flag, option
from bullpen.protocol.task import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The checks of a task."""

    check: Annotated[
        list[str] | None, option("A command that must succeed [repeatable]", "NAME=COMMAND")
    ] = None
    check_file: Annotated[
        list[str] | None,
        option("A file or pattern that must exist and not be empty [repeatable]", "PATH"),
    ] = None
    check_commit: Annotated[
        list[str] | None,
        option(
            "A branch that needs a commit made since the claim, or a commit id that must be "
            "on a branch [repeatable]",
            "BRANCH",
        ),
    ] = None
    needs_report: Annotated[
        bool, flag("Require a report to complete the task", "--needs-report")
    ] = False

    review: Annotated[
        str | None, option("Agent program that reviews the work; see `bullpen drivers`", "DRIVER")
    ] = None
    review_model: Annotated[str | None, option("Model of the reviewer", "NAME")] = None
    rubric: Annotated[str | None, option("What the reviewer looks for", "TEXT")] = None

    def checks(self) -> list[Check]:
        """The checks that were given."""
        checks = []
        for command in self.check or ():
            name, _, run = command.partition("=")
            if not name.strip() or not run.strip():
                raise typer.BadParameter(f"{command!r} is not of the form NAME=COMMAND.")
            checks.append(Check.new(name=name.strip(), kind="command", run=run.strip()))
        checks += [Check.new(name=path, kind="file", path=path) for path in self.check_file or ()]
        checks += [Check.new(name=ref, kind="commit", ref=ref) for ref in self.check_commit or ()]
        if self.needs_report:
            checks.append(Check.new(name="report", kind="report"))
        if self.review is not None:
            checks.append(self._review(self.review))
        elif self.review_model is not None or self.rubric is not None:
            raise typer.BadParameter("--rubric and --review-model need --review DRIVER.")
        return checks

    def _review(self, driver: str) -> Check:
        load("bullpen.agents.drivers.registry:check_driver")(driver)
        return Check.new(
            name=f"review by {driver}",
            kind="review",
            by=driver,
            model=self.review_model,
            rubric=self.rubric,
        )
