"""Agents in tmux beside the user's own shells, servers, sessions and habits."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agents.backends.tmux import Tmux
from bullpen.agents.contracts.backend import NONCE
from bullpen.errors import Unavailable
from bullpen.testing.backend_contract import PROGRAMS, Launcher, content, until, until_shown

Server = Callable[..., str]

PYTHON = sys.executable
WAIT = (PYTHON, "-c", PROGRAMS["wait"])

SHELLS = {
    "slow": '#!/bin/sh\ntouch {ran}\nsleep 10\nexec /bin/sh "$@"\n',
    "broken": "#!/bin/sh\ntouch {ran}\necho 'what is -c?' >&2\nexit 1\n",
    "swallowing": "#!/bin/sh\ntouch {ran}\nexec cat > /dev/null\n",
}


@pytest.fixture
def users(tmux_server: Callable[[str], Server]) -> Server:
    """The user's own server, with a session of two windows, one of them split."""
    run = tmux_server("default")
    run("new-session", "-d", "-s", "mine", "-n", "editor", "sleep 600", HTTP_PROXY="old")
    run("split-window", "-d", "-t", "mine:editor", "sleep 600")
    run("new-window", "-d", "-t", "mine", "-n", "build", "sleep 600")
    return run


@pytest.fixture
async def start(tmux_folder: Path, tmp_path: Path) -> AsyncIterator[Launcher]:
    launcher = Launcher(Tmux("default", session="mine"), tmp_path)
    yield launcher
    launcher.end_all()


def picture(run: Server) -> list[str]:
    """All that the user sees and has set."""
    window = "#{window_id} #{window_name} #{window_active} #{window_layout} #{window_last_flag}"
    pane = "#{pane_id} #{pane_pid} #{pane_active} #{pane_dead}"
    return [
        run("list-panes", "-a", "-f", "#{==:#{@bullpen_nonce},}", "-F", f"{window} {pane}"),
        run("list-sessions", "-F", "#{session_name} #{session_attached}"),
        *(run("show-options", scope) for scope in ("-g", "-s", "-gw")),
        run("show-environment", "-g"),
        run("show-hooks", "-g"),
        run("show-options", "-t", "mine"),
    ]


@pytest.mark.parametrize(("shell", "times"), [("slow", 20), ("broken", 3), ("swallowing", 3)])
async def test_no_shell_can_delay_or_break_a_start(
    users: Server, start: Launcher, tmp_path: Path, shell: str, times: int
) -> None:
    """R-9.1, with the user's prefix and default command changed as well."""
    script, ran = tmp_path / shell, tmp_path / "ran"
    script.write_text(SHELLS[shell].format(ran=ran), encoding="utf-8")
    script.chmod(0o755)
    users("set-option", "-g", "default-shell", str(script))
    users("set-option", "-g", "default-command", f"{script} --login")
    users("set-option", "-g", "prefix", "C-a")
    backend = Tmux("default", session="mine")
    for number in range(times):
        one = await start.start(*WAIT, agent=f"agent-{number}")
        assert await backend.alive(one.place)
        await backend.stop(one.place, one.launch.nonce, grace_s=10)
    assert "ran" not in os.listdir(tmp_path)


async def test_a_server_that_runs_for_long_hands_on_nothing(users: Server, start: Launcher) -> None:
    """R-9.6: the server was started with other values, and was given more since."""
    users("set-environment", "-g", "ANTHROPIC_API_KEY", "somebody-elses")
    users("set-environment", "-t", "mine", "FROM_SESSION", "1")
    launch = start.launch("sh", "-c", "env -0 > got.new; mv got.new got; exec sleep 600")
    launch = replace(launch, env={**launch.env, "HTTP_PROXY": "new"})
    await Tmux("default", session="mine").start(launch)
    got = Path(launch.cwd, "got")
    await until(got.exists, "the environment is written")
    found = dict(entry.split("=", 1) for entry in content(got).rstrip("\0").split("\0"))
    own = {"TERM", "TMUX", "TMUX_PANE", "PWD", "OLDPWD", "SHLVL", "_"}
    assert {name: value for name, value in found.items() if name not in own} == launch.env
    assert found["TMUX_PANE"].startswith("%")


async def test_the_users_windows_focus_and_settings_stay_as_they_are(
    users: Server, start: Launcher
) -> None:
    """R-9.11, on the user's own server."""
    before = picture(users)
    backend = Tmux("default", session="mine")
    one = await start.start(*WAIT)
    two = await start.start(PYTHON, "-c", PROGRAMS["end"], agent="ben")
    assert picture(users) == before
    for each in (one, two):
        await backend.stop(each.place, each.launch.nonce, grace_s=10)
    assert picture(users) == before
    assert users("list-windows", "-a", "-F", "#{window_name}") == "editor\nbuild"


