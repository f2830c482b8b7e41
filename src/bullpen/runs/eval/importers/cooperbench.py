"""Imports pairs of features of CooperBench: two changes to one project that may conflict.

A folder `REPO_task/taskN` has the features; its Dockerfile names the repository and the commit. The
image is not used: the tests run on this machine, in the sandbox.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

from bullpen.errors import Invalid, Unavailable
from bullpen.runs.eval.importers.new_suite import NewTask, NoTask, Skipped, task_name
from bullpen.runs.eval.importers.patched_files import files_after
from bullpen.runs.eval.importers.swe_bench import clone_of
from bullpen.workspace.git.run_git import Git

_CLONED = re.compile(r"git clone\b[^\n&|;]*?https?://[^/\s]+/([\w.-]+/[\w.-]+?)(?:\.git)?(?:\s|$)")
_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
_PYTEST = "python -m pytest -q --junitxml={junit} {files}"


def import_pairs(
    folder: Path, clones: Path | None, test: str | None
) -> tuple[list[NewTask], list[Skipped]]:
    """Return a task for each pair of features below a folder, and what cannot be one."""
    tasks: list[NewTask] = []
    skipped: list[Skipped] = []
    for each in sorted(path for path in folder.rglob("task*") if (path / "Dockerfile").is_file()):
        label = f"{each.parent.name}/{each.name}"
        try:
            repo, base = _origin(each / "Dockerfile")
            clone = clone_of(repo, clones)
        except NoTask as error:
            skipped.append(Skipped(label, str(error).rstrip(".")))
            continue
        features = sorted(each.glob("feature*/"), key=lambda path: (len(path.name), path.name))
        for one, two in combinations(features, 2):
            try:
                tasks.append(_task(label, one, two, clone, base, test))
            except (NoTask, Unavailable) as error:
                name = f"{label} {one.name}+{two.name}"
                skipped.append(Skipped(name, str(error).rstrip(".")))
    if not tasks and not skipped:
        raise Invalid(
            f"There is no task of CooperBench in {folder}: no folder taskN with a Dockerfile.",
            remedy="Name its folder `dataset`, or one below it.",
        )
    return tasks, skipped


def _origin(dockerfile: Path) -> tuple[str, str]:
    """Return the repository and the commit that an image has."""
    text = dockerfile.read_text(encoding="utf-8", errors="replace")
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    cloned, commit = _CLONED.search(lines), _COMMIT.search(lines)
    if cloned is None or commit is None:
        raise NoTask("its Dockerfile names no repository and commit")
    return cloned[1], commit[0]


def _task(label: str, one: Path, two: Path, clone: Path, base: str, test: str | None) -> NewTask:
    texts = [_read(each / "feature.md") for each in (one, two)]
    patches = [_read(each / "tests.patch") for each in (one, two)]
    git = Git(clone)
    hidden: dict[str, bytes] = {}
    for patch in patches:
        for path, data in files_after(git, base, patch).items():
            if hidden.get(path, data) != data:
                # Each alone changes the same file of tests: then both have to apply.
                hidden |= files_after(git, base, *patches)
                break
            hidden[path] = data
    numbers = "-".join(each.name.removeprefix("feature") for each in (one, two))
    return NewTask(
        task_name(f"{label.replace('/', '-')}-f{numbers}".replace("_task", "")),
        "Add two features to this project.\n\n" + "\n\n".join(texts),
        {
            "title": f"{label}: features {numbers}",
            "repository": str(clone),
            "base": base,
            "test": test or _PYTEST,
            "part": [
                {"subject": _subject(text, each.name), "description": text}
                for text, each in zip(texts, (one, two), strict=True)
            ],
        },
        hidden,
        solution=_solution(git, base, one, two),
    )


def _solution(git: Git, base: str, one: Path, two: Path) -> bytes | None:
    """Return the two features together, if one file has both or they fit together as they are."""
    for first, second in ((one, two), (two, one)):
        resolved = first / "resolution_patches" / f"vs_{second.name}.patch"
        if resolved.is_file():
            return resolved.read_bytes()
    both = one.parent / "combined.patch"
    if both.is_file():
        return both.read_bytes()
    return None


def _subject(text: str, otherwise: str) -> str:
    lines = (line.strip().lstrip("#").strip() for line in text.splitlines())
    found = next((line for line in lines if line), otherwise)
    return found.replace("*", "").removeprefix("Title:").strip()[:120] or otherwise


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise NoTask(f"{path.parent.name}/{path.name} cannot be read") from None
