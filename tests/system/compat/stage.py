"""Copies of what was recorded, and commands that are run on them in this process."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from support.doors.json_shapes import faults, objects

from . import cases

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
HOST = "recorded-host"

_HEAD_BYTES = 256

_PROGRAMS = ("bash", "cat", "env", "false", "git", "ls", "mkdir", "sh", "test", "touch", "true")
_TMUX = (
    '#!/bin/sh\ntest "$1" = -V && echo "tmux 3.4" && exit\necho "no server running" >&2\nexit 1\n'
)


def app() -> Any:
    """The commands, wherever they are defined: in older versions, where the entry point is."""
    (found,) = entry_points(group="console_scripts", name="bullpen")
    module = sys.modules[found.load().__module__]
    return vars(module).get("app") or import_module("bullpen.doors.cli.main").app


def copy_home(target: Path) -> Path:
    """The recorded home, with the modes that Git does not keep."""
    shutil.copytree(RECORDED / "home", target)
    for path in (target, *target.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return target


def recorded_rows() -> list[dict[str, Any]]:
    """The recorded streams and their messages."""
    lines = (RECORDED / "nats.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, without what the head of a log says about the last who locked it.

    The key of a person is left out: it is made when a person first does anything, also in vain.
    """
    return {
        str(path.relative_to(folder)): data[:_HEAD_BYTES] if path.name == "head" else data
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "person.key"
        for data in [path.read_bytes()]
    }


class Stage:
    """A folder with a home and a place to stand in, and commands that are run there."""

    def __init__(self, root: Path, *, store: str | None = None) -> None:
        self.root, self.home, self.place = root, root / "home", root / "place"
        self.place.mkdir(parents=True)
        programs = root / "bin"
        programs.mkdir()
        for name in _PROGRAMS:
            if found := shutil.which(name):
                (programs / name).symlink_to(found)
        tmux = programs / "tmux"
        tmux.write_text(_TMUX, encoding="utf-8")
        tmux.chmod(0o700)
        self.env = {
            "PATH": str(programs), "HOME": str(root), "LANG": "C.UTF-8", "COLUMNS": "80",
            "BULLPEN_HOME": str(self.home), "BULLPEN_HOST": HOST,
        }  # fmt: skip
        for who in ("AUTHOR", "COMMITTER"):
            self.env |= {f"GIT_{who}_NAME": "ann", f"GIT_{who}_EMAIL": "ann@example.invalid"}
        if store is not None:
            self.env["BULLPEN_STORE"] = store
        self.named = {name: str(root / name.lower()) for name in ("AUTH", "INTO", "TO")}

    def answers(self, lines: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """What each command line is answered with."""
        with self.here():
            return [self.answer(words) for words in lines]

    def answer(self, words: Sequence[str]) -> dict[str, Any]:
        """What one command line is answered with, as JSON."""
        given = [self._given(word) for word in words]
        option = "--jsonl" if cases.prints_lines(words) else "--json"
        result = CliRunner().invoke(app(), [*given, option], env=None)
        wrong = [each for value in objects(result.stdout) for each in faults(value)]
        assert not wrong, (words, wrong)
        return {
            "command": " ".join(words),
            "exit": result.exit_code,
            "stdout": _parsed(result.stdout),
            "stderr": result.stderr.splitlines(),
        }

    def _given(self, word: str) -> str:
        for name, value in self.named.items():
            word = value if word == name else word.replace(f":{name}", f":{value}")
        return word

    @contextmanager
    def here(self) -> Iterator[None]:
        """Stand in the place, with this environment and no other."""
        before, env, argv = Path.cwd(), dict(os.environ), sys.argv
        sys.argv = [str(self.root / "bin" / "bullpen")]
        os.environ.clear()
        os.environ.update(self.env)
        os.chdir(self.place)
        try:
            yield
        finally:
            sys.argv = argv
            os.chdir(before)
            os.environ.clear()
            os.environ.update(env)


def _parsed(text: str) -> Any:
    """One value of JSON as it is, several as a list; other texts as their lines."""
    values, rest, decoder = [], text.strip(), json.JSONDecoder()
    try:
        while rest:
            value, end = decoder.raw_decode(rest)
            values.append(value)
            rest = rest[end:].lstrip()
    except ValueError:
        return {"text": text.splitlines()}
    return values[0] if len(values) == 1 else {"values": values}
