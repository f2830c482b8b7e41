"""What can be in the tree of an agent: every kind of content that a clean-up could lose."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from support.git.repositories import git

_ODD_NAMES = (
    "with space", "new\nline", "-dash", "--all", "ünïcode", "tab\there", 'quote"d', "back\\slash",
    "star*", "~tilde", "HEAD", "refs", ".gitignored", ".git-ish", "\udcff\udcfe", "x" * 200, "'",
)  # fmt: skip
_REFUSED_NAMES = (".GIT", "git~1", ".git ", ".Git.", ".gIt:x")

Trouble = Callable[[random.Random, Path], None]


def _bytes(dice: random.Random) -> bytes:
    kind = dice.randrange(4)
    if kind == 0:
        return b""
    if kind == 1:
        return dice.randbytes(dice.randrange(1, 3000))
    line_end = b"\r\n" if kind == 2 else b"\n"
    return line_end.join(b"line %d" % dice.randrange(99) for _ in range(dice.randrange(1, 30)))


def _tracked(dice: random.Random, tree: Path) -> Path:
    """A file that git tracks and that is there, if there is one."""
    names = git(tree, "ls-files", "-z").split("\0")
    there = [tree / name for name in names if name and (tree / name).is_file()]
    plain = [path for path in there if not path.is_symlink()]
    return dice.choice(plain) if plain else tree / "made-again"


def _folder(dice: random.Random, tree: Path) -> Path:
    folder = tree / dice.choice(("", "src", "new/deep/er", "build"))
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return tree
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(path: Path, data: bytes) -> None:
    if path.is_symlink() or path.is_dir():
        return
    # Other troubles may have put a file where a folder was.
    with suppress(FileExistsError, NotADirectoryError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def changed(dice: random.Random, tree: Path) -> None:
    for _ in range(dice.randrange(1, 4)):
        _write(_tracked(dice, tree), _bytes(dice))


def deleted(dice: random.Random, tree: Path) -> None:
    _tracked(dice, tree).unlink(missing_ok=True)


def untracked(dice: random.Random, tree: Path) -> None:
    for _ in range(dice.randrange(1, 4)):
        _write(_folder(dice, tree) / dice.choice((*_ODD_NAMES, "plain.txt")), _bytes(dice))


def ignored(dice: random.Random, tree: Path) -> None:
    _write(tree / "build" / f"out-{dice.randrange(9)}.bin", _bytes(dice))
    _write(_folder(dice, tree) / "secret.env", _bytes(dice))


def staged(dice: random.Random, tree: Path) -> None:
    _write(tree / f"staged-{dice.randrange(9)}", _bytes(dice))
    changed(dice, tree)
    git(tree, "add", "--all", ok=False)


def staged_and_changed(dice: random.Random, tree: Path) -> None:
    path = _tracked(dice, tree)
    for _ in range(2):
        git(tree, "add", "--", str(path), ok=False)
        _write(path, _bytes(dice) + b"more")


def programs(dice: random.Random, tree: Path) -> None:
    path = _tracked(dice, tree)
    if path.exists():
        path.chmod(path.stat().st_mode ^ 0o111)
    script = _folder(dice, tree) / "run.sh"
    _write(script, b"#!/bin/sh\n")
    if script.is_file():
        script.chmod(0o755)


def modes(dice: random.Random, tree: Path) -> None:
    private = tree / "private"
    private.mkdir(exist_ok=True)
    _write(private / "key", _bytes(dice))
    (private / "key").chmod(0o400)
    private.chmod(dice.choice((0o700, 0o500)))


def empty_folders(dice: random.Random, tree: Path) -> None:
    (_folder(dice, tree) / "empty" / "er").mkdir(parents=True, exist_ok=True)


def links(dice: random.Random, tree: Path) -> None:
    for target in dice.sample(("a.txt", "/etc/hostname", "nowhere", ".", "..", "loop-b", "/"), 3):
        link = _folder(dice, tree) / f"link-{dice.randrange(99)}"
        if not os.path.lexists(link):
            link.symlink_to(target)
    for name, target in (("loop-a", "loop-b"), ("loop-b", "loop-a")):
        if not os.path.lexists(tree / name):
            (tree / name).symlink_to(target)


def link_out(dice: random.Random, tree: Path) -> None:
    """A tracked folder and a file become links to things of the user's outside."""
    outside = tree.parents[2] / "precious"
    path = _tracked(dice, tree)
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        path.symlink_to(outside / "file")
    if not os.path.lexists(tree / "linked-folder"):
        (tree / "linked-folder").symlink_to(outside)


