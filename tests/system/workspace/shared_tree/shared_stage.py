"""A real repository that two agents share, with edits of both, and what became of them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from bullpen.agents.contracts.call import Call
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.system.transcript import Transcript, rows
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec, Workspace
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from support.git.repositories import commit, git, make_repository, only_these_settings

RUN_S = 60.0

COMMITTED = {
    "src/ann.py": "ann = 1\n",
    "src/bob.py": "bob = 1\n",
    "src/nobody.py": "nobody = 1\n",
    "docs/ann.md": "docs\n",
    ".gitignore": "*.log\nbuild/\n",
    # What git stores of a file is then not what the file holds.
    ".gitattributes": "* text=auto\n",
    "wipe.sh": "#!/bin/sh\ngit reset -q --hard && git clean -qfdx\n",
    "wipe.py": "import subprocess\nsubprocess.run(['sh', 'wipe.sh'], check=True)\n",
    "Makefile": "wipe:\n\tgit checkout -q -- .\n",
}

ANNS = {
    "src/ann.py": b"ann = 2\r\nno newline at the end",
    "src/new by ann.py": b"new = 1\n",
    "docs/ann.md": b"later\n",
    "ann.log": b"ignored by git, but written\n",
}
STAGED = b"staged\n"


def make_template(where: Path) -> Path:
    """The repository: two branches, a stash of the user's, aliases, and cid's tree."""
    with pytest.MonkeyPatch.context() as patch:
        only_these_settings(patch, where.parent)
        make_repository(where, COMMITTED)
        (where / "wipe.sh").chmod(0o755)
        commit(where, {}, "make it run")
        git(where, "checkout", "-q", "-b", "other")
        commit(where, {"src/ann.py": "ann = 'other'\n", "src/bob.py": "bob = 'other'\n"})
        git(where, "checkout", "-q", "main")
        (where / "src/nobody.py").write_text("stashed = 1\n", "utf-8")
        git(where, "stash", "push", "-q", "-m", "the user's")
        git(where, "branch", "bullpen/alpha/cid")
        git(where, "update-ref", "refs/bullpen/alpha/cid/1", "HEAD")
        git(where, "config", "alias.undo", "reset --hard")
        git(where, "config", "alias.zap", "!git clean -fd")
        git(where, "config", "alias.st", "status")
    return where


class Stage:
    """Ann and bob, and the repository that they share."""

    def __init__(self, team: Team, folder: Path, top: Path) -> None:
        self.team = team
        self.top = top
        self.folder = folder
        self.desks: dict[str, RunnerDesk] = {}

    async def hire(self, name: str, *, cwd: Path | None = None, **fields: Any) -> RunnerDesk:
        spec = AgentSpec.new(
            driver="told",
            backend="subprocess",
            cwd=str(cwd or self.top),
            mode="bypassPermissions",
            **fields,
        )
        await self.team.agents.register(name, spec, by=LEAD, nonce=f"nonce-{name}")
        folder = self.folder / name
        folder.mkdir()
        self.desks[name] = RunnerDesk(
            self.team,
            name,
            spec,
            nonce=f"nonce-{name}",
            folder=folder,
            env={"HOME": str(self.folder), "BULLPEN_HOME": str(self.folder / "home")},
            transcript=Transcript(folder),
            colleagues=None,
            now=lambda: 0,
        )
        return self.desks[name]

    async def write(self, name: str, path: str, content: bytes) -> None:
        """Write a file as the tool Write does: through the gate, then really."""
        given = {"file_path": str(self.top / path), "content": content.decode()}
        await self.desks[name].permit(Call("Write", given, "write"))
        (self.top / path).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path).write_bytes(content)

    async def bash(self, name: str, command: str) -> None:
        """Run a command as the tool Bash does: through the gate, then really."""
        await self.desks[name].permit(Call("Bash", {"command": command}, "run"))
        await to_thread.run_sync(self.really, command)

    def really(self, command: str) -> None:
        subprocess.run(
            ["bash", "-c", command],
            cwd=self.top,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_S,
            check=False,
        )

    async def tried(self, name: str, command: str) -> str:
        """What came of a command: `runs`, `kept` (runs after edits were kept), or a refusal."""
        before = len(self.kept(name))
        try:
            await self.bash(name, command)
        except Refused as refused:
            return refused.reason
        return "kept" if len(self.kept(name)) > before else "runs"

    def kept(self, name: str) -> list[dict[str, Any]]:
        """What the transcript of an agent names as kept."""
        return [
            row for row in rows(self.folder / name / "transcript.jsonl") if row["kind"] == "kept"
        ]

    def remember(self) -> None:
        """Keep the repository and its owners as they are, to go back to them."""
        shutil.copytree(self.top, self.folder / "remembered", symlinks=True)
        for file in self.folder.glob("+tree-*.json"):
            shutil.copyfile(file, self.folder / f"remembered{file.name}")

    def go_back(self) -> None:
        """Make the repository and its owners as they were when they were remembered."""
        shutil.rmtree(self.top)
        shutil.copytree(self.folder / "remembered", self.top, symlinks=True)
        for file in self.folder.glob("remembered+tree-*.json"):
            shutil.copyfile(file, self.folder / file.name.removeprefix("remembered"))
        for name in self.desks:
            (self.folder / name / "transcript.jsonl").write_text("", "utf-8")

    def lost(self, wanted: dict[str, bytes]) -> list[str]:
        """The files that are neither there as they were, nor in anything that was kept."""
        refs = [str(row["ref"]) for name in self.desks for row in self.kept(name)]
        return [path for path, content in wanted.items() if not self._has(path, content, refs)]

    def _has(self, path: str, content: bytes, refs: list[str]) -> bool:
        file = self.top / path
        if file.is_file() and file.read_bytes() == content:
            return True
        return any(self.shown(f"{ref}:{path}") == content for ref in refs)

    def shown(self, what: str) -> bytes | None:
        done = subprocess.run(
            ["git", "cat-file", "blob", what], cwd=self.top, capture_output=True, check=False
        )
        return done.stdout if done.returncode == 0 else None

    def staged_is_safe(self) -> bool:
        """Whether what ann staged is in the index, or in anything that was kept."""
        refs = [str(row["ref"]) for name in self.desks for row in self.kept(name)]
        places = [":docs/ann.md", *(f"{ref}^2:docs/ann.md" for ref in refs)]
        return any(self.shown(each) == STAGED for each in places)


@asynccontextmanager
async def stage_in(
    folder: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    """Ann with edits of every kind, each written for her task, and bob with his."""
    only_these_settings(monkeypatch, folder)
    top = folder / "project"
    shutil.copytree(template, top, symlinks=True)
    async with Teams(MemoryStore()) as teams:
        await teams.create("alpha", cwd=str(top))
        team = teams.open("alpha")
        agents = folder / "agents"
        agents.mkdir()
        stage = Stage(team, agents, top)
        await stage.hire("ann")
        await stage.hire("bob")
        tree = folder / "cids"
        git(top, "worktree", "add", "-q", str(tree), "bullpen/alpha/cid")
        record = Workspace.new(
            kind="worktree", repository=str(top), path=str(tree), branch="bullpen/alpha/cid"
        )
        await stage.hire("cid", cwd=tree, workspace=record.raw)
        for name in ("ann", "bob"):
            task = await team.tasks.add(f"Work of {name}", by=LEAD)
            await team.tasks.claim(task.id, by=name)
        yield stage


async def with_edits(stage: Stage) -> None:
    """Let ann and bob edit their files."""
    await stage.write("ann", "docs/ann.md", STAGED)
    await stage.bash("ann", "git add docs/ann.md")
    for path, content in ANNS.items():
        await stage.write("ann", path, content)
    await stage.write("bob", "src/bob.py", b"bob = 2\n")
    await stage.write("bob", "src/new by bob.py", b"new = 2\n")
