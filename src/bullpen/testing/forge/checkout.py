"""A throw-away git repository that pushes to a forge over HTTP, for tests."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

GIT_S = 120.0
"""How long one git command may take."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Pushes commits to a repository with a token. `folder` is its own and may not exist yet."""

    folder: Path
    url: str
    token: str
    login: str

    async def push(
        self, branch: str, files: Mapping[str, str], *, base: str | None, force: bool = False
    ) -> str:
        """Commit files on top of a branch of the forge, or of nothing, and push that."""
        if not await anyio.Path(self.folder, ".git").exists():
            await anyio.Path(self.folder).mkdir(parents=True, exist_ok=True)
            await self.git("init", "--quiet", "--initial-branch", "scratch")
        if base is None:
            await self.git("checkout", "--quiet", "--orphan", "first")
        else:
            await self.git("fetch", "--quiet", self.url, f"refs/heads/{base}")
            await self.git("checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
        for name, text in files.items():
            path = anyio.Path(self.folder, name)
            await path.parent.mkdir(parents=True, exist_ok=True)
            await path.write_text(text, encoding="utf-8")
            await self.git("add", "--", name)
        await self.git("commit", "--quiet", "--allow-empty", "-m", f"Change {', '.join(files)}")
        target = f"{'+' if force else ''}HEAD:refs/heads/{branch}"
        await self.git("push", "--quiet", self.url, target)
        return await self.git("rev-parse", "HEAD")

    async def git(self, *words: str) -> str:
        """Run git in the folder, without the settings of the user; return what it prints."""
        secret = base64.b64encode(f"{self.login}:{self.token}".encode()).decode()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": self.login,
            "GIT_AUTHOR_EMAIL": f"{self.login}@example.com",
            "GIT_COMMITTER_NAME": self.login,
            "GIT_COMMITTER_EMAIL": f"{self.login}@example.com",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {secret}",
        }
        with anyio.fail_after(GIT_S):
            ran = await anyio.run_process(
                ["git", *words], cwd=self.folder, env=env, check=False, stderr=subprocess.PIPE
            )
        if ran.returncode:
            raise RuntimeError(f"git {' '.join(words)}: {ran.stderr.decode(errors='replace')}")
        return ran.stdout.decode("utf-8", "surrogateescape").strip()