def file_and_folder(dice: random.Random, tree: Path) -> None:
    path = _tracked(dice, tree)
    path.unlink(missing_ok=True)
    _write(path / "inside", _bytes(dice))


def hard_links(dice: random.Random, tree: Path) -> None:
    path = _tracked(dice, tree)
    if path.is_file() and not os.path.lexists(tree / "hard"):
        os.link(path, tree / "hard")


def pipes(dice: random.Random, tree: Path) -> None:
    if not os.path.lexists(tree / "pipe"):
        os.mkfifo(tree / "pipe")


def refused_names(dice: random.Random, tree: Path) -> None:
    name = dice.choice(_REFUSED_NAMES)
    if os.path.lexists(tree / "odd" / name):
        return
    if dice.random() < 0.5:
        _write(tree / "odd" / name, _bytes(dice))
    else:
        _write(tree / "odd" / name / "config", _bytes(dice))
    if not os.path.lexists(tree / "odd" / ".gitmodules"):
        (tree / "odd" / ".gitmodules").symlink_to("nowhere")


def commits(dice: random.Random, tree: Path) -> None:
    for number in range(dice.randrange(1, 3)):
        _write(tree / f"committed-{dice.randrange(9)}", _bytes(dice))
        git(tree, "add", "--all", ok=False)
        git(tree, "commit", "--quiet", "--allow-empty", "-m", f"commit {number}", ok=False)


def only_in_the_log(dice: random.Random, tree: Path) -> None:
    """Commits that nothing leads to but the log of this tree's head."""
    commits(dice, tree)
    _write(tree / "amended", _bytes(dice))
    git(tree, "add", "--", "amended", ok=False)
    git(tree, "commit", "--quiet", "--amend", "-m", f"amended {dice.random()}", ok=False)
    git(tree, "reset", "--quiet", dice.choice(("--hard", "--mixed", "--soft")), "HEAD~1", ok=False)


def detached(dice: random.Random, tree: Path) -> None:
    git(tree, "checkout", "--quiet", "--detach", ok=False)
    commits(dice, tree)


def other_branch(dice: random.Random, tree: Path) -> None:
    git(tree, "checkout", "--quiet", "-b", f"own-{dice.randrange(10**9)}", ok=False)
    commits(dice, tree)


def orphan(dice: random.Random, tree: Path) -> None:
    git(tree, "checkout", "--quiet", "--orphan", f"orphan-{dice.randrange(10**9)}", ok=False)


def _sides(dice: random.Random, tree: Path) -> str:
    """Another line of work that contradicts this one; its commit."""
    path = _tracked(dice, tree)
    name = str(path.relative_to(tree))
    git(tree, "stash", "push", "--quiet", "--include-untracked", ok=False)
    git(tree, "stash", "drop", "--quiet", ok=False)
    start = git(tree, "rev-parse", "HEAD", ok=False)
    found = []
    for text in (b"theirs\n", b"ours\n"):
        git(tree, "checkout", "--quiet", "--detach", start, ok=False)
        _write(path, text + dice.randbytes(4).hex().encode())
        git(tree, "add", "--all", "--", name, ok=False)
        git(tree, "commit", "--quiet", "-m", text.decode().strip(), ok=False)
        found.append(git(tree, "rev-parse", "HEAD", ok=False))
    return found[0]


def merge_conflict(dice: random.Random, tree: Path) -> None:
    git(tree, "merge", _sides(dice, tree), ok=False)


def rebase_conflict(dice: random.Random, tree: Path) -> None:
    git(tree, "rebase", _sides(dice, tree), ok=False)


def pick_conflict(dice: random.Random, tree: Path) -> None:
    git(tree, "cherry-pick", _sides(dice, tree), ok=False)


def bisect(dice: random.Random, tree: Path) -> None:
    commits(dice, tree)
    git(tree, "bisect", "start", ok=False)
    git(tree, "bisect", "bad", ok=False)


