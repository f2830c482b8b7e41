"""The example with Claude Code's own files runs, and the files decide."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/claude-code-files"


@pytest.mark.pages
@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_existing_settings_hooks_and_roles_are_used_unchanged(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(EXAMPLE / "run.sh")],
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            "LANG": "C.UTF-8",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert "is not trusted, and its files" in done.stderr
    for words in (
        "(exit code 2)",
        "SlashCommand is about a tool that Bullpen's agents do not have",
        "denied Bash: the rule Bash(curl:*) denies it",
        'hook TaskCompleted: The tests fail, so "Write src/slug.sh" is not done:',
        "ivy, commit your work before you rest",
        "a hook refused the call: Commits are checked here: leave --no-verify out",
        "nobody is there to give it",
        "list of tools has only Bash(git diff:*), Bash(git status), Bash(bash tests/run.sh)",
        "src/slug.sh is written, tested, committed and reviewed.",
    ):
        assert words in said, f"{words}\n\n{said}{done.stderr}"
    assert said.splitlines()[-2:] == ["Add slugs", "Begin"]
    assert list(tmp_path.glob("tmp.*")) == []


def test_the_settings_say_nothing_that_is_only_bullpens() -> None:
    settings = json.loads((EXAMPLE / "project/.claude/settings.json").read_text(encoding="utf-8"))
    assert set(settings) == {"$schema", "permissions", "hooks"}
    hooks = [each for rows in settings["hooks"].values() for row in rows for each in row["hooks"]]
    assert all(set(each) <= {"type", "command", "timeout"} for each in hooks)
    assert "bullpen" not in json.dumps(settings).lower()
