"""What really became of a night, counted from git, the team's log and the model server's bills."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio

from bullpen.protocol.changes import Event, PutTask
from bullpen.store.files.store import FileStore
from bullpen.team.team import Teams
from bullpen.workspace.snapshots import save
from bullpen.workspace.trees.restore import restore

from .nights import TEAM, Night, Part


def check_green_at_every_step(night: Night) -> None:
    """Run the gate wherever the target ever was, by git's own log of it, each in a new folder."""
    for commit in dict.fromkeys(night.git("reflog", "--format=%H", "main").split()):
        with tempfile.TemporaryDirectory() as folder:
            packed = subprocess.run(
                ["git", "archive", commit], cwd=night.repository, capture_output=True, check=True
            )
            subprocess.run(["tar", "x", "-C", folder], input=packed.stdout, check=True)
            gate = subprocess.run(["sh", "gate.sh"], cwd=folder, capture_output=True, check=False)
            assert gate.returncode == 0, f"the target was red at {commit}"


def check_contents(night: Night, parts: Iterable[Part]) -> None:
    """Look for every line of each of these parts on the target."""
    log = night.git("show", "main:CHANGES.txt").splitlines()
    for part in parts:
        text = night.git("show", f"main:parts/{part.number}.txt")
        assert text == f"part {part.number}\n" + "x\n" * part.lines + "done\n"
        if part.kind in ("log", "hang"):
            assert log.count(f"part {part.number}") == 1
        if part.kind == "clash":
            assert int(night.git("show", f"main:numbers/{part.number}")) % 100 == part.wants
    touched = night.git("ls-tree", "-r", "--name-only", "main", "parts", "numbers").split()
    wanted = {f"parts/{part.number}.txt" for part in parts} | {"parts/000.txt", "numbers/000"}
    wanted |= {f"numbers/{part.number}" for part in parts if part.kind == "clash"}
    assert set(touched) == wanted


def events(night: Night) -> list[Event]:
    """The whole log of the team."""
    team = Teams(FileStore(night.home, fsync=False)).open(TEAM)
    return anyio.run(team.events)


def handed_in(log: Iterable[Event]) -> set[str]:
    """Every commit that was ever handed in with a task."""
    tasks = (
        change.task for event in log for change in event.changes if isinstance(change, PutTask)
    )
    return {record.commit for task in tasks if (record := task.facts.merge) is not None}


def check_nothing_lost(night: Night, log: Iterable[Event]) -> None:
    """Every commit that was handed in is on the target or behind a ref."""
    for commit in handed_in(log):
        night.git("cat-file", "-e", f"{commit}^{{commit}}")
        assert night.git("for-each-ref", "--contains", commit, "--count=1"), f"{commit} is lost"


def check_snapshots(night: Night) -> int:
    """Bring back every tree that was saved in the night; how many there were."""
    found = save.saved(night.repository, TEAM)
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate(found):
            save.verify(night.repository, each)
            back = restore(night.repository, each.ref, Path(folder, str(number)))
            assert not back.lacks
            assert (back.path / "gate.sh").exists()
            night.git("worktree", "remove", "--force", str(back.path))
    return len(found)


def landed_by_part(night: Night) -> dict[str, str]:
    """For each part the last commit on the target that was made for it, the first to land first."""
    found: dict[str, str] = {}
    for line in night.git(
        "log", "--reverse", "--topo-order", "--format=%H %s", "main"
    ).splitlines()[1:]:
        commit, _, subject = line.partition(" ")
        number = subject.rpartition(" ")[2]
        found.pop(number, None)
        found[number] = commit
    return found


def bill(used: Mapping[str, Any]) -> int:
    """The tokens that one answer of the model server counts for."""
    return int(used["input_tokens"]) + int(used["output_tokens"])
