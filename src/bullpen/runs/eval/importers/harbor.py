"""Imports task folders of Harbor and Terminal-Bench that need no image of their own.

Such tasks run in a container. Here they run in a sandbox on this machine: a task whose image only
copies files can be imported; one that installs programs cannot. The folder of the container
becomes the project, so that absolute paths in it are made relative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from bullpen.errors import Invalid
from bullpen.runs.eval.importers.new_suite import (
    NewTask,
    NoTask,
    Skipped,
    inside,
    task_name,
)
from bullpen.runs.eval.suite import SOLUTION_SCRIPT

_BENIGN = ("FROM", "WORKDIR", "COPY", "ADD", "ENV", "ARG", "LABEL", "USER", "CMD", "ENTRYPOINT")
_HIDDEN = ".hidden-tests"
_REWARD = "/logs/verifier/reward.txt"
_BYTES_MAX = 20_000_000


@dataclass(frozen=True, slots=True)
class _Image:
    """What a Dockerfile makes: its working directory, and the files that it copies there."""

    workdir: str
    copies: tuple[tuple[str, str], ...]


def import_folders(folder: Path, test: str | None) -> tuple[list[NewTask], list[Skipped]]:
    """Return the tasks in a folder, or the one that it is, and what cannot be one."""
    tasks: list[NewTask] = []
    skipped: list[Skipped] = []
    for each in _folders(folder):
        try:
            tasks.append(_task(each, test))
        except (NoTask, OSError, UnicodeError, RecursionError, yaml.YAMLError) as error:
            skipped.append(Skipped(each.name, str(error).rstrip(".")))
    if not tasks and not skipped:
        raise Invalid(
            f"There is no task of Harbor or Terminal-Bench in {folder}.",
            remedy="Name a folder with instruction.md or task.yaml, or one above such folders.",
        )
    return tasks, skipped


def _folders(folder: Path) -> Iterator[Path]:
    for each in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if (each / "instruction.md").is_file() or (each / "task.yaml").is_file():
            yield each


def _task(folder: Path, test: str | None) -> NewTask:
    if folder.is_symlink():
        raise NoTask("it is a link")
    is_old = not (folder / "instruction.md").is_file()
    named = folder / ("task.yaml" if is_old else "instruction.md")
    said = inside(named, folder).read_text("utf-8")
    text = _old_instruction(said) if is_old else said
    environment = folder if is_old else inside(folder / "environment", folder)
    image = _image(inside(environment / "Dockerfile", folder))
    runs = inside(folder / ("run-tests.sh" if is_old else "tests/test.sh"), folder)
    if not runs.is_file():
        raise NoTask(f"it has no {runs.relative_to(folder)}")
    hidden = {
        f"{_HIDDEN}/{path.relative_to(folder / 'tests')}": _relative(path.read_bytes(), image)
        for path in _files(inside(folder / "tests", folder))
    }
    hidden[f"{_HIDDEN}/{runs.name}"] = _relative(runs.read_bytes(), image)
    files = {f"repo/{to}": data for to, data in _copied(environment, image)}
    files.setdefault("repo/.gitkeep", b"")
    # Harbor's tests write a reward; Terminal-Bench's end with an exit code.
    reward = "" if is_old else f"sed 's#{_REWARD}#{{reward}}#g' -i {_HIDDEN}/{runs.name}; "
    reward += "" if is_old else f"sed 's#/logs/verifier#{{out}}#g' -i {_HIDDEN}/*.sh; "
    return NewTask(
        task_name(folder.name),
        _relative(text.encode(), image).decode(),
        {"title": folder.name, "test": test or f"{reward}bash {_HIDDEN}/{runs.name}"},
        hidden,
        files={**files, **_solution(folder, image, is_old=is_old)},
    )


def _old_instruction(text: str) -> str:
    table: Any = yaml.safe_load(text)
    found = table.get("instruction") if isinstance(table, dict) else None
    if not isinstance(found, str):
        raise NoTask("its task.yaml has no instruction")
    return found


def _image(path: Path) -> _Image:
    """Return what a Dockerfile makes. Raises NoTask if that takes more than copying files."""
    text = path.read_text("utf-8").replace("\\\n", " ") if path.is_file() else ""
    workdir, copies = "/app", []
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        if word.upper() not in _BENIGN:
            raise NoTask(f"its image needs `{line.strip()[:60]}`")
        if word.upper() == "WORKDIR":
            workdir = rest.strip().rstrip("/") or "/app"
        if word.upper() in {"COPY", "ADD"}:
            words = [each for each in rest.split() if not each.startswith("--")]
            copies += [(source, words[-1]) for source in words[:-1]]
    return _Image(workdir, tuple(copies))


def _copied(environment: Path, image: _Image) -> Iterator[tuple[str, bytes]]:
    for source, target in image.copies:
        below = PurePosixPath(image.workdir, target)
        if not below.is_relative_to(image.workdir) or ".." in below.parts:
            raise NoTask(f"its image puts files into {target}, outside of {image.workdir}")
        place_in = below.relative_to(image.workdir)
        place = (environment / source).resolve()
        if not place.is_relative_to(environment.resolve()):
            raise NoTask(f"its image copies {source!r}, which is outside of it")
        if place.is_file():
            ends = target.endswith("/") or not place_in.parts
            yield str(place_in / place.name if ends else place_in), place.read_bytes()
            continue
        if not place.is_dir():
            raise NoTask(f"its image copies {source!r}, which is not there")
        for path in _files(place):
            if path.name not in {"Dockerfile", "docker-compose.yaml", "docker-compose.yml"}:
                yield str(place_in / path.relative_to(place)), path.read_bytes()


def _solution(folder: Path, image: _Image, *, is_old: bool) -> dict[str, bytes]:
    """Return the script that solves the task, if there is one."""
    path = inside(folder / ("solution.sh" if is_old else "solution/solve.sh"), folder)
    return {SOLUTION_SCRIPT: _relative(path.read_bytes(), image)} if path.is_file() else {}


def _relative(data: bytes, image: _Image) -> bytes:
    """Return a text in which the paths of the container lead to the project."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    edge = r"(?![\w.-])"
    text = re.sub(rf"(?<![\w.]){re.escape(image.workdir)}/(?=[\w.])", "", text)
    text = re.sub(rf"(?<![\w.]){re.escape(image.workdir)}{edge}", ".", text)
    text = re.sub(rf"(?<![\w./])(?:\$TEST_DIR|/tests){edge}", _HIDDEN, text)
    return text.encode()


def _files(folder: Path) -> list[Path]:
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and ".git" not in path.relative_to(folder).parts
    ]
    if sum(path.stat().st_size for path in found) > _BYTES_MAX:
        raise NoTask(f"{folder.name} has more than {_BYTES_MAX} bytes")
    return found
