"""Count the record parses and the source files that two commands pass.

    python benchmarks/trace_up.py
    python benchmarks/trace_up.py --files      # name the files too

`up` brings up a team of two scripted agents in this one process and has them do three tasks, each
in a worktree of its own, until all are merged. `send` delivers one message. Each runs in a fresh
process. A file is passed if a function in it ran; code that only runs when a module is imported
does not count. A parse is one call of `Wire.parse` or `Wire.new`. Agents wait and look again by
the clock, so figures of `up` differ a little from run to run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

TEAM_FILE = """
[team]
name = "crew"
[workspace]
kind = "worktree"
[merge]
gate = ["test ! -e broken.txt"]
"""

MEMBER = """
[[member]]
name = "{name}"
backend = "in-process"
driver = "scripted"
script = "script.toml"
mode = "bypassPermissions"
"""

SCRIPT = """
[[agents.{name}.turns]]
when = "task"
repeat = true
steps = [
  {{tool = "Bash", input = {{command = "echo {{agent}} > done-{{task}}.txt"}}}},
  {{tool = "TaskUpdate", input = {{taskId = "{{task}}", status = "completed"}}}},
  {{say = "It is done."}},
]
[[agents.{name}.turns]]
repeat = true
steps = [{{say = "Nothing."}}]
"""

MEMBERS = ("ann", "bob")
TASKS = ("alpha", "beta", "gamma")
PARSES = ("Wire.parse", "Wire.new")


class Trace:
    """The files and functions of Bullpen that ran, outside imports."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self._importing: Counter[int] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code, thread = frame.f_code, threading.get_ident()
        if code.co_name == "<module>":
            self._importing[thread] += 1 if event == "call" else -1
        elif event == "call" and not self._importing[thread]:
            self.calls[code] += 1

    def figures(self, package: str) -> dict[str, Any]:
        """What was counted in the files of this folder."""
        ours = {code: n for code, n in self.calls.items() if code.co_filename.startswith(package)}
        parses = Counter(
            {
                name: sum(n for code, n in ours.items() if code.co_qualname == name)
                for name in PARSES
            }
        )
        files = sorted({os.path.relpath(code.co_filename, package) for code in ours})
        return {"parses": dict(parses), "files": files, "functions": len(ours)}


def traced(words: list[str]) -> dict[str, Any]:
    """What the command passes after the beginning of `main`."""
    (script,) = entry_points(group="console_scripts", name="bullpen")
    main = script.load()
    package = str(Path(sys.modules["bullpen"].__file__ or "").parent) + os.sep
    trace, sys.argv = Trace(), ["bullpen", *words]
    began = time.monotonic()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        main()
        code: Any = 0
    except SystemExit as end:
        code = end.code
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {**trace.figures(package), "code": code or 0, "seconds": time.monotonic() - began}


def environment(folder: Path) -> dict[str, str]:
    """An environment without anybody's own settings, and a home of its own."""
    who = {"NAME": "u", "EMAIL": "u@example.invalid"}
    people = {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()
    }
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return {**os.environ, **people, **quiet, "BULLPEN_HOME": str(folder / "home")}


def prepare_up(folder: Path, env: dict[str, str]) -> list[str]:
    """A repository and a team file."""
    project = folder / "project"
    project.mkdir()
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        subprocess.run(["git", *words], cwd=project, env=env, check=True)
    tasks = "".join(f'[[task]]\nid = "{name}"\nsubject = "{name}"\n' for name in TASKS)
    members = "".join(MEMBER.format(name=name) for name in MEMBERS)
    (folder / "TEAM.toml").write_text(TEAM_FILE + members + tasks, "utf-8")
    (folder / "script.toml").write_text(
        "".join(SCRIPT.format(name=name) for name in MEMBERS), "utf-8"
    )
    return ["up", str(folder / "TEAM.toml"), "--cwd", str(project), "--timeout", "120", "--jsonl"]


def prepare_send(folder: Path, env: dict[str, str]) -> list[str]:
    """A team with a teammate."""
    for words in (["team", "create", "crew"], ["member", "add", "alice"]):
        subprocess.run(
            [sys.executable, "-m", "bullpen", *words],
            cwd=folder,
            env=env,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return ["send", "alice", "hi"]


WALKS = {"up": prepare_up, "send": prepare_send}


def measured(walk: str) -> dict[str, Any]:
    """The figures of one walk, traced in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = environment(folder)
        words = WALKS[walk](folder, env)
        found = folder / "figures.json"
        program = [sys.executable, os.path.abspath(__file__), "--traced", str(found), *words]
        done = subprocess.run(program, cwd=folder, env=env, capture_output=True, text=True)
        if not found.exists():
            raise SystemExit(done.stdout + done.stderr)
        figures: dict[str, Any] = json.loads(found.read_text("utf-8"))
        if figures["code"]:
            raise SystemExit(f"{walk} ended with {figures['code']}:\n{done.stdout}{done.stderr}")
        return figures


def main() -> None:
    """Trace both, and print what was found."""
    if sys.argv[1:2] == ["--traced"]:
        found, words = Path(sys.argv[2]), sys.argv[3:]
        found.write_text(json.dumps(traced(words)), "utf-8")
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("walks", nargs="*", default=list(WALKS), help="up, send")
    parser.add_argument("--files", action="store_true", help="name the files that were passed")
    given = parser.parse_args()
    for walk in given.walks:
        figures = measured(walk)
        parses = ", ".join(f"{name} {count}" for name, count in figures["parses"].items())
        total = sum(figures["parses"].values())
        print(
            f"{walk}: {total} record parses ({parses}), {len(figures['files'])} files,"
            f" {figures['functions']} functions, {figures['seconds']:.1f} s"
        )
        for name in figures["files"] if given.files else ():
            print(f"  {name}")


if __name__ == "__main__":
    main()
