"""Makes a suite of tasks in the form of another benchmark: `bullpen eval import`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from bullpen.errors import Invalid, NotFound
from bullpen.runs.eval.importers.cooperbench import import_pairs
from bullpen.runs.eval.importers.harbor import import_folders
from bullpen.runs.eval.importers.new_suite import MadeSuite, NewTask, write_suite
from bullpen.runs.eval.importers.swe_bench import import_instances

Form = Literal["harbor", "terminal-bench", "cooperbench", "swe-bench"]


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """Tasks to import: where they are, in which form, and where local clones are."""

    form: Form
    source: Path
    folder: Path
    clones: Path | None = None
    # The command for the tests, instead of the one that the form implies.
    test: str | None = None
    name: str | None = None


def import_suite(request: ImportRequest) -> MadeSuite:
    """Make a suite. Blocks.

    Raises:
        NotFound: there is nothing at that path.
        Invalid: none of it can be a task.
        Conflict: the folder for the suite is not empty.
    """
    source = request.source
    if not source.exists():
        raise NotFound(f"There is no {source}.", remedy="Name a file or folder that exists.")
    if request.form != "swe-bench" and not source.is_dir():
        raise Invalid(f"{source} is no folder.", remedy="Name the folder with the tasks.")
    match request.form:
        case "swe-bench":
            tasks, skipped = import_instances(source, request.clones, request.test)
        case "cooperbench":
            tasks, skipped = import_pairs(source, request.clones, request.test)
        case _:
            tasks, skipped = import_folders(source, request.test)
    if not tasks:
        why = f" The first, {skipped[0].name}: {skipped[0].why}." if skipped else ""
        raise Invalid(
            f"None of {len(skipped)} entries in {source} can be a task.{why}",
            remedy="Import only tasks that run on this machine without an image of their own.",
        )
    name = request.name or f"{request.form}: {source.stem}"
    return write_suite(request.folder, name, _distinct(tasks), skipped, defaults={})


def _distinct(tasks: list[NewTask]) -> list[NewTask]:
    """Return the tasks; those whose names are alike have a number."""
    found: dict[str, NewTask] = {}
    for task in tasks:
        name, number = task.name, 1
        while name in found:
            number += 1
            name = f"{task.name}-{number}"
        found[name] = replace(task, name=name)
    return list(found.values())
