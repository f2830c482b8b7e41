"""Commands in the background."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import anyio

from bullpen.agents.tools.jobs import end_jobs

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench


def job_id(text: str) -> str:
    found = re.search(r"ID (bash_\w+)", text)
    assert found, text
    return found[1]


async def test_a_job_returns_at_once_and_wakes_its_agent_once(ann: Bench) -> None:
    text = await ann.ok(
        "Bash",
        command="until [ -e go ]; do sleep 0.05; done; echo over; exit 7",
        run_in_background=True,
    )
    assert ann.desk.wakes == []
    (ann.cwd / "go").touch()
    await ann.until(lambda: bool(ann.desk.wakes))
    (path,) = (ann.desk.folder / "output").iterdir()
    assert path.read_text() == "over\n"
    assert str(path) in text
    (note,) = ann.desk.wakes
    assert f"Background job {job_id(text)} ended with exit code 7; output: {path}" in note
    shown = await ann.ok("BashOutput", bash_id=job_id(text))
    assert "exit code 7" in shown
    assert "already" in await ann.ok("KillShell", shell_id=job_id(text))
    await end_jobs(ann.desk)
    assert len(ann.desk.wakes) == 1


async def test_the_output_of_a_job_is_shown_piece_by_piece(ann: Bench) -> None:
    text = await ann.ok(
        "Bash",
        command="printf 'one\\xc3'; touch first; until [ -e go ]; do sleep 0.05; done; "
        "printf '\\xa9two'; sleep 600",
        run_in_background=True,
    )
    name = job_id(text)
    (path,) = (ann.desk.folder / "output").iterdir()
    # Half a character may be the beginning of a secret, so it is not kept yet.
    await ann.until(lambda: path.stat().st_size == 3)
    first = await ann.ok("BashOutput", bash_id=name)
    assert "is running" in first
    assert first.endswith("\none")
    (ann.cwd / "go").touch()
    await ann.until(lambda: path.stat().st_size == 8)
    assert (await ann.ok("BashOutput", bash_id=name)).endswith("\nétwo")
    assert "(no new output)" in await ann.ok("BashOutput", bash_id=name)


async def test_of_much_new_output_the_end_is_shown(ann: Bench) -> None:
    text = await ann.ok("Bash", command="seq 1 20000", run_in_background=True)
    await ann.until(lambda: bool(ann.desk.wakes))
    shown = await ann.ok("BashOutput", bash_id=job_id(text))
    assert shown.endswith("20000\n")
    assert "bytes skipped; full output: " in shown
    assert len(shown) < 31_000


async def test_a_killed_job_is_gone_and_wakes_nobody(ann: Bench) -> None:
    text = await ann.ok(
        "Bash",
        command="trap '' TERM; sleep 600 & echo $! > child; wait; wait",
        run_in_background=True,
    )
    pid = await ann.pid_in("child")
    assert "was killed" in await ann.ok("KillShell", shell_id=job_id(text))
    assert not ann.runs(pid)
    assert "was killed" in await ann.ok("BashOutput", bash_id=job_id(text))
    assert ann.desk.wakes == []


async def test_jobs_end_with_their_agent(ann: Bench, bob: Bench) -> None:
    for index in range(3):
        await ann.ok(
            "Bash", command=f"echo $$ > pid{index}; sleep 600; true", run_in_background=True
        )
    await bob.ok("Bash", command="echo $$ > other; sleep 600; true", run_in_background=True)
    pids = [await ann.pid_in(f"pid{index}") for index in range(3)]
    other = await bob.pid_in("other")
    await end_jobs(ann.desk)
    assert not any(ann.runs(pid) for pid in pids)
    assert ann.runs(other)
    assert ann.desk.wakes == []


async def test_a_job_that_is_ended_at_once_leaves_nothing(ann: Bench) -> None:
    await ann.ok("Bash", command="echo $$ > pid; sleep 600; true", run_in_background=True)
    await end_jobs(ann.desk)
    await ann.ok("Bash", command="sleep 0.3")
    path = ann.cwd / "pid"
    # It may have been ended before it wrote its number.
    if path.exists() and path.read_text():
        assert not ann.runs(int(path.read_text()))


async def test_a_job_that_cannot_be_started_is_an_error(ann: Bench) -> None:
    ann.cwd.rmdir()
    text = await ann.refused("Bash", command="true", run_in_background=True)
    assert "cannot be started" in text
    ann.desk.folder.mkdir(parents=True, exist_ok=True)
    (ann.desk.folder / "output").rename(ann.desk.folder / "before")
    (ann.desk.folder / "output").write_text("in the way")
    assert "Cannot write the output" in await ann.refused(
        "Bash", command="true", run_in_background=True
    )


async def test_a_job_of_another_agent_is_unknown(ann: Bench, bob: Bench) -> None:
    text = await ann.ok("Bash", command="sleep 600", run_in_background=True)
    assert "no background job" in await bob.refused("KillShell", shell_id=job_id(text))
    assert job_id(text) in await ann.refused("BashOutput", bash_id="bash_0")


async def test_plan_mode_ends_the_jobs_and_says_which(ann: Bench) -> None:
    command = "touch started; until [ -e go ]; do sleep 0.05; done; touch late"
    name = job_id(await ann.ok("Bash", command=command, run_in_background=True))
    await ann.until(lambda: (ann.cwd / "started").exists())
    said = await ann.ok("EnterPlanMode")
    assert f"Background job {name} was killed ({command})" in said
    (ann.cwd / "go").touch()
    assert "was killed" in await ann.ok("BashOutput", bash_id=name)
    await anyio.sleep(0.5)
    assert not (ann.cwd / "late").exists()