def not_looked_at(dice: random.Random, tree: Path) -> None:
    path = _tracked(dice, tree)
    flag = dice.choice(("--skip-worktree", "--assume-unchanged"))
    git(tree, "update-index", flag, "--", str(path), ok=False)
    _write(path, b"behind its back " + _bytes(dice))


def intended(dice: random.Random, tree: Path) -> None:
    _write(tree / "intended", b"intended " + _bytes(dice))
    git(tree, "add", "--intent-to-add", "--", "intended", ok=False)


def other_bytes(dice: random.Random, tree: Path) -> None:
    """Files that git takes for unchanged although their bytes are not those of any blob."""
    attributes = "*.crlf text eol=crlf\n*.lossy filter=lossy\n*.same filter=same\n"
    _write(tree / ".gitattributes", attributes.encode())
    _write(tree / "lines.crlf", b"one\r\ntwo\r\n")
    _write(tree / "notes.lossy", b"kept\nonly here %d\n" % dice.randrange(10**6))
    _write(tree / "upper.same", b"ABC\n")
    names = (".gitattributes", "lines.crlf", "notes.lossy", "upper.same")
    git(tree, "add", "--", *names, ok=False)
    git(tree, "commit", "--quiet", "-m", "filtered", "--", *names, ok=False)


def sparse(dice: random.Random, tree: Path) -> None:
    git(tree, "sparse-checkout", "set", "--cone", "src", ok=False)


def split_index(dice: random.Random, tree: Path) -> None:
    git(tree, "update-index", "--split-index", ok=False)
    staged(dice, tree)


def _repository(dice: random.Random, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    git(where, "init", "--quiet", "--initial-branch=main")
    if dice.random() < 0.15:
        _write(where / "uncommitted", _bytes(dice))
        return
    for number in range(2):
        _write(where / "file", b"%d" % number + _bytes(dice))
        git(where, "add", "--all")
        git(where, "commit", "--quiet", "--allow-empty", "-m", f"nested {number}")
    _write(where / "file", b"stashed" + _bytes(dice))
    git(where, "stash", "push", "--quiet", ok=False)
    git(where, "branch", f"side-{dice.randrange(99)}", "HEAD~1")
    git(where, "reset", "--quiet", "--hard", "HEAD~1")
    _write(where / "file", b"dirty" + _bytes(dice))
    _write(where / ".gitignore", b"cache\n")
    _write(where / "cache" / "x", _bytes(dice))


def nested(dice: random.Random, tree: Path) -> None:
    where = tree / dice.choice(("nested", "build/nested", "src/deep"))
    if os.path.lexists(where) or where.parent.is_symlink():
        return
    _repository(dice, where)
    if dice.random() < 0.3:
        _repository(dice, where / "inner")
    if dice.random() < 0.3:
        git(where, "worktree", "add", "--quiet", "--detach", str(tree / "its-tree"), ok=False)


def bare_inside(dice: random.Random, tree: Path) -> None:
    if not os.path.lexists(tree / "bare.git"):
        git(tree, "init", "--quiet", "--bare", str(tree / "bare.git"))


def module_changed(dice: random.Random, tree: Path) -> None:
    module = tree / "module"
    if not (module / ".git").exists() or module.is_symlink():
        return
    for act in dice.sample(range(4), dice.randrange(1, 4)):
        _write(module / f"m{act}", _bytes(dice) + b"m")
        if act == 1:
            git(module, "add", "--all")
            git(module, "commit", "--quiet", "--allow-empty", "-m", "not pushed")
        elif act == 2:
            git(module, "add", "--all")
            git(module, "stash", "push", "--quiet", ok=False)
        elif act == 3:
            git(module, "checkout", "--quiet", "-b", f"b{dice.randrange(10**6)}")


def module_moved(dice: random.Random, tree: Path) -> None:
    if (tree / "module" / ".git").exists():
        git(tree, "mv", "module", f"moved-{dice.randrange(99)}", ok=False)


TROUBLES: tuple[Trouble, ...] = (
    changed, deleted, untracked, ignored, staged, staged_and_changed, programs, modes,
    empty_folders, links, link_out, file_and_folder, hard_links, pipes, refused_names, commits,
    only_in_the_log, detached, other_branch, orphan, merge_conflict, rebase_conflict,
    pick_conflict, bisect, not_looked_at, intended, other_bytes, sparse, split_index, nested,
    bare_inside, module_changed, module_moved,
)  # fmt: skip
