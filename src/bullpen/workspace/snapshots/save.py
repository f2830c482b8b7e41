"""Saves what exists only in a worktree, as a commit under a Bullpen ref."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bullpen.errors import BullpenError, Conflict, Unavailable
from bullpen.protocol.clock import now_ms
from bullpen.workspace.git.layout import Layout, layout_of, repository_dir
from bullpen.workspace.git.ref_names import REFS, component, saved_refs
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed, identity
from bullpen.workspace.git.task_commits import address_of, trailers
from bullpen.workspace.snapshots.build import REST, Built, build, commit
from bullpen.workspace.snapshots.contents import Contents
from bullpen.workspace.snapshots.unsaved import Unsaved, look

BYTES_MAX = 2_000_000_000
"""The most bytes of untracked content in a snapshot."""

_TRIES = 3
_NUMBER_TRIES = 100
_MARK = "bullpen-snapshot: "
_LEFT_OUT_MAX = 20
_ONLY_IGNORED = "bullpen-only-ignored: yes"
"""A line in the message of a snapshot that holds nothing but ignored files."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot: its ref, whose worktree it was, when and why, and the worktree's commit."""

    ref: str
    commit: str
    team: str
    agent: str
    number: int
    at_ms: int
    why: str
    head: str | None
    branch: str | None
    # How many of its paths are in no other commit.
    files: int
    # What cannot be saved: sockets, pipes, other worktrees. The first of them.
    left_out: tuple[str, ...] = ()


def save(
    tree: Path,
    *,
    team: str,
    agent: str,
    why: str,
    task: str | None = None,
    most: int = BYTES_MAX,
    whole: bool = False,
    stood: Path | None = None,
    allow: Callable[[Layout, Contents], None] = lambda place, contents: None,
) -> Saved | None:
    """Save everything that exists only in a worktree; None if there is nothing.

    If the newest snapshot already has it, that one is returned. Nothing is changed in the worktree,
    its index, settings, branches and stashes. `task` is what the agent worked on, if that is known.
    With `whole`, the whole repository of the worktree counts, because it goes too. `stood` is where
    the worktree was before it was moved aside. `allow` may refuse what was found.

    Raises:
        Refused: there is no worktree (no_tree), or it has too much untracked content (too_big).
        Unavailable: something cannot be read or written, or keeps changing.
    """
    place = layout_of(tree, stood=stood)
    env = identity(component(agent), address_of(agent))
    for left in reversed(range(_TRIES)):
        try:
            found = look(place, team=team, agent=agent, whole=whole)
            allow(place, found.contents)
            if not found.is_anything:
                return None
            built = build(place, found, most=most, whole=whole, env=env)
            break
        except GitFailed:
            # Most likely a file disappeared while it was read.
            if not left:
                raise
    git = Git(place.common, env)
    newest = saved(place.common, team, agent)[-1:]
    if newest and _holds(git, newest[0], built):
        return newest[0]
    new = Saved(
        ref="",
        commit="",
        team=team,
        agent=agent,
        number=0,
        at_ms=now_ms(),
        why=why,
        head=found.head,
        branch=_short(found.branch),
        files=built.files,
        left_out=tuple(built.left_out[:_LEFT_OUT_MAX]),
    )
    text = _message(new, task, only_ignored=_is_only_ignored(place, found))
    made = commit(git, built.tree, [built.base, built.staged], text)
    return name_it(git, replace(new, commit=made))


def saved(
    repository: Path, team: str | None = None, agent: str | None = None, *, ignored: bool = True
) -> list[Saved]:
    """Return the snapshots in a repository, of all or of a team or agent, the oldest first.

    Without `ignored`, those are left out that hold nothing but ignored files.

    Raises:
        Refused: there is no repository (no_repository).
    """
    git = Git(repository_dir(repository))
    form = "--format=%(refname)%00%(objectname)%00%(contents)%00"
    parts = git("for-each-ref", form, REFS).split("\0")
    found = []
    for ref, name, text in zip(parts[0::3], parts[1::3], parts[2::3], strict=False):
        row = _read(ref.strip("\n"), name, text)
        if not ignored and _ONLY_IGNORED in text.splitlines():
            continue
        if row and team in (None, row.team) and agent in (None, row.agent):
            found.append(row)
    return sorted(found, key=lambda row: (row.team, row.agent, row.number))


