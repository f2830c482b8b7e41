"""README, quickstart and examples are executed as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
EXAMPLES = sorted((ROOT / "examples").glob("*.sh")) + sorted((ROOT / "examples").glob("*.py"))
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks(page: Path, language: str) -> list[str]:
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run(command: list[str], home: Path, text: str | None = None) -> str:
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        command, input=text, env=env, cwd=home, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_every_command_of_a_page_works(page: Path, tmp_path: Path) -> None:
    script = "set -e\n" + "\n".join(blocks(page, "sh"))
    assert script.count("bullpen ") > 10
    said = run(["bash", "-s"], tmp_path, script)
    assert "Traceback" not in said


def test_the_python_of_the_readme_works(tmp_path: Path) -> None:
    run(["bash", "-s"], tmp_path, "set -e\n" + "\n".join(blocks(ROOT / "README.md", "sh")))
    (program,) = blocks(ROOT / "README.md", "python")
    assert run([sys.executable, "-"], tmp_path, program) == "completed ()\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.name))
def test_every_example_works(example: Path, tmp_path: Path) -> None:
    command = "bash" if example.suffix == ".sh" else sys.executable
    run([command, str(example)], tmp_path)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", *ROOT.glob("docs/**/*.md")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_page_for_agents_is_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) < 80
