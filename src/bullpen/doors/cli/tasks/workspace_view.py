"""Agents' worktrees and their snapshots."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from bullpen.agents.system.folders import home_mark, tree_owner
from bullpen.agents.work.tree_cleanup import TreeEnd, trees_of
from bullpen.app.app import App
from bullpen.doors.cli.app_session import with_app, with_home
from bullpen.doors.cli.session import Session, directory
from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.protocol.agent import Workspace
from bullpen.protocol.clock import iso
from bullpen.view.text import Cell
from bullpen.workspace.git.layout import repository_dir
from bullpen.workspace.git.ref_names import component, folder_of
from bullpen.workspace.removal.inventory import clones_beside, trees_of_ours
from bullpen.workspace.removal.remove import remove
from bullpen.workspace.snapshots.save import Saved, save, saved
from bullpen.workspace.trees.describe import TreeReport, report
from bullpen.workspace.trees.restore import find, restore

_SHOWN_MAX = 20
_SOME_STAY = 1


@dataclass(frozen=True, slots=True)
class _Tree:
    """A worktree and its owner."""

    team: str
    agent: str
    owner: str
    workspace: Workspace
    is_alive: bool


class Workspaces:
    """The worktrees of one team, or of all teams in one repository."""

    def __init__(self, session: Session, repository: str | None) -> None:
        self._session = session
        self._page = session.page
        self._repository = None if repository is None else Path(directory(repository))

    def show_all(self) -> None:
        """A table of all worktrees."""
        rows = [self._report(tree) for tree in self._trees]
        self._page.listing(
            "worktrees/1",
            {"worktrees": [_json(row) for row in rows]},
            ("agent", "kind", "branch", "base", "changed", "in use by", "saved", "path"),
            [_row(row) for row in rows],
            nothing="No agent has a worktree.",
        )

    def show(self, name: str) -> None:
        """One worktree."""
        row = self._report(self._tree(name))
        if self._page.json:
            self._page.value("worktree/1", _json(row))
            return
        self._page.title(f"Worktree of {row.agent} in team {row.team}")
        self._page.fields(_fields(row))
        for path in (row.changed or [])[:_SHOWN_MAX]:
            self._page.line(f"  changed: {path}")
        if row.changed and len(row.changed) > _SHOWN_MAX:
            self._page.line(f"  and {len(row.changed) - _SHOWN_MAX} more")
        for each in row.snapshots:
            self._page.line(f"  saved: {_short(each)}")

    def save(self, name: str, why: str) -> None:
        """Save what exists only in a worktree."""
        tree = self._tree(name)
        kept = save(Path(tree.workspace.path), team=tree.team, agent=tree.agent, why=why)
        if kept is None:
            said = f"Everything in the worktree of {name} is already saved."
            self._page.result("worktree-saved/1", {"snapshot": None}, said)
            return
        back = f"bullpen workspace restore {_end(kept)}{self._session.elsewhere}"
        self._page.result(
            "worktree-saved/1",
            {"snapshot": kept},
            f"Saved as {kept.ref} ({kept.files} files).",
            f"Restore it with: {back}",
        )

    def show_saved(self) -> None:
        """All snapshots."""
        rows = [row for _, row in self._saved]
        self._page.listing(
            "snapshots/1",
            {"snapshots": rows},
            ("snapshot", "at", "files", "branch", "why"),
            [
                (_end(row), iso(row.at_ms), str(row.files), row.branch or "-", row.why)
                for row in rows
            ],
            nothing="No snapshots.",
        )

    def restore(self, ref: str, into: str | None) -> None:
        """Restore a snapshot."""
        repository = self._holding(ref)
        kept = find(repository, ref)
        place = _beside(repository, kept) if into is None else Path(directory(into))
        back = restore(repository, kept.ref, place)
        for lack in back.lacks:
            self._page.warn(lack)
        self._page.result(
            "worktree-restored/1",
            {"path": str(back.path), "snapshot": kept, "lacks": list(back.lacks)},
            f"Restored {_end(kept)} to {back.path}.",
        )

    def remove(self, name: str | None) -> None:
        """Remove one worktree or all; name those that stay."""
        if name is not None:
            self._show_ends([self._removed(self._tree(name))])
            return
        ends = []
        for tree in self._trees:
            try:
                ends.append(self._removed(tree))
            except BullpenError as error:
                why = f"{error.message} {error.remedy}".strip()
                ends.append(TreeEnd(tree.agent, tree.workspace.path, None, why))
        self._show_ends(ends)

    def _removed(self, tree: _Tree) -> TreeEnd:
        if tree.is_alive:
            raise Refused(
                f"Agent {tree.agent!r} is running in {tree.workspace.path}.",
                reason="members_alive",
                remedy=f"Stop it first: bullpen stop {tree.agent}{self._session.elsewhere}",
            )
        if not tree.owner.startswith(f"{home_mark(self._session.settings.home)}-"):
            raise Refused(
                f"The worktree {tree.workspace.path} belongs to a team in another home.",
                reason="tree_taken",
                remedy="Name that home with --home.",
            )
        gone = remove(
            tree.workspace, team=tree.team, agent=tree.agent, owner=tree.owner, why="removed"
        )
        return TreeEnd(tree.agent, tree.workspace.path, gone)

    def _show_ends(self, ends: list[TreeEnd]) -> None:
        for end in ends:
            if end.removed is None:
                self._page.warn(str(end))
        gone = [str(end) for end in ends if end.removed is not None]
        lines = gone or ([] if ends else ["No agent has a worktree."])
        value = {"worktrees": [end.as_json for end in ends]}
        self._page.result("worktrees-removed/1", value, *lines)
        if len(gone) < len(ends):
            self._page.flush()
            raise typer.Exit(_SOME_STAY)

    @staticmethod
    def _report(tree: _Tree) -> TreeReport:
        return report(tree.workspace, team=tree.team, agent=tree.agent)

    def _tree(self, name: str) -> _Tree:
        found = [tree for tree in self._trees if tree.agent == name]
        if not found:
            raise NotFound(
                f"No agent {name!r} with a worktree was found.",
                remedy="See: bullpen workspace list (with --repository DIR for deleted teams)",
            )
        if len(found) > 1:
            teams = ", ".join(tree.team for tree in found)
            raise Refused(
                f"Several teams have an agent {name!r}: {teams}.",
                reason="ambiguous",
                remedy="Name the team with -t.",
            )
        return found[0]

    @cached_property
    def _trees(self) -> list[_Tree]:
        if self._repository is None:
            return with_app(self._session, _of_team)
        alive = with_home(self._session, _alive)
        team = self._session.team
        return [
            _Tree(
                tree.who.team,
                tree.who.agent,
                tree.who.owner,
                tree.workspace,
                (tree.who.owner, tree.who.agent) in alive,
            )
            for tree in [*trees_of_ours(self._repository), *clones_beside(self._repository)]
            if team in (None, tree.who.team)
        ]

    @cached_property
    def _repositories(self) -> list[Path]:
        """Where snapshots may lie: the repository that was named, else the team's and this one."""
        if self._repository is not None:
            return [repository_dir(self._repository)]
        here = Path(directory(None))
        known: set[Path] = set()
        # Of a team that is deleted, or of several, the repository here says what there is.
        with suppress(NotFound, Refused):
            places = [(tree.workspace.repository, tree.workspace.path) for tree in self._trees]
            known = {Path(each) for pair in places for each in pair if os.path.isdir(each)}
        found = {repository_dir(place) for place in known}
        with suppress(Refused):
            found.add(repository_dir(here))
        return sorted(found) or [repository_dir(here)]

    @cached_property
    def _saved(self) -> list[tuple[Path, Saved]]:
        team = self._session.team
        return [(place, row) for place in self._repositories for row in saved(place, team)]

    def _holding(self, ref: str) -> Path:
        """The repository with a snapshot; the first that there is says if none has it."""
        for place in self._repositories:
            try:
                find(place, ref)
            except NotFound:
                continue
            return place
        return self._repositories[0]


