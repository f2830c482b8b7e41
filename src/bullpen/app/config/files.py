"""Read and change `config.toml`: your own file, and that of a trusted project.

A value comes from the environment, else from the project's file, else from your own file. Options
of a command come before all of them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from bullpen.agents.system.project_files import read_limited, up_to_git_root
from bullpen.app.config.keys import KEYS, Key, checked_table
from bullpen.app.settings import home_path
from bullpen.by_name import load
from bullpen.errors import Invalid, Unavailable, Unreadable
from bullpen.protocol import json_text

VARIABLE = "BULLPEN_CONFIG"
PROJECT_FILE = ".bullpen/config.toml"

Source = Literal["environment", "project", "user", "built-in"]

_FIRST_LINES = """\
# Defaults for `bullpen`. List all keys: bullpen config list
"""


@dataclass(frozen=True, slots=True)
class Value:
    """What holds for one key, and where it comes from: a variable, a file, or nowhere."""

    key: Key
    value: Any
    source: Source
    place: str | None = None


class Config:
    """The values for commands in one directory."""

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        cwd: Path,
        home: Path,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`home` records which projects are trusted; `tell` gets why a file does not count."""
        self._env, self._cwd, self._home = env, cwd, home
        self._tell = tell

    def value(self, key: Key) -> Value:
        """What holds for a key. Raises Invalid and Unreadable."""
        text = self._env.get(key.variable)
        if text:
            try:
                return Value(key, key.from_text(text), "environment", key.variable)
            except Invalid as error:
                raise Invalid(f"{key.variable}: {error.message}", remedy=error.remedy) from None
        if key.in_project and key.name in self._of_project:
            return Value(key, self._of_project[key.name], "project", str(self.project_file))
        if key.name in self._of_user:
            return Value(key, self._of_user[key.name], "user", str(self.user_file))
        return Value(key, key.built_in, "built-in")

    def values(self) -> list[Value]:
        """What holds for every key. Raises Invalid and Unreadable."""
        return [self.value(key) for key in KEYS]

    @cached_property
    def user_file(self) -> Path:
        """Your own file, which may not exist."""
        named = self._env.get(VARIABLE)
        if named:
            return home_path(named, self._env)
        base = self._env.get("XDG_CONFIG_HOME") or ""
        folder = Path(base) if os.path.isabs(base) else home_path("~/.config", self._env)
        return folder / "bullpen" / "config.toml"

    @cached_property
    def project_file(self) -> Path | None:
        """The nearest file of a project, from the directory up to its git root."""
        for folder in up_to_git_root(self._cwd):
            path = folder / PROJECT_FILE
            # The home may be in a project: what is in it belongs to a person.
            if path.parent.resolve() != self._home.resolve() and os.path.lexists(path):
                return path
        return None

    @property
    def new_project_file(self) -> Path:
        """The file that a project has, or gets in its root."""
        return self.project_file or up_to_git_root(self._cwd)[-1] / PROJECT_FILE

    @cached_property
    def _of_user(self) -> dict[str, Any]:
        data = read_limited(self.user_file)
        return {} if data is None else read_values(self.user_file, data, of_project=False)

    @cached_property
    def _of_project(self) -> dict[str, Any]:
        path = self.project_file
        data = None if path is None else read_limited(path)
        if path is None or data is None:
            return {}
        folder = path.parent.parent
        # Slow to import, and most commands ask only for what no project sets.
        read_trust = load("bullpen.agents.config.trust:read_trust")
        state = read_trust(self._home).state((path, folder, hashlib.sha256(data).hexdigest()))
        if state != "trusted":
            root = up_to_git_root(folder)[-1]
            why = {"changed": "it changed since you trusted it", "link": "it is a link"}.get(state)
            said = why or "you do not trust this project"
            self._tell(f"{path} is ignored: {said}. Read it, then run: bullpen trust {root}")
            return {}
        return read_values(path, data, of_project=True)


def read_values(path: Path, data: bytes, *, of_project: bool) -> dict[str, Any]:
    """The values in a file. Raises Unreadable, or Invalid with the line of what does not fit."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        table = load("tomllib:loads")(text)
    except ValueError as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise Unreadable(str(path), why.rstrip("."), remedy="Run: bullpen config edit") from None
    values, wrong = checked_table(table, of_project=of_project)
    if wrong:
        name, why = wrong[0]
        edit = "bullpen config edit" + (" --project" if of_project else "")
        raise Invalid(f"{path}:{_line_of(text, name)}: {why}.", remedy=f"Run: {edit}")
    return values


def set_value(path: Path, key: Key, value: Any, *, of_project: bool) -> None:
    """Set one key in a file, whose other lines stay as they are. Raises Invalid and Unreadable."""
    data = read_limited(path)
    before = {} if data is None else read_values(path, data, of_project=of_project)
    text = _FIRST_LINES if data is None else data.decode("utf-8")
    wanted = {**before, key.name: value}
    line = f"{key.name} = {_toml(value)}"
    fresh = _with_line(text, key.name, line)
    now = None
    with suppress(Invalid, Unreadable):
        now = read_values(path, fresh.encode(), of_project=of_project)
    if now != wanted:
        raise Invalid(
            f"{path} sets {key.name} in a way that cannot be changed line by line.",
            remedy="Run: bullpen config edit",
        )
    write(path, fresh)


def begin(path: Path) -> None:
    """Create a file with every key in a comment, if there is none."""
    if not path.exists():
        of_project = path.parts[-2:] == Path(PROJECT_FILE).parts
        rows = [key for key in KEYS if key.in_project or not of_project]
        lines = [f"# {key.about}\n# {key.name} = {_example(key)}\n" for key in rows]
        write(path, "\n".join([_FIRST_LINES, *lines]))


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all; a link stays a link. Raises Unavailable."""
    real = path.resolve()
    beside = real.with_name(f"{real.name}.{os.getpid()}.new")
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        with suppress(FileNotFoundError):
            beside.chmod(real.stat().st_mode & 0o777)
        beside.replace(real)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Unavailable(
            f"Cannot write {path}: {error.strerror}.",
            remedy=f"Check the directory, or name another file with {VARIABLE}.",
        ) from error


def _with_line(text: str, name: str, line: str) -> str:
    """The text with a line for a key in the place of the old one, or at its end."""
    old = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=(?:[ \t]*\[[^\]#]*\]|[^\n#]*)", re.MULTILINE)
    fresh, count = old.subn(lambda _: line, text, count=1)
    if count:
        return fresh
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n"


def _line_of(text: str, name: str) -> int:
    """The line of a key or table, counted from 1."""
    wanted = re.compile(rf"^[ \t]*\[*[ \t]*[\"']?{re.escape(name)}\b")
    lines = text.split("\n")
    return next((at for at, line in enumerate(lines, 1) if wanted.match(line)), 1)


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]" if len(value) != 1 else _toml(value[0])
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    # Numbers, true and false, and texts in quotes are written as in JSON.
    return json_text.dumps_line(value).decode()


def _example(key: Key) -> str:
    samples = {
        "model": "anthropic:NAME",
        "mode": "acceptEdits",
        "backend": "tmux",
        "budget_usd": 5.0,
        "record": "~/tapes",
        "public_url": "https://team.example.com",
        "theme": "nord",
    }
    return _toml(samples.get(key.name, key.built_in))
