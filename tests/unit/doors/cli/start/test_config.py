"""`bullpen config`: where a setting comes from, and that each takes effect."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.app.config.files import Config
from bullpen.app.config.keys import KEYS
from bullpen.doors.cli.agents import agents
from bullpen.doors.cli.runs.run_to_end import RunCommands
from bullpen.doors.cli.runs.starters import Starters
from bullpen.errors import Unreadable
from support.rows import each_row

Run = Callable[..., Any]
Ok = Callable[..., str]


@pytest.fixture
def file(tmp_path: Path, home: Path) -> Path:
    """Your own file."""
    return Path(os.environ["BULLPEN_CONFIG"])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that commands run in."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    return folder


class Stop(Exception):
    """What ends a command as soon as it is known what it would start."""

    def __init__(self, asked: Any) -> None:
        self.asked = asked


def spawned(run: Run, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    """What `bullpen spawn` would start."""

    def stop(_: Any, operation: Any) -> None:
        cells = dict(zip(operation.__code__.co_freevars, operation.__closure__, strict=True))
        raise Stop(cells["request"].cell_contents)

    monkeypatch.setattr(agents, "with_app", stop)
    return _asked(run, "spawn", "ann", *words)


def started(run: Run, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    """The goal that `bullpen run` would pursue."""

    def stop(_: Any, goal: Any) -> None:
        raise Stop(goal)

    monkeypatch.setattr(RunCommands, "run", stop)
    return _asked(run, "run", "Do it", *words)


def begun(run: Run, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    """What `bullpen init` would write."""

    def stop(_: Any, session: Any, folder: Any, choice: Any, **rest: Any) -> None:
        raise Stop(choice)

    monkeypatch.setattr(Starters, "make", stop)
    return _asked(run, "init", "--template", "review", *words)


def _asked(run: Run, *words: str) -> Any:
    seen: list[Any] = []

    def note(error: Exception, _: Any) -> int:
        seen.append(error)
        return 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bullpen.doors.cli.main.report", note)
        result = run(*words)
    assert seen and isinstance(seen[0], Stop), (seen, result.output)
    return seen[0].asked


EFFECTS = {
    "driver": "codex",
    "model": "a-model",
    "mode": "acceptEdits",
    "backend": "tmux",
    "budget_usd": 7.0,
}


def test_every_key_has_a_test_of_its_effect() -> None:
    """The others: test_notices.py, test_theme.py, test_public_address.py, tapes; `plain`: below."""
    assert {key.name for key in KEYS} == {
        *EFFECTS,
        "notify",
        "plain",
        "public_url",
        "record",
        "theme",
    }


@each_row("key", KEYS, ids=lambda key: key.name)
def test_every_key_is_in_the_reference(key: Any) -> None:
    page = (Path(__file__).parents[5] / "docs/reference/config.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith(f"| `{key.name}` |")]

    assert [row.rsplit("|", 2)[1].strip() for row in rows] == ["yes" if key.in_project else "no"]


@pytest.mark.parametrize("name", EFFECTS)
def test_spawn_run_and_init_take_what_is_configured(
    name: str, ok: Ok, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = EFFECTS[name]
    assert getattr(spawned(run, monkeypatch), name) != wanted
    ok("config", "set", name, str(wanted))

    assert getattr(spawned(run, monkeypatch), name) == wanted
    goal = started(run, monkeypatch)
    assert getattr(goal if name == "budget_usd" else goal.lead, name) == wanted
    if name in ("driver", "model", "budget_usd"):
        choice = begun(run, monkeypatch)
        assert getattr(choice, "usd" if name == "budget_usd" else name) == wanted


def test_an_option_comes_before_the_environment_and_that_before_the_files(
    ok: Ok, run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mode(*words: str) -> Any:
        return spawned(run, monkeypatch, *words).mode

    ok("config", "set", "mode", "plan")
    assert mode() == "plan"
    ok("config", "set", "mode", "dontAsk", "--project")
    ok("trust", str(project))
    assert mode() == "dontAsk"
    monkeypatch.setenv("BULLPEN_MODE", "acceptEdits")
    assert mode() == "acceptEdits"
    assert mode("--mode", "default") == "default"
    monkeypatch.setenv("BULLPEN_MODE", "")
    assert mode() == "dontAsk"


def test_the_file_of_another_directory_counts_for_what_starts_there(
    ok: Ok, run: Run, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok("config", "set", "model", "theirs", "--project")
    ok("trust", str(project))
    monkeypatch.chdir(tmp_path)

    assert spawned(run, monkeypatch).model is None
    assert spawned(run, monkeypatch, "--cwd", str(project / "src")).model == "theirs"


def test_a_model_belongs_to_the_driver_that_it_was_configured_with(
    ok: Ok, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok("config", "set", "model", "a-model")

    assert spawned(run, monkeypatch, "--driver", "native").model == "a-model"
    assert spawned(run, monkeypatch, "--driver", "codex").model is None
    ok("config", "set", "driver", "codex")
    assert spawned(run, monkeypatch, "--driver", "codex").model == "a-model"
    assert spawned(run, monkeypatch, "--driver", "native").model is None


def test_a_role_decides_its_model_and_mode_itself(
    ok: Ok, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok("config", "set", "model", "a-model")
    ok("config", "set", "mode", "acceptEdits")

    asked = spawned(run, monkeypatch, "--role", "reviewer")
    assert (asked.model, asked.mode) == (None, None)


def test_nothing_is_configured_for_agents(
    ok: Ok, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an agent starts is bounded by its own rights."""
    ok("config", "set", "mode", "bypassPermissions")
    monkeypatch.setenv("BULLPEN_NONCE", "h-1")

    assert spawned(run, monkeypatch).mode is None


