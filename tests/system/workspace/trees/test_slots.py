"""Ports, temporary folders and the set-up command of a tree."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import Workspace, WorkspaceKind
from bullpen.workspace.git.marks import MARK
from bullpen.workspace.git.repository import git_dir
from bullpen.workspace.trees import slots
from bullpen.workspace.trees.slots import PORTS, Slot, give_back, take_slot
from bullpen.workspace.trees.tree import Prepared, mark_of, plan, prepare
from support.git.repositories import git

OWNER = "home-1/night"


def planned(cwd: Path, agent: str = "ann", **more: object) -> Workspace:
    return plan("worktree", cwd, team="night", agent=agent, **more)  # type: ignore[arg-type]


def prepared(workspace: Workspace, agent: str = "ann") -> Prepared:
    return prepare(workspace, team="night", agent=agent, owner=OWNER)


def ports(found: Prepared) -> set[int]:
    first, count = int(found.env["BULLPEN_PORT"]), int(found.env["BULLPEN_PORTS"])
    return set(range(first, first + count))


def test_no_two_trees_share_ports_or_a_temporary_folder(project: Path) -> None:
    ann = prepared(planned(project))
    bob = prepared(planned(project, "bob"), "bob")
    assert len(ports(ann)) == len(ports(bob)) == PORTS
    assert not ports(ann) & ports(bob)
    assert ann.env["TMPDIR"] != bob.env["TMPDIR"]


def test_a_temporary_folder_is_private_and_short_enough_for_sockets(project: Path) -> None:
    temp = Path(prepared(planned(project)).env["TMPDIR"])
    assert stat.S_IMODE(temp.stat().st_mode) == 0o700
    assert len(str(temp)) < 50
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(temp / ("s" * 50)))


def test_ports_are_kept_and_the_folder_is_made_again(project: Path) -> None:
    workspace = planned(project)
    first = prepared(workspace)
    mark = mark_of(Path(workspace.path))
    assert mark is not None and mark.slot is not None
    assert Slot(mark.slot, "").port == int(first.env["BULLPEN_PORT"])
    shutil.rmtree(first.env["TMPDIR"])
    again = prepared(workspace)
    assert again.env["BULLPEN_PORT"] == first.env["BULLPEN_PORT"]
    assert Path(again.env["TMPDIR"]).is_dir()


def test_ports_that_somebody_listens_on_are_not_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_TEMP", tmp_path)
    slot = take_slot("first", tmp_path)
    give_back("first")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", slot.port + PORTS - 1))
        busy.listen()
        other = take_slot("second", tmp_path, wanted=slot.number)
        give_back("second")
    assert other.number != slot.number


def test_a_slot_is_free_again_when_its_tree_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_TEMP", tmp_path)  # where nobody else takes one meanwhile
    tree = tmp_path / "tree"
    tree.mkdir()
    first = take_slot("first", tree)
    Path(first.temp, "debris").touch()
    tree.rmdir()
    second = take_slot("second", tmp_path, wanted=first.number)
    give_back("second")
    assert second.number == first.number
    assert second.temp != first.temp
    assert not Path(first.temp).exists()


def test_letting_go_of_a_tree_removes_its_temporary_folder(project: Path) -> None:
    workspace = planned(project)
    temp = Path(prepared(workspace).env["TMPDIR"])
    (temp / "file").write_text("x")
    own = git_dir(Path(workspace.path))
    give_back(str(own / MARK))
    assert not temp.exists()


def test_the_set_up_command_runs_once_in_the_tree_with_its_surroundings(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    command = 'pwd >> log; echo "$BULLPEN_PORT $TMPDIR ${ANTHROPIC_API_KEY-no key}" >> log'
    workspace = planned(project / "src", setup=command)
    found = prepared(workspace)
    prepared(workspace)
    env = found.env
    wanted = f"{workspace.path}\n{env['BULLPEN_PORT']} {env['TMPDIR']} no key\n"
    assert (Path(workspace.path) / "log").read_text() == wanted


def test_the_set_up_command_gets_what_its_caller_gives_it(project: Path) -> None:
    workspace = planned(project, setup='echo "$WORD ${HOME-no home}" > log')
    environ = {"PATH": os.environ["PATH"], "WORD": "given"}
    prepare(workspace, team="night", agent="ann", owner=OWNER, environ=environ)
    assert (Path(workspace.path) / "log").read_text() == "given no home\n"


def test_a_set_up_that_fails_keeps_the_tree_and_is_run_again(project: Path) -> None:
    command = "echo done >> log; echo lacking gcc >&2; test -e allowed"
    workspace = planned(project, setup=command)
    with pytest.raises(Refused, match="lacking gcc") as refused:
        prepared(workspace)
    assert refused.value.reason == "setup_failed"
    tree = Path(workspace.path)
    mark = mark_of(tree)
    assert mark is not None and not mark.ready
    (tree / "allowed").touch()
    assert not prepared(workspace).made
    assert (tree / "log").read_text() == "done\ndone\n"
    mark = mark_of(tree)
    assert mark is not None and mark.ready


def test_a_set_up_that_takes_too_long_is_ended_with_all_it_started(project: Path) -> None:
    command = "sleep 600 & echo $! > child; wait"
    workspace = planned(project, setup=command, setup_s=0.5)
    with pytest.raises(Refused, match=r"longer than 0\.5 s"):
        prepared(workspace)
    child = int((Path(workspace.path) / "child").read_text())
    assert _is_gone(child)


def _is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")")[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_what_a_set_up_leaves_running_holds_nobody_up(project: Path) -> None:
    command = "sleep 600 & echo $! > child"
    workspace = planned(project, setup=command)
    prepared(workspace)
    prepared(workspace)
    # It still runs: else this fails.
    child = (Path(workspace.path) / "child").read_text().strip()
    subprocess.run(["kill", child], check=True)


def test_a_set_up_is_run_again_in_a_tree_that_was_deleted(project: Path) -> None:
    workspace = planned(project, setup="mkdir .venv")
    prepared(workspace)
    shutil.rmtree(workspace.path)
    prepared(workspace)
    assert (Path(workspace.path) / ".venv").is_dir()


@pytest.mark.parametrize("kind", ["worktree", "clone"])
def test_a_tree_that_was_worked_in_outlives_every_failure_to_prepare_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: WorkspaceKind
) -> None:
    workspace = plan(kind, project, team="night", agent="ann")
    prepared(workspace)
    tree = Path(workspace.path)
    (tree / "half done").touch()
    monkeypatch.setattr(slots, "_TEMP", tmp_path)
    (tmp_path / f"bullpen-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(Refused, match="not private to you"):
        prepared(workspace)
    (tmp_path / f"bullpen-{os.getuid()}").chmod(0o700)
    (tmp_path / f"bullpen-{os.getuid()}" / "slots.json").write_text("[", "utf-8")
    with pytest.raises(Unavailable, match=r"slots\.json"):
        prepared(workspace)
    assert (tree / "half done").exists()
    assert git(tree, "status", "--porcelain") == '?? "half done"'
