"""`bullpen eval run` and `bullpen eval report`: measure arms on the tasks of a suite."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer

from bullpen.agents.backends.available import BACKENDS
from bullpen.agents.drivers.registry import DRIVERS
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.limits import Usd
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.options.part_names import part_named
from bullpen.doors.cli.options.spawn import (
    Command,
    Driver,
    Effort,
    Model,
    Script,
    TeamBackend,
    words_of,
)
from bullpen.doors.cli.output.page_file import Form, form_of, write_page
from bullpen.doors.cli.session import Session
from bullpen.doors.report.evals.eval_page import eval_html, eval_markdown
from bullpen.doors.report.evals.eval_tables import arms as arms_table
from bullpen.runs.eval.arms import ArmAgents
from bullpen.runs.eval.eval_report import EvalReport, report_of
from bullpen.runs.eval.evaluate import EvalRequest, evaluate
from bullpen.runs.eval.plan import WHOLE, read_arms, read_part
from bullpen.runs.eval.results import TrialRecord
from bullpen.view.text import visible

Suite = Annotated[str, argument("The folder of the suite", "SUITE")]


@examples(
    "bullpen eval run evals --arms oracle,empty",
    "bullpen eval run evals --arms solo,team --repeat 3 --budget-usd 20",
    "bullpen eval run evals --arms solo,team --budget-usd 20 --jobs 4",
    "bullpen eval run evals --arms solo,team --part 2/3 --results part-2",
)
def run(
    session: Session,
    suite: Suite,
    *,
    arms: Annotated[
        str,
        option("What to compare: solo, solo+review, team, oracle, empty; with commas", "ARMS"),
    ] = "solo,team",
    repeat: Annotated[int, option("Trials of each arm on each task", "N", min=1)] = 1,
    task: Annotated[
        list[str] | None, option("Only this task [repeatable]", "TASK", "--task")
    ] = None,
    team_file: Annotated[
        str | None,
        option("Team file of the arm team [default: a lead, two teammates]", "FILE", "--team-file"),
    ] = None,
    results: Annotated[
        str | None, option("Where results are kept [default: SUITE-results]", "DIR", "--results")
    ] = None,
    jobs: Annotated[int, option("Trials at the same time", "N", min=1, max=64)] = 1,
    part: Annotated[
        str | None,
        option("Only part I of N, with its share of the budget, such as 1/3", "I/N", "--part"),
    ] = None,
    driver: Driver = "native",
    backend: TeamBackend = "in-process",
    model: Model = None,
    effort: Effort = None,
    script: Script = None,
    program: Command = None,
    budget_usd: Usd = None,
) -> None:
    """Run the trials of a suite, or continue them.

    Every arm with agents gets the same money: the budget divided by the number of their trials.
    Each trial works in a fresh clone, in a sandbox. Run the same command again to continue: trials
    with a verdict are not run again. Several processes can work on the same results. Hosts without
    a common folder each run a --part: report on all their folders together.

    Exit codes: 0 if every trial has a verdict, 1 if some could not be run or paid.
    """
    folder = Path(suite).absolute()
    kept = Path(results).absolute() if results else folder.with_name(f"{folder.name}-results")
    agents = ArmAgents(
        driver=part_named("driver", driver, DRIVERS),
        backend=part_named("backend", backend, BACKENDS),
        model=model,
        effort=effort,
        script=None if script is None else Path(script).absolute(),
        command=tuple(words_of(program) or ()),
        team_file=None if team_file is None else Path(team_file).absolute(),
    )
    request = EvalRequest(
        folder,
        kept,
        read_arms(arms),
        agents,
        repeat=repeat,
        budget_usd=budget_usd,
        tasks=tuple(task or ()),
        jobs=jobs,
        part=WHOLE if part is None else read_part(part),
    )
    done = anyio.run(partial(evaluate, request, os.environ, partial(_tell, session)))
    _show(session, report_of(kept))
    if not session.json:
        for number, what in (
            (done.errors, "could not be run; run the same command again"),
            (done.unpaid, "were not run: the budget is used up"),
            (done.elsewhere, "are run by another process"),
        ):
            if number:
                session.page.warn(f"{number} trials {what}")
        session.page.line(f"Report: bullpen eval report {kept}")
    raise typer.Exit(1 if done.judged < done.trials else 0)


def _tell(session: Session, record: TrialRecord, done: int, trials: int) -> None:
    """Say on standard error what came of a trial."""
    why = f": {record.why}" if record.why else ""
    text = f"{done}/{trials} {record.task} {record.arm} {record.number}: {record.verdict}{why}"
    if not session.json:
        print(" ".join(visible(text).split()), file=sys.stderr, flush=True)


def _show(session: Session, found: EvalReport) -> None:
    table = arms_table(found)
    if session.json:
        session.page.value("eval/1", found.row)
        return
    shown = table.compact
    session.page.table(shown.columns, shown.rows)


@examples(
    "bullpen eval report evals-results",
    "bullpen eval report evals-results -o eval.html",
    "bullpen eval report evals-results -o eval.md",
    "bullpen eval report part-1 part-2 part-3 -o eval.html",
)
def report(
    session: Session,
    results: Annotated[list[str], argument("The folders of the results", "RESULTS")],
    *,
    output: Annotated[
        str | None, option("File to write, as HTML or Markdown", "FILE", "-o", "--output")
    ] = None,
    form: Annotated[
        Form | None,
        option("Output format [default: by the name of FILE, or html]", None, "--format"),
    ] = None,
) -> None:
    """Show what the trials say about each arm.

    Folders with parts of one eval count together.

    The HTML page stands alone: no scripts, nothing to download. You can write it during an eval.
    """
    found = report_of(*map(Path, results))
    if output is None and form is None:
        _show(session, found)
        return
    chosen = form_of(form, output)
    page = eval_html(found) if chosen == "html" else eval_markdown(found)
    if output is None:
        typer.echo(page, nl=False)
        return
    write_page(session, output, page, chosen)
