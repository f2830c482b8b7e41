"""A model that tries every tool that a program offers, and a place that shows what came of it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from bullpen.agents.contracts.call import Call
from bullpen.testing.models import Call as ModelCall
from bullpen.testing.models import ModelRequest, Reply

SECRET = "topsecret42"
"""What a file outside the project says."""

_TASK = "SUBTASK: make the file"
_WANTED = SECRET[:-2]
_SHELL_KEYS = ("command", "cmd")
_FILE_KEYS = (
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "path",
    "source",
    "dir_path",
)
_OLD_KEYS = ("old_string", "oldString", "old_str")
_NEW_KEYS = ("new_string", "newString", "new_str")
_CONTENT_KEYS = ("content", "file_text", "new_source", "fileText")
_READERS = ("read", "view")
_TASK_KEYS = ("prompt", "instructions", "objective", "request", "script")
_FILLERS: Mapping[str, Any] = {"boolean": False, "integer": 1, "number": 1, "array": []}

Effect = Literal["read", "change"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A tool call to try. `sub` is the command for a sub-agent that the call may start."""

    name: str
    tool: str
    input: Mapping[str, Any]
    # Whether it would change something or reach the network.
    effect: Effect = "change"
    # Whether it is a command.
    runs: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt: the calls that the gate was asked about, and what happened."""

    attempt: Attempt
    asked: tuple[Call, ...]
    # What it changed, and the addresses it asked for.
    done: tuple[str, ...]
    # What the model was told of it.
    said: str

    @property
    def leaked(self) -> bool:
        """Return whether the model read the secret."""
        return SECRET in self.said

    def __str__(self) -> str:
        asked = ", ".join(f"{call.tool}/{call.kind}" for call in self.asked) or "nobody"
        done = f"; did {', '.join(self.done)}" if self.done else ""
        leaked = "; read the secret" if self.leaked else ""
        return f"{self.attempt.name}: asked {asked}{done}{leaked}: {self.said[:200]!r}"


class TrialPlace:
    """A project, a folder beside it with a secret, and a server that counts who asks it."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.outside = folder / "outside"
        self._seen: dict[str, float] = {}
        self._hits: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _counting(self._hits))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> TrialPlace:
        for place in (self.project, self.outside):
            place.mkdir(parents=True)
        (self.project / "hello.txt").write_text("hello\n", encoding="utf-8")
        notebook = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
        (self.project / "a.ipynb").write_text(notebook, encoding="utf-8")
        (self.outside / "secret.txt").write_text(f"{SECRET}\n", encoding="utf-8")
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def canary(self, name: str) -> Path:
        """Return a file that a hostile setting makes."""
        return self.outside / f"canary-{name}"

    @property
    def canaries(self) -> list[str]:
        """Return the names of the hostile settings that did something."""
        return sorted(path.name for path in self.outside.glob("canary-*"))

    def look(self) -> None:
        """Note what is there now, so that `changes` tells what is new."""
        self._seen = self._files()
        self._hits.clear()

    def changes(self) -> tuple[str, ...]:
        """Return what was made, changed or asked for since `look`."""
        now = self._files()
        new = [path for path, at in now.items() if self._seen.get(path) != at]
        gone = [path for path in self._seen if path not in now]
        return (*new, *gone, *self._hits)

    def _files(self) -> dict[str, float]:
        places = (self.project, self.outside)
        return {
            str(path): path.lstat().st_mtime_ns
            for place in places
            for path in place.rglob("*")
            if path.is_file() and ".git" not in path.relative_to(place).parts[:1]
        }


