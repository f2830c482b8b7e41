"""A project with all that is its user's, a home with a team, and agents with trees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bullpen.agents.system.folders import tree_owner
from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.protocol.agent import AgentSpec, Workspace
from bullpen.protocol.names import LEAD
from bullpen.workspace.trees.tree import plan, prepare
from support.git.repositories import (
    add_submodule,
    belongings,
    commit,
    files_below,
    git,
    make_repository,
    write,
)

TEAM = "night"


def make_template(folder: Path) -> Path:
    """A project with a submodule, made once: it is copied for each state."""
    module = make_repository(folder / "module-source", {"m.txt": "m\n"})
    project = make_repository(
        folder / "template" / "project",
        {
            "a.txt": "one\n",
            "src/b.py": "b = 1\n",
            "src/deep-down/c.txt": "c\n",
            "other/d.txt": "d\n",
            ".gitignore": "build/\n*.env\n",
        },
    )
    add_submodule(project, module, "module")
    git(project, "config", "filter.lossy.clean", "sed /only/d")
    git(project, "config", "filter.lossy.smudge", "cat")
    git(project, "config", "filter.same.clean", "tr A-Z a-z")
    git(project, "config", "filter.same.smudge", "tr a-z A-Z")
    commit(project, {"a.txt": "two\n"}, "second")
    git(project, "branch", "feature", "HEAD~1")
    git(project, "tag", "-a", "v1", "-m", "one")
    write(project, {"a.txt": "stashed\n"})
    git(project, "stash", "push", "--quiet")
    write(project, {"a.txt": "the user's own change\n", "own.txt": "untracked\n"})
    git(project, "add", "a.txt")
    return folder / "template"


class Scene:
    """One project with one team. `users` is all that is the user's."""

    def __init__(self, template: Path, folder: Path) -> None:
        shutil.copytree(template, folder, symlinks=True)
        self.folder = folder
        self.project = folder / "project"
        self.precious = folder / "precious"
        write(self.precious, {"file": "precious\n", "deep/er": "more\n"})
        git(self.project, "worktree", "add", "--quiet", str(folder / "users-own"), "feature")
        write(folder / "users-own", {"a.txt": "changed by the user\n"})
        self.app = App(settings_from({}, home=folder / "home"), os.environ)
        self.trees: dict[str, Workspace] = {}
        self.owner = ""

    @property
    def users(self) -> Mapping[str, object]:
        """All that is the user's, to be compared."""
        ours = f"worktree {self.project}.bullpen/"
        found = belongings(self.project)
        trees = found["trees"]
        assert isinstance(trees, list)
        own = self.project / ".git" / "worktrees" / "users-own"
        return {
            **found,
            "trees": [tree for tree in trees if not tree.startswith(ours)],
            "other tree": files_below(self.folder / "users-own"),
            "other head": [(own / name).read_bytes() for name in ("HEAD", "index", "logs/HEAD")],
            "precious": files_below(self.precious),
        }

    async def make_team(self, kinds: Mapping[str, str]) -> None:
        """A team whose agents have trees and have ended."""
        await self.app.teams.create(TEAM, by=LEAD)
        team = self.app.teams.open(TEAM)
        self.owner = tree_owner(self.app.settings.home, await team.agents.config())
        for name, kind in kinds.items():
            tree = plan(
                "clone" if kind == "clone" else "worktree",
                self.project,
                team=TEAM,
                agent=name,
                dirty="leave",
            )
            self.prepare(name, tree)
            self.trees[name] = tree
            spec = AgentSpec.new(
                driver="scripted", backend="subprocess", cwd=tree.path, workspace=tree.raw
            )
            await team.agents.register(name, spec, by=LEAD, nonce=name)
            await team.agents.end(name, "stopped", by=LEAD, nonce=name)

    def prepare(self, name: str, tree: Workspace) -> None:
        """Make a tree, or find it again."""
        prepare(tree, team=TEAM, agent=name, owner=self.owner)
