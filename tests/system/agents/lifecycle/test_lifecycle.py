"""Watching, stopping, resuming and deleting agents that are real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.backend import NONCE
from bullpen.errors import Conflict, NotFound, Refused
from bullpen.protocol.names import LEAD
from support.crews import eventually
from support.offices import (
    BUSY,
    OUTSIDE,
    SLEEPS,
    STUBBORN,
    TEAM,
    Place,
    in_state,
    kill,
    opened,
    pid_of,
    view,
)


class TestStopping:
    """R-3.1: whatever the agent does, it is gone. How soon is judged in tests/timing."""

    @pytest.mark.parametrize("backend", OUTSIDE)
    @pytest.mark.parametrize(
        "kind", ["deaf", "in a tool", "in a stubborn tool", "waiting", "frozen", "dead", "idle"]
    )
    async def test_it_is_gone(self, place: Place, backend: str, kind: str) -> None:
        steps = {
            "deaf": "hang = true",
            "in a tool": SLEEPS,
            "in a stubborn tool": STUBBORN,
            "waiting": "wait_mail = {seconds = 9999.0}",
            "frozen": SLEEPS,
            "dead": SLEEPS,
            "idle": 'say = "nothing to do"',
        }
        script = BUSY.format(name="alice", step=steps[kind])
        await place.spawn("alice", script, backend=backend, prompt="Begin")
        if kind != "idle":
            await in_state(place, "alice", "waiting" if kind == "waiting" else "working")
        pid = await pid_of(place, "alice")
        if kind == "frozen":
            os.kill(pid, signal.SIGSTOP)
        if kind == "dead":
            await kill(place, "alice")
        await place.supervisor.stop("alice", by=LEAD, grace_s=2)
        assert place.processes() == []
        assert place.panes() == []
        assert (await view(place, "alice")).state == "stopped"

    async def test_one_that_hangs_with_the_teams_lock_is_stopped_too(self, place: Place) -> None:
        await place.spawn("alice")
        pid = await pid_of(place, "alice")
        lock = place.home / "teams" / TEAM / ".bullpen" / "head"
        holder = (
            "import fcntl, os, signal, sys\n"
            f"fd = os.open({str(lock)!r}, os.O_RDWR)\n"
            "fcntl.flock(fd, fcntl.LOCK_EX)\n"
            "print('held', flush=True)\n"
            "os.kill(os.getpid(), signal.SIGSTOP)\n"
        )
        env = {**os.environ, NONCE: await place.nonce("alice")}
        child = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", holder], env=env, stdout=subprocess.PIPE, process_group=0
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"held\n"
            await place.supervisor.stop("alice", by=LEAD, grace_s=1)
            assert (await view(place, "alice")).state == "stopped"
            assert pid not in place.processes()
        finally:
            child.kill()
            child.communicate()

    async def test_stopping_twice_is_fine_and_a_stranger_is_not_found(self, place: Place) -> None:
        await place.spawn("alice")
        assert (await place.supervisor.stop("alice", by=LEAD)).was_alive
        assert not (await place.supervisor.stop("alice", by=LEAD)).was_alive
        with pytest.raises(NotFound):
            await place.supervisor.stop("bob", by=LEAD)
        await place.team.roster.join("carl", by=LEAD)
        with pytest.raises(NotFound, match="Bullpen does not run it"):
            await place.supervisor.stop("carl", by=LEAD)

    @pytest.mark.parametrize("backend", OUTSIDE)
    async def test_an_agent_that_agrees_to_a_shutdown_ends_by_itself_and_names_its_pane(
        self, place: Place, backend: str
    ) -> None:
        script = """
        [[agents.alice.turns]]
        when = "mail"
        contains = "Please shut down"
        [[agents.alice.turns.steps]]
        tool = "SendMessage"
        input = {type = "shutdown_response", request_id = "{request}", approve = true}
        """
        await place.spawn("alice", script, backend=backend)
        pane = (await place.team.roster.get("alice")).tmux_pane_id
        assert [pane] == (place.panes() or [""])
        stopped = await place.supervisor.ask_to_stop("alice", by=LEAD, deadline_s=60)
        assert (stopped.was_alive, stopped.end) == (True, "finished")
        assert place.processes() == [] and place.panes() == []
        mail = await place.team.mailbox.read(LEAD, history=True)
        texts = [entry.message.text for entry in mail.entries]
        consent = next(json.loads(text) for text in texts if "shutdown_approved" in text)
        assert (consent.get("paneId", ""), consent["backendType"]) == (pane, backend)

    async def test_one_that_does_not_answer_is_stopped_at_the_deadline(self, place: Place) -> None:
        await place.spawn("alice", BUSY.format(name="alice", step="hang = true"), prompt="Begin")
        stopped = await place.supervisor.ask_to_stop("alice", by=LEAD, deadline_s=1)
        assert (stopped.was_alive, stopped.end) == (True, "stopped")
        assert place.processes() == []

    async def test_an_agent_that_refuses_goes_on_and_says_why(self, place: Place) -> None:
        await place.spawn("alice")

        async def refuse() -> None:
            async def asked() -> bool:
                for request in await place.team.approvals.pending():
                    await place.team.approvals.answer(
                        request.id, approve=False, by="alice", feedback="tests still run"
                    )
                    return True
                return False

            await eventually(asked, within_s=30)

        async with anyio.create_task_group() as group:
            group.start_soon(refuse)
            with pytest.raises(Refused, match="tests still run"):
                await place.supervisor.ask_to_stop("alice", by=LEAD, deadline_s=30)
        await in_state(place, "alice", "idle")


class TestStates:
    """R-3.3: idle, waiting, failed and dead do not look the same."""

    @pytest.mark.parametrize(
        ("step", "state", "detail"),
        [
            ('tool = "Bash", input = {command = "sleep 9999"}', "working", "sleep 9999"),
            ('wait_mail = {seconds = 9999.0, from = "bob"}', "waiting", "mail from bob"),
            ('say = "done"', "idle", None),
            ('fail = "no credit"', "waiting", "no credit"),
            ("hang = true", "working", None),
        ],
    )
    async def test_what_it_does_is_what_is_shown(
        self, place: Place, step: str, state: str, detail: str | None
    ) -> None:
        await place.spawn("alice", BUSY.format(name="alice", step=step), prompt="Begin")

        async def shown() -> bool:
            seen = await view(place, "alice")
            return (
                seen.usage.turns == 1
                and seen.state == state
                and (detail is None or detail in (seen.detail or ""))
            )

        await eventually(shown, within_s=30)
        if state == "working" and detail:
            assert (await view(place, "alice")).tool == "Bash"

    async def test_one_that_was_killed_is_lost_within_ten_seconds(self, place: Place) -> None:
        await place.spawn("alice", BUSY.format(name="alice", step=SLEEPS), prompt="Begin")
        await in_state(place, "alice", "working")
        await kill(place, "alice")
        seen = await in_state(place, "alice", "lost", within_s=10)
        assert "is gone" in (seen.detail or "")

    async def test_one_that_is_busy_in_its_own_process_is_not_called_lost(
        self, place: Place
    ) -> None:
        """Silence alone is not death where the system can be asked."""
        await place.spawn("alice")
        # One that still begins may hold the lock of the team when it is stopped.
        await in_state(place, "alice", "idle")
        pid = await pid_of(place, "alice")
        os.kill(pid, signal.SIGSTOP)
        try:
            beat = (await place.team.agents.presence())["alice"]
            await place.team.agents.beat(beat.evolve(beat_ms=beat.beat_ms - 60_000))
            assert (await view(place, "alice")).state != "lost"
            assert await place.supervisor.tend(by=LEAD) == []
        finally:
            os.kill(pid, signal.SIGCONT)

    async def test_the_work_of_a_dead_agent_is_free_and_its_results_are_refused(
        self, place: Place
    ) -> None:
        """R-7.4: on loss the task returns to pending; results with an old attempt are refused."""
        await place.spawn("alice", BUSY.format(name="alice", step=SLEEPS), claims=True)
        await place.team.tasks.add("Write", by=LEAD)

        async def claimed() -> bool:
            return (await place.team.tasks.get("1")).status == "in_progress"

        await eventually(claimed, within_s=30)
        attempt = (await place.team.tasks.get("1")).facts.attempt
        await kill(place, "alice")

        async def given_up() -> bool:
            return await place.supervisor.tend(by=LEAD) == ["alice"]

        await eventually(given_up, within_s=30)
        task = await place.team.tasks.get("1")
        assert (task.status, task.owner) == ("pending", None)
        box = await place.team.mailbox.read(LEAD)
        assert any("alice is lost" in entry.message.text for entry in box.entries)
        await place.team.tasks.claim("1", by=LEAD)
        with pytest.raises(Refused):
            await place.team.tasks.done("1", by="alice", attempt=attempt)


class TestResuming:
    """R-11a: kill -9 everything; resume; same names, same owners, unread mail delivered once."""

    @pytest.mark.parametrize("backend", OUTSIDE)
    async def test_a_team_goes_on_after_everything_was_killed(
        self, place: Place, backend: str
    ) -> None:
        script = place.script(
            "\n".join(
                f"""
                [[agents.{name}.turns]]
                when = "task"
                steps = [{{tool = "Bash", input = {{command = "echo >> began; sleep 9999"}}}}]
                [[agents.{name}.turns]]
                when = "any"
                contains = "go on"
                steps = [
                  {{tool = "TaskUpdate", input = {{taskId = "{{task}}", status = "completed"}}}},
                  {{say = "{name} is done"}},
                ]
                """
                for name in ("alice", "bob")
            )
        )
        for name in ("alice", "bob"):
            await place.spawn(name, script=script, backend=backend, claims=True)
            await place.team.tasks.add(f"Task of {name}", by=LEAD, owner=name)
        began = place.project / "began"
        await eventually(lambda: began.exists() and began.read_text() == "\n\n", within_s=60)
        owners = {task.id: task.owner for task in (await place.team.tasks.list()).tasks}
        for name in ("alice", "bob"):
            await kill(place, name)
        place.tmux("kill-server")
        for name in ("alice", "bob"):
            await place.team.mailbox.send(name, f"go on, {name}", sender=LEAD)
        spawned = await place.supervisor.resume(by=LEAD)
        assert sorted(each.name for each in spawned) == ["alice", "bob"]

        async def completed() -> bool:
            return all(t.status == "completed" for t in (await place.team.tasks.list()).tasks)

        await eventually(completed, within_s=60)
        assert {t.id: t.owner for t in (await place.team.tasks.list()).tasks} == owners
        # Whatever the dead left behind is gone too: only the new launches run.
        assert len(place.processes()) == 2
        for name in ("alice", "bob"):
            box = await place.team.mailbox.read(name, history=True)
            texts = [entry.message.text for entry in box.entries]
            assert texts.count(f"go on, {name}") == 1

    async def test_what_was_stopped_stays_stopped_unless_it_is_named(self, place: Place) -> None:
        await place.spawn("alice")
        await place.spawn("bob")
        await place.supervisor.stop("alice", by=LEAD)
        await place.supervisor.stop("bob", by=LEAD, end="suspended")
        assert [each.name for each in await place.supervisor.resume(by=LEAD)] == ["bob"]
        again = await place.supervisor.resume(by=LEAD, names=["alice"])
        assert [each.name for each in again] == ["alice"]
        assert len(place.processes()) == 2

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    async def test_one_whose_terminal_went_away_goes_on_when_it_is_resumed(
        self, place: Place, number: signal.Signals
    ) -> None:
        await place.spawn("alice", BUSY.format(name="alice", step=SLEEPS), prompt="Begin")
        await in_state(place, "alice", "working")
        os.kill(await pid_of(place, "alice"), number)
        await in_state(place, "alice", "lost")
        await eventually(lambda: place.processes() == [])
        assert [each.name for each in await place.supervisor.resume(by=LEAD)] == ["alice"]

    async def test_resuming_twice_at_once_starts_one_process_each(self, place: Place) -> None:
        await place.spawn("alice")
        await kill(place, "alice")

        async def resume() -> None:
            with suppress(Conflict):
                await place.supervisor.resume(by=LEAD)

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(resume)
        await in_state(place, "alice", "idle")
        assert len(place.processes()) == 1

    async def test_an_agent_that_has_ended_says_so_to_whoever_writes_to_it(
        self, place: Place
    ) -> None:
        """R-2.1c: ended but resumable says so."""
        await place.spawn("alice")
        await place.supervisor.stop("alice", by=LEAD)
        with pytest.raises(Refused, match="was stopped") as refused:
            await place.team.mailbox.send("alice", "Hello", sender=LEAD)
        assert refused.value.reason == "member_ended"
        assert "resume" in refused.value.remedy


class TestDeleting:
    async def test_a_dead_member_does_not_keep_a_team(self, place: Place) -> None:
        """R-3.1: delete cannot be blocked by a dead member and is idempotent."""
        await place.spawn("alice", BUSY.format(name="alice", step=SLEEPS), prompt="Begin")
        await in_state(place, "alice", "working")
        with pytest.raises(Refused, match="alice"):
            await place.app.delete_team(TEAM, by=LEAD)
        await kill(place, "alice")
        assert await place.app.delete_team(TEAM, by=LEAD)
        assert not await place.app.delete_team(TEAM, by=LEAD)

    async def test_force_stops_whoever_is_at_work(self, place: Place) -> None:
        await place.spawn("alice", BUSY.format(name="alice", step=STUBBORN), prompt="Begin")
        await in_state(place, "alice", "working")
        assert await place.app.delete_team(TEAM, by=LEAD, force=True)
        assert place.processes() == []

    async def test_transcripts_outlive_the_team_and_are_not_shared_with_the_next(
        self, place: Place
    ) -> None:
        """R-11b: two teams of one name share no files."""
        await place.spawn("alice")
        first = await place.supervisor.transcript("alice")
        await place.app.delete_team(TEAM, by=LEAD, force=True)
        assert first.exists()
        await anyio.sleep(0.01)
        await place.app.teams.create(TEAM)
        await place.spawn("alice")
        assert await place.supervisor.transcript("alice") != first


class TestDoctor:
    async def test_it_finds_and_mends_what_a_killed_agent_left(self, place: Place) -> None:
        script = BUSY.format(
            name="alice",
            step='tool = "Bash", input = {command = "setsid sleep 9999 & sleep 9999"}',
        )
        await place.spawn("alice", script, claims=True)
        await place.team.tasks.add("Write", by=LEAD)
        await in_state(place, "alice", "working")
        await eventually(lambda: len(place.processes()) >= 4, within_s=30)
        await kill(place, "alice")
        found = await place.app.examine(None, fix=False)
        assert [finding.kind for finding in found] == ["lost_agent"]
        fixed = await place.app.examine(None, fix=True)
        assert {finding.kind for finding in fixed} == {"lost_agent", "orphan_process"}
        assert all(finding.fixed for finding in fixed)
        assert place.processes() == []
        assert (await place.team.tasks.get("1")).status == "pending"
        assert await place.app.examine(None, fix=True) == []

    async def test_it_ends_the_agents_of_a_team_that_is_gone(self, place: Place) -> None:
        await place.spawn("alice")
        await in_state(place, "alice", "idle")
        pid = await pid_of(place, "alice")
        # It sleeps by now, and holds no lock while it is frozen.
        await anyio.sleep(1)
        os.kill(pid, signal.SIGSTOP)
        await place.app.teams.delete(TEAM, by=LEAD, force=True)
        findings = await place.app.examine(None, fix=True)
        # A process that was just ended may still be there for its backend, which then names it too.
        assert findings[0].kind == "orphan_process", findings
        assert all(str(pid) in finding.what for finding in findings), findings
        assert place.processes() == []

    async def test_it_leaves_alone_what_runs_and_what_belongs_to_another_home(
        self, place: Place, tmp_path: Path
    ) -> None:
        await place.spawn("alice")
        other = tmp_path / "other"
        other.mkdir()
        async with opened(other) as elsewhere:
            await elsewhere.spawn("bob")
            assert await place.app.examine(None, fix=True) == []
            assert len(elsewhere.processes()) == 1
        assert len(place.processes()) == 1

    async def test_it_never_takes_the_agents_of_an_unreadable_team_for_orphans(
        self, place: Place
    ) -> None:
        await place.spawn("alice")
        config = place.home / "teams" / TEAM / "config.json"
        whole = config.read_bytes()
        config.write_bytes(b"{")
        try:
            await place.app.examine(None, fix=True)
            assert len(place.processes()) == 1
        finally:
            config.write_bytes(whole)


async def test_an_agent_cannot_speak_as_somebody_else(place: Place) -> None:
    """R-4.4: the sender is the identity of the process, not an argument."""
    command = f"{sys.executable} -m bullpen send team-lead 'I am the lead' --as team-lead"
    script = BUSY.format(
        name="alice",
        step=f'tool = "Bash", may_fail = true, input = {{command = "{command} > out.txt 2>&1"}}',
    )
    await place.spawn("alice", script, prompt="Begin")
    out = place.project / "out.txt"
    await eventually(lambda: out.exists() and out.read_text().strip() != "", within_s=30)
    assert "cannot act as 'team-lead'" in out.read_text()
    # Its turn may be over by now, which its lead is told.
    received = (await place.team.mailbox.read(LEAD)).entries
    assert [entry for entry in received if "I am the lead" in entry.message.text] == []
