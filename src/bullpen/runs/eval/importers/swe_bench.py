"""Imports instances in the form of SWE-bench, from a file and local clones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bullpen.errors import Invalid, Unavailable
from bullpen.runs.eval.importers.new_suite import NewTask, NoTask, Skipped, task_name
from bullpen.runs.eval.importers.patched_files import files_after
from bullpen.workspace.git.run_git import Git

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NEEDED = ("instance_id", "repo", "base_commit", "problem_statement", "test_patch")


def read_instances(path: Path) -> list[Mapping[str, Any]]:
    """Return the instances in a JSON Lines or JSON file. Raises Invalid."""
    try:
        text = path.read_text(encoding="utf-8")
        rows = json.loads(text) if text.lstrip().startswith("[") else _lines(text)
    except (OSError, ValueError, RecursionError) as error:
        raise Invalid(
            f"{path} has no instances: {error}.", remedy="Name a JSON or JSON Lines file."
        ) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Invalid(f"{path} has no list of objects.", remedy="Name a file of SWE-bench.")
    return rows


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def import_instances(
    path: Path, clones: Path | None, test: str | None
) -> tuple[list[NewTask], list[Skipped]]:
    """Return the tasks of a file, and what cannot be one. Raises Invalid."""
    tasks: list[NewTask] = []
    skipped: list[Skipped] = []
    for row in read_instances(path):
        name = str(row.get("instance_id", "?"))
        try:
            tasks.append(_task(row, clones, test))
        except (NoTask, Unavailable) as error:
            skipped.append(Skipped(name, str(error).rstrip(".")))
    return tasks, skipped


def _task(row: Mapping[str, Any], clones: Path | None, test: str | None) -> NewTask:
    missing = [key for key in _NEEDED if not isinstance(row.get(key), str)]
    if missing:
        raise NoTask(f"it has no {missing[0]}")
    for key in (*_NEEDED, "patch"):
        if not str(row.get(key)).isascii():
            _check_text(key, str(row.get(key)))
    clone = clone_of(str(row["repo"]), clones)
    git, base = Git(clone), str(row["base_commit"])
    hidden = files_after(git, base, str(row["test_patch"]))
    must = [*_names(row, "FAIL_TO_PASS"), *_names(row, "PASS_TO_PASS")]
    command = test or str(row.get("test_cmd") or "python -m pytest -q --junitxml={junit} {files}")
    patch = row.get("patch")
    return NewTask(
        task_name(str(row["instance_id"]).replace("--", "-").replace("__", "_")),
        str(row["problem_statement"]),
        {
            "title": str(row["instance_id"]),
            "repository": str(clone),
            "base": base,
            "test": command,
            # Only a command that writes results says which tests passed.
            "must_pass": must if "{junit}" in command else None,
        },
        hidden,
        solution=patch.encode() if isinstance(patch, str) else None,
    )


def _check_text(key: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise NoTask(f"its {key} is not valid text") from None


def _names(row: Mapping[str, Any], key: str) -> Sequence[str]:
    """Return names of tests. In some files, the list is written as a text."""
    found = row.get(key) or []
    try:
        found = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        raise NoTask(f"its {key} is no list") from None
    return [str(each) for each in found]


def clone_of(repo: str, clones: Path | None) -> Path:
    """Return the local clone of owner/name: below a folder of clones. Raises NoTask."""
    if clones is None:
        raise NoTask("it needs a local clone: name their folder with --clones")
    owner, _, name = repo.rpartition("/")
    # Somebody else wrote the name: it leads nowhere but into the folder of clones.
    if any(not _NAME.fullmatch(each) or each in {".", ".."} for each in (owner or name, name)):
        raise NoTask(f"{repo!r} is not the name of a repository")
    for each in (name, f"{owner}__{name}", f"{owner}+{name}", f"{owner}/{name}"):
        if (clones / each).is_dir():
            return (clones / each).resolve()
    raise NoTask(f"there is no clone of {repo} in {clones}")
