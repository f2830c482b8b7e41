"""What a command that is closed in can touch, and what it cannot."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.backends.warm_start.starter import FOLDER
from bullpen.agents.drivers.registry import check_spec
from bullpen.errors import Unavailable
from bullpen.protocol.policy import Sandbox
from bullpen.sandbox.command import check_sandbox, sandboxed_command
from bullpen.testing.backend_contract import Launcher, content
from support.agents.warm_starts import CountedWarmStart, end_warm_parents, warm_parents

if TYPE_CHECKING:
    from .conftest import Closed, MakeClosed


async def test_only_the_project_can_be_written(closed: Closed) -> None:
    await closed.ok("echo kept > inside.txt && mkdir -p sub && echo kept > sub/deep.txt")
    assert (closed.project / "sub/deep.txt").read_text() == "kept\n"
    for path in (Path("/etc/bullpen-new"), Path("/usr/bullpen-new")):
        assert "Read-only" in await closed.fails(f"touch {path}")
        assert not path.exists()
    # Wherever this checkout lies: it may be below a directory that is not even there inside.
    await closed.fails(f"touch {closed.outside}/new")
    assert not (closed.outside / "new").exists()
    # These are there to be used, and are gone afterwards.
    private = [closed.home / "new", Path("/tmp/bullpen-c-new"), Path("/var/tmp/bullpen-c-new")]
    await closed.ok("touch " + " ".join(map(str, private)))
    assert not any(path.exists() for path in private)


async def test_homes_and_the_teams_cannot_be_read(closed: Closed) -> None:
    text = await closed.ok(f"ls -A {closed.home}; ls -A $BULLPEN_HOME; ls -A ~root 2>&1; true")
    assert ".ssh" not in text
    assert "crew" not in text
    assert "No such file" in await closed.fails(f"cat {closed.secret}")
    assert closed.secret.read_text().strip() not in await closed.ok(
        f"cat /proc/*/root{closed.secret} /proc/self/cwd/../home/.ssh/id 2>&1; true"
    )


async def test_what_the_policy_names_is_there(make_closed: MakeClosed, outside: Path) -> None:
    for name in ("more", "read", "write"):
        (outside / name).mkdir()
        (outside / name / "old").write_text(name)
    closed = make_closed(
        directories=[str(outside / "more")],
        sandbox=Sandbox.new(
            read=["~/.ssh", str(outside / "read"), "~/missing"], write=[str(outside / "write")]
        ),
    )
    assert await closed.ok(f"cat {closed.secret}") == closed.secret.read_text().strip()
    await closed.ok(f"touch {outside}/more/new {outside}/write/new")
    assert (outside / "more/new").exists()
    assert (outside / "write/new").exists()
    assert "Read-only" in await closed.fails(f"touch {outside}/read/new")
    assert "Read-only" in await closed.fails("touch ~/.ssh/new")


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("network", [False, True])
async def test_a_server_of_this_machine_is_reached_only_if_it_is_named(
    make_closed: MakeClosed, network: bool, named: bool
) -> None:
    """A network is the internet. A server without a key, as NATS is for trying, is not part of it.

    It is tried directly and through the proxy.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        hosts = [f"127.0.0.1:{port}"] if named else []
        closed = make_closed(sandbox=Sandbox.new(network=network, hosts=hosts))
        await closed.call(f"curl -sm 2 -x $HTTP_PROXY http://127.0.0.1:{port}/")
        if not named:
            with pytest.raises(TimeoutError):
                listener.accept()
        text, failed = await closed.call(f"echo hello > /dev/tcp/127.0.0.1/{port}")
        assert failed is not named, text
        if named:
            listener.accept()[0].close()
        else:
            with pytest.raises(TimeoutError):
                listener.accept()


async def test_a_socket_of_a_program_outside_cannot_be_reached(closed: Closed) -> None:
    path = closed.home / "agent.sock"
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        assert "No such file" in await closed.fails(
            f"{shlex.quote(sys.executable)} -c {shlex.quote(connect)}"
        )


async def test_a_warm_parent_starts_nothing_for_a_sandboxed_command(
    closed: Closed, tmp_path: Path
) -> None:
    """What it starts would not be in the sandbox."""
    warm = CountedWarmStart(FOLDER)
    start = Launcher(Detached(warm), tmp_path)
    launch = start.launch(sys.executable, "-c", "import time; time.sleep(600)")
    # A parent of its own: others of this folder may be somebody's.
    launch = replace(launch, env={**launch.env, "HOME": str(closed.home)})
    place = await Detached(warm).start(launch)
    try:
        assert warm.forked == [place.pid]
        (parent,) = warm_parents(f"HOME={closed.home}")
        words = content(f"/proc/{parent}/cmdline").split("\0")
        path = next(word for word in words if word.startswith(str(FOLDER)))
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        command = f"{shlex.quote(sys.executable)} -c {shlex.quote(connect)}"
        await anyio.run_process(["sh", "-c", command])
        assert "No such file" in await closed.fails(command)
    finally:
        start.end_all()
        end_warm_parents(f"HOME={closed.home}")


