"""Writes a suite: all importers end here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from bullpen.errors import Conflict
from bullpen.runs.eval.suite import (
    HIDDEN,
    INSTRUCTIONS,
    SOLUTION_PATCH,
    SUITE_FILE,
    TASK_FILE,
)


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to write. Paths in `hidden` are relative to the project."""

    name: str
    instructions: str
    table: Mapping[str, Any]
    hidden: Mapping[str, bytes]
    solution: bytes | None = None
    # Other files of the task, relative to its folder.
    files: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse files that would be written outside of the task. Raises NoTask."""
        for path in (*self.hidden, *self.files):
            parts = PurePosixPath(path).parts
            if path.startswith("/") or ".." in parts or "\0" in path or not parts:
                raise NoTask(f"its file {path!r} would be outside of it")
            if any(part.lower() == ".git" for part in parts):
                raise NoTask(f"its file {path!r} is part of a repository")


class NoTask(Exception):
    """Something in a benchmark or a history cannot be a task. Its text is why."""


def inside(path: Path, folder: Path) -> Path:
    """Return a path in a stranger's folder. Raises NoTask if links lead out of the folder."""
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        is_inside = False
    if not is_inside:
        raise NoTask(f"{path.relative_to(folder)} leads out of it")
    return path


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that is no task, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class MadeSuite:
    """What an import or `make` came to."""

    folder: Path
    tasks: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def write_suite(
    folder: Path,
    name: str,
    tasks: Sequence[NewTask],
    skipped: Sequence[Skipped],
    *,
    defaults: Mapping[str, Any],
) -> MadeSuite:
    """Write a suite into a new folder. Raises Conflict if something is there."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise Conflict(f"{folder} is not empty.", remedy="Name another folder with -o.")
    folder.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        _write_task(folder / "tasks" / task.name, task)
    lines = ["format = 1", f"name = {toml(name)}", "", "[defaults]", *_lines(defaults)]
    (folder / SUITE_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return MadeSuite(folder, tuple(task.name for task in tasks), tuple(skipped))


def _write_task(folder: Path, task: NewTask) -> None:
    folder.mkdir(parents=True)
    parts = task.table.get("part", ())
    flat = {key: value for key, value in task.table.items() if key != "part"}
    lines = _lines(flat)
    for part in parts:
        lines += ["", "[[part]]", *_lines(part)]
    (folder / TASK_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / INSTRUCTIONS).write_text(task.instructions.strip() + "\n", "utf-8", "replace")
    for path, data in task.hidden.items():
        _put(folder / HIDDEN / path, data)
    for path, data in task.files.items():
        _put(folder / path, data)
    if task.solution is not None:
        (folder / SOLUTION_PATCH).write_bytes(task.solution)


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {toml(value)}" for key, value in table.items() if value is not None]


def toml(value: Any) -> str:
    """Return a text, number or list of them as TOML."""
    # TOML has JSON's texts, but for the character DEL and for characters in two halves.
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return text.encode("utf-8", "replace").decode("utf-8")


def task_name(text: str) -> str:
    """Return a text as the name of a task."""
    words = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")
    return words[:60].strip("-._") or "task"
