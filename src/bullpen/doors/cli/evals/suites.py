"""`bullpen eval make` and `bullpen eval import`: suites of this repository, and of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.options.spawn import Cwd
from bullpen.doors.cli.session import Session, directory
from bullpen.runs.eval.importers.from_commits import TESTS, MakeRequest, make_suite
from bullpen.runs.eval.importers.import_suite import Form, ImportRequest, import_suite
from bullpen.runs.eval.importers.new_suite import MadeSuite

_PYTEST = "PYTHONPATH=src:. python -m pytest -q -p no:cacheprovider --junitxml={junit} {files}"

Output = Annotated[
    str, option("Folder for the suite, which must be new or empty", "DIR", "-o", "--output")
]
Name = Annotated[str | None, option("Name of the suite", "NAME", "--name")]
Test = Annotated[
    str | None,
    option("Command that runs the hidden tests; may contain {files} and {junit}", "COMMAND"),
]


@examples(
    "bullpen eval make --last 20 -o evals",
    "bullpen eval make --last 50 --test 'npm test -- {files}' -o evals",
)
def make(
    session: Session,
    *,
    last: Annotated[int, option("How many changes to look at", "N", min=1)] = 20,
    output: Output = "evals",
    branch: Annotated[str, option("Branch or commit to begin at", "REF", "--branch")] = "HEAD",
    test: Test = None,
    tests: Annotated[
        list[str] | None,
        option("Pattern of paths of tests, such as 'tests/*' [repeatable]", "PATTERN", "--tests"),
    ] = None,
    lines: Annotated[
        int, option("Leave out changes of more than N lines besides tests", "N", min=1)
    ] = 1000,
    name: Name = None,
    cwd: Cwd = None,
) -> None:
    """Make a suite of the last changes of this repository.

    Each merge or commit with tests becomes a task: the work begins before the change, and the tests
    of the change are hidden. Its message is the instructions. Check the suite with
    `bullpen eval run SUITE --arms oracle,empty`: the first must pass, the second must not.
    """
    request = MakeRequest(
        Path(directory(cwd)),
        Path(output).absolute(),
        test or _PYTEST,
        last=last,
        branch=branch,
        tests=tuple(tests or TESTS),
        lines_max=lines,
        name=name,
    )
    _show(session, make_suite(request))


@examples(
    "bullpen eval import harbor tasks -o evals",
    "bullpen eval import swe-bench instances.jsonl --clones ../clones -o evals",
)
def import_tasks(
    session: Session,
    form: Annotated[Form, argument("harbor, terminal-bench, cooperbench or swe-bench", "FORM")],
    source: Annotated[str, argument("The folder or file with the tasks", "SOURCE")],
    *,
    output: Output = "evals",
    clones: Annotated[
        str | None, option("Folder with local clones of the repositories", "DIR", "--clones")
    ] = None,
    test: Test = None,
    name: Name = None,
) -> None:
    """Make a suite of tasks of another benchmark.

    Nothing is downloaded, and no image is used: tests run on this machine, in a sandbox. Tasks that
    need more are listed with the reason.
    """
    request = ImportRequest(
        form,
        Path(source).absolute(),
        Path(output).absolute(),
        clones=None if clones is None else Path(clones).absolute(),
        test=test,
        name=name,
    )
    _show(session, import_suite(request))


def _show(session: Session, made: MadeSuite) -> None:
    rows = [{"name": each.name, "why": each.why} for each in made.skipped]
    value = {"path": str(made.folder), "tasks": list(made.tasks), "skipped": rows}
    lines = [f"task: {each}" for each in made.tasks]
    lines += [f"no task: {each.name}: {each.why}" for each in made.skipped]
    count = f"{len(made.tasks)} tasks of {len(made.tasks) + len(made.skipped)}"
    check = f"bullpen eval run {made.folder} --arms oracle,empty"
    session.page.result(
        "eval-suite/1", value, *lines, f"Wrote {count} to {made.folder}.", f"Check it: {check}"
    )
