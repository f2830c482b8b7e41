"""Checkboxes of lists in files of a commit: ticks them, and keeps ticks from being conflicts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bullpen.workspace.git.run_git import Git

TEXT_BYTES_MAX = 8_000_000
"""The largest file in which boxes are looked for."""

_TICKED = re.compile(r"(?P<before>\s*(?:[-*+]|\d{1,9}[.)])\s+\[)[xX](?P<after>\].*)", re.DOTALL)
_OPEN = re.compile(r"(?P<before>\s*(?:[-*+]|\d{1,9}[.)])\s+\[) (?P<after>\].*)", re.DOTALL)
_FILES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A regular file of a tree. Bytes that are not UTF-8 are escaped."""

    path: str
    blob: str
    text: str


def ticked_line(line: str) -> str | None:
    """Return a line with its empty box ticked and nothing else changed; None if it has none."""
    found = _OPEN.fullmatch(line)
    return None if found is None else f"{found['before']}x{found['after']}"


def without_ticks(text: str, earlier: str) -> tuple[str, list[str]]:
    """Return a text without the ticks that an earlier version lacks, and the lines they are in.

    A line counts only if nothing but its box changed.
    """
    before, now = set(earlier.split("\n")), text.split("\n")
    known = set(now)
    opened: list[str] = []
    for number, line in enumerate(now):
        found = None if line in before else _TICKED.fullmatch(line)
        plain = None if found is None else f"{found['before']} {found['after']}"
        if plain is not None and plain in before and plain not in known:
            now[number] = plain
            opened.append(plain)
    return "\n".join(now), opened


def with_ticks(text: str, opened: list[str]) -> str:
    """Return a text with these lines ticked, as far as it still has them."""
    wanted = set(opened)
    lines = [(ticked_line(line) or line) if line in wanted else line for line in text.split("\n")]
    return "\n".join(lines)


def file_in(git: Git, tree: str, path: str) -> TextFile | None:
    """Return a regular file of a tree or commit; None if there is none, or it is too large."""
    words = ("--literal-pathspecs", "ls-tree", "-z", "-l", "--full-tree", tree, "--", path)
    row = git(*words).rstrip("\0")
    about, _, name = row.partition("\t")
    parts = about.split()
    if name != path or len(parts) != 4 or parts[0] not in _FILES:
        return None
    if not parts[3].isdecimal() or int(parts[3]) > TEXT_BYTES_MAX:
        return None
    found = git.run("cat-file", "blob", parts[2])
    return TextFile(path, parts[2], found.out) if found.ok else None


def with_text(git: Git, tree: str, path: str, text: str) -> str:
    """Return a tree in which a file that it has contains another text."""
    blob = git("hash-object", "-w", "--stdin", given=text)
    return _with_entry(git, tree, path.split("/"), blob)


def _with_entry(git: Git, tree: str, parts: list[str], blob: str) -> str:
    rows = []
    for row in git.lines("ls-tree", "-z", "--full-tree", tree):
        about, _, name = row.partition("\t")
        mode, kind, entry = about.split(" ")
        if name == parts[0]:
            entry = blob if len(parts) == 1 else _with_entry(git, entry, parts[1:], blob)
        rows.append(f"{mode} {kind} {entry}\t{name}\0")
    # An object may be missing in a partial clone.
    return git("mktree", "-z", "--missing", given="".join(rows))
