"""Rebases commits in the object store only, without checking out a worktree.

The same work on the same commit always gives the same commits, so a merge queue that was killed
gets the same result again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bullpen.errors import Unavailable
from bullpen.workspace.git.checkboxes import file_in, with_text, with_ticks, without_ticks
from bullpen.workspace.git.run_git import Git, GitFailed

CLASH_CHARS_MAX = 6_000
"""How much is said about a conflict."""

_FILE_CHARS_MAX = 2_000
_FILES_SHOWN_MAX = 12

# A commit that only lends its parent to a merge.
_STAND_IN = "bullpen <bullpen@localhost> 0 +0000"
_USAGE = 129


@dataclass(frozen=True, slots=True)
class Replayed:
    """The rebased work and its tree; unchanged if everything was already there."""

    commit: str
    tree: str


@dataclass(frozen=True, slots=True)
class Clash:
    """Conflicting files, in words, and a tree that holds both sides with conflict markers.

    `ours` and `theirs` are the names of the target and the work in the markers.
    """

    files: list[str]
    text: str
    tree: str
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class _Piece:
    """A commit, or one that replaces several: its changes lead from `parent` to `tree`."""

    commit: str
    parent: str
    tree: str
    # Its author, date, committer and message.
    author: str
    when: str
    committer: str
    message: str


def replay(
    git: Git, *, onto: str, base: str, commit: str, onto_tree: str | None = None, closing: str = ""
) -> Replayed | Clash:
    """Rebase the commits between `base` and `commit` onto another commit, whose tree may be known.

    Commits that change nothing there are dropped. Work that contains merges becomes one commit,
    because what was decided in a merge would otherwise be lost; its message ends with `closing`.

    Raises:
        GitFailed: git fails, for example for lack of space or of an object.
        Unavailable: this git is too old.
    """
    tip, tip_tree = onto, onto_tree or git("rev-parse", f"{onto}^{{tree}}")
    # Excludes what is already there; and the base itself, if it is not there.
    found = _pieces(git, commit, base, f"^{onto}")
    is_on = base not in found
    if not is_on:
        found = _pieces(git, f"{base}..{commit}")
    if not found:
        return Replayed(tip, tip_tree)
    pieces = list(found.values())
    if any(" " in piece.parent or not piece.parent for piece in pieces):
        plain = [piece for piece in pieces if piece.parent and " " not in piece.parent]
        piece = _together(base, plain, found[commit])
        pieces = [replace(piece, message=f"{piece.message.rstrip()}\n\n{closing}")]
    for piece in pieces:
        there = piece.parent == tip and bool(piece.commit)
        # The first commit branches off the target where it begins: git finds that by itself.
        ours = onto if is_on and piece is pieces[0] and piece.commit else None
        tree = piece.tree if there else _merged(git, piece, tip_tree, ours)
        if isinstance(tree, Clash):
            return tree
        if tree != tip_tree:
            tip = piece.commit if there else _write(git, _text(piece, parent=tip, tree=tree))
            tip_tree = tree
    return Replayed(tip, tip_tree)


def merged_by(
    git: Git, work: Replayed, onto: Replayed, *, tree: str, people: tuple[str, str], message: str
) -> Replayed:
    """Return a merge commit of rebased work, as old as the work. `people` are author, committer.

    The same work on the same commit gives the same merge commit.
    """
    when = _pieces(git, "--no-walk", work.commit)[work.commit].when
    author, committer = people
    text = (
        f"tree {tree}\nparent {onto.commit}\nparent {work.commit}\nauthor {author} {when}\n"
        f"committer {committer} {when}\n\n{message.rstrip()}\n"
    )
    return Replayed(_write(git, text), tree)


def with_tree(git: Git, work: Replayed, tree: str) -> Replayed:
    """Return the last commit of some work with another tree."""
    piece = _pieces(git, "--no-walk", work.commit)[work.commit]
    return Replayed(_write(git, _text(piece, parent=piece.parent, tree=tree)), tree)


def message_of(git: Git, commit: str) -> str:
    """Return the message of a commit."""
    return _pieces(git, "--no-walk", commit)[commit].message


def squashed(git: Git, *, onto: str, base: str, commit: str) -> str | Clash:
    """Return the tree of `onto` with all changes between `base` and `commit` applied at once."""
    last = _pieces(git, "--no-walk", commit)[commit]
    return _merged(git, _together(base, [], last), git("rev-parse", f"{onto}^{{tree}}"))


def _together(base: str, parts: Sequence[_Piece], last: _Piece) -> _Piece:
    """Return one commit for several, with all their messages."""
    newest = parts[-1] if parts else last
    message = "\n\n".join(part.message.strip("\n") for part in parts) or last.message
    return replace(newest, commit="", parent=base, tree=last.tree, message=message)


_FORM = "%x00".join(("%H", "%P", "%T", "%an <%ae>", "%ad", "%cn <%ce>", "%B", ""))


def _pieces(git: Git, *which: str) -> dict[str, _Piece]:
    """Return commits by id, the oldest first. `parent` has all parents."""
    words = ("--no-commit-header", f"--format={_FORM}", "--date=raw", "--encoding=UTF-8")
    out = git("rev-list", "--reverse", "--topo-order", *words, *which)
    fields = out.split("\0")[:-1]
    rows = [fields[at : at + 7] for at in range(0, len(fields), 7)]
    found: dict[str, _Piece] = {}
    for commit, parent, tree, author, when, committer, message in rows:
        name = commit.strip()
        found[name] = _Piece(name, parent, tree, author, when, committer, message)
    return found


def _text(piece: _Piece, *, parent: str, tree: str) -> str:
    """Return the object of a rebased commit, with its original author, committer and date."""
    return (
        f"tree {tree}\nparent {parent}\nauthor {piece.author} {piece.when}\n"
        f"committer {piece.committer} {piece.when}\n\n{piece.message.rstrip()}\n"
    )


def _write(git: Git, text: str) -> str:
    return git("hash-object", "-t", "commit", "-w", "--stdin", given=text)


def _merged(
    git: Git, piece: _Piece, tip_tree: str, tip: str | None = None, *, ease: bool = True
) -> str | Clash:
    """Return the tree of a tip with a commit's changes. A `tip` branches off at its parent.

    With `ease`, boxes that were ticked on the target conflict with nothing.
    """
    # Git merges from where two commits branch off: any other tip is presented as a child of that.
    by = f"parent {piece.parent}\nauthor {_STAND_IN}\ncommitter {_STAND_IN}\n\n"
    ours = tip or _write(git, f"tree {tip_tree}\n{by}The target.\n")
    theirs = piece.commit or _write(git, f"tree {piece.tree}\n{by}The work.\n")
    words = ("merge-tree", "--write-tree", "-z", "--name-only", ours, theirs)
    ran = git.run(*words)
    if ran.code == _USAGE:
        raise Unavailable(
            f"The installed git cannot merge without a worktree: {ran.err.splitlines()[:1]}.",
            remedy="Install git 2.38 or newer.",
        )
    if ran.code not in {0, 1} or "\0" not in ran.out:
        raise GitFailed(words, ran.code, ran.err or ran.out, str(git.where))
    tree, _, rest = ran.out.partition("\0")
    if ran.code == 0:
        return tree
    clash = _clash(git, tree, rest, ours=ours, theirs=theirs)
    return (_merged_without_ticks(git, piece, tip_tree, clash) or clash) if ease else clash


def _merged_without_ticks(git: Git, piece: _Piece, tip_tree: str, clash: Clash) -> str | None:
    """Return the merged tree if only ticked boxes were in the way; None if there is more.

    Without the ticks of the target the changes are merged, then the same boxes are ticked again.
    """
    plain_tree = tip_tree
    opened: dict[str, list[str]] = {}
    for path in clash.files:
        earlier, now = file_in(git, piece.parent, path), file_in(git, tip_tree, path)
        if earlier is None or now is None:
            return None
        text, opened[path] = without_ticks(now.text, earlier.text)
        if not opened[path]:
            return None
        plain_tree = with_text(git, plain_tree, path, text)
    merged = _merged(git, piece, plain_tree, ease=False)
    if isinstance(merged, Clash):
        return None
    for path, lines in opened.items():
        if (file := file_in(git, merged, path)) is not None:
            merged = with_text(git, merged, path, with_ticks(file.text, lines))
    return merged


def _clash(git: Git, tree: str, rest: str, *, ours: str, theirs: str) -> Clash:
    names, _, told = rest.partition("\0\0")
    files = list(dict.fromkeys(name for name in names.split("\0") if name))
    messages = [
        line.replace(ours, "the target").replace(theirs, "the work")
        for line in told.replace("\0", "\n").splitlines()
        if line.startswith("CONFLICT (") and ": " in line
    ]
    shown = [_marked_parts(git, tree, name) for name in files[:_FILES_SHOWN_MAX]]
    text = "\n".join([*messages, *(part for part in shown if part)])
    text = text.replace(ours, "the target").replace(theirs, "the work")
    return Clash([_kept(name) for name in files], _kept(text)[:CLASH_CHARS_MAX], tree, ours, theirs)


def _marked_parts(git: Git, tree: str, name: str) -> str:
    """Return the conflicting lines of a file, with their numbers."""
    ran = git.run("cat-file", "-p", f"{tree}:{name}")
    if not ran.ok or "\0" in ran.out:
        return ""
    rows: list[str] = []
    inside = False
    for number, line in enumerate(ran.out.split("\n"), 1):
        begins = line.startswith("<<<<<<<")
        if begins and not inside:
            rows.append(f"{name}:{number}:")
        inside = inside or begins
        if inside:
            rows.append(line)
        if line.startswith(">>>>>>>"):
            inside = False
    return "\n".join(rows)[:_FILE_CHARS_MAX]


def _kept(text: str) -> str:
    # Names and contents of files can contain what no record can.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