async def _of_team(app: App, team: str) -> list[_Tree]:
    config = await app.teams.open(team).agents.config()
    owner = tree_owner(app.settings.home, config)
    living = {member.name for member, _ in await app.teams.open(team).agents.living()}
    return [
        _Tree(team, agent, owner, tree, agent in living)
        for agent, tree in sorted(trees_of(config).items())
    ]


async def _alive(app: App) -> set[tuple[str, str]]:
    found = set()
    for name in await app.teams.names():
        try:
            trees = await _of_team(app, name)
        except NotFound:
            continue
        found |= {(tree.owner, tree.agent) for tree in trees if tree.is_alive}
    return found


def _beside(repository: Path, kept: Saved) -> Path:
    """A new folder beside the trees of the repository."""
    top = repository.parent if repository.name == ".git" else repository
    trees = (top.parent / folder_of(top.name, kept.team)).parent
    name = f"{component(kept.team)}.{component(kept.agent)}.{kept.number}"
    places = (
        trees / "restored" / f"{name}{more}" for more in ("", *(f".{n}" for n in range(2, 1000)))
    )
    return next(place for place in places if not os.path.lexists(place))


def _end(row: Saved) -> str:
    return row.ref.removeprefix("refs/bullpen/")


def _short(row: Saved) -> str:
    return f"{_end(row)} at {iso(row.at_ms)}, {row.files} files ({row.why})"


def _row(row: TreeReport) -> list[str | Cell]:
    apart = "-" if row.ahead is None else f"+{row.ahead} -{row.behind}"
    changed = "?" if row.changed is None else str(len(row.changed))
    users = ", ".join(str(user.pid) for user in row.users or []) or "-"
    path: str | Cell = row.workspace.path
    if not row.is_there or row.trouble:
        path = Cell(f"{path} ({row.trouble or 'missing'})", "attention")
    return [
        row.agent,
        row.workspace.kind,
        row.branch or row.workspace.branch or "-",
        f"{row.workspace.base or '-'} {apart}",
        changed,
        users,
        str(len(row.snapshots)),
        path,
    ]


def _fields(row: TreeReport) -> list[tuple[str, str | Cell]]:
    tree = row.workspace
    rows: list[tuple[str, str | Cell]] = [
        ("kind", tree.kind),
        ("path", tree.path if row.is_there else Cell(f"{tree.path} (missing)", "attention")),
        ("of", tree.repository),
        ("branch", row.branch or (f"none, at {row.head[:12]}" if row.head else "-")),
        ("base", tree.base or "-"),
    ]
    if row.ahead is not None:
        rows.append(("commits", f"{row.ahead} ahead of the base, {row.behind} behind"))
    if row.changed is not None:
        rows.append(("changed", f"{len(row.changed)} paths"))
    rows += [("in use by", str(user)) for user in row.users or []]
    if row.trouble:
        rows.append(("problem", Cell(row.trouble, "attention")))
    return rows


def _json(row: TreeReport) -> dict[str, Any]:
    return {
        "team": row.team,
        "agent": row.agent,
        "kind": row.workspace.kind,
        "path": row.workspace.path,
        "repository": row.workspace.repository,
        "isThere": row.is_there,
        "branch": row.branch,
        "head": row.head,
        "base": row.workspace.base,
        "ahead": row.ahead,
        "behind": row.behind,
        "changed": row.changed,
        "inUseBy": row.users,
        "snapshots": row.snapshots,
        "trouble": row.trouble,
    }
