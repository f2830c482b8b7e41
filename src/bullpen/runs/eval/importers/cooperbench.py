"""Imports pairs of features of CooperBench: two changes to one project that may conflict.

A folder `REPO_task/taskN` has the features; its Dockerfile names the repository and the commit. The
image is not used: the tests run on this machine, in the sandbox.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from bullpen.errors import Invalid, Unavailable
from bullpen.runs.eval.importers.new_suite import (
    NewTask,
    NoTask,
    Skipped,
    inside,
    task_name,
)
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
            repo, base = _origin(inside(each / "Dockerfile", folder))
            clone = clone_of(repo, clones)
        except NoTask as error:
            skipped.append(Skipped(label, str(error).rstrip(".")))
            continue
        features = sorted(each.glob("feature*/"), key=lambda path: (len(path.name), path.name))
        for one, two in combinations(features, 2):
            try:
                tasks.append(_task(_Pair(folder, label, one, two), clone, base, test))
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


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two features of one task. Everything is read from inside the dataset."""

    dataset: Path
    label: str
    one: Path
    two: Path

    @property
    def numbers(self) -> str:
        """Return the numbers of the features."""
        return "-".join(each.name.removeprefix("feature") for each in (self.one, self.two))

    def read(self, name: str) -> list[str]:
        """Return the text of a file of both features. Raises NoTask."""
        return [_text(inside(each / name, self.dataset)) for each in (self.one, self.two)]

    def solution(self) -> bytes | None:
        """Return both together, if one file has both. Raises NoTask."""
        places = [
            first / "resolution_patches" / f"vs_{second.name}.patch"
            for first, second in ((self.one, self.two), (self.two, self.one))
        ]
        for path in (*places, self.one.parent / "combined.patch"):
            if path.is_file():
                return inside(path, self.dataset).read_bytes()
        return None


def _task(pair: _Pair, clone: Path, base: str, test: str | None) -> NewTask:
    texts, patches = pair.read("feature.md"), pair.read("tests.patch")
    git = Git(clone)
    hidden: dict[str, bytes] = {}
    for patch in patches:
        for path, data in files_after(git, base, patch).items():
            if hidden.get(path, data) != data:
                # Each alone changes the same file of tests: then both have to apply.
                hidden |= files_after(git, base, *patches)
                break
            hidden[path] = data
    label, names = pair.label, (pair.one.name, pair.two.name)
    return NewTask(
        task_name(f"{label.replace('/', '-')}-f{pair.numbers}".replace("_task", "")),
        "Add two features to this project.\n\n" + "\n\n".join(texts),
        {
            "title": f"{label}: features {pair.numbers}",
            "repository": str(clone),
            "base": base,
            "test": test or _PYTEST,
            "part": [
                {"subject": _subject(text, name), "description": text}
                for text, name in zip(texts, names, strict=True)
            ],
        },
        hidden,
        solution=pair.solution(),
    )


def _subject(text: str, otherwise: str) -> str:
    lines = (line.strip().lstrip("#").strip() for line in text.splitlines())
    found = next((line for line in lines if line), otherwise)
    return found.replace("*", "").removeprefix("Title:").strip()[:120] or otherwise


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise NoTask(f"{path.parent.name}/{path.name} cannot be read") from None
