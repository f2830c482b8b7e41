"""A team without a lead: it ends with its tasks, and its exit code says how."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from bullpen.errors import Conflict, Refused
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.runs.up import bring_up, start
from bullpen.runs.watch.outcome import Outcome
from bullpen.runs.watch.until import Until
from support.crews import eventually
from support.offices import Place
from support.runs.unattended_team import TEAM, WORKS, Night, git_environment, tasks

STUBBORN = """
[[agents.{name}.turns]]
when = "task"
repeat = true
steps = [
  {{tool = "TaskUpdate", input = {{taskId = "{{task}}", status = "pending"}}}},
  {{say = "I cannot."}},
]
"""


@pytest.fixture
async def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Night]:
    """A repository and a home; nothing of a team in it runs at the end."""
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    found = Night(tmp_path)
    found.make_repository()
    yield found
    async with found.opened() as (app, _):
        place = Place(app, tmp_path, f"bullpen-test-{secrets.token_hex(6)}")
        await place.end_everything()


async def test_a_team_without_a_lead_ends_when_all_its_tasks_are_merged(night: Night) -> None:
    night.write(tasks("alpha", "beta", "gamma", more={"beta": 'blocked_by = ["t1"]\n'}))
    outcome = await night.up()

    assert (outcome.status, outcome.code, outcome.cause) == ("done", 0, None), night.news
    assert sorted(night.git("ls-tree", "--name-only", "main").split()) == [
        "README", "done-1.txt", "done-2.txt", "done-3.txt",
    ]  # fmt: skip
    async with night.opened() as (_, team):
        config = await team.agents.config()
        ends = {m.name: m.agent.end for m in config.roster if m.agent is not None}
        assert ends == {"ann": "suspended", "bob": "suspended"}, "there is no lead among them"
    assert outcome.account is not None
    assert outcome.account.counts == {"merged": 3}
    order = [line.task for line in outcome.account.merges]
    assert order.index("1") < order.index("2"), "what waited for it was merged after it"


async def test_brought_up_again_it_does_nothing_but_what_is_new(night: Night) -> None:
    night.write(tasks("alpha"), members=["ann"])
    assert (await night.up()).status == "done"
    launches = (await night.ops()).count("agent.ready")

    assert (await night.up()).status == "done"
    assert (await night.ops()).count("agent.ready") == launches, "nobody was started for nothing"

    night.write(tasks("alpha", "beta"), members=["ann"])
    outcome = await night.up()
    assert (outcome.status, outcome.tasks) == ("done", {"completed": 2}), night.news
    async with night.opened() as (_, team):
        subjects = [task.subject for task in (await team.tasks.list()).tasks]
    assert subjects == ["alpha", "beta"], "a task is added once, however often its file is read"


async def test_tasks_that_everybody_gives_back_are_given_up_with_the_reason(night: Night) -> None:
    script = STUBBORN.format(name="ann") + WORKS.format(name="bob")
    needs = 'needs = ["magic"]\n'
    night.write(
        tasks("alpha", "beta", "gamma", more={"beta": needs, "gamma": 'blocked_by = ["t2"]\n'}),
        script=script,
    )
    text = night.file.read_text("utf-8").replace(
        'name = "ann"\n', 'name = "ann"\nskills = ["magic"]\n'
    )
    night.file.write_text(text, "utf-8")
    outcome = await night.up()

    assert (outcome.status, outcome.code) == ("unfinished", 2), (outcome, night.news)
    assert outcome.account is not None
    found = {line.subject: (line.state, line.why) for line in outcome.account.tasks}
    assert found["alpha"][0] == "merged"
    assert found["beta"][0] == "given_up"
    # Everybody who can do it has tried, or one has tried too often: whichever is seen first.
    assert str(found["beta"][1]).endswith("the last: ann gave it back")
    assert found["gamma"] == ("given_up", "it depends on #2, which was given up")
    assert any("bullpen task retry 2" in need for need in outcome.account.needs)


async def test_a_queue_that_cannot_run_fails_the_team_when_all_else_is_done(night: Night) -> None:
    # The gate would ask about a plain path in the user's checkout.
    there = f"$(printf {night.project.parent})/{night.project.name}"
    away = f"git -C {there} checkout -q -b other && git -C {there} branch -q -D main"
    script = WORKS.format(name="ann").replace("echo {agent}", f"{away}; echo {{agent}}")
    night.write(tasks("alpha"), members=["ann"], script=script)
    outcome = await night.up()
    assert (outcome.status, outcome.code) == ("failed", 1), outcome
    assert "1 task waits to be merged" in str(outcome.cause)
    assert outcome.account is not None
    assert any("merges are held" in need for need in outcome.account.needs)

    # Nothing is lost by it: with the branch back, the next one merges what waits.
    night.git("branch", "-m", "other", "main")
    assert (await night.up()).status == "done"


async def test_stopped_by_a_person_everybody_means_unfinished(night: Night) -> None:
    hangs = '[[agents.ann.turns]]\nwhen = "task"\nsteps = [{hang = true}]\n'
    night.write(tasks("alpha"), members=["ann"], script=hangs)
    outcome: list[Outcome] = []

    async def up() -> None:
        outcome.append(await night.up())

    async with anyio.create_task_group() as group:
        group.start_soon(up)
        await eventually(lambda: any("took task" in line for line in night.news))
        async with night.opened() as (app, _):
            await app.supervisor(TEAM).order("ann", "stop", by=LEAD, reason="enough")
    assert (outcome[0].status, outcome[0].code) == ("unfinished", 2)
    assert "No agent is running, and 1 task is open" in str(outcome[0].cause)


async def test_at_a_limit_it_ends_unfinished_and_says_which(night: Night) -> None:
    night.write("[budget]\nturns = 2\n" + tasks("alpha", "beta", "gamma", "delta"), members=["ann"])
    outcome = await night.up()
    assert (outcome.status, outcome.code) == ("unfinished", 2)
    assert "2 turns of 2" in str(outcome.cause), outcome
    used = outcome.usage.turns

    # A person who writes another budget into the file means it.
    night.write(
        "[budget]\nturns = 50\n" + tasks("alpha", "beta", "gamma", "delta"), members=["ann"]
    )
    again = await night.up()
    assert (again.status, again.tasks) == ("done", {"completed": 4}), (again, night.news)
    assert again.usage.turns > used


async def test_until_a_time_it_is_stopped_in_order_and_goes_on_later(night: Night) -> None:
    hangs = '[[agents.ann.turns]]\nwhen = "task"\nsteps = [{hang = true}]\n'
    night.write(tasks("alpha"), members=["ann"], script=hangs + WORKS.format(name="ann"))
    soon = now_ms() + 2_500
    outcome = await night.up(until=Until("time", soon, "soon"))
    assert (outcome.status, outcome.code) == ("unfinished", 2)
    assert "The run ended as requested: --until soon." in str(outcome.cause)
    async with night.opened() as (_, team):
        assert (await team.agents.get("ann"))[1].end == "suspended"

    (night.folder / "script.toml").write_text(WORKS.format(name="ann"), "utf-8")
    assert (await night.up()).status == "done"


async def test_until_idle_it_ends_though_a_task_is_somebody_elses(night: Night) -> None:
    night.write(tasks("alpha"), members=["ann"])
    await night.up()
    async with night.opened() as (_, team):
        await team.roster.join("carl", by=LEAD)
        await team.tasks.add("Decide", by=LEAD, owner="carl")
    outcome = await night.up(until=Until("idle", words="idle"))
    assert (outcome.status, outcome.cause) == ("unfinished", "All agents are idle; tasks are open.")


async def test_only_one_process_watches_a_team_that_nobody_leads(night: Night) -> None:
    hangs = '[[agents.ann.turns]]\nwhen = "task"\nsteps = [{hang = true}]\n'
    night.write(tasks("alpha"), members=["ann"], script=hangs + WORKS.format(name="ann"))
    async with anyio.create_task_group() as group:
        group.start_soon(night.up)
        await eventually(lambda: any("took task" in line for line in night.news))
        with pytest.raises(Conflict, match="leads this team"):
            await bring_up(night.file, cwd=str(night.project), settings=night.settings)
        async with night.opened() as (_, team):
            assert (await team.agents.get("ann"))[1].phase == "running", "the other did no harm"
        group.cancel_scope.cancel()


async def test_a_head_that_is_detached_is_no_target(night: Night) -> None:
    night.git("checkout", "--quiet", "--detach")
    night.write(tasks("alpha"))
    with pytest.raises(Refused) as refused:
        await night.up()
    assert refused.value.reason == "detached_target"
    async with night.opened() as (app, _):
        assert await app.teams.names() == []


async def test_r_9_9_done_without_a_terminal_exits_with_0(night: Night) -> None:
    """In a session of its own, with nothing to read from."""
    night.write(tasks("alpha", "beta"), backend="subprocess")
    ended, out, err = night.typed("up", "../TEAM.toml", "--until", "done", "--json")
    assert ended == 0, (out, err)
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[0]["kind"] == "goal"
    assert (lines[-1]["kind"], lines[-1]["code"]) == ("outcome", 0)
    kinds = [line["happening"] for line in lines if line["kind"] == "happening"]
    assert kinds.count("merged") == 2


async def test_r_9_9_unfinished_without_a_terminal_exits_with_2(night: Night) -> None:
    night.write(tasks("alpha"), members=["ann"])
    # A team file with a task that nobody can do is refused; a backlog is read when it runs.
    (night.folder / "BACKLOG.md").write_text("- [ ] beta (needs: wings)\n", "utf-8")
    text = night.file.read_text("utf-8")
    night.file.write_text(f'{text}[[backlog]]\nmarkdown = "BACKLOG.md"\n', "utf-8")
    ended, out, err = night.typed("up", "../TEAM.toml", "--until", "done", "--json")
    assert ended == 2, (out, err)
    lines = [json.loads(line) for line in out.splitlines()]
    given_up = [line for line in lines if line.get("happening") == "given_up"]
    assert [line["task"] for line in given_up] == ["2"]
    assert "no working member has 'wings'" in given_up[0]["text"]
    # Taken up again by its name, it has nothing left to do, and nothing has changed.
    assert night.typed("run", "-t", TEAM, "--until", "done")[0] == 2


async def test_r_9_9_failed_without_a_terminal_exits_with_1(night: Night) -> None:
    # The gate would ask about a plain path in the user's checkout.
    there = f"$(printf {night.project.parent})/{night.project.name}"
    away = f"git -C {there} checkout -q -b other && git -C {there} branch -q -D main"
    script = WORKS.format(name="ann").replace("echo {agent}", f"{away}; echo {{agent}}")
    night.write(tasks("alpha"), members=["ann"], script=script)
    ended, out, err = night.typed("up", "../TEAM.toml", "--until", "done")
    assert ended == 1, (out, err)
    assert "Failed after" in out


async def test_a_team_of_that_name_that_is_not_the_files_is_not_touched(night: Night) -> None:
    night.write(tasks("alpha"))
    async with night.opened() as (app, _):
        await app.teams.create(TEAM, cwd=str(night.project))
    with pytest.raises(Conflict, match="not created from"):
        await night.up()
    assert await night.ops() == ["team.create"]


async def test_who_has_no_room_yet_does_not_keep_the_others_from_their_work(night: Night) -> None:
    """R-9.10 in a team of a file: one works, the other waits, and starts when there is room."""
    room = "[unattended]\nprocesses = 1\n"
    night.write(tasks("alpha", "beta", "gamma"), backend="subprocess", more=room)
    outcome = await night.up()
    assert (outcome.status, outcome.tasks) == ("done", {"completed": 3}), (outcome, night.news)
    assert any("waits for room" in line for line in night.news)


async def test_a_team_that_nobody_leads_or_merges_for_is_not_left_to_itself(night: Night) -> None:
    night.write(tasks("alpha"), backend="subprocess")
    with pytest.raises(Refused, match="so it must keep running"):
        await start(night.settings, night.request())
