"""Which task a member takes next: what it may have, what it should have, and nobody starves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.team.tasks import rules
from bullpen.team.tasks.dispatch_rules import in_order
from bullpen.team.tasks.fit_rules import lacking
from support.steps import growth

SKILLS = ("python", "docs", "css")
NAMES = ("ann", "bob", "cid", "dora")


def a_task(task_id: str, *, facts: dict[str, Any] | None = None, **fields: Any) -> Task:
    task = Task.new(id=task_id, subject=f"Task {task_id}", description="", **fields)
    return task.with_facts(**facts) if facts else task


def listed(*tasks: Task) -> dict[str, Task]:
    return {task.id: task for task in tasks}


def a_team(skills: Mapping[str, Sequence[str]], *, ended: Sequence[str] = ()) -> TeamConfig:
    rows: list[Any] = [{"name": "team-lead", "agentId": "team-lead@crew"}]
    for name, can in skills.items():
        spec = AgentSpec.new(
            driver="scripted", backend="in-process", cwd="/", skills=list(can), claims=True
        )
        phase = "ended" if name in ended else "running"
        facts = AgentFacts.new(spec=spec.raw, nonce=name, phase=phase, since_ms=1)
        rows.append(Member.new(name=name, agent_id=f"{name}@crew", bullpen=facts.raw).raw)
    return TeamConfig.parse({"name": "crew", "members": rows})


def order(
    tasks: Mapping[str, Task], team: TeamConfig, name: str, idle: Sequence[str] = ()
) -> list[str]:
    return [task.id for task in in_order(tasks, team, name, idle=idle)]


def test_its_own_tasks_come_first_and_those_of_others_not_at_all() -> None:
    tasks = listed(a_task("1"), a_task("2", owner="bob"), a_task("3", owner="ann@crew"))
    assert order(tasks, a_team({"ann": (), "bob": ()}), "ann") == ["3", "1"]


def test_nobody_gets_what_is_blocked_given_up_or_over_its_head() -> None:
    tasks = listed(
        a_task("1", blocked_by=["9"]),
        a_task("2", facts={"given_up": "nobody can do it"}),
        a_task("3", facts={"needs": ["docs"]}),
        a_task("4", owner="ann", facts={"needs": ["docs"]}),
        a_task("5", status="completed"),
        a_task("6", metadata={"_internal": True}),
        a_task("9"),
    )
    assert order(tasks, a_team({"ann": ["python"]}), "ann") == ["9"]


def test_a_member_leaves_to_the_others_what_they_can_do_as_well() -> None:
    team = a_team({"ann": ["python", "docs"], "bob": ["docs"], "cid": ["docs", "python"]})
    tasks = listed(a_task("1"), a_task("2", facts={"needs": ["docs"]}))
    docs_and_code = {**tasks, **listed(a_task("3", facts={"needs": ["python"]}))}
    # Three can do docs, two can do code, anybody the rest.
    assert order(docs_and_code, team, "ann", ["ann", "bob", "cid"]) == ["3", "1", "2"]
    # While cid is at work, ann is the only idle one who can do code.
    assert order(docs_and_code, team, "ann", ["ann", "bob"])[0] == "3"
    # Of two kinds that equally many know, the one that no other idle member knows is hers.
    rivals = a_team({"ann": ["python", "docs"], "bob": ["docs"], "cid": ["python"]})
    assert order(docs_and_code, rivals, "ann", ["ann", "bob"])[0] == "3"
    assert order(docs_and_code, rivals, "ann", ["ann", "cid"])[0] == "2"


def test_the_longest_chain_of_work_begins_first() -> None:
    tasks = listed(
        a_task("1", facts={"effort": "large"}),
        a_task("2", facts={"effort": "small"}),
        a_task("3", facts={"effort": "small"}),
        a_task("4", blocked_by=["3"], facts={"effort": "medium"}),
        a_task("5", blocked_by=["4"], facts={"effort": "large"}),
        a_task("6", blocked_by=["2"]),
    )
    # 3 begins 1 + 3 + 8, 1 is 8 alone, 2 begins 1 + 3.
    assert order(tasks, a_team({"ann": ()}), "ann") == ["3", "1", "2"]


def test_what_is_completed_makes_no_chain_longer() -> None:
    tasks = listed(
        a_task("1"),
        a_task("2", facts={"effort": "large"}),
        a_task("3", blocked_by=["1"], status="completed", facts={"effort": "large"}),
    )
    assert order(tasks, a_team({"ann": ()}), "ann") == ["2", "1"]


def test_who_has_had_the_least_work_takes_the_large_ones() -> None:
    # The chains are alike: 8 alone, and 1 before 1 and 6 times 1.
    large = a_task("1", facts={"effort": "large"})
    small = [a_task("2", facts={"effort": "small"})]
    small += [
        a_task(str(n), blocked_by=[str(n - 1)], facts={"effort": "small"}) for n in range(3, 10)
    ]
    done = a_task("20", status="completed", owner="ann", facts={"effort": "small"})
    tasks = listed(large, *small, done)
    team = a_team({"ann": (), "bob": ()})
    assert order(tasks, team, "bob", ["ann", "bob"]) == ["1", "2"]
    assert order(tasks, team, "ann", ["ann", "bob"]) == ["2", "1"]
    assert order(tasks, team, "ann", ["ann"]) == ["2", "1"]


def test_whoever_was_relieved_of_a_task_gets_it_again_only_if_nobody_else_could() -> None:
    relieved = listed(a_task("1", facts={"tried": ["ann"], "needs": ["docs"]}))
    both = a_team({"ann": ["docs"], "bob": ["docs"]})
    assert order(relieved, both, "ann") == []
    assert order(relieved, both, "bob") == ["1"]
    assert order(relieved, a_team({"ann": ["docs"], "bob": ["css"]}), "ann") == ["1"]
    gone = a_team({"ann": ["docs"], "bob": ["docs"]}, ended=["bob"])
    assert order(relieved, gone, "ann") == ["1"]
    given = listed(a_task("1", owner="ann", facts={"tried": ["ann"]}))
    assert order(given, both, "ann") == ["1"]


def test_whoever_takes_no_tasks_by_itself_does_not_keep_others_from_one() -> None:
    team = a_team({"ann": (), "bob": ()})
    bob = team.member("bob")
    assert bob is not None
    assert bob.agent is not None
    spec = bob.agent.spec.evolve(claims=False)
    watching = team.with_member(bob.evolve(bullpen=bob.agent.evolve(spec=spec.raw).raw))
    assert order(listed(a_task("1", facts={"tried": ["ann"]})), watching, "ann") == ["1"]


def test_circles_that_other_programs_made_end_nothing() -> None:
    tasks = listed(
        a_task("1"),
        a_task("2", blocked_by=["1", "3"]),
        a_task("3", blocked_by=["2"]),
        a_task("4", blocked_by=["4"]),
    )
    assert order(tasks, a_team({"ann": ()}), "ann") == ["1"]


def a_long_list(length: int) -> tuple[dict[str, Task], TeamConfig]:
    """Chains of five tasks each, and a team of twenty."""
    tasks = listed(
        *(
            a_task(
                str(n),
                blocked_by=[str(n - 1)] if n % 5 else [],
                facts={"needs": [SKILLS[n % 3]], "effort": "large", "tried": ["bob"]},
            )
            for n in range(1, length + 1)
        )
    )
    return tasks, a_team({f"m{n}": SKILLS for n in range(20)})


def test_a_list_twice_as_long_takes_twice_the_steps_to_put_in_order() -> None:
    lists = {length: a_long_list(length) for length in (500, 1000, 5000)}
    assert len(order(*lists[5000], "m3", ["m3", "m4"])) == 1000
    assert growth(lambda length: order(*lists[length], "m3", ["m3", "m4"]), 500) < 2.2


EXAMPLES = 150 if os.environ.get("BULLPEN_NIGHTLY") else 40
efforts = st.sampled_from([None, "small", "medium", "large"])
some_skills = st.lists(st.sampled_from(SKILLS), unique=True, max_size=2)


@st.composite
def boards(draw: st.DrawFn) -> tuple[dict[str, Task], TeamConfig]:
    """A team of four, and tasks of every kind, the damaged ones of other programs included."""
    team = a_team({name: draw(some_skills) for name in NAMES})
    tasks = []
    for n in range(1, draw(st.integers(1, 12)) + 1):
        before = [str(m) for m in range(1, n)]
        blockers = draw(st.lists(st.sampled_from(before), max_size=2)) if before else []
        facts: dict[str, Any] = {"effort": draw(efforts), "needs": draw(some_skills) or None}
        facts["tried"] = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)) or None
        facts["given_up"] = draw(st.sampled_from([None, None, None, "no"]))
        owner = draw(st.sampled_from([None, None, None, *NAMES]))
        status = draw(st.sampled_from(["pending", "pending", "completed"]))
        task = a_task(str(n), blocked_by=blockers, owner=owner, status=status, facts=facts)
        if draw(st.integers(0, 9)) == 0:
            own = {"needs": 3, "tried": "ann", "givenUp": 1, "effort": ["large"]}
            task = task.evolve(metadata={"bullpen": own})
        tasks.append(task)
    return listed(*tasks), team


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(boards(), st.sets(st.sampled_from(NAMES)))
def test_whatever_is_ready_and_can_be_done_is_in_the_list_of_somebody(
    board: tuple[dict[str, Task], TeamConfig], idle: set[str]
) -> None:
    tasks, team = board
    offered: dict[str, set[str]] = {}
    for name in NAMES:
        member = team.member(name)
        found = in_order(tasks, team, name, idle=sorted(idle))
        assert found == in_order(tasks, team, name, idle=sorted(idle, reverse=True))
        ready = {task.id for task in rules.ready(tasks, team=team.name, for_owner=name)}
        assert len({task.id for task in found}) == len(found)
        assert {task.id for task in found} <= ready
        assert not any(lacking(task, member) for task in found)
        offered[name] = {task.id for task in found}
        for task in tasks.values():
            # Only what it was relieved of is kept from a member that could claim it.
            could = task.id in ready and not lacking(task, member)
            kept = could and task.id not in offered[name]
            assert not kept or name in (task.facts.tried or ())
    for task in rules.ready(tasks, team=team.name):
        able = [name for name in NAMES if not lacking(task, team.member(name))]
        assert not able or any(task.id in offered[name] for name in NAMES)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(boards(), st.randoms(use_true_random=False))
def test_a_team_that_takes_what_comes_first_leaves_nothing_that_can_be_done(
    board: tuple[dict[str, Task], TeamConfig], random: Any
) -> None:
    """No task starves: whoever is idle takes the first of its list, until no list has any."""
    tasks, team = dict(board[0]), board[1]
    while True:
        idle = random.sample(NAMES, len(NAMES))
        taken = []
        for name in idle:
            found = in_order(tasks, team, name, idle=idle)
            if found:
                tasks[found[0].id] = found[0].evolve(status="in_progress", owner=name)
                taken.append(found[0].id)
            else:
                # Nobody rests beside a task that it could claim and was not relieved of.
                for task in rules.ready(tasks, team=team.name, for_owner=name):
                    lacks = lacking(task, team.member(name))
                    assert lacks or name in (task.facts.tried or ())
        for task_id in taken:
            tasks[task_id] = tasks[task_id].evolve(status="completed")
        if not taken:
            break
    for task in rules.ready(tasks, team=team.name):
        assert all(lacking(task, team.member(name)) for name in NAMES)
