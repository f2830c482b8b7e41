"""One verdict on a run: what its end means is decided once, by the records that everybody reads."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, RunStatus, TeamConfig
from bullpen.team.agents.verdict import MANNERS, Verdict, judged, verdict_of
from bullpen.team.tasks import guarded_rules


def task(task_id: str, status: str = "completed", **facts: Any) -> Task:
    made = Task.new(id=task_id, subject=f"Task {task_id}", description="", status=status)
    return made.with_facts(**facts) if facts else made


def agent(name: str, **facts: Any) -> Member:
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/")
    known = AgentFacts.new(
        spec=spec.raw, nonce="n", launch=1, since_ms=1, **{"phase": "ended", **facts}
    )
    return Member.new(
        name=name, agent_id=f"{name}@crew", agent_type="agent", joined_at=1, bullpen=known.raw
    )


def team(*members: Member, **facts: Any) -> TeamConfig:
    config = TeamConfig.new(
        name="crew", description="", created_at=1, lead_agent_id="team-lead@crew",
        lead_session_id="s", members=[member.raw for member in members],
    )  # fmt: skip
    return config.evolve(bullpen=config.facts.evolve(**facts).raw) if facts else config


def finished(by: str = "team-lead", voice: str | None = None) -> dict[str, Any]:
    return {"by": by, "atMs": 5, "summary": "All is well.", "voice": voice}


WAITING = task("3", "pending", given_up=f"{guarded_rules.WAITS}: bullpen approve perm-1")
GIVEN_UP = task("4", "pending", given_up="3 attempts failed; the last: no")

WITHDRAWN = task(
    "5", "pending", given_up="issue #5 was closed",
    forge={"repository": "https://forge.example/o/r", "issue": 5, "outcome": "issue_closed"},
)  # fmt: skip

JUDGED: dict[str, tuple[Verdict, TeamConfig, list[Task], Verdict]] = {
    "everything is done": (Verdict("done"), team(), [task("1")], Verdict("done")),
    "a lead that finished over open tasks": (
        Verdict("done", "Tasks stay open: later"), team(), [task("1"), task("2", "pending")],
        Verdict("unfinished", "Tasks stay open: later"),
    ),
    "a person ended it with a task open": (
        Verdict("ended", "1 task is open: #2."), team(), [task("2", "pending")],
        Verdict("ended", "1 task is open: #2."),
    ),
    "a person ended it when all was done": (
        Verdict("ended"), team(), [task("1")], Verdict("done"),
    ),
    "a person ended a talk": (Verdict("ended"), team(), [], Verdict("ended")),
    "what is left waits for a person": (
        Verdict("unfinished", "A task was given up: #3."), team(), [task("1"), WAITING],
        Verdict("waits", "A task was given up: #3."),
    ),
    "one waits and another was given up": (
        Verdict("unfinished", "2 tasks were given up."), team(), [WAITING, GIVEN_UP],
        Verdict("unfinished", "2 tasks were given up."),
    ),
    "a limit was reached": (
        Verdict("unfinished", "No money."), team(agent("ann", at_limit="usd")),
        [task("2", "pending")], Verdict("budget", "No money."),
    ),
    "all that broke was lost": (
        Verdict("failed", "ann lost"), team(agent("ann", end="lost")), [task("2", "pending")],
        Verdict("lost", "ann lost"),
    ),
    "one failed beside a lost one": (
        Verdict("failed", "both"), team(agent("ann", end="lost"), agent("bob", end="failed")),
        [task("2", "pending")], Verdict("failed", "both"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", JUDGED)
def test_the_end_of_a_run_is_judged_by_what_is_left(case: str) -> None:
    found, config, tasks, expected = JUDGED[case]
    assert judged(found, config, tasks) == expected


READ: dict[str, tuple[TeamConfig, list[Task], RunStatus]] = {
    "an agent works": (team(agent("ann", phase="running")), [], "running"),
    "the run said so": (team(run_end={"status": "budget", "atMs": 1}), [], "budget"),
    "it was done, and a task came since": (
        team(run_end={"status": "done", "atMs": 1}), [task("2", "pending")], "unfinished",
    ),
    "it waited, and was answered since": (
        team(run_end={"status": "waits", "atMs": 1}), [task("2", "pending")], "unfinished",
    ),
    "it waits still": (team(run_end={"status": "waits", "atMs": 1}), [WAITING], "waits"),
    "a newer version says what we do not know": (
        team(run_end={"status": "postponed", "atMs": 1}), [task("1")], "unfinished",
    ),
    "no word, and all is done": (team(agent("ann", end="finished")), [task("1")], "done"),
    "no word, and nothing was changed": (
        team(agent("ann", end="lost"), merge={"repository": "/r", "target": "main"}), [task("1")],
        "waits",
    ),
    "no word, and its issue was closed": (
        team(agent("ann", end="suspended")), [task("1"), WITHDRAWN], "done",
    ),
    "no word, and a task is open": (
        team(agent("ann", end="suspended")), [task("2", "pending")], "unfinished",
    ),
    "no word, and its agents were lost": (
        team(agent("ann", end="lost")), [task("2", "pending")], "lost",
    ),
    "no word, no tasks, and it was interrupted": (
        team(agent("ann", end="suspended")), [], "unfinished",
    ),
    "the lead finished": (team(finished=finished()), [task("1")], "done"),
    "the lead finished over open tasks": (
        team(finished=finished()), [task("2", "pending")], "unfinished",
    ),
    "a person finished": (
        team(finished=finished("team-lead", "human")), [task("2", "pending")], "ended",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_the_records_say_how_the_last_run_ended(case: str) -> None:
    config, tasks, expected = READ[case]
    assert verdict_of(config, tasks).status == expected


def test_a_run_whose_agents_ask_people_waits_for_them() -> None:
    asked = Request.new(
        id="perm-1", kind="permission", sender="ann", to="human", subject={}, state="pending",
        created_ms=1, approver="human",
    )  # fmt: skip
    left = [task("1", "in_progress").evolve(owner="ann")]
    found = Verdict("unfinished", "All agents are idle; tasks are open.")
    assert judged(found, team(), left, [asked]).status == "waits"
    assert judged(found, team(), left).status == "unfinished"


def test_each_way_to_end_has_its_own_heading_and_only_success_ends_with_0() -> None:
    headings = [manner.heading for manner in MANNERS.values()]
    assert len(set(headings)) == len(headings)
    good = {status for status, manner in MANNERS.items() if manner.code == 0}
    assert good == {"running", "done", "ended"}
    assert Verdict("waits", "1 task is open: #2.").sentence == "Waits for you: 1 task is open: #2."
    assert Verdict("done").sentence == "Done."
