"""No path leads a file tool out of the project: not by mode, and not by a rule."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide
from bullpen.team.requests.mode_rules import Kind
from support.hostile.paths import Tree, grown, hostile_paths

TOOLS: dict[str, Kind] = {"Read": "read", "Write": "write", "Edit": "write"}
PATHS_AT_LEAST = 600


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return grown(tmp_path)


def by_mode(tree: Tree) -> Rights:
    return Rights("acceptEdits", tree.project, tree.home)


def by_rules(tree: Tree) -> Rights:
    return Rights("dontAsk", tree.project, tree.home, allow=("Edit(/src/**)", "Edit(src/*.py)"))


def allowed(tree: Tree, rights: Rights) -> Iterator[tuple[str, str, Kind]]:
    for path in hostile_paths(tree):
        for tool, kind in TOOLS.items():
            if decide(Call(tool, {"file_path": path}, kind), rights).effect == "allow":
                yield tool, path, kind


def meanings(path: str, tree: Tree) -> list[str]:
    """Where a path leads, as the kernel reads it and as a tool that tidies it up first does."""
    joined = os.path.join(tree.project, os.path.expanduser(path))
    return [joined, os.path.normpath(joined)]


def opened(path: str, kind: Kind) -> str | None:
    """Where a file really lies that was opened in this way; None if it cannot be."""
    flags = os.O_RDONLY if kind == "read" else os.O_WRONLY | os.O_CREAT
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def test_there_are_enough_hostile_paths(tree: Tree) -> None:
    assert len(hostile_paths(tree)) >= PATHS_AT_LEAST


def test_no_path_leads_out_by_a_mode(tree: Tree) -> None:
    """What acceptEdits permits lies inside: so say realpath, and the kernel when it is opened."""
    before = tree.outside()
    escaped = []
    permitted = list(allowed(tree, by_mode(tree)))
    # Some lead back inside: the corpus is not so wild that it proves nothing.
    assert len(permitted) > 100
    for tool, path, kind in permitted:
        for meaning in meanings(path, tree):
            places = [os.path.realpath(meaning), opened(meaning, kind)]
            if any(each and not is_below(each, tree.project) for each in places):
                escaped.append((tool, path, places))
    assert escaped == []
    assert tree.outside() == before


def test_no_path_leads_out_by_a_rule(tree: Tree) -> None:
    """What the rule Edit(/src/**) permits lies below src, whatever links say."""
    before = tree.outside()
    escaped = []
    for tool, path, kind in allowed(tree, by_rules(tree)):
        root = tree.project if kind == "read" else f"{tree.project}/src"
        for meaning in meanings(path, tree):
            places = [os.path.realpath(meaning), opened(meaning, kind)]
            if any(each and not is_below(each, root) for each in places):
                escaped.append((tool, path, places))
    assert escaped == []
    assert tree.outside() == before


def test_paths_that_stay_inside_are_not_refused(tree: Tree) -> None:
    """The tests above would pass if nothing were permitted at all."""
    honest = (
        "src/a.py",
        "./src/a.py",
        "src//a.py",
        "src/../src/a.py",
        "src/new.py",
        "src/new/deeper/new.py",
        "src/to_real/a.py",
        "src/real/home/a.py",
        "src/dangling_inside",
        "src/with space.py",
        "src/\u00fcml\u00e4ut.py",
        "src/..a.py",
        "src/...a/b.py",
        f"{tree.project}/src/a.py",
        f"{tree.project}/../project/src/a.py",
        f"/{tree.project}/src/a.py",
    )
    for path in honest:
        for tool, kind in TOOLS.items():
            call = Call(tool, {"file_path": path}, kind)
            assert decide(call, by_mode(tree)).effect == "allow", (tool, path)
            assert decide(call, by_rules(tree)).effect == "allow", (tool, path)


def test_a_directory_that_becomes_a_link_is_seen_at_the_next_call(tree: Tree) -> None:
    """A swap is not hidden by what was found before."""
    call = Call("Write", {"file_path": "src/swapped/a.py"}, "write")
    swapped = Path(tree.project, "src/swapped")
    for _ in range(3):
        swapped.mkdir()
        assert decide(call, by_mode(tree)).effect == "allow"
        assert decide(call, by_rules(tree)).effect == "allow"
        swapped.rmdir()
        swapped.symlink_to(tree.top / "outside")
        assert decide(call, by_mode(tree)).effect == "ask"
        assert decide(call, by_rules(tree)).effect == "deny"
        swapped.unlink()


def test_a_rule_does_not_move_with_a_link_that_takes_its_place(tree: Tree) -> None:
    """Edit(/src/**) is about the src of the project, not about what src is made to point at."""
    source = Path(tree.project, "src")
    source.rename(Path(tree.project, "old"))
    source.symlink_to(tree.top / "outside")
    call = Call("Write", {"file_path": "src/a.py"}, "write")
    assert decide(call, by_rules(tree)).effect == "deny"
    assert decide(call, by_mode(tree)).effect == "ask"


def test_a_project_behind_a_link_is_still_the_project(tree: Tree) -> None:
    """The working directory itself may be reached by a link."""
    os.symlink(tree.project, tree.top / "alias")
    rights = Rights("acceptEdits", str(tree.top / "alias"), tree.home, deny=("Edit(/docs/**)",))
    inside = Call("Write", {"file_path": "src/a.py"}, "write")
    assert decide(inside, rights).effect == "allow"
    assert decide(Call("Write", {"file_path": "src/to_dir/a.py"}, "write"), rights).effect == "ask"
    for path in ("docs/a.py", f"{tree.project}/docs/a.py", f"{tree.top}/alias/docs/a.py"):
        assert decide(Call("Edit", {"file_path": path}, "write"), rights).effect == "deny"