def verify(repository: Path, snapshot: Saved) -> None:
    """Check that a snapshot and everything in it exists. Raises Unavailable."""
    git = Git(repository)
    at = git.run("rev-parse", "--verify", "--quiet", snapshot.ref).out.strip()
    ran = git.run(
        "rev-list", "--objects", "--quiet", snapshot.commit,
        *(["--not", snapshot.head] if snapshot.head else []), seconds=TREE_S,
    )  # fmt: skip
    if at != snapshot.commit or not ran.ok:
        raise Unavailable(
            f"The snapshot {snapshot.ref} is not complete: "
            f"{ran.err.strip() or 'its ref was moved'}.",
            remedy="Nothing was removed. Run: git fsck",
        )


def name_it(git: Git, new: Saved) -> Saved:
    """Give a snapshot the next free number. Raises as `next_ref` does."""
    ref, number = next_ref(git, saved_refs(new.team, new.agent), new.commit)
    return replace(new, ref=ref, number=number)


def next_number(refs: Iterable[str]) -> int:
    """Return the number after the highest that these refs end with."""
    numbers = [ref.rpartition("/")[2] for ref in refs]
    return max((int(each) for each in numbers if each.isdecimal()), default=0) + 1


def next_ref(git: Git, prefix: str, commit: str) -> tuple[str, int]:
    """Give a commit the next free number below a prefix. Returns the ref and the number.

    Raises:
        Conflict: others are faster every time.
        GitFailed: the ref cannot be written.
    """
    for _ in range(_NUMBER_TRIES):
        number = next_number(git("for-each-ref", "--format=%(refname)", prefix).splitlines())
        ref = f"{prefix}/{number}"
        words = ("update-ref", ref, commit, "0" * len(commit))
        ran = git.run("-c", "core.fsync=all", *words)
        if ran.ok:
            return ref, number
        if not git.run("rev-parse", "--verify", "--quiet", ref).ok and "lock" not in ran.err:
            raise GitFailed(words, ran.code, ran.err, str(git.where))
    raise Conflict(
        f"No number is free for a snapshot under {prefix}: other processes took each of them.",
        remedy="Try again.",
    )


def _holds(git: Git, newest: Saved, built: Built) -> bool:
    """Return whether a snapshot has exactly this content: the same files, index and rest."""
    names = [f"{newest.commit}^{{tree}}", f"{newest.commit}{REST}^{{tree}}"]
    ran = git.run("rev-parse", "--verify", "--quiet", names[0])
    rest = git.run("rev-parse", "--verify", "--quiet", names[1])
    return ran.out.strip() == built.tree and rest.out.strip() == built.rest_tree


def _is_only_ignored(place: Layout, found: Unsaved) -> bool:
    """Return whether a worktree has nothing of its own but ignored files, such as caches."""
    inside = set(found.contents.nested) - set(found.settled)
    more = found.gone or found.is_staged or found.unfinished or found.ends or found.contents.apart
    if more or inside or not found.stored:
        return False
    try:
        given = "".join(f"{path}\0" for path in found.stored)
        ran = Git(place.top).run("check-ignore", "-z", "--stdin", given=given)
    except BullpenError:
        # It was moved aside, for example.
        return False
    return ran.ok and set(ran.out.split("\0")) - {""} == set(found.stored)


def _message(new: Saved, task: str | None, *, only_ignored: bool) -> str:
    row = asdict(new)
    kept = {key: row[key] for key in row if key not in ("ref", "commit", "number")}
    subject = f"Snapshot of the tree of {new.agent} in {new.team}: {new.why}"
    first = " ".join(subject.encode("utf-8", "replace").decode("utf-8").split())
    more = f"{_ONLY_IGNORED}\n" if only_ignored else ""
    return f"{first[:200]}\n\n{_MARK}{json.dumps(kept)}\n{more}{trailers(new.agent, task)}"


def _read(ref: str, name: str, text: str) -> Saved | None:
    number = ref.rpartition("/")[2]
    lines = [line for line in text.splitlines() if line.startswith(_MARK)]
    if not number.isdecimal() or not lines:
        return None
    try:
        row = json.loads(lines[-1].removeprefix(_MARK))
        row["left_out"] = tuple(row["left_out"])
        read = Saved(ref=ref, commit=name, number=int(number), **row)
    except (ValueError, TypeError, KeyError):
        return None
    # A snapshot belongs to the agent in its ref: its text alone could say anything.
    return read if ref == f"{saved_refs(read.team, read.agent)}/{number}" else None


def _short(branch: str | None) -> str | None:
    return None if branch is None else branch.removeprefix("refs/heads/")
