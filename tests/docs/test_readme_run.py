"""The README, and pages with more than commands, work with the built wheel as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.runs.reading import ROOT, Reader, blocks, shown

SCRIPTS = "docs/reference/scripts.md"


def test_the_first_command_of_the_readme_works(newcomer: Reader) -> None:
    assert shown("README.md")[:2] == ["pip install bullpen", "bullpen demo"]
    said = newcomer.run(["bullpen", "demo"])
    assert "What the team made:" in said


def test_the_commands_and_the_python_of_the_readme_work(newcomer: Reader) -> None:
    newcomer.run(["bash", "-s"], "set -e\n" + "\n".join(blocks("README.md", "sh")))
    (program,) = blocks("README.md", "python")
    assert newcomer.run([newcomer.python, "-"], program) == "completed ()\n"


@pytest.mark.pages
def test_the_script_of_the_page_on_scripts_plays(newcomer: Reader) -> None:
    (script,) = blocks(SCRIPTS, "toml")
    (newcomer.home / "count.toml").write_text(script, encoding="utf-8")
    said = newcomer.run(["bash", "-s"], "set -e\n" + "\n".join(blocks(SCRIPTS, "sh")))
    assert "Done in" in said
    assert said.splitlines()[-1].strip() == str(len(script.splitlines()))


@pytest.mark.pages
@pytest.mark.parametrize("kind", ["backend", "driver"])
def test_the_worked_example_of_a_page_passes_the_contract(kind: str, newcomer: Reader) -> None:
    code = "\n\n".join(blocks(f"docs/howto/add-a-{kind}.md", "python"))
    (newcomer.home / "test_worked_example.py").write_text(code, encoding="utf-8")
    settings = "[pytest]\nanyio_mode = auto\nfilterwarnings = error\n"
    (newcomer.home / "pytest.ini").write_text(settings, encoding="utf-8")
    pytest_words = [newcomer.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    said = newcomer.run([*pytest_words, "test_worked_example.py"], timeout_s=600)
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None, said
    assert int(passed[1]) > 10


def test_the_pages_are_run_with_the_wheel_and_not_with_this_tree(newcomer: Reader) -> None:
    where = newcomer.run([newcomer.python, "-c", "import bullpen; print(bullpen.__file__)"])
    assert not Path(where.strip()).is_relative_to(ROOT / "src")
    assert newcomer.run(["which", "bullpen"]).startswith(newcomer.env["VIRTUAL_ENV"])