def test_plain_lines_are_for_whoever_wants_them(ok: Ok, monkeypatch: pytest.MonkeyPatch) -> None:
    from bullpen.doors.cli import session

    monkeypatch.setattr(session, "is_terminal", lambda _: True)
    assert session.Session().at_screen
    ok("config", "set", "plain", "true")
    assert not session.Session().at_screen
    monkeypatch.setenv("BULLPEN_PLAIN", "no")
    assert session.Session().at_screen


def test_a_file_of_a_project_that_is_not_trusted_changes_nothing_and_says_so(
    ok: Ok, run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok("config", "set", "mode", "bypassPermissions", "--project")
    path = project / ".bullpen/config.toml"

    result = run("config", "list")
    assert f"{path} is ignored: you do not trust this project" in result.stderr
    assert f"bullpen trust {project}" in result.stderr
    assert "bypassPermissions" not in result.stdout
    assert spawned(run, monkeypatch).mode is None

    ok("trust", str(project))
    assert spawned(run, monkeypatch).mode == "bypassPermissions"
    path.write_text(path.read_text("utf-8") + "# More\n", "utf-8")
    assert "it changed since you trusted it" in run("config", "list").stderr
    assert spawned(run, monkeypatch).mode is None


@pytest.mark.parametrize("key", [key for key in KEYS if not key.in_project], ids=lambda k: k.name)
def test_a_project_never_sets_what_acts_on_your_machine(
    ok: Ok, run: Run, project: Path, key: Any
) -> None:
    path = project / ".bullpen/config.toml"
    value = "bell" if key.name == "notify" else "true"
    assert run("config", "set", key.name, value, "--project").exit_code == 2
    path.parent.mkdir()
    path.write_text(f"# Mine\n{key.name} = {json.dumps(value)}\n", "utf-8")
    ok("trust", str(project))

    result = run("config", "list")
    assert result.exit_code == 2
    assert f"{path}:2: {key.name} counts only in your own file" in result.stderr


def test_the_home_in_a_project_is_not_the_projects(
    project: Path, file: Path, tmp_path: Path
) -> None:
    own = project / ".bullpen"
    own.mkdir()
    (own / "config.toml").write_text('mode = "plan"', "utf-8")

    env = {"BULLPEN_CONFIG": str(file)}
    assert Config(env, cwd=project, home=own).project_file is None
    assert Config(env, cwd=project, home=tmp_path).project_file == own / "config.toml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mood = 1", ":1: there is no key 'mood' (did you mean 'mode'?)"),
        ("[mode]\nx = 1", ":1: mode cannot be {'x': 1}; use one of these: default, "),
        ('# x\n\nmode = "root"', ":3: mode cannot be 'root'; use one of these: default, "),
        ("budget_usd = -1", ":1: budget_usd cannot be -1; use a number of US dollars above 0."),
        ("budget_usd = inf", ":1: budget_usd cannot be inf"),
        ("budget_usd = true", ":1: budget_usd cannot be True"),
        ('notify = ["bell", "off"]', ":1: notify cannot be ['bell', 'off']"),
        ("notify = []", ":1: notify cannot be []"),
        ('notify = "sms"', ":1: notify cannot be 'sms'; use one of these, or a list: bell,"),
        ('plain = "yes"', ":1: plain cannot be 'yes'; use true or false."),
        ('model = "a\\u001bb"', ":1: model cannot be"),
        ('driver = " "', ":1: driver cannot be ' '; use a name."),
        ('backend = "in-process"', ":1: backend cannot be 'in-process', because only"),
    ],
)
@pytest.mark.parametrize("words", [("config", "list"), ("spawn", "ann"), ("run", "Do it")])
def test_what_does_not_fit_is_an_error_with_its_line(
    run: Run, file: Path, text: str, said: str, words: tuple[str, ...]
) -> None:
    file.write_text(text, "utf-8")
    result = run(*words)

    assert result.exit_code == 2
    assert f"error: {file}{said}" in result.stderr
    assert "hint: Run: bullpen config edit" in result.stderr