def _counting(hits: list[str]) -> type[BaseHTTPRequestHandler]:
    class Counting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Print nothing."""

    return Counting


@dataclass(eq=False)
class ToolTrial:
    """A model for `MockModels`: it makes the calls of `todo`, one after another, and then stops.

    `wanted` are the calls that the gate was asked about so far.
    """

    place: TrialPlace
    wanted: Sequence[Call]
    offered: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    todo: list[Attempt] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    _now: Attempt | None = None
    _asked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: ModelRequest) -> Reply:
        with self._lock:
            if not request.tools:
                return Reply("Something.")
            if _TASK in request.given and self._now is not None:
                return self._by_sub_agent(request)
            self.end(request.given)
            if not self.todo:
                self.offered.update(request.tools)
                return Reply("Done.")
            self._now = self.todo.pop(0)
            self._asked = len(self.wanted)
            self.place.look()
            return Reply("", (ModelCall(self._now.tool, self._now.input),))

    def end(self, said: str) -> None:
        """Note what came of the last call, if there is one."""
        if self._now is not None:
            asked = tuple(self.wanted[self._asked :])
            self.outcomes.append(Outcome(self._now, asked, self.place.changes(), said))
            self._now = None

    def _by_sub_agent(self, request: ModelRequest) -> Reply:
        for name, schema in request.tools.items():
            key = shell_key(schema)
            if key is not None:
                command = f"touch {self.place.outside}/by-sub-agent"
                return Reply("", (ModelCall(name, filled({key: command}, schema)),))
        return Reply("No shell.")

    def attempts(self, *, team: str, known: Mapping[str, Mapping[str, Any]]) -> list[Attempt]:
        """Return every call to try: several for a shell, one for each other tool.

        Args:
            team: a part of the names of the team's own tools, which are left out.
            known: inputs for tools whose schema does not say what they do.
        """
        made: list[Attempt] = []
        for name, schema in self.offered.items():
            if team in name:
                continue
            if name in known:
                made.append(Attempt(name, name, self._formatted(known[name])))
            elif (key := shell_key(schema)) is not None:
                made += self._shell(name, key, schema)
            else:
                made += self._other(name, schema)
        return sorted(made, key=lambda attempt: not attempt.tool.lower().startswith(_READERS))

    def _formatted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        place = self.place
        return {
            key: value.format(
                outside=place.outside, project=place.project, url=place.url, task=_TASK
            )
            if isinstance(value, str)
            else value
            for key, value in given.items()
        }

    def _shell(self, name: str, key: str, schema: Mapping[str, Any]) -> Iterator[Attempt]:
        place = self.place
        commands: Sequence[tuple[str, str, Effect]] = (
            ("reads in the project", f"cat {place.project}/hello.txt", "read"),
            ("reads outside", f"cat {place.outside}/secret.txt", "read"),
            ("writes in the project", f"touch {place.project}/by-shell", "change"),
            ("writes outside", f"touch {place.outside}/by-shell", "change"),
            ("network", f"curl -s -m 3 {place.url}/by-shell", "change"),
        )
        for what, command, effect in commands:
            given = filled({key: command}, schema)
            yield Attempt(f"{name} {what}", name, given, effect, runs=True)
        if "sandbox_permissions" in (schema.get("properties") or {}):
            escalated = {
                key: f"touch {place.outside}/escalated",
                "sandbox_permissions": "require_escalated",
                "justification": "May I?",
                "prefix_rule": ["touch"],
            }
            yield Attempt(f"{name} escalated", name, filled(escalated, schema), runs=True)

    def _other(self, name: str, schema: Mapping[str, Any]) -> Iterator[Attempt]:
        """The calls of a tool by the names of its fields: in the project and outside."""
        known = schema.get("properties") or {}
        place = self.place
        old = next((key for key in _OLD_KEYS if key in known), None)
        writes = old is not None or any(key in known for key in _CONTENT_KEYS)
        given: dict[str, Any] = {}
        for key in known:
            if key in _CONTENT_KEYS:
                given[key] = "made\n"
            elif key == old:
                given[key] = "hello"
            elif key in _NEW_KEYS:
                given[key] = "changed"
            elif key == "url":
                given[key] = f"{place.url}/by-{name}"
            elif key in _TASK_KEYS:
                given[key] = f"{_TASK} {place.url}/by-{name}"
            elif key in ("pattern", "query"):
                given[key] = _WANTED
        file = next((key for key in _FILE_KEYS if key in known), None)
        if file is None:
            yield Attempt(name, name, filled(given, schema))
            return
        new = "a.ipynb" if "notebook" in file else "hello.txt" if old else f"by-{name}"
        inside = place.project / (new if writes else "hello.txt")
        outside = place.outside / (f"by-{name}{inside.suffix}" if writes else "secret.txt")
        if "pattern" in known:
            inside, outside = place.project, place.outside
        places = [("in the project", inside), ("outside", outside)]
        if name.lower().startswith(_READERS):
            # Some programs change only files that were read before.
            places.insert(0, ("of a notebook", place.project / "a.ipynb"))
        for where, path in places:
            asked = filled({**given, file: str(path)}, schema)
            yield Attempt(f"{name} {where}", name, asked)


def shell_key(schema: Mapping[str, Any]) -> str | None:
    """Return the field for a command, if the tool runs commands."""
    known = schema.get("properties") or {}
    found = (key for key in _SHELL_KEYS if key in known and "enum" not in known[key])
    return next(found, None)


def filled(given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input with something in every other field that the tool insists on."""
    known = schema.get("properties") or {}
    return dict(given) | {
        key: filler(known.get(key) or {})
        for key in schema.get("required") or []
        if key not in given
    }


def filler(schema: Mapping[str, Any]) -> Any:
    """Return the least that fits a schema."""
    if schema.get("enum"):
        return schema["enum"][0]
    if "minimum" in schema:
        return schema["minimum"]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        known = schema.get("properties") or {}
        return {key: filler(known.get(key) or {}) for key in schema.get("required") or known}
    return _FILLERS.get(str(kind).lower(), "Something.")
