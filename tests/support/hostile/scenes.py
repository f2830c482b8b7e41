"""A project to be hostile in, and whether harm was done."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide
from bullpen.protocol.policy import Mode

from .bash_runs import Bench
from .commands import ALLOWED, aimed, lay_out

RUNS = int(os.environ.get("BULLPEN_HOSTILE_RUNS", "150"))

LISTED = ("git", "ls", "npm", "python")
UNLISTED = (
    "awk", "base64", "bash", "busybox", "cat", "chmod", "cp", "dd", "diff", "env", "find", "grep",
    "head", "install", "ln", "mkdir", "mv", "nohup", "od", "perl", "python3", "sed", "sh",
    "sort", "tac", "tar", "tee", "timeout", "touch", "xargs",
)  # fmt: skip
# What git and pytest are not to be given, whatever they were found to be called with.
_TELLING = (
    "--out", "--outp", "--outpu", "--output", "--ext", "--ext-diff", "--exec", "--exec-path",
    "--junitxml", "--junit-xml", "--basetemp", "--log-file", "--rootdir",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scene:
    """A project, what lies outside it, and a bash that finds only programs that record."""

    bench: Bench
    project: Path
    canary: Path
    secret: Path

    def aimed(self, command: str) -> str:
        return aimed(command, canary=self.canary, secret=self.secret)

    def effect(self, command: str, mode: Mode = "dontAsk") -> str:
        rights = Rights(mode, str(self.project), str(self.project.parent / "home"), ALLOWED)
        return decide(Call("Bash", {"command": command}, "run"), rights).effect

    def harm(self, command: str) -> str | None:
        """Run a command line, and say what it did that is not on the list."""
        run = self.bench.run(command)
        if self.canary.exists() or self.canary.is_symlink():
            return "the canary"
        if run.files:
            return f"wrote {sorted(run.files)}"
        for words in run.programs:
            if not _listed(words):
                return f"ran {words}"
        return None


def _listed(words: tuple[str, ...]) -> bool:
    """Whether the list is about a program with these words, said without any of our code."""
    telling = any(word.partition("=")[0] in _TELLING for word in words[1:])
    return (
        words[:1] in {("ls",), ("echo",)}
        or words == ("npm", "test")
        or (words[:2] in {("git", "status"), ("git", "log")} and not telling)
        or (words[:3] == ("python", "-m", "pytest") and not telling)
    )


def _scene(root: Path, bench: Bench) -> Scene:
    project, outside = root / "project", root / "outside"
    outside.mkdir(parents=True)
    (outside / "secret").write_text("the secret\n", "utf-8")
    lay_out(project, outside / "canary")
    bench.cwd = project
    return Scene(bench, project, outside / "canary", outside / "secret")
