"""The example packages work in a fresh environment, beside the wheel, without a fork."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.runs.reading import ROOT

pytestmark = pytest.mark.pages
FOLDER = ROOT / "examples" / "own-parts"
PACKAGES = ("own-driver", "own-backend", "own-store", "own-tool")
SUITE_S = 300
TEAM_FILE = """
[team]
name = "flock"
goal = "Say hello"

[[member]]
name = "team-lead"
driver = "parrot"

[[member]]
name = "polly"
driver = "parrot"
backend = "gentle"
tools = ["*", "FindTodos"]
prompt = "Hello"
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheels of Bullpen and of the four examples."""
    folder = tmp_path_factory.mktemp("own-parts")
    made, dist, listed = folder / "env", folder / "dist", folder / "requirements.txt"
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}

    def uv(*words: str) -> None:
        done = subprocess.run(
            ["uv", *words, "--quiet"], cwd=ROOT, env=env, capture_output=True, text=True,
            timeout=SUITE_S,
        )  # fmt: skip
        assert done.returncode == 0, f"uv {' '.join(words)}: {done.stderr}"

    for source in (ROOT, *(FOLDER / name for name in PACKAGES)):
        uv("build", "--wheel", "--out-dir", str(dist), str(source))
    exact = ("--frozen", "--no-dev", "--extra", "testing", "--no-emit-project", "--no-hashes")
    uv("export", *exact, "--output-file", str(listed))
    uv("venv", "--python", sys.executable, str(made))
    into = ("--python", str(made / "bin" / "python"))
    uv("pip", "install", *into, "--requirements", str(listed))
    uv("pip", "install", *into, "--no-deps", *map(str, dist.glob("*.whl")))
    return made / "bin" / "python"


@pytest.fixture
def env(python: Path, tmp_path: Path) -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
    return {
        **given,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "BULLPEN_HOME": str(tmp_path / "home"),
        "BULLPEN_STORE": f"audited:{tmp_path / 'teams'}",
    }


@pytest.fixture
def suites(python: Path, env: dict[str, str], tmp_path: Path) -> Iterator[dict[str, Path]]:
    """What each example's test says, all of them run at the same time."""
    running, said = [], {}
    for name in PACKAGES:
        # Without the module: the test must import the installed one.
        copy = tmp_path / name
        copy.mkdir()
        for path in (FOLDER / name / "pyproject.toml", *(FOLDER / name).glob("test_*.py")):
            shutil.copy(path, copy)
        said[name] = copy / "said"
        words = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        alone = {name: value for name, value in env.items() if name != "BULLPEN_STORE"}
        with said[name].open("w", encoding="utf-8") as out:
            running.append(subprocess.Popen(words, cwd=copy, env=alone, stdout=out, stderr=out))
    try:
        until = time.monotonic() + SUITE_S
        for each in running:
            each.wait(max(0.0, until - time.monotonic()))
        yield said
    finally:
        for each in running:
            each.kill()
            each.wait()


def test_every_example_keeps_its_contract(suites: dict[str, Path]) -> None:
    for name, path in suites.items():
        last = path.read_text(encoding="utf-8").strip().splitlines()[-1]
        assert " passed" in last and "failed" not in last and "error" not in last, (
            f"{name}:\n{path.read_text(encoding='utf-8')[-3000:]}"
        )


class Bullpen:
    """Commands in the environment with the packages."""

    def __init__(self, python: Path, env: dict[str, str], cwd: Path) -> None:
        self._words = [str(python.parent / "bullpen")]
        self._env, self._cwd = env, cwd

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [*self._words, *words], env=self._env, cwd=self._cwd, capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def bullpen(python: Path, env: dict[str, str], tmp_path: Path) -> Iterator[Bullpen]:
    made = Bullpen(python, env, tmp_path)
    made.run("team", "create", "birds")
    try:
        yield made
    finally:
        made.run("team", "delete", "birds", "--force", "--yes")
        for pid in warm_parents(python):
            os.kill(pid, signal.SIGKILL)


def warm_parents(python: Path) -> dict[int, list[str]]:
    """The warm parents of this environment, with the modules that each imported for its agents."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError, IndexError):
            words = file.read_text(encoding="utf-8").rstrip("\0").split("\0")
            if words[0] == str(python) and words[3].endswith("warm_parent"):
                found[int(file.parent.name)] = words[6:]
    return found


def test_the_packages_are_listed_and_none_is_broken(bullpen: Bullpen) -> None:
    found = json.loads(bullpen.run("drivers", "--json"))
    parrot = found["drivers"][-1]
    assert (parrot["name"], parrot["package"], parrot["version"]) == (
        "parrot",
        "bullpen-parrot",
        "1.0",
    )
    parts = {(each["kind"], each["name"], each["broken"]) for each in found["parts"]}
    assert parts == {
        ("backend", "gentle", None),
        ("store", "audited", None),
        ("tool", "FindTodos", None),
    }
    assert "broken_package" not in bullpen.run("doctor", "--json")


def test_agents_work_with_them_forked_from_a_warm_parent_and_on_the_own_backend(
    bullpen: Bullpen, python: Path, tmp_path: Path
) -> None:
    common = ("--driver", "parrot", "--approver", "human")
    bullpen.run("spawn", "ann", "Hello from ann", *common)
    if sys.platform == "linux":
        (modules,) = warm_parents(python).values()
        assert all(name.startswith("bullpen.") for name in modules)
    bullpen.run("spawn", "bob", "Hello from bob", *common, "--backend", "gentle")
    until = time.monotonic() + 60
    for name in ("ann", "bob"):
        while f"Hello from {name}" not in (said := bullpen.run("logs", name)):
            assert time.monotonic() < until, said
            time.sleep(0.5)
    listed = (tmp_path / "teams" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["by"] for line in listed} >= {"ann", "bob"}


def test_a_team_file_names_them(bullpen: Bullpen, tmp_path: Path) -> None:
    (tmp_path / "TEAM.toml").write_text(TEAM_FILE, encoding="utf-8")
    assert "parrot" in bullpen.run("up", "TEAM.toml", "--dry-run")
