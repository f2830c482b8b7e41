"""The pages of this project as somebody reads them: their blocks of code, and typing those."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from bullpen.doors.cli.main import app

ROOT = Path(__file__).parents[3]
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md")),
        *(ROOT / name for name in ("SECURITY.md", "CODE_OF_CONDUCT.md")),
        *sorted(ROOT.glob("docs/**/*.md")),
        *sorted(ROOT.glob("examples/**/*.md")),
        *sorted(ROOT.glob("benchmarks/*.md")),
    ]
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"\s+# .*")
_HERE_DOCUMENT = re.compile(r"<<-?'?(\w+)'?$")


def page_text(page: str) -> str:
    """The text of a page, by its path in the project."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in one language, as they are printed."""
    return [text for name, text in _BLOCK.findall(page_text(page)) if name == language]


def shown(page: str) -> list[str]:
    """The commands that a page shows being typed, which are not run as they stand."""
    found = []
    for block in blocks(page, "console"):
        lines = block.splitlines()
        typed = [line[2:] for line in lines if line.startswith("$ ")]
        # Without a prompt all of it is for a file of some program, such as a crontab.
        found += [_COMMENT.sub("", line).strip() for line in typed or lines]
    return found


def scripted(page: str) -> list[str]:
    """The commands in the blocks of a page that are for a shell, without what is fed to them."""
    found: list[str] = []
    for block in blocks(page, "sh"):
        end = None
        for line in block.replace("\\\n", " ").splitlines():
            if end is not None:
                end = None if line == end else end
                continue
            if fed := _HERE_DOCUMENT.search(line):
                end = fed[1]
            if line.strip() and not line.startswith("#"):
                found.append(" ".join(_COMMENT.sub("", line).split()))
    return found


def mentioned(page: str) -> Iterator[str]:
    """Every command of Bullpen that a page names anywhere, in a block or within a sentence."""
    text = page_text(page)
    for line in [*shown(page), *scripted(page)]:
        yield from re.findall(r"(?:^|[|&(]\s*)(bullpen [^|&><]*)", line)
    yield from re.findall(r"`(bullpen [^`]+)`", _BLOCK.sub("", text))


@dataclass(frozen=True)
class Reader:
    """Somebody who has just installed Bullpen and types what a page says."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> str:
        """The interpreter that has Bullpen and nothing of this project."""
        return str(Path(self.env["VIRTUAL_ENV"]) / "bin" / "python")

    def run(
        self,
        command: list[str],
        text: str | None = None,
        *,
        timeout_s: float = 240,
        cwd: Path | None = None,
    ) -> str:
        """What a command prints. It must succeed."""
        done = subprocess.run(
            command,
            input=text,
            env=self.env,
            cwd=cwd or self.home,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


def unknown_in(line: str) -> str | None:
    """What of a command line of Bullpen there is not: a command or an option; None if all is."""
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        # A sentence that only begins as a command does.
        return None
    command: Any = _bullpen()
    known = _options(command)
    while words and hasattr(command, "commands"):
        name = words.pop(0)
        if name.startswith("-"):
            if name.startswith("--") and name.partition("=")[0] not in known:
                return f"option {name}"
            # What is before the command: its value, if it has one, goes with it.
            if "=" not in name and name not in {"--json", "--jsonl", "--help", "--version", "-h"}:
                words = words[1:]
            continue
        if not re.fullmatch(r"[a-z-]+", name):
            return None
        found = command.get_command(None, name)
        if found is None:
            # A group that does something itself takes words, too, but not the program.
            takes_words = command.invoke_without_command and command is not _bullpen()
            return None if takes_words else f"command {name}"
        command = found
        known |= _options(command)
    given = {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}
    return next((f"option {name}" for name in sorted(given - known)), None)


@cache
def _bullpen() -> Any:
    return get_command(app)


def _options(command: Any) -> set[str]:
    return {
        name
        for each in command.params
        for name in (*each.opts, *each.secondary_opts)
        if name.startswith("--")
    } | {"--help"}
