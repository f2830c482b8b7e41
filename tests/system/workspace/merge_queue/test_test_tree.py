"""The tree that work is tested in: exactly the commit, whatever tests do there."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from bullpen.agents.system import processes
from bullpen.agents.work.merge_checks import check_runner, open_queue
from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.sandbox.command import check_sandbox
from bullpen.store.memory import MemoryStore
from support.git.yard import TEAM, Yard, check, run

_ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/proc").exists(), reason="needs root, to mount a small disk"
)


async def test_what_one_test_leaves_behind_the_next_does_not_find(yard: Yard) -> None:
    yard.user_commits({".gitignore": "*.log\n"})
    mess = (
        'test -z "$(git status --porcelain --ignored)" && echo x >> numbers.txt && rm test.sh &&'
        " mkdir -p new/deep && touch new/deep/a old.log && chmod 500 new/deep new &&"
        " git init -q inner && git update-index --assume-unchanged numbers.txt &&"
        " git checkout -q -B stray"
    )
    for number in range(3):
        task = await yard.work("ann", {f"a{number}.txt": "a\n"}, checks=[check(mess)])
        stepped = await yard.queue(batch=1, retries=0, gate=[]).step()
        assert stepped is not None
        assert stepped.merged == [task], (await yard.record(task)).detail


async def test_tests_cannot_hide_changes_from_the_next_commit(yard: Yard) -> None:
    hide = "git update-index --skip-worktree numbers.txt && echo BROKEN > numbers.txt"
    await yard.work("ann", {"a.txt": "a\n"}, checks=[check(hide)])
    queue = yard.queue(batch=1, gate=[])
    stepped = await queue.step()
    assert stepped is not None
    assert stepped.merged == ["1"]
    await yard.work("bob", {"b.txt": "b\n"}, checks=[check("grep -q '^# numbers' numbers.txt")])
    stepped = await queue.step()
    assert stepped is not None
    assert stepped.merged == ["2"]


async def test_the_set_up_runs_once_and_what_it_made_stays(yard: Yard, tmp_path: Path) -> None:
    yard.user_commits({".gitignore": "vendor/\n"})
    setup = (
        f"echo x >> {tmp_path}/runs && mkdir vendor 'odd [name]' && touch vendor/lib 'odd [name]/f'"
    )
    gate = check("test -e vendor/lib && test -e 'odd [name]/f' && touch vendor2")
    queue = yard.queue(setup=setup, gate=[gate.raw], batch=1)
    for number in range(2):
        await yard.work("ann", {f"a{number}.txt": "a\n"})
    assert [step.merged for step in await yard.drain(queue)] == [["1"], ["2"]]
    assert (tmp_path / "runs").read_text() == "x\n"


async def test_a_set_up_that_fails_gives_nobody_their_work_back(yard: Yard) -> None:
    await yard.work("ann", {"a.txt": "a\n"})
    with pytest.raises(Refused, match="no such thing") as refused:
        await yard.queue(setup="echo no such thing; false").step()
    assert refused.value.reason == "setup_failed"
    assert [task.id for task in await yard.team.merges.line()] == ["1"]
    stepped = await yard.queue(setup="true").step()
    assert stepped is not None
    assert stepped.merged == ["1"]


async def test_a_check_that_hangs_is_ended_with_all_it_started(yard: Yard, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    line = f"setsid sleep 300 & echo $! >> {pids}; sleep 300 & echo $! >> {pids}; wait"
    hangs = check(line, timeout_s=0.5)
    await yard.work("ann", {"a.txt": "a\n"})
    stepped = await yard.queue(gate=[hangs.raw], retries=0, batch=1).step()
    assert stepped is not None
    # The gate hangs without the work too: it is nobody's fault.
    assert "timed out after 0.5 s" in (stepped.held or "")
    alive = [pid for pid in map(int, pids.read_text().split()) if processes.look(pid)]
    assert [pid for pid in alive if processes.look(pid).runs] == []  # type: ignore[union-attr]


async def test_checks_get_no_key_of_a_model_and_are_no_persons(yard: Yard, tmp_path: Path) -> None:
    environ = {**os.environ, "ANTHROPIC_API_KEY": "sk-secret", "SOME_TOKEN": "x"}
    shown = tmp_path / "env"
    runner = check_runner(yard.team, home=yard.home, environ=environ)
    await yard.work("ann", {"a.txt": "a\n"})
    await yard.queue(run=runner, gate=[check(f"env > {shown}").raw]).step()
    names = {line.partition("=")[0] for line in shown.read_text().splitlines()}
    assert not names & {"ANTHROPIC_API_KEY", "SOME_TOKEN"}
    assert names >= {"PATH", "TMPDIR", "BULLPEN_PORT", "BULLPEN_NONCE"}


async def test_what_a_killed_queue_left_running_is_ended(yard: Yard) -> None:
    await yard.work("ann", {"a.txt": "a\n"})
    queue = await open_queue(yard.team, yard.settings, home=yard.home, environ=os.environ)
    folder = queue._folder
    from bullpen.agents.work.merge_checks import _mark

    dead = f"{_mark(folder)}-999999-1-x"
    env = {**os.environ, "BULLPEN_NONCE": dead}
    left = subprocess.Popen(["sleep", "300"], env=env)  # noqa: ASYNC220 - ended below
    try:
        await open_queue(yard.team, yard.settings, home=yard.home, environ=os.environ)
        assert left.wait(5) < 0
    finally:
        left.kill()
        left.wait()
    assert folder == yard.project.parent / "project.bullpen" / TEAM
    stepped = await queue.step()
    assert stepped is not None
    assert stepped.merged == ["1"]


async def test_a_tree_that_somebody_broke_is_made_again(yard: Yard) -> None:
    queue = yard.queue(batch=1)
    await yard.work("ann", {"a.txt": "a\n"})
    await queue.step()
    bench = yard.project.parent / "queue" / "+merge"
    (bench / ".git").unlink()
    for file in bench.iterdir():
        file.unlink() if file.is_file() else None
    await yard.work("ann", {"b.txt": "b\n"})
    stepped = await yard.queue().step()
    assert stepped is not None
    assert stepped.merged == ["2"]


async def test_something_else_at_its_place_is_not_touched(yard: Yard) -> None:
    bench = yard.project.parent / "queue" / "+merge"
    bench.mkdir(parents=True)
    (bench / "precious").write_text("x")
    await yard.work("ann", {"a.txt": "a\n"})
    with pytest.raises(Refused) as refused:
        await yard.queue().step()
    assert refused.value.reason == "path_taken"
    assert (bench / "precious").read_text() == "x"


@_ROOT
async def test_a_full_disk_gives_nobody_their_work_back(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if run(tmp_path, "mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(disk)).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yard = await Yard.make(disk, MemoryStore())
        await yard.join("ann")
        await yard.work("ann", {"a.txt": "a\n" * 30_000})
        _fill(disk / "filler")
        queue = yard.queue()
        with pytest.raises(Unavailable):
            await queue.step()
        # Room for git, but hardly any for tests: what is red now says nothing.
        os.truncate(disk / "filler", 30 * 1024 * 1024)
        with pytest.raises(Unavailable, match="almost no disk space"):
            await yard.queue(gate=[check("false").raw]).step()
        assert [task.id for task in await yard.team.merges.line()] == ["1"]
        (disk / "filler").unlink()
        stepped = await queue.step()
        assert stepped is not None
        assert stepped.merged == ["1"]
    finally:
        _unmount(disk)


def _fill(file: Path) -> None:
    with open(file, "wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(b"x" * 4096)


def _unmount(disk: Path) -> None:
    until = time.monotonic() + 10
    while run(disk.parent, "umount", str(disk)).returncode:
        assert time.monotonic() < until
        time.sleep(0.1)


async def test_checks_are_closed_in_if_one_of_the_team_is(yard: Yard, tmp_path: Path) -> None:
    try:
        check_sandbox()
    except Unavailable as error:
        pytest.skip(str(error))
    box = Policy.new(sandbox=Sandbox.new(network=True).raw).raw
    spec = AgentSpec.new(driver="scripted", backend="none", cwd=str(yard.project), policy=box)
    await yard.team.agents.register("carl", spec, by=LEAD, nonce="of carl")
    spec = spec.evolve(policy=Policy.new(sandbox=Sandbox.new().raw).raw)
    await yard.team.agents.register("dora", spec, by=LEAD, nonce="of dora")
    outside = tmp_path / "outside"
    offline = "test $(grep -c : /proc/net/dev) = 1"
    gate = check(f"touch inside; touch {outside}; ! test -e {yard.home}/secret && {offline}")
    yard.home.mkdir()
    (yard.home / "secret").write_text("x")
    await yard.work("ann", {"a.txt": "a\n"})
    stepped = await yard.queue(gate=[gate.raw], retries=0).step()
    assert stepped is not None
    assert stepped.merged == ["1"], stepped.held or (await yard.record("1")).detail
    assert not outside.exists()