@pytest.mark.parametrize("data", [b"mode = ", b"\xff", b"mode = 'plan'\nmode = 'plan'\n"])
def test_an_unreadable_file_is_an_error_that_names_it(run: Run, file: Path, data: bytes) -> None:
    file.write_bytes(data)
    for words in (("config", "list"), ("spawn", "ann"), ("config", "set", "mode", "plan")):
        result = run(*words)
        assert result.exit_code == 5, result.output
        assert f"error: Cannot read {file}: " in result.stderr
    assert file.read_bytes() == data
    # These are for mending it.
    assert run("config", "path").stdout == f"{file}\n"


def test_a_wrong_variable_is_an_error_that_names_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULLPEN_BUDGET_USD", "much")
    result = run("spawn", "ann")

    assert result.exit_code == 2
    assert "BULLPEN_BUDGET_USD: budget_usd cannot be 'much'." in result.stderr


def test_setting_a_key_keeps_the_other_lines(ok: Ok, file: Path) -> None:
    file.write_text(
        '# Mine\nnotify = [\n  "bell",\n]  # quietly\n  mode="plan" # careful\n', "utf-8"
    )
    ok("config", "set", "mode", "acceptEdits")
    ok("config", "set", "notify", "off")
    ok("config", "set", "model", 'odd "name" \\ #1')

    assert file.read_text("utf-8") == (
        '# Mine\nnotify = "off"  # quietly\nmode = "acceptEdits"# careful\n'
        'model = "odd \\"name\\" \\\\ #1"\n'
    )
    assert ok("config", "get", "model") == 'odd "name" \\ #1\n'


@pytest.mark.parametrize("text", ['model = """\\\na"""', '"model" = "a"', 'model."x" = 1'])
def test_a_file_that_cannot_be_changed_by_line_stays_as_it_is(
    run: Run, file: Path, text: str
) -> None:
    file.write_text(text, "utf-8")
    result = run("config", "set", "model", "other")

    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert file.read_text("utf-8") == text


def test_a_linked_file_stays_a_link(ok: Ok, file: Path, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles.toml"
    dotfiles.write_text("", "utf-8")
    dotfiles.chmod(0o640)
    file.symlink_to(dotfiles)
    ok("config", "set", "theme", "nord")

    assert file.is_symlink()
    assert dotfiles.read_text("utf-8") == 'theme = "nord"\n'
    assert dotfiles.stat().st_mode & 0o777 == 0o640


def test_the_file_is_where_xdg_says(home: Path, tmp_path: Path) -> None:
    def where(**env: str) -> str:
        return str(Config({"HOME": "/home/ann", **env}, cwd=tmp_path, home=home).user_file)

    assert where() == "/home/ann/.config/bullpen/config.toml"
    assert where(XDG_CONFIG_HOME="/etc/ann") == "/etc/ann/bullpen/config.toml"
    assert where(XDG_CONFIG_HOME="relative") == "/home/ann/.config/bullpen/config.toml"
    assert where(BULLPEN_CONFIG="~/mine.toml") == "/home/ann/mine.toml"


def test_the_editor_gets_the_file_and_what_it_leaves_is_checked(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bullpen.doors.cli.output import editor

    assert "An editor needs a terminal." in run("config", "edit").stderr
    assert not file.exists()
    monkeypatch.setattr(editor, "is_terminal", lambda _: True)
    monkeypatch.setenv("VISUAL", "edit --wait")
    left, code = "", 0

    def play(words: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        assert words == ["edit", "--wait", str(file)]
        file.write_text(file.read_text("utf-8") + left, "utf-8")
        return subprocess.CompletedProcess(words, code)

    monkeypatch.setattr(subprocess, "run", play)
    assert run("config", "edit").stdout == f"Saved {file}.\n"
    text = file.read_text("utf-8")
    assert all(f"# {key.name} = " in text for key in KEYS)
    # Every line that it offers can be taken as it is.
    lines = [line.removeprefix("# ") for line in text.splitlines() if " = " in line]
    file.write_text("\n".join([*lines, ""]), "utf-8")
    assert run("config", "list").exit_code == 0
    left = "moode = 1\n"
    assert "there is no key 'moode'" in run("config", "edit").stderr
    left, code = "", 1
    assert "The editor failed with exit code 1" in run("config", "edit").stderr


def test_a_screen_warns_of_an_unreadable_file_and_shows_what_it_can(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bullpen.doors.cli import session

    file.write_text("plain = ", "utf-8")
    monkeypatch.setattr(session, "is_terminal", lambda _: True)
    assert session.Session().at_screen
    assert f"warning: Cannot read {file}: " in capsys.readouterr().err
    with pytest.raises(Unreadable):
        session.Session().setting("notify")


def test_unknown_keys_and_drivers_get_a_guess(run: Run, file: Path) -> None:
    assert (
        "There is no key 'modell' (did you mean 'model'?)" in run("config", "get", "modell").stderr
    )
    assert "Did you mean 'codex'?" in run("config", "set", "driver", "codx").stderr
    assert not file.exists()
