"""README, quickstart, how-tos and examples are executed as they are printed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bullpen.agents import processes

ROOT = Path(__file__).parent.parent.parent
RUN_AGENTS = "docs/howto/run-agents.md"
SCRIPTS = "docs/reference/scripts.md"
GOVERN_AGENTS = "docs/howto/govern-agents.md"
CONNECT = "docs/howto/connect-by-mcp.md"
OTHER_PROGRAMS = "docs/howto/drive-other-programs.md"
SPAN = "docs/howto/span-machines.md"
OPERATE = "docs/howto/operate-a-cell.md"
BACKLOG = "docs/howto/work-off-a-backlog.md"
PAGES = [
    "README.md",
    "docs/quickstart.md",
    RUN_AGENTS,
    GOVERN_AGENTS,
    CONNECT,
    OTHER_PROGRAMS,
    SPAN,
    OPERATE,
    BACKLOG,
]
EXAMPLES = sorted((ROOT / "examples").glob("*.sh")) + sorted((ROOT / "examples").glob("*.py"))
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#([^)]+))?")
LINKED = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md")),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.md"),
]
NONCE = re.compile(r'"nonce": "([0-9a-f-]+)"')


def page_text(page: str) -> str:
    """The text of a page, by its path in the project."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in one language, as they are printed."""
    return re.findall(rf"^```{language}\n(.*?)^```", page_text(page), re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Reader:
    """Somebody who has just installed Bullpen and types what a page says."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, command: list[str], text: str | None = None, *, timeout_s: float = 240) -> str:
        """What a command prints. It must succeed."""
        done = subprocess.run(
            command,
            input=text,
            env=self.env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Reader]:
    """A reader with a home and a tmux of their own; whatever they started is gone at the end."""
    # Short: the path of a socket has room for some 100 bytes.
    sockets = Path(tempfile.mkdtemp(prefix="bp-", dir="/tmp"))
    socket = f"docs-{secrets.token_hex(4)}"
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
        "TMUX_TMPDIR": str(sockets),
        "BULLPEN_TMUX_SOCKET": socket,
    }
    try:
        yield Reader(tmp_path, env)
    finally:
        end_agents(tmp_path)
        end_hosts_and_servers(tmp_path)
        if shutil.which("tmux"):
            subprocess.run(
                ["tmux", "-L", socket, "kill-server"], env=env, capture_output=True, timeout=60
            )
        shutil.rmtree(sockets, ignore_errors=True)


def end_agents(home: Path) -> None:
    """Kill what still runs for any team below this folder."""
    for config in home.rglob("teams/*/config.json"):
        for nonce in set(NONCE.findall(config.read_text(encoding="utf-8"))):
            for pid in processes.carriers(nonce):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def end_hosts_and_servers(home: Path) -> None:
    """Kill what a page started for the reader and, because it failed, did not end."""
    wanted = f"HOME={home}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_works(page: str, newcomer: Reader) -> None:
    script = "set -e\n" + "\n".join(blocks(page, "sh"))
    assert script.count("bullpen ") > 10
    for program in ("tmux", "jq", "git"):
        if re.search(rf"\b{program}\b", script) and shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    said = newcomer.run(["bash", "-s"], script)
    assert "Traceback" not in said


def test_the_python_of_the_readme_works(newcomer: Reader) -> None:
    newcomer.run(["bash", "-s"], "set -e\n" + "\n".join(blocks("README.md", "sh")))
    (program,) = blocks("README.md", "python")
    assert newcomer.run([sys.executable, "-"], program) == "completed ()\n"


def test_the_script_of_the_page_on_scripts_plays(newcomer: Reader) -> None:
    (script,) = blocks(SCRIPTS, "toml")
    (newcomer.home / "count.toml").write_text(script, encoding="utf-8")
    said = newcomer.run(["bash", "-s"], "set -e\n" + "\n".join(blocks(SCRIPTS, "sh")))
    assert "Done in" in said
    assert said.splitlines()[-1].strip() == str(len(script.splitlines()))


@pytest.mark.parametrize("kind", ["backend", "driver"])
def test_the_worked_example_of_a_page_passes_the_contract(kind: str, newcomer: Reader) -> None:
    code = "\n\n".join(blocks(f"docs/howto/add-a-{kind}.md", "python"))
    (newcomer.home / "test_worked_example.py").write_text(code, encoding="utf-8")
    settings = "[pytest]\nanyio_mode = auto\nfilterwarnings = error\n"
    (newcomer.home / "pytest.ini").write_text(settings, encoding="utf-8")
    pytest_words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    said = newcomer.run([*pytest_words, "test_worked_example.py"], timeout_s=600)
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None, said
    assert int(passed[1]) > 10


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.name))
def test_every_example_works(example: Path, newcomer: Reader) -> None:
    command = "bash" if example.suffix == ".sh" else sys.executable
    newcomer.run([command, str(example)])


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("page", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        there = page.parent / target
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there.read_text(encoding="utf-8")), f"{target}#{anchor}"


def test_every_link_within_a_page_leads_to_one_of_its_headings() -> None:
    for page in LINKED:
        text = page.read_text(encoding="utf-8")
        for anchor in re.findall(r"\]\(#([^)]+)\)", text):
            assert anchor in anchors(text), f"{page.name}#{anchor}"


def anchors(text: str) -> set[str]:
    """The anchors that the headings of a page get."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}


def test_every_decision_is_listed() -> None:
    listed = page_text("docs/decisions/README.md")
    for page in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        title = page.read_text(encoding="utf-8").splitlines()[0].partition(". ")[2]
        assert f"[{title}]({page.name})" in listed


def test_the_page_for_agents_is_short() -> None:
    assert len(page_text("AGENTS.md").splitlines()) < 80
