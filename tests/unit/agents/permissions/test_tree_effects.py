"""What command lines do to a shared tree, as it is read: all of it is seen, or called unknown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.agents.permissions.shell.git_effects import Shared, Touch
from bullpen.agents.permissions.shell.tree_effects import TreeReading, read
from support.hostile.commands import COMMANDS, PAYLOADS, WRAPPERS, aimed
from support.rows import each_row

TOP = "/project"
ANNS = Path("/project/src/ann.py")


class Nothing:
    """A machine without files and settings, but for one alias."""

    def alias(self, where: str, name: str) -> str | None:
        return {"undo": "reset --hard", "loop": "loop"}.get(name)

    def is_path(self, where: str, text: str) -> bool:
        return text == "src/ann.py"


def reading(command: str) -> TreeReading:
    return read(command, TOP, Nothing())


def writes_it(found: TreeReading) -> bool:
    paths = [
        os.path.realpath(os.path.join(where or TOP, each.text))
        for each in found.writes
        for where in each.wheres
    ]
    return str(ANNS) in paths


def touched(command: str) -> list[Touch]:
    return [each for each in reading(command).effects if isinstance(each, Touch)]


# They make something that is not there, and change nothing that is; the last leads nowhere.
_MAKES_ONLY = (
    "mkdir",
    "git init",
    "git clone",
    "git worktree add",
    "git -C {canary}",
    "/dev/fd/..",
)


def test_every_hostile_line_that_writes_a_file_is_seen_to_or_called_unknown() -> None:
    lines = [line for line in COMMANDS if "{canary}" in line]
    lines = [line for line in lines if not any(each in line for each in _MAKES_ONLY)]
    assert len(lines) > 1_500
    missed = []
    for line in lines:
        found = reading(aimed(line, canary=ANNS, secret=Path("/secret")))
        if found.unknown is None and not writes_it(found):
            missed.append(line)
    assert missed == []


@each_row("wrapper", WRAPPERS)
def test_wherever_it_hides_git_is_seen_to_or_called_unknown(wrapper: str) -> None:
    for payload in ("git reset --hard", "git -C . stash", "git clean -fdx", "git undo"):
        found = reading(wrapper.replace("@", payload))
        assert found.unknown is not None or found.effects, payload
    assert len(PAYLOADS) > 30


@each_row(
    "command",
    [
        "git reset $x",
        "git checkout $x",
        "git $x",
        "$x reset --hard",
        "git clean -fd $x",
        "git loop",
        "git -c core.fsmonitor=./run status",
        "git log --output=src/ann.py",
        "git diff --ext-diff",
        "git notknown",
        "git apply x.patch",
        "make",
        "./run",
        "echo x > $f",
        "rm $f",
        "cp a $f",
        "ln -s a b",
        "PATH=.:$PATH ls",
        "sort -o src/ann.py x",
        "find . -delete",
    ],
)
def test_what_is_not_written_out_is_called_unknown(command: str) -> None:
    assert reading(command).unknown is not None


@each_row(
    ("command", "where", "paths"),
    [
        ("git checkout -- a b", TOP, ("a", "b")),
        ("git checkout HEAD~1 a", TOP, ("a",)),
        ("git -C x restore a", f"{TOP}/x", ("a",)),
        ("cd x && git restore a", f"{TOP}/x", ("a",)),
        ("cd x && cd y && git restore a", f"{TOP}/x/y", ("a",)),
        ("cd /else && git restore a", "/else", ("a",)),
        ("git commit -m 'a b' -- c", TOP, ("c",)),
        ("git commit -am x", TOP, None),
        ("git commit -qm x c", TOP, ("c",)),
        ("git restore --source x -- c", TOP, ("c",)),
        ("git stash push -m x c", TOP, ("c",)),
        ("git reset HEAD c", TOP, ("c",)),
        ("git reset --hard", TOP, None),
        ("git undo", TOP, None),
        ("cd $x && git restore a", None, None),
        ("git --work-tree=x restore a", TOP, None),
        ("GIT_DIR=x git restore a", None, None),
    ],
)
def test_where_and_what_a_command_touches(
    command: str, where: str | None, paths: tuple[str, ...] | None
) -> None:
    (found,) = touched(command)
    assert (found.where, found.paths) == (where, paths)


def test_an_option_may_be_shortened() -> None:
    (whole,) = touched("git reset --har")
    assert whole.kinds == {"changed", "staged"}
    assert reading("git clean --dry").effects == []


def test_behind_a_fork_a_command_may_be_in_several_directories() -> None:
    for command in ("cd x; git restore a", "(cd x); git restore a", "cd x || git restore a"):
        assert {each.where for each in touched(command)} == {TOP, f"{TOP}/x"}, command


@pytest.mark.parametrize(
    ("command", "what", "names"),
    [
        ("git branch -D a b", "branch", ("refs/heads/a", "refs/heads/b")),
        ("git update-ref -d refs/bullpen/x", "branch", ("refs/bullpen/x",)),
        ("git worktree remove -f ../x", "worktree", ("../x",)),
        ("git stash clear", "stashes", ()),
        ("git gc --prune=now", "objects", ()),
    ],
)
def test_what_all_trees_have_in_common(command: str, what: str, names: tuple[str, ...]) -> None:
    (found,) = reading(command).effects
    assert isinstance(found, Shared)
    assert (found.what, found.names) == (what, names)


def test_a_line_that_only_looks_does_nothing() -> None:
    for command in (
        "ls -la src | head",
        "git status && git log --oneline | cat",
        "grep -rn git . > /dev/null 2>&1",
        "cd src && ls",
        "export A=1; echo $A",
        "git worktree list; git branch; git stash list",
    ):
        assert reading(command) == TreeReading(), command
