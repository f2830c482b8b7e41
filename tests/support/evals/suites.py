"""Small suites for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

CANARY = "canary-5b1f0c77"
"""A text that only hidden tests have."""

CHECK = f"""\
# {CANARY}
from adder import add
assert add(2, 3) == 5, add(2, 3)
print("fine")
"""

TEST = "python3 checks/check_add.py"
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"


def make_suite(
    folder: Path,
    *,
    tasks: int = 1,
    test: str = f"PYTHONPATH=. {TEST}",
    more: str = "",
    files: Mapping[str, str] | None = None,
) -> Path:
    """Make a suite of the same task, several times; `files` are in its repository too."""
    put(folder, {"suite.toml": 'format = 1\nname = "adding"\n'})
    for number in range(1, tasks + 1):
        put(
            folder / "tasks" / f"add-{number}",
            {
                "task.toml": f'title = "Add"\ntest = {json.dumps(test)}\n{more}',
                "instructions.md": "Make add() in adder.py add its two numbers.",
                "repo/adder.py": WRONG,
                "repo/README.md": "Adds.\n",
                "tests/checks/check_add.py": CHECK,
                "solution/adder.py": RIGHT,
                **{f"repo/{name}": text for name, text in (files or {}).items()},
            },
        )
    return folder


def put(folder: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def script(
    folder: Path, agents: Mapping[str, list[dict[str, object]]], name: str = "s.toml"
) -> Path:
    """Write a script: the steps of the first turn of each agent."""
    lines = []
    for agent, steps in agents.items():
        when = "start" if agent == "team-lead" else "task"
        lines += [f"[[agents.{agent}.turns]]", f'when = "{when}"', "steps = ["]
        lines += [f"  {inline(step)}," for step in steps]
        lines += ["]", ""]
    path = folder / name
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def inline(value: object) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value)


def bash(command: str, *, may_fail: bool = True) -> dict[str, object]:
    """A step that runs a command."""
    text = command.replace("{", "{{").replace("}", "}}")
    return {"tool": "Bash", "input": {"command": text}, "may_fail": may_fail}


FINISH: dict[str, object] = {"tool": "Finish", "input": {"summary": "Done."}}
