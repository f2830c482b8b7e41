"""Commands: what they print, when they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from bullpen.agents.system import run_command

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench

STUBBORN = "trap '' TERM; echo $$ > pid; while true; do sleep 0.1; done"
"""A command that does not care to be asked, with children in its group."""


async def test_a_command_returns_what_it_prints_in_order(ann: Bench) -> None:
    text = await ann.ok("Bash", command="echo out; echo err >&2; echo more > /dev/stderr; pwd")
    assert text == f"out\nerr\nmore\n{ann.cwd}"
    assert await ann.ok("Bash", command="true") == "(no output)"


async def test_a_command_that_fails_is_an_error_with_its_exit_code(ann: Bench) -> None:
    assert await ann.refused("Bash", command="echo no; exit 3") == "Exit code 3\nno"
    assert "signal 9" in await ann.refused("Bash", command="kill -9 $$")


async def test_a_command_gets_exactly_the_environment_of_the_desk(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_RUNNER", "1")
    text = await ann.ok("Bash", command="env")
    assert "COLOUR=green" in text
    assert "BULLPEN_NONCE=[secret BULLPEN_NONCE]" in text
    assert "SECRET_OF" not in text


async def test_a_command_has_a_session_of_its_own_no_input_and_no_terminal(ann: Bench) -> None:
    text = await ann.ok("Bash", command="cat; ps -o pid=,pgid=,sess=,tty= -p $$")
    pid, group, session, terminal = text.split()
    assert pid == group == session
    assert terminal == "?"
    assert int(group) != os.getpgrp()


async def test_a_directory_change_does_not_last(ann: Bench) -> None:
    await ann.ok("Bash", command="cd /; export X=1")
    assert await ann.ok("Bash", command="pwd; echo $X") == str(ann.cwd)


async def test_a_long_output_is_cut_in_the_middle_and_kept_whole(ann: Bench) -> None:
    text = await ann.ok("Bash", command="seq 1 20000")
    whole = "".join(f"{n}\n" for n in range(1, 20001))
    (path,) = (ann.desk.folder / "output").iterdir()
    assert path.read_text() == whole
    assert str(path) in text
    assert text.startswith(whole[: run_command.HEAD_CHARS])
    assert text.endswith(whole[-run_command.TAIL_CHARS :].rstrip("\n"))
    left_out = len(whole) - run_command.HEAD_CHARS - run_command.TAIL_CHARS
    assert f"{left_out} characters skipped; the full output is in" in text


async def test_a_short_output_leaves_no_file(ann: Bench) -> None:
    text = await ann.ok("Bash", command="printf 'é%.0s' $(seq 1 30000)")
    assert text == "é" * 30_000
    assert not (ann.desk.folder / "output").exists()


async def test_an_endless_output_stays_bounded_in_memory_and_on_disk(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "FILE_BYTES_MAX", 1_000_000)
    text = await ann.refused("Bash", command="yes", timeout=1500)
    (path,) = (ann.desk.folder / "output").iterdir()
    assert path.stat().st_size == 1_000_000
    assert "the first 1000000 bytes of" in text
    assert len(text) < 31_000


async def test_an_output_that_cannot_be_kept_is_still_shown(ann: Bench) -> None:
    ann.desk.folder.mkdir(parents=True)
    (ann.desk.folder / "output").write_text("a file is in the way")
    text = await ann.ok("Bash", command="seq 1 20000")
    assert "could not be saved" in text
    assert text.endswith("20000")


async def test_a_timeout_ends_the_whole_group_and_shows_the_output_so_far(ann: Bench) -> None:
    text = await ann.refused("Bash", command=f"echo begun; {STUBBORN}", timeout=1000)
    assert "timed out after 1000 ms" in text
    assert "begun" in text
    pid = await ann.pid_in("pid")
    assert not ann.runs(pid)


async def test_a_command_is_asked_to_end_before_it_is_killed(ann: Bench) -> None:
    text = await ann.refused(
        "Bash", command="trap 'echo bye; exit 0' TERM; sleep 600 & wait", timeout=1000
    )
    assert "bye" in text


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_cancelling_ends_the_group(ann: Bench, how: str) -> None:
    """R-2.2, R-3.1: a command that ignores SIGTERM, with a child in its group."""
    command = f"sleep 600 & echo $! > child; {STUBBORN}"
    if how == "scope":
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: ann.call("Bash", command=command))
            pids = [await ann.pid_in("pid"), await ann.pid_in("child")]
            tasks.cancel_scope.cancel()
    else:
        task = asyncio.create_task(ann.call("Bash", command=command))
        pids = [await ann.pid_in("pid"), await ann.pid_in("child")]
        task.cancel()
        with pytest.raises(asyncio.CancelledError), anyio.fail_after(120):
            await task
    assert not any(ann.runs(pid) for pid in pids)
    assert ann.desk.did[-1] == (None, "")


async def test_cancelling_twice_still_leaves_nothing(ann: Bench) -> None:
    command = "trap 'touch asked' TERM; echo $$ > pid; while true; do sleep 0.1; done"
    task = asyncio.create_task(ann.call("Bash", command=command))
    pid = await ann.pid_in("pid")
    task.cancel()
    # It is in its grace now.
    await ann.until((ann.cwd / "asked").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ann.until(lambda: not ann.runs(pid))


async def test_a_child_that_keeps_the_pipe_open_does_not_hold_the_tool(ann: Bench) -> None:
    with anyio.fail_after(20):
        text = await ann.ok("Bash", command="sleep 600 & echo $! > child; echo done")
    assert text == "done"
    pid = await ann.pid_in("child")
    assert ann.runs(pid)
    os.kill(pid, 9)


async def test_a_child_that_prints_for_ever_does_not_hold_the_tool(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Begin with a full pipe, and read so slowly that there is always more.
    monkeypatch.setattr(run_command, "_CHUNK", 1)
    monkeypatch.setattr(run_command, "_DRAIN_BYTES_MAX", 100_000)
    taken = bytearray()

    def take(chunk: bytes) -> None:
        taken.extend(chunk)
        assert len(taken) < 1_000_000

    argv = run_command.shell("yes & echo $! > child; sleep 0.5")
    try:
        async with run_command.started(argv, ann.desk, take) as running:
            await ann.until(lambda: not ann.runs(running.process.pid))
            with anyio.fail_after(20):
                assert await running.finished() == 0
    finally:
        os.kill(await ann.pid_in("child"), 9)


async def test_all_that_the_shell_printed_is_there_when_it_has_ended(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "_CHUNK", 100)
    taken = bytearray()
    argv = run_command.shell("seq 1 10000")
    async with run_command.started(argv, ann.desk, taken.extend) as running:
        # When the reading begins, all has been printed and the shell has ended.
        await ann.until(lambda: not ann.runs(running.process.pid))
        await running.finished()
    assert taken.decode() == "".join(f"{n}\n" for n in range(1, 10001))


async def test_what_is_kept_in_memory_of_an_output_is_bounded(ann: Bench, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        with run_command.Output(tmp_path / "output.txt", ann.desk) as output:
            for _ in range(200):
                output.add(b"x" * 50_000)
            _, peak = tracemalloc.get_traced_memory()
            assert len(output.text()) < 31_000
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert (tmp_path / "output.txt").stat().st_size == 10_000_000


async def test_a_directory_that_is_gone_is_an_error(ann: Bench) -> None:
    ann.cwd.rmdir()
    assert "cannot be started" in await ann.refused("Bash", command="true")


async def test_a_timeout_past_the_bound_is_refused(ann: Bench) -> None:
    assert "600000" in await ann.refused("Bash", command="true", timeout=600_001)


async def test_no_descriptor_is_left_open(ann: Bench) -> None:
    await ann.ok("Bash", command="true")
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        await ann.ok("Bash", command="true")
        await ann.refused("Bash", command="sleep 5", timeout=50)
    assert len(os.listdir("/dev/fd")) == before


async def test_files_that_look_like_a_repository_do_not_make_git_run_programs(ann: Bench) -> None:
    """Whoever may write files and run `git status` could else run anything by it."""
    hidden = ann.cwd / "hidden"
    for folder in ("objects", "refs"):
        (hidden / folder).mkdir(parents=True)
    (hidden / "HEAD").write_text("ref: refs/heads/main\n")
    mark = ann.cwd / "ran"
    (hidden / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n"
        f'\tfsmonitor = "touch {mark}; false"\n'
    )
    await ann.refused("Bash", command="cd hidden && git status")
    assert not mark.exists()


async def test_commands_after_an_edit_run_as_the_agents_own(ann: Bench) -> None:
    checks = {"*.txt": ["cat {file}; echo $COLOUR; pwd"]}
    ann.desk.spec = ann.desk.spec.evolve(after_edit=checks)
    said = await ann.ok("Write", file_path="a b.txt", content="text")
    assert f"passed\ntextgreen\n{ann.cwd}" in said
    assert ann.desk.wanted[-1].tool == "Bash"
