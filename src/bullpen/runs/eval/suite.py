"""Reads a suite: a folder of tasks, each with instructions, a base and hidden tests."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bullpen.errors import Invalid, NotFound

SUITE_FILE = "suite.toml"
TASK_FILE = "task.toml"
INSTRUCTIONS = "instructions.md"
HIDDEN = "tests"
SOLUTION = "solution"
SOLUTION_PATCH = "solution.patch"
SOLUTION_SCRIPT = "solution.sh"
BASE = "repo"

TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PROTECTED = (
    *("conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "noxfile.py"),
    *(".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc", "jest.config.*", "*.pth"),
    *("sitecustomize.py", "sitecustomize/*", "*/sitecustomize/*"),
    *("usercustomize.py", "usercustomize/*", "*/usercustomize/*"),
)
"""Files that decide how tests run: a change to them is not judged, unless the solution has one."""

_TEXT_BYTES_MAX = 1_000_000


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _PartTable(_Table):
    """`[[part]]`: a part of a task that one member of a team can do."""

    subject: str = Field(min_length=1)
    description: str = ""


class _TaskTable(_Table):
    """A `task.toml`, and the `[defaults]` of a suite."""

    title: str | None = None
    # A git repository, relative to the suite, and the commit where the work begins.
    repository: str | None = None
    base: str | None = None
    # The command that runs the hidden tests.
    test: str | None = None
    # Tests that have to pass; by default, all that are run.
    must_pass: list[str] = Field(default_factory=list)
    protect: list[str] | None = None
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    test_timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    # What the sandbox shows besides the system, and hosts that agents reach.
    read: list[str] | None = None
    hosts: list[str] | None = None
    part: list[_PartTable] = Field(default_factory=list)


class _SuiteTable(_Table):
    """A `suite.toml`."""

    format: int = 1
    name: str = Field(min_length=1)
    description: str = ""
    defaults: _TaskTable = _TaskTable()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a task that one member of a team can do."""

    subject: str
    description: str


@dataclass(frozen=True, slots=True)
class EvalTask:
    """One task of a suite."""

    name: str
    folder: Path
    title: str
    instructions: str
    # Where the work begins: a commit of a repository, or a folder.
    repository: Path | None
    base: str | None
    test: str
    must_pass: tuple[str, ...]
    protect: tuple[str, ...]
    timeout_s: float
    test_timeout_s: float
    read: tuple[str, ...]
    hosts: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def hidden(self) -> Path:
        """Return the folder of the hidden tests."""
        return self.folder / HIDDEN


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite. `digest` changes with everything that a trial depends on."""

    folder: Path
    name: str
    description: str
    tasks: tuple[EvalTask, ...]
    digest: str

    def task(self, name: str) -> EvalTask:
        """Return the task with that name. Raises NotFound."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise NotFound(
            f"The suite {self.name!r} has no task {name!r}.",
            remedy=f"Name one of these: {', '.join(each.name for each in self.tasks)}.",
        )


def read_suite(folder: Path) -> Suite:
    """Read a suite.

    Raises:
        NotFound: there is no suite in that folder.
        Invalid: something in it is wrong; the text names the file.
    """
    folder = folder.resolve()
    path = folder / SUITE_FILE
    if not path.is_file():
        raise NotFound(
            f"There is no suite in {folder}: it has no {SUITE_FILE}.",
            remedy="Make one with `bullpen eval make` or `bullpen eval import`.",
        )
    table = _SuiteTable.model_validate(_checked(path, _SuiteTable))
    if table.format != 1:
        raise Invalid(
            f"{path} has format {table.format}, and this Bullpen reads format 1.",
            remedy="Use a newer Bullpen, or make the suite again.",
        )
    names = sorted(each.parent.name for each in folder.glob(f"tasks/*/{TASK_FILE}"))
    if not names:
        raise Invalid(
            f"The suite in {folder} has no task.",
            remedy=f"Add a folder tasks/NAME with {TASK_FILE}.",
        )
    tasks = tuple(_task(folder, name, table.defaults) for name in names)
    return Suite(folder, table.name, table.description, tasks, _digest(folder))


def _task(suite: Path, name: str, defaults: _TaskTable) -> EvalTask:
    folder = suite / "tasks" / name
    path = folder / TASK_FILE
    if not TASK_NAME.fullmatch(name) or "--" in name:
        raise Invalid(
            f"{name!r} is not a valid name of a task.",
            remedy="Use letters, digits, single dashes, dots and underscores.",
        )
    own = _TaskTable.model_validate(_checked(path, _TaskTable))
    said = {**_stated(defaults), **_stated(own)}
    table = _TaskTable.model_validate(said)
    if table.test is None:
        raise Invalid(f"{path} has no `test`.", remedy="Say which command runs the hidden tests.")
    has_folder = (folder / BASE).is_dir()
    if not has_folder and (table.repository is None or table.base is None):
        raise Invalid(
            f"{path} says nowhere what the work begins with.",
            remedy=f"Add `repository` and `base`, or a folder {BASE}/ beside it.",
        )
    if not (folder / HIDDEN).is_dir():
        raise Invalid(f"{folder} has no hidden tests.", remedy=f"Add a folder {HIDDEN}/.")
    instructions = _text(folder / INSTRUCTIONS)
    return EvalTask(
        name=name,
        folder=folder,
        title=table.title or name,
        instructions=instructions,
        repository=None if has_folder else (suite / str(table.repository)).resolve(),
        base=None if has_folder else table.base,
        test=table.test,
        must_pass=tuple(table.must_pass),
        protect=PROTECTED if table.protect is None else tuple(table.protect),
        timeout_s=table.timeout_s or 3600.0,
        test_timeout_s=table.test_timeout_s or 600.0,
        read=tuple(table.read or ()),
        hosts=tuple(table.hosts or ()),
        parts=tuple(Part(each.subject, each.description) for each in table.part),
    )


def _stated(table: _TaskTable) -> dict[str, Any]:
    return table.model_dump(exclude_unset=True)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise Invalid(f"{path} cannot be read: {why}.", remedy="Every task needs it.") from None
    if len(data) > _TEXT_BYTES_MAX:
        raise Invalid(f"{path} is longer than {_TEXT_BYTES_MAX} bytes.", remedy="Shorten it.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8: {error.reason}.", remedy="Convert it.") from None


def _checked(path: Path, kind: type[_Table]) -> Mapping[str, Any]:
    """Return the tables of a file that fit. Raises Invalid."""
    try:
        tables = tomllib.loads(_text(path))
        kind.model_validate(tables)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not valid TOML: {error}.", remedy="Correct it.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"{path}: {where}: {first['msg']}.", remedy="Correct it.") from None
    return tables


def _digest(folder: Path) -> str:
    """Return a digest of all files of a suite."""
    found = hashlib.sha256()
    for path in _files(folder):
        found.update(str(path.relative_to(folder)).encode("utf-8", "surrogateescape") + b"\0")
        try:
            data = path.read_bytes()
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise Invalid(
                f"{path} cannot be read: {why}.", remedy="Make it readable, or remove it."
            ) from None
        found.update(hashlib.sha256(data).digest())
    return found.hexdigest()[:16]


def _files(folder: Path) -> Iterator[Path]:
    yield folder / SUITE_FILE
    tasks = folder / "tasks"
    yield from sorted(each for each in tasks.rglob("*") if each.is_file() and not each.is_symlink())