async def test_no_other_process_is_seen_or_signalled(closed: Closed) -> None:
    other = await anyio.open_process(["sleep", "600"])
    try:
        kills = f"kill -9 {other.pid} 2>&1; kill -9 -1 2>&1; ls /proc"
        text = await closed.ok(kills, timeout=5000)
        assert "No such process" in text
        assert str(other.pid) not in text.replace(f"({other.pid})", "").split()
        assert other.returncode is None
    finally:
        other.kill()
        await other.aclose()


async def test_there_are_no_capabilities_and_nothing_can_be_mounted(closed: Closed) -> None:
    text = await closed.ok("grep CapEff /proc/self/status")
    assert int(text.split()[1], 16) == 0
    await closed.fails(f"umount {closed.home}")
    await closed.fails(f"unshare -Urm umount {closed.home}")
    await closed.fails(f"unshare -Urm mount -o remount,rw,bind {closed.outside.parent}")


async def test_git_python_and_pytest_work_inside(closed: Closed) -> None:
    closed.git("init", "-q")
    (closed.home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
    (closed.project / "test_it.py").write_text("def test_it():\n    assert True\n")
    python = shlex.quote(sys.executable)
    assert "1 passed" in await closed.ok(f"{python} -m pytest -q -p no:cacheprovider test_it.py")
    await closed.ok("git add test_it.py && git commit -qm first && git checkout -qb other")
    assert closed.git("log", "--format=%an %s") == "Ann first"


async def test_what_runs_outside_later_cannot_be_changed(closed: Closed) -> None:
    closed.git("init", "-q")
    config = (closed.project / ".git/config").read_text()
    for attempt in (
        "echo x > .git/hooks/pre-commit",
        "git config core.hooksPath evil",
        "mv .git old",
        "rm -rf .git",
        "mkdir .claude/x",
        "echo x > .claude/settings.json",
        "rmdir .claude",
        "mv .claude old",
        "rm -rf .bullpen; mkdir -p .bullpen/agents",
    ):
        await closed.fails(attempt)
    assert (closed.project / ".git/config").read_text() == config
    assert not (closed.project / ".git/hooks/pre-commit").exists()
    assert list((closed.project / ".claude").iterdir()) == []
    assert list((closed.project / ".bullpen").iterdir()) == []


async def test_git_is_not_sent_elsewhere_for_its_settings(closed: Closed) -> None:
    closed.git("init", "-q")
    await closed.ok(
        "mkdir evil && cp -r .git/. evil/ && git config -f evil/config alias.st '!touch done'"
    )
    # Not even for the time of a command: what runs in the background has that time too.
    for attempt in (
        "echo ../evil > .git/commondir",
        "rm -f .git/commondir && echo ../evil > .git/commondir",
        "echo ../evil > .git/new && mv .git/new .git/commondir",
        "ln -sf ../evil .git/commondir",
    ):
        await closed.fails(attempt)
    assert (closed.project / ".git/commondir").read_text() == ".\n"
    with pytest.raises(subprocess.CalledProcessError):
        closed.git("st")
    assert not (closed.project / "done").exists()
    closed.git("commit", "-q", "--allow-empty", "-m", "git works with that file")


async def test_a_linked_work_tree_can_commit_and_a_forged_one_opens_nothing(
    closed: Closed, make_closed: MakeClosed
) -> None:
    closed.git("init", "-q")
    closed.git("commit", "-q", "--allow-empty", "-m", "first")
    tree = closed.project.parent / "tree"
    closed.git("worktree", "add", "-q", str(tree))
    identity = {"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "a@b", "EMAIL": "a@b"}
    linked = make_closed(cwd=str(tree), env={**identity, "GIT_COMMITTER_NAME": "Ann"})
    await linked.ok("echo 1 > new && git add new && git commit -qm second")
    assert closed.git("log", "--format=%s", cwd=tree).splitlines() == ["second", "first"]
    await linked.fails(f"echo x > {closed.project}/.git/hooks/pre-commit")
    # A repository in the home that does not know the work tree which says that it is one of its.
    forged = closed.project.parent / "forged"
    forged.mkdir()
    hidden = closed.home / "repository/worktrees/tree"
    hidden.mkdir(parents=True)
    (hidden / "gitdir").write_text(f"{tree}/.git\n")
    (hidden.parent.parent / "HEAD").write_text("ref: refs/heads/main\n")
    (forged / ".git").write_text(f"gitdir: {hidden}\n")
    assert "No such file" in await make_closed(cwd=str(forged)).fails("cat ~/repository/HEAD")


async def test_a_link_in_the_place_of_what_is_guarded_is_refused(closed: Closed) -> None:
    (closed.project / ".claude").symlink_to(closed.home, target_is_directory=True)
    assert "is a link" in await closed.fails("true")


@pytest.mark.parametrize("cwd", ["/", "home", "above"])
async def test_a_home_cannot_be_worked_in(make_closed: MakeClosed, cwd: str) -> None:
    home = make_closed().home
    where = {"/": "/", "home": str(home), "above": str(home.parent)}[cwd]
    text = await make_closed(cwd=where).fails("echo ran")
    assert "Cannot sandbox commands" in text
    assert "echo" not in text


async def test_commands_get_no_key_of_the_model_unless_asked(make_closed: MakeClosed) -> None:
    """The redaction is not what hides it: the length is not there either."""
    env = {"ANTHROPIC_API_KEY": "sk-ant-canary-0123456789", "SSH_AUTH_SOCK": "/tmp/agent"}
    counts = "echo ${#ANTHROPIC_API_KEY} ${#SSH_AUTH_SOCK}"
    assert await make_closed(env=env).ok(counts) == "0 0"
    assert await make_closed(env=env, env_asked=["ANTHROPIC_API_KEY"]).ok(counts) == "24 0"


async def test_a_sandbox_that_is_not_to_be_had_is_an_error(
    closed: Closed, make_closed: MakeClosed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Asked for and sandbox is not available: at the spawn, and if it goes away later."""
    check_sandbox()
    check_spec(closed.desk.spec.evolve(script="s.toml"))
    bare = make_closed(env={"PATH": str(tmp_path)})
    text = await bare.fails("touch ran")
    assert "sandbox is not available" in text
    assert "bubblewrap" in text
    assert not (closed.project / "ran").exists()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="sandbox is not available"):
        check_spec(closed.desk.spec.evolve(script="s.toml"))


async def test_a_bubblewrap_that_does_not_work_is_an_error_with_its_words(
    make_closed: MakeClosed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'no namespaces here' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Unavailable, match="no namespaces here"):
        check_sandbox()
    text = await make_closed(env={"PATH": os.environ["PATH"]}).fails("touch ran")
    assert "no namespaces here" in text
    assert not (tmp_path / "project/ran").exists()


async def test_a_bubblewrap_of_the_project_is_not_used(make_closed: MakeClosed) -> None:
    path = f"{make_closed().project}/bin:{os.environ['PATH']}"
    closed = make_closed(env={"PATH": path})
    await closed.ok(
        "mkdir bin && printf '#!/bin/sh\\ntouch escaped\\n' > bin/bwrap; chmod +x bin/*"
    )
    await closed.ok("true")
    assert not (closed.project / "escaped").exists()


async def test_root_cannot_change_the_kernel(closed: Closed) -> None:
    """They are only opened: as root outside, that would be enough to write."""
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches"):
        text = await closed.fails(f"exec 3>{path}")
        assert "Read-only" in text or "denied" in text, path


@pytest.mark.parametrize(
    "variable", ["TMUX_TMPDIR", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "nothing names it"]
)
async def test_a_socket_in_a_visible_directory_cannot_be_reached(
    make_closed: MakeClosed, outside: Path, variable: str
) -> None:
    """As a tmux server is, if its directory is not below /tmp or a home."""
    path = outside / "s"
    value = str(path if variable == "SSH_AUTH_SOCK" else outside)
    closed = make_closed(sandbox=Sandbox.new(read=[str(outside)]), env={variable: value})
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        await closed.fails(f"{shlex.quote(sys.executable)} -c {shlex.quote(connect)}")
    assert await closed.ok(f"echo ${{#{variable.split()[0]}}}") == "0"


async def test_a_command_cannot_dump_its_memory_or_reach_the_host_of_a_virtual_machine(
    closed: Closed,
) -> None:
    assert await closed.ok("ulimit -Hc") == "0"
    connect = "import socket; socket.socket(40, socket.SOCK_STREAM)"
    text = await closed.fails(f"{shlex.quote(sys.executable)} -c {shlex.quote(connect)}")
    assert "not supported" in text


async def test_what_lies_elsewhere_on_the_machine_is_not_there(closed: Closed) -> None:
    assert await closed.ok("ls /") != ""
    for path in ("/var/log", "/srv", "/mnt", "/boot", closed.outside):
        assert "No such file" in await closed.fails(f"ls {path}")
    await closed.fails("touch /new")


def test_words_of_a_command_are_never_taken_for_words_of_the_sandbox(tmp_path: Path) -> None:
    argv = ["/bin/echo", "--unshare-all", "--", "--seccomp"]
    words = sandboxed_command(
        argv, cwd=str(tmp_path), directories=(), sandbox=Sandbox.new(), env=dict(os.environ)
    )
    assert words[-5:] == ["--", *argv]
    assert "--seccomp" in words[:-5]
