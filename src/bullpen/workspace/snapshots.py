"""Snapshots: all that is in a tree and nowhere else, as a real commit under a ref of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bullpen.errors import Conflict, Unavailable
from bullpen.store.clock import now_ms
from bullpen.workspace.building import REST, Built, build, commit
from bullpen.workspace.contents import Contents
from bullpen.workspace.git import TREE_S, Git, GitFailed
from bullpen.workspace.layout import Layout, layout_of, repository_dir
from bullpen.workspace.names import REFS, component, saved_refs
from bullpen.workspace.unsaved import look

BYTES_MAX = 2_000_000_000
"""So many bytes that git does not track go into a snapshot at most."""

_TRIES = 3
_NUMBER_TRIES = 100
_MARK = "bullpen-snapshot: "
_LEFT_OUT_MAX = 20


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot: where it is, whose tree it was, when and why, and what the tree was at."""

    ref: str
    commit: str
    team: str
    agent: str
    number: int
    at_ms: int
    why: str
    head: str | None
    branch: str | None
    # How many paths of it are in no other commit.
    files: int
    # What was in the tree and cannot be kept: sockets, pipes, trees of others. The first of them.
    left_out: tuple[str, ...] = ()


def save(
    tree: Path,
    *,
    team: str,
    agent: str,
    why: str,
    most: int = BYTES_MAX,
    whole: bool = False,
    stood: Path | None = None,
    allow: Callable[[Layout, Contents], None] = lambda place, contents: None,
) -> Saved | None:
    """Keep all that is in a tree and nowhere else; None if there is nothing such.

    What the newest snapshot holds already is not kept twice: then it is that one. Nothing is
    changed in the tree, its index, the settings, branches and stashes. With `whole` all that is
    in the repository of the tree counts, since that goes too. `stood` is where the tree was before
    it was moved aside. `allow` may refuse what was found.

    Raises:
        Refused: there is no tree (no_tree), or it holds too much that git does not track (too_big).
        Unavailable: something cannot be read or written, or changes all the time.
    """
    place = layout_of(tree, stood=stood)
    env = _identity(team, agent)
    for left in reversed(range(_TRIES)):
        try:
            found = look(place, team=team, agent=agent, whole=whole)
            allow(place, found.contents)
            if not found.is_anything:
                return None
            built = build(place, found, most=most, whole=whole, env=env)
            break
        except GitFailed:
            # Most likely a file went away while it was looked at.
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
    made = commit(git, built.tree, [built.base, built.staged], _message(new))
    return name_it(git, replace(new, commit=made))


def saved(repository: Path, team: str | None = None, agent: str | None = None) -> list[Saved]:
    """The snapshots in a repository, of all or of a team or agent, the oldest first.

    Raises:
        Refused: there is no repository (no_repository).
    """
    git = Git(repository_dir(repository))
    form = "--format=%(refname)%00%(objectname)%00%(contents)%00"
    parts = git("for-each-ref", form, REFS).split("\0")
    found = []
    for ref, name, text in zip(parts[0::3], parts[1::3], parts[2::3], strict=False):
        row = _read(ref.strip("\n"), name, text)
        if row and team in (None, row.team) and agent in (None, row.agent):
            found.append(row)
    return sorted(found, key=lambda row: (row.team, row.agent, row.number))


def verify(repository: Path, snapshot: Saved) -> None:
    """See that a snapshot is there with all that it holds. Raises Unavailable."""
    git = Git(repository)
    at = git.run("rev-parse", "--verify", "--quiet", snapshot.ref).out.strip()
    ran = git.run(
        "rev-list", "--objects", "--quiet", snapshot.commit,
        *(["--not", snapshot.head] if snapshot.head else []), seconds=TREE_S,
    )  # fmt: skip
    if at != snapshot.commit or not ran.ok:
        raise Unavailable(
            f"The snapshot {snapshot.ref} is not whole: {ran.err.strip() or 'its ref was moved'}.",
            remedy="Nothing was removed. Look with: git fsck",
        )


def name_it(git: Git, new: Saved) -> Saved:
    """Give a snapshot the next number, which nobody else gets.

    Raises:
        Conflict: others are faster every time.
        GitFailed: the ref cannot be written.
    """
    prefix = saved_refs(new.team, new.agent)
    for _ in range(_NUMBER_TRIES):
        names = git("for-each-ref", "--format=%(refname)", prefix).splitlines()
        numbers = [name.rpartition("/")[2] for name in names]
        number = max((int(each) for each in numbers if each.isdecimal()), default=0) + 1
        ref = f"{prefix}/{number}"
        words = ("update-ref", ref, new.commit, "0" * len(new.commit))
        ran = git.run("-c", "core.fsync=all", *words)
        if ran.ok:
            return replace(new, ref=ref, number=number)
        if not git.run("rev-parse", "--verify", "--quiet", ref).ok and "lock" not in ran.err:
            raise GitFailed(words, ran.code, ran.err, str(git.where))
    raise Conflict(
        f"No number was left for a snapshot under {prefix}: others took each of them.",
        remedy="Try again.",
    )


def _holds(git: Git, newest: Saved, built: Built) -> bool:
    """Whether a snapshot holds just this: the same files, index and rest."""
    names = [f"{newest.commit}^{{tree}}", f"{newest.commit}{REST}^{{tree}}"]
    ran = git.run("rev-parse", "--verify", "--quiet", names[0])
    rest = git.run("rev-parse", "--verify", "--quiet", names[1])
    return ran.out.strip() == built.tree and rest.out.strip() == built.rest_tree


def _identity(team: str, agent: str) -> dict[str, str]:
    name, email = component(agent), f"{component(agent)}@{component(team)}.bullpen"
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }


def _message(new: Saved) -> str:
    row = asdict(new)
    kept = {key: row[key] for key in row if key not in ("ref", "commit", "number")}
    subject = f"Snapshot of the tree of {new.agent} in {new.team}: {new.why}"
    first = " ".join(subject.encode("utf-8", "replace").decode("utf-8").split())
    return f"{first[:200]}\n\n{_MARK}{json.dumps(kept)}\n"


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
    # A snapshot counts for whom its ref says: its text alone could say anything.
    return read if ref == f"{saved_refs(read.team, read.agent)}/{number}" else None


def _short(branch: str | None) -> str | None:
    return None if branch is None else branch.removeprefix("refs/heads/")
