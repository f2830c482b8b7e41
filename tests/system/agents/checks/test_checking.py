"""What each kind of check finds: real commands, real files, a real repository."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from bullpen.agents.work.checks import DETAIL_CHARS_MAX, look
from bullpen.protocol.task import Check, Task
from support.crews import eventually

if TYPE_CHECKING:
    from support.agents.checks_fixtures import Project


def command(run: str, **fields: float) -> Check:
    return Check.new(name="it", kind="command", run=run, **fields)


def file(path: str) -> Check:
    return Check.new(name="it", kind="file", path=path)


def commit(ref: str | None = None) -> Check:
    return Check.new(name="it", kind="commit", ref=ref)


async def test_a_command_passes_by_its_exit_code_alone(project: Project) -> None:
    assert await project.found(command("echo all is well >&2")) == (
        True,
        "exit code 0\nall is well",
    )
    assert await project.found(command("echo passed; exit 3")) == (False, "exit code 3\npassed")
    assert (await project.found(command("kill -9 $$"))) == (False, "it was killed by signal 9")


async def test_a_command_runs_in_the_directory_and_the_environment_of_the_agent(
    project: Project,
) -> None:
    passed, words = await project.found(command('echo "$PWD $COLOUR"'))
    assert passed
    assert words.endswith(f"{project.path} green")


async def test_a_command_that_cannot_be_run_has_failed_with_the_reason(project: Project) -> None:
    passed, words = await project.found(command("no-such-program --now"))
    assert not passed
    assert "exit code 127" in words
    assert "no-such-program" in words
    passed, words = await project.found(Check.new(name="it", kind="command"))
    assert (passed, words) == (False, "the check has no command")
    project.path.rmdir()
    passed, words = await project.found(command("true"))
    assert not passed
    assert "cannot be started" in words
    assert str(project.path) in words


async def test_a_command_that_hangs_is_ended_with_all_that_it_started(project: Project) -> None:
    line = "trap '' TERM; echo waiting; sleep 998 & echo $! > child; wait; sleep 999"
    passed, words = await project.found(command(line, timeout_s=0.5))
    assert (passed, words) == (False, "it timed out after 0.5 s and was killed\nwaiting")
    child = int((project.path / "child").read_text())
    await eventually(lambda: not _runs(child))


async def test_what_a_check_leaves_in_the_background_is_ended_too(project: Project) -> None:
    passed, _ = await project.found(command("sleep 997 > /dev/null 2>&1 & echo $! > child"))
    assert passed
    child = int((project.path / "child").read_text())
    await eventually(lambda: not _runs(child))


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_of_a_long_output_the_end_is_kept_and_how_it_ended(project: Project) -> None:
    passed, words = await project.found(command("seq 1 300000; exit 4"))
    assert not passed
    assert words.startswith("exit code 4\n")
    assert words.endswith("\n299999\n300000")
    assert len(words) <= DETAIL_CHARS_MAX


async def test_a_secret_is_taken_out_before_the_output_is_cut(project: Project) -> None:
    """A secret of which only the end is kept would not be known for one."""
    secret = "s3cr3t-" * 8
    check = command(f"printf '%s' {secret}; head -c {DETAIL_CHARS_MAX - 40} /dev/zero | tr '\\0' x")
    task = Task.new(id="1", subject="s", description="")
    found = await look(
        project, task, check, report=None, redact=lambda text: text.replace(secret, "[secret]")
    )
    assert found.detail is not None
    assert "s3cr3t" not in found.detail
    assert found.detail.endswith("xxx")


async def test_what_no_path_and_no_record_can_hold_fails_a_check(project: Project) -> None:
    (project.path / os.fsdecode(b"\xff.txt")).touch()
    assert await project.found(file("*.txt")) == (False, "?.txt is empty")
    assert not (await project.found(file("a" * 5000)))[0]
    project.path = project.path / "a\0b"
    for check in (file("x"), command("true"), commit("main")):
        assert not (await project.found(check))[0]


async def test_a_commit_must_be_in_the_repository_and_on_a_branch(project: Project) -> None:
    """R-7.2: a commit id is evidence if it is reachable."""
    passed, words = await project.found(commit("main"))
    assert not passed
    assert "is not a git repository" in words
    first = project.commit()
    assert await project.found(commit("main")) == (True, f"commit {first[:12]} exists")
    assert (await project.found(commit(first)))[0]
    assert (await project.found(commit(), report=f"It is in {first[:10]}."))[0]
    for wrong in ("0123456789abcdef", "no-such-branch", "--all", "-h"):
        assert await project.found(commit(wrong)) == (False, f"there is no commit {wrong}")
    lost = project.commit("Lost")
    project.git("reset", "--hard", "--quiet", first)
    assert await project.found(commit(lost)) == (False, f"commit {lost[:12]} is not on any branch")
    assert not (await project.found(commit(), report=f"See {lost}"))[0]
    project.git("branch", "kept", lost)
    assert (await project.found(commit(lost)))[0]


async def test_without_a_branch_the_report_must_name_a_commit(project: Project) -> None:
    made = project.commit()
    passed, words = await project.found(
        commit(), report="I made a commit, believe me. 1234567 of 2"
    )
    assert (passed, words) == (False, "there is no commit 1234567")
    passed, words = await project.found(commit(), report="Done.")
    assert (passed, words) == (False, "the report names no commit: put its id into the report")
    assert (await project.found(commit(), report=f"Was 1234567, is {made.upper()}"))[0]


async def test_a_commit_of_before_the_claim_is_not_the_work_of_this_attempt(
    project: Project,
) -> None:
    now = datetime.now(UTC)
    old = project.commit("Old", when=(now - timedelta(hours=1)).isoformat())
    claimed_ms = int(now.timestamp() * 1000)
    too_old = f"commit {old[:12]} was made before the task was claimed"
    assert await project.found(commit("main"), claimed_ms=claimed_ms) == (False, too_old)
    assert await project.found(commit(), report=old, claimed_ms=claimed_ms) == (False, too_old)
    assert (await project.found(commit(old), claimed_ms=claimed_ms))[0], (
        "this very one is asked for"
    )
    new = project.commit("New")
    passed, words = await project.found(commit("main"), claimed_ms=claimed_ms)
    assert (passed, words) == (True, f"commit {new[:12]} was made in this attempt")


async def test_settings_of_a_repository_run_nothing_when_it_is_looked_at(project: Project) -> None:
    made = project.commit()
    for name in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand", "diff.external"):
        project.git("config", name, f"touch {project.path}/ran-{name}")
    project.git("config", "log.showSignature", "true")
    assert (await project.found(commit("main"), claimed_ms=0))[0]
    assert (await project.found(commit(), report=made, claimed_ms=0))[0]
    assert not list(project.path.glob("ran-*"))


async def test_cancelling_ends_a_check(project: Project) -> None:
    noted = project.path / "pid"
    line = "echo $$ > pid.new; mv pid.new pid; exec sleep 996"
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(project.found, command(line, timeout_s=900))
            await eventually(noted.exists)
            group.cancel_scope.cancel()
    pid = int(noted.read_text())
    await eventually(lambda: not _runs(pid))
