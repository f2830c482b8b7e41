"""The git repository of the stand-in: bare, real, and reached over HTTP as GitHub's are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GIT_S = 120.0
"""How long one git command may take."""

_HUNK = re.compile(r"@@ -[\d,]+ \+(\d+)(?:,(\d+))? @@")

_NOBODY = "GitHub <noreply@github.com>"


class MergeFails(Exception):
    """Two branches cannot be merged without a person."""


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What `git http-backend` answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class BareRepository:
    """A bare repository in a folder `OWNER/NAME.git` below `root`."""

    def __init__(self, root: Path, owner: str, name: str) -> None:
        self.root, self.folder = root, root / owner / f"{name}.git"
        self.folder.mkdir(parents=True)
        self._git("init", "--quiet", "--bare", "--initial-branch", "main")
        self._git("config", "http.receivepack", "true")
        self._mergeable: dict[tuple[str, str], bool] = {}

    def begin(self, files: Mapping[str, str]) -> str:
        """Create `main` with its first commit."""
        lines = []
        for name, text in sorted(files.items()):
            blob = self._git("hash-object", "-w", "--stdin", given=text)
            lines.append(f"100644 blob {blob}\t{name}\n")
        tree = self._git("mktree", given="".join(lines))
        commit = self._git("commit-tree", tree, "-m", "Begin")
        self._git("update-ref", "refs/heads/main", commit)
        return commit

    def head(self, branch: str) -> str | None:
        """Return the commit of a branch."""
        ran = self._run("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
        return ran.stdout.strip() if ran.returncode == 0 else None

    def has(self, commit: str) -> bool:
        """Return whether there is such a commit."""
        return self._run("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    def delete(self, branch: str) -> None:
        """Delete a branch."""
        self._git("update-ref", "-d", f"refs/heads/{branch}")

    def keep(self, number: int, commit: str) -> None:
        """Keep the commits of a pull request when its branch is gone."""
        self._git("update-ref", f"refs/pull/{number}/head", commit)

    def contains(self, branch: str, commit: str) -> bool:
        """Return whether a commit is in a branch."""
        where = f"refs/heads/{branch}"
        return self._run("merge-base", "--is-ancestor", commit, where).returncode == 0

    def lines_shown(self, base: str, head: str) -> dict[str, set[int]]:
        """Return the lines of the new files that the difference of a pull request shows."""
        found: dict[str, set[int]] = {}
        words = ("-c", "core.quotePath=false", "diff", "-U3", "-M", "--no-color")
        name, inside = "", 0
        for line in self._git(*words, f"{base}...{head}").split("\n"):
            hunk = _HUNK.match(line) if inside <= 0 else None
            if hunk:
                first, inside = int(hunk[1]), int(hunk[2] or 1)
                found.setdefault(name, set()).update(range(first, first + inside))
            elif inside > 0:
                inside -= line[:1] in {"+", " ", ""}
            elif line.startswith("+++ b/"):
                name = line.removeprefix("+++ b/").rstrip("\t")
        return found

    def can_merge(self, base: str, head: str) -> bool:
        """Return whether a commit can be merged into a branch without conflicts."""
        onto = self.head(base)
        if onto is None:
            return False
        if (onto, head) not in self._mergeable:
            ran = self._run("merge-tree", "--write-tree", onto, head)
            self._mergeable[onto, head] = ran.returncode == 0
        return self._mergeable[onto, head]

    def merge(self, base: str, head: str, method: str, message: str) -> str:
        """Merge a commit into a branch; return the new commit of the branch."""
        onto = self.head(base)
        if onto is None or not self.can_merge(base, head):
            raise MergeFails
        if method == "rebase":
            commit = self._rebased(onto, head)
        else:
            tree = self._git("merge-tree", "--write-tree", onto, head).split()[0]
            parents = ["-p", onto] + (["-p", head] if method == "merge" else [])
            commit = self._git("commit-tree", tree, *parents, "-m", message)
        self._git("update-ref", f"refs/heads/{base}", commit, onto)
        return commit

    def _rebased(self, onto: str, head: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            self._git("worktree", "add", "--quiet", "--detach", f"{folder}/tree", onto)
            try:
                self._git("-C", f"{folder}/tree", "cherry-pick", f"{onto}..{head}")
                return self._git("-C", f"{folder}/tree", "rev-parse", "HEAD")
            except RuntimeError as error:
                raise MergeFails from error
            finally:
                shutil.rmtree(f"{folder}/tree")
                self._git("worktree", "prune")

    def answer(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, user: str
    ) -> GitAnswer:
        """Answer a request of git by the program that comes with git."""
        env = {
            **_environment(self.root),
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
            "GIT_PROTOCOL": headers.get("git-protocol", ""),
            "REMOTE_USER": user,
            "REMOTE_ADDR": "127.0.0.1",
        }
        ran = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env=env,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
        head, _, content = ran.stdout.partition(b"\r\n\r\n")
        lines = [line.partition(":") for line in head.decode("latin-1").split("\r\n") if line]
        found = [(name.strip(), value.strip()) for name, _, value in lines]
        status = next((value for name, value in found if name.lower() == "status"), "200")
        kept = [(name, value) for name, value in found if name.lower() != "status"]
        return GitAnswer(int(status.split()[0]), kept, content)

    def _git(self, *words: str, given: str | None = None) -> str:
        ran = self._run(*words, given=given)
        if ran.returncode:
            raise RuntimeError(f"git {' '.join(words)}: {ran.stderr}")
        return ran.stdout.strip()

    def _run(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env=_environment(self.root),
            input=given,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=GIT_S,
            check=False,
        )


def _environment(home: Path) -> dict[str, str]:
    name, _, address = _NOBODY.rstrip(">").partition(" <")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address,
    }
