"""Where the programs come from: what is missing is said, what is there is left alone."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.testing.models import MockModels, Reply

from . import install
from .pins import NODE, PINS, Pin, folder, stamp
from .real_programs import placed, program

ON_CI_MACHINE = (sys.platform, platform.machine()) == ("linux", "x86_64")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for programs."""
    monkeypatch.setenv("BULLPEN_PROGRAMS", str(tmp_path / "programs"))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path / "programs"


def pretend(*pins: Pin) -> None:
    """What an installation leaves, without the program."""
    for pin in pins:
        folder(pin).mkdir(parents=True)
        stamp(pin).write_text("\n".join(pin.packages), encoding="utf-8")


def test_a_missing_program_skips_a_test_and_says_how_to_get_it(root: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"install\.py codex"):
        program("codex")


def test_a_program_of_another_version_is_missing(root: Path) -> None:
    pretend(NODE, PINS["codex"])
    assert program("codex").argv[0].startswith(str(root))
    stamp(PINS["codex"]).write_text("@openai/codex@0.1.0\n", encoding="utf-8")
    with pytest.raises(pytest.skip.Exception):
        program("codex")


@pytest.mark.skipif(not ON_CI_MACHINE, reason="CI has no programs on such a machine")
def test_on_ci_only_a_program_of_the_nightly_leg_may_be_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    for pin in PINS.values():
        # Both are caught: a test that is left with the wrong one would be skipped.
        with pytest.raises((pytest.fail.Exception, pytest.skip.Exception)) as caught:
            program(pin.name)
        assert isinstance(caught.value, pytest.fail.Exception) is pin.in_ci


def test_installing_twice_does_nothing_the_second_time(root: Path) -> None:
    pretend(NODE, PINS["goose"])
    before = sorted(root.rglob("*"))
    # Without a PATH there is no npm that it could call.
    done = subprocess.run(
        [sys.executable, install.__file__, "goose"],
        env={"BULLPEN_PROGRAMS": os.environ["BULLPEN_PROGRAMS"], "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "goose: @aaif/goose-binary-linux-x64@1.52.0 is installed" in done.stdout
    assert sorted(root.rglob("*")) == before


def test_a_program_that_nobody_knows_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install.main(["codex", "emacs"]) == 2
    assert "no program emacs" in capsys.readouterr().err
    assert not root.exists()


def test_without_names_what_ci_tests_is_meant() -> None:
    assert set(install.chosen([])) == {
        "codex",
        "claude",
        "goose",
        "gemini",
        "claude-code-2.1.41",
        "claude-code-2.1.325",
        "acp-client",
    }
    others = {"claude-code-2.1.177", "opencode", "qwen", "copilot", "vibe"}
    assert set(install.chosen(["nightly"])) == others


@pytest.mark.parametrize("name", [name for name in PINS if name != "acp-client"])
def test_a_placed_program_has_a_home_of_its_own_and_inherits_nothing(
    name: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "a-real-secret")
    pretend(NODE, PINS[name])
    with MockModels(lambda request: Reply("")) as mock:
        found = placed(name, tmp_path, mock)
        again = placed(name, tmp_path, mock)
        settings = "\n".join(
            path.read_text(encoding="utf-8") for path in found.home.rglob("*") if path.is_file()
        )
        assert mock.url in settings + "".join(found.env.values())
    assert found == again
    assert "a-real-secret" not in found.env.values()
    for key in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        assert Path(found.env[key]).is_relative_to(tmp_path) and Path(found.env[key]).is_dir()
