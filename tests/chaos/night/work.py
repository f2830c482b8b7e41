"""The work that agents of the night do: small edits in the tree that they stand in.

    python work.py PLAN TASK

It reads the subject of the task where every program may read it, in the team's own files, and does
what the plan says for the part that this names. Done again it changes nothing, but for what has
come back: lines that contradict each other are all kept, and a number that is taken is changed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

LOG = Path("CHANGES.txt")


def main(plan_file: str, task_id: str) -> None:
    plan = json.loads(Path(plan_file).read_text("utf-8"))
    task = json.loads(Path(plan["tasks"], f"{task_id}.json").read_text("utf-8"))
    named = re.search(r"Part (\d+)", task["subject"])
    if named is None:
        sys.exit(f"Task {task_id} names no part.")
    number = named[1]
    part = plan["parts"][number]
    if part["kind"] == "hang" and _first_time(plan, number):
        os.execvp("sleep", ["sleep", "99999"])
    _write(Path("parts", f"{number}.txt"), _text(number, part))
    if part["kind"] in ("log", "hang"):
        _log(f"part {number}")
    if part["kind"] == "clash":
        _number(number, int(part["wants"]))


def _text(number: str, part: dict[str, Any]) -> str:
    last = "BROKEN" if part["kind"] == "breaks" else "done"
    return f"part {number}\n" + "x\n" * int(part["lines"]) + f"{last}\n"


def _first_time(plan: dict[str, Any], number: str) -> bool:
    mark = Path(plan["state"], f"hung-{number}")
    if mark.exists():
        return False
    mark.touch()
    return True


def _log(line: str) -> None:
    """Add a line at the end; where two ends contradict each other, both are kept."""
    lines = LOG.read_text("utf-8").splitlines()
    kept = [each for each in lines if not re.match(r"(<{7}|={7}|>{7}|\|{7})( |$)", each)]
    _write(LOG, "".join(f"{each}\n" for each in dict.fromkeys([*kept, line])))


def _number(number: str, wants: int) -> None:
    """Take a number that no other part has."""
    mine = Path("numbers", number)
    others = {path.read_text("utf-8").strip() for path in mine.parent.glob("*") if path != mine}
    while str(wants) in others:
        wants += 100
    _write(mine, f"{wants}\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