async def test_by_default_the_users_server_is_not_even_asked(
    users: Server, tmux_server: Callable[[str], Server], tmp_path: Path
) -> None:
    before = picture(users)
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    try:
        one = await start.start(*WAIT)
        assert picture(users) == before
        ours = tmux_server("bullpen")
        assert ours("list-windows", "-a", "-F", "#{session_name} #{window_name}") == (
            "bullpen-alpha ann"
        )
        await backend.stop(one.place, one.launch.nonce, grace_s=10)
    finally:
        start.end_all()


async def test_what_the_user_splits_off_an_agents_window_is_the_users(
    users: Server, start: Launcher
) -> None:
    one = await start.start(*WAIT)
    assert one.place.pane is not None
    backend = Tmux("default", session="mine")
    split = ("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", one.place.pane, "sleep 600")
    theirs = users(*split)
    assert await backend.places() == {one.launch.nonce: one.place}
    await backend.stop(one.place, one.launch.nonce, grace_s=10)
    assert theirs in users("list-panes", "-a", "-F", "#{pane_id} #{pane_dead}").split("\n")[-1]


async def test_a_session_that_is_not_there_is_an_error(users: Server, tmp_path: Path) -> None:
    """R-9.3: nothing else is chosen in its place. `min` is only the beginning of a name."""
    backend = Tmux("default", session="min")
    with pytest.raises(Unavailable, match="min"):
        await backend.check()
    with pytest.raises(Unavailable, match="can't find session"):
        await backend.start(Launcher(backend, tmp_path).launch(*WAIT))
    assert users("list-sessions", "-F", "#{session_name}") == "mine"


async def test_without_tmux_there_is_an_error_and_no_other_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-9.3."""
    backend = Tmux()
    launch = Launcher(backend, tmp_path).launch(*WAIT)
    monkeypatch.setenv("PATH", str(tmp_path))
    for attempt in (backend.check(), backend.start(launch)):
        with pytest.raises(Unavailable, match="tmux is not installed") as caught:
            await attempt
        assert "Install tmux" in caught.value.remedy


@pytest.mark.parametrize(
    ("version", "is_fine"),
    [("tmux 2.9a", False), ("tmux 3.0a", False), ("tmux 3.1", True), ("tmux next-3.7", True)],
)
async def test_a_tmux_that_is_too_old_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_fine: bool
) -> None:
    """R-9.3."""
    fake = tmp_path / "tmux"
    fake.write_text(f"#!/bin/sh\necho '{version}'\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if is_fine:
        await Tmux().check()
        return
    with pytest.raises(Unavailable, match=version):
        await Tmux().check()


async def test_the_command_to_attach_shows_the_agent_from_within_another_tmux(
    tmux_server: Callable[[str], Server], tmp_path: Path
) -> None:
    backend = Tmux()
    start = Launcher(backend, tmp_path)
    try:
        await start.start(*WAIT, agent="ben")
        one = await start.start(*WAIT)
        command = backend.attach(one.place)
        assert command is not None
        with attached(command):
            run = tmux_server("bullpen")
            shown = ("list-clients", "-F", "#{session_name}:#{window_name} #{pane_id}")
            expected = f"bullpen-alpha:ann {one.place.pane}"
            await until(lambda: run(*shown) == expected, "the client shows the pane")
            await until_shown(backend, one.place, "here I am")
    finally:
        start.end_all()


async def test_a_session_of_ours_on_the_users_server_sets_nothing_there(
    users: Server, tmp_path: Path
) -> None:
    def settings() -> list[str]:
        return [users("show-options", scope) for scope in ("-g", "-s", "-gw")]

    backend = Tmux("default")
    start = Launcher(backend, tmp_path)
    before = settings()
    try:
        one = await start.start(*WAIT)
        assert settings() == before
        await backend.stop(one.place, one.launch.nonce, grace_s=10)
    finally:
        start.end_all()


async def test_the_command_to_attach_works_in_a_pane_of_the_same_server(
    users: Server, start: Launcher
) -> None:
    one = await start.start(*WAIT)
    command = Tmux("default", session="mine").attach(one.place)
    assert command is not None
    users("new-session", "-d", "-s", "other", shlex.join(command))
    shown = ("list-clients", "-F", "#{session_name} #{pane_id}")
    await until(lambda: users(*shown) == f"mine {one.place.pane}", "the client shows the pane")


class attached:
    """A terminal in which a command runs, as it would inside another tmux."""

    def __init__(self, command: list[str]) -> None:
        self._ours, theirs = pty.openpty()
        env = {
            "PATH": os.environ["PATH"],
            "TERM": "xterm",
            "TMUX": "/tmp/other,1,0",
            NONCE: "the-users",
        }
        self._client = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
        )
        os.close(theirs)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._client.kill()
        self._client.wait(timeout=60)
        os.close(self._ours)
