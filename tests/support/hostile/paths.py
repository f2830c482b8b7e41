"""Paths that try to leave the project, on a real tree with real links."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LINKS = {
    # Below project/src: where each link says that it leads. {top} is what the project lies in.
    "to_dir": "../../outside",
    "to_dir_slash": "../../outside/",
    "to_dir_slashes": "..//..///outside//",
    "to_dir_dots": "./.././../outside/.",
    "to_dir_absolute": "{top}/outside",
    "to_dir_by_sibling": "../../project-evil/../outside",
    "to_dir_by_itself": "../src/../../outside",
    "to_top": "../..",
    "to_above": "..",
    "to_root": "/",
    "to_root_slashes": "///",
    "to_sibling": "../../project-evil",
    "to_home": "{top}/home",
    "to_cwd_of_kernel": "/proc/self/cwd",
    "to_root_of_kernel": "/proc/self/root",
    "to_fd_of_kernel": "/proc/self/fd",
    "chain1": "chain2",
    "chain2": "sub/chain3",
    "sub/chain3": "../chain4",
    "chain4": "../../outside",
    "to_real": "real",
    "to_depth": "sub/one/two/three",
    "real/up": "../../../outside",
    "real/home": "..",
    "dangling": "../../outside/not-there",
    "dangling_inside": "not-there",
    "loop": "loop",
    "loop1": "loop2",
    "loop2": "loop1",
    "through_file": "a.py/../../../outside",
    "to_file": "../../outside/secret.txt",
    "to_file_absolute": "{top}/outside/secret.txt",
    "to_new_file": "../../outside/new.txt",
    "...": "../../outside",
    ".hidden": "../../outside",
    "-dash": "../../outside",
    "with space": "../../outside",
    "new\nline": "../../outside",
    "~": "../../outside",
    "um\u0308laut": "../../outside",
    "\u202eright": "../../outside",
    "n" * 250: "../../outside",
}

DIRECTORIES = (
    "outside/dir",
    "outside/inner/src",
    "project/src/real",
    "project/src/sub/one/two/three",
    "project/src/sub/outside",
    "project/docs",
    "project/.git/hooks",
    "project/uml\u00e4ut",
    "project-evil/src",
    "home/src",
)
FILES = (
    "outside/secret.txt",
    "outside/a.py",
    "outside/dir/a.py",
    "outside/inner/src/a.py",
    "project/a.py",
    "project/src/a.py",
    "project/src/real/a.py",
    "project/docs/a.py",
    "project-evil/a.py",
    "project-evil/src/a.py",
    "home/secret.txt",
    "home/src/a.py",
    "secret.txt",
)
TARGETS = ("secret.txt", "a.py", "dir/a.py", "inner/src/a.py", "new.txt", "new/new.txt")


@dataclass(frozen=True)
class Tree:
    top: Path

    @property
    def project(self) -> str:
        return str(self.top / "project")

    @property
    def home(self) -> str:
        return str(self.top / "home")

    def outside(self) -> dict[str, bytes | str | None]:
        """Everything that is not the project, with what it holds."""
        found: dict[str, bytes | str | None] = {}
        for path in sorted(self.top.rglob("*")):
            name = str(path.relative_to(self.top))
            if name == "project" or name.startswith("project/"):
                continue
            found[name] = path.read_bytes() if path.is_file() else None
        return found


def grown(top: Path) -> Tree:
    """Make the tree: a project full of links, and what lies around it."""
    for directory in DIRECTORIES:
        (top / directory).mkdir(parents=True)
    for file in FILES:
        (top / file).write_text(f"{file}\n")
    for name, target in LINKS.items():
        os.symlink(target.format(top=top), top / "project/src" / name)
    return Tree(top)


def hostile_paths(tree: Tree) -> list[str]:
    """All of them, each once."""
    return list(dict.fromkeys(_all(tree)))


def _all(tree: Tree) -> Iterator[str]:
    for way in _ways(tree):
        for target in TARGETS:
            yield f"{way}/{target}"
    for plain in list(_ways(tree))[::3]:
        yield from _spelled(f"{plain}/secret.txt")
        yield from _spelled(f"{plain}/new.txt")
    for name in LINKS:
        yield f"src/{name}"
        yield f"{tree.project}/src/{name}"
        yield f"src/{name}/.."
        yield f"src/{name}/../a.py"
        yield f"src/{name}/../../a.py"
        yield f"src/{name}/../outside/a.py"
        yield f"src/{name}/../../../outside/a.py"
        yield f"src/{name}/project/a.py"
    yield from _odd(tree)


def _ways(tree: Tree) -> Iterator[str]:
    """Beginnings that lead out of the project, or seem to."""
    top = str(tree.top)
    yield from ("../outside", "./../outside", "src/../../outside", "src/./.././../outside")
    yield from ("src/real/../../../outside", "not-there/../../outside", "a.py/../../outside")
    yield from (f"{top}/outside", f"/{top}/outside", f"//{top}/outside", f"{top}/./outside")
    yield from (f"{top}/project/../outside", f"{top}/project/src/../../outside")
    yield from (f"{top}/project-evil", "../project-evil", "../project-evil/../outside")
    yield from (f"/..{top}/outside", f"/../../..{top}/outside", f"/.{top}/outside")
    for kernel in ("/proc/self/cwd", f"/proc/{os.getpid()}/cwd", "/proc/thread-self/cwd"):
        yield f"{kernel}/../outside"
        yield f"{kernel}/src/to_dir"
    for kernel in ("/proc/self/root", f"/proc/{os.getpid()}/root", "/proc/1/root"):
        yield f"{kernel}{top}/outside"
        yield f"{kernel}{top}/project/../outside"
    yield from ("~", "~/../outside", "~/.", "~//..//outside", "~root", "~nobody", "~+", "~-", "~0")
    yield from ("~/../project/../outside", "~/../project-evil", "src/~/../outside")
    for name in LINKS:
        yield f"src/{name}"
        yield f"src/./{name}/."
    for deep in (5, 60, 400):
        yield "src/" + "real/../" * deep + "../../outside"
        yield "src/" + "to_real/home/" * min(deep, 15) + "to_dir"


def _spelled(path: str) -> Iterator[str]:
    """The same path in other spellings."""
    yield path.replace("/", "//")
    yield path.replace("/", "/./")
    yield f"{path}/"
    yield f"{path}/."
    yield f"{path}\n"
    yield f" {path}"
    yield f"{path} "
    yield unicodedata.normalize("NFC", path)


def _odd(tree: Tree) -> Iterator[str]:
    top = str(tree.top)
    for dots in ("\uff0e\uff0e", "\u2024\u2024", "..\u200b", "%2e%2e", "..\\", ". .", "...", "..;"):
        yield f"{dots}/outside/secret.txt"
        yield f"src/{dots}/{dots}/outside/secret.txt"
    for slash in ("\u2215", "\u2044", "\uff0f", "\\", "%2f"):
        yield f"..{slash}outside{slash}secret.txt"
    for end in ("\0", "\0.py", "\n", "\r", "\t", "\x1b[2K", "\ud800", "\udcff"):
        yield f"../outside/secret.txt{end}"
        yield f"src/a.py{end}/../../../outside/secret.txt"
    for length in (255, 256, 4096, 5000, 9000, 100_000):
        yield "x" * length
        yield f"src/{'x' * length}/../../../outside/secret.txt"
        yield f"{'./' * (length // 2)}../outside/secret.txt"
    yield from ("", " ", ".", "..", "/", "//", "///", "~", "/.", "/..", "src/..", "src/../..")
    yield from (f"file://{top}/outside/secret.txt", "$HOME/secret.txt", "${HOME}/secret.txt")
    yield from ("/dev/fd/0", "/dev/stdin", "/dev/null", "/dev/shm/x", "/etc/passwd", "/tmp/x")
    yield from ("/proc/self/environ", "/proc/self/mem", "/proc/self/fd/0", "/proc/self/fd/1")
