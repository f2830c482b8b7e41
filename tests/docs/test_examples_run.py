"""Every example works as it stands, with the built wheel, and says what it is expected to say."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.runs.reading import ROOT, Reader, scripted

FOLDER = ROOT / "examples"
FILES = sorted([*FOLDER.glob("*.sh"), *FOLDER.glob("*.py")])
EXPECTED = sorted(path.parent for path in FOLDER.glob("*/expected"))
RUN_ELSEWHERE = {
    "claude-code-files": "tests/docs/test_hooks_example.py",
    "issues-in-ci": "tests/docs/test_issues_in_ci.py",
    "mixed-team": "tests/programs/teams/test_mixed_team.py",
    "night-in-ci": "tests/docs/test_night_in_ci.py",
    "two-machines": "tests/programs/teams/test_two_machines.py",
    "own-parts": "tests/docs/test_own_parts.py",
    "telemetry": "tests/unit/doors/telemetry",
}
"""Examples that have a test of their own."""
IN_THE_GATE = ("goal_in_ci.sh", "team-from-python")
"""The two quickest that show most: a goal on the command line, and a whole team from Python."""


def played(examples: list[Path]) -> list[object]:
    """Examples as cases; all but those of the gate are in a job of their own."""
    assert {each.name for each in [*FILES, *EXPECTED]} >= set(IN_THE_GATE)
    return [
        pytest.param(
            each, id=each.name, marks=() if each.name in IN_THE_GATE else pytest.mark.pages
        )
        for each in examples
    ]


@pytest.mark.parametrize("example", played(FILES))
def test_a_file_among_the_examples_works(example: Path, newcomer: Reader) -> None:
    command = "bash" if example.suffix == ".sh" else newcomer.python
    newcomer.run([command, str(example)])


@pytest.mark.parametrize("example", played(EXPECTED))
def test_an_example_says_what_is_expected_of_it(example: Path, newcomer: Reader) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    page = f"examples/{example.name}/README.md"
    copy = shutil.copytree(example, newcomer.home / "examples" / example.name)
    said = newcomer.run(["bash", "-s"], "set -e\n" + "\n".join(scripted(page)), cwd=Path(copy))
    at = 0
    for line in (example / "expected").read_text(encoding="utf-8").splitlines():
        at = said.find(line, at)
        assert at >= 0, f"{line!r} is missing, or too late:\n{said}"
        at += len(line)


def test_every_example_has_a_page_and_is_run() -> None:
    folders = {path.name: path for path in FOLDER.iterdir() if path.is_dir()}
    folders.pop("__pycache__", None)
    assert all((path / "README.md").is_file() for path in folders.values())
    assert {path.name for path in EXPECTED} | set(RUN_ELSEWHERE) >= set(folders)
    for test in RUN_ELSEWHERE.values():
        assert os.path.exists(ROOT / test), test
    assert len(EXPECTED) >= 4
