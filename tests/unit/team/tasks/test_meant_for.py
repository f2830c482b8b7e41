"""Whom a task is meant for: nobody is handed what clearly belongs to somebody else's lens."""

from __future__ import annotations

from typing import Any

from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.team.tasks.dispatch_rules import in_order, kept_for
from support.rows import each_row
from support.steps import growth


def a_member(name: str, *, ended: bool = False, claims: bool = True, **fields: Any) -> Member:
    spec = AgentSpec.new(driver="scripted", backend="in-process", cwd="/", claims=claims, **fields)
    phase = "ended" if ended else "running"
    facts = AgentFacts.new(spec=spec.raw, nonce=name, phase=phase, since_ms=1)
    kind = fields.get("role") or "general-purpose"
    return Member.new(name=name, agent_id=f"{name}@crew", agent_type=kind, bullpen=facts.raw)


def a_team(*members: Member) -> TeamConfig:
    lead = {"name": "team-lead", "agentId": "team-lead@crew", "agentType": "team-lead"}
    return TeamConfig.parse({"name": "crew", "members": [lead, *(each.raw for each in members)]})


def a_task(subject: str, description: str = "", task_id: str = "1", **facts: Any) -> Task:
    task = Task.new(id=task_id, subject=subject, description=description)
    return task.with_facts(**facts) if facts else task


def meant(task: Task, team: TeamConfig, *others: Task) -> set[str]:
    """Whom it is kept for; nobody means that anybody may be handed it."""
    tasks = {each.id: each for each in (task, *others)}
    kept = kept_for(tasks, team).get(task.id)
    found = set() if kept is None else set(kept.names)
    living = {
        each.name for each in team.roster if each.agent is not None and each.agent.phase != "ended"
    }
    for name in living:
        offered = task.id in {each.id for each in in_order(tasks, team, name, idle=[])}
        assert offered == (not found or name in found), f"{name} and {task.subject!r}"
    return found


REVIEWERS = a_team(
    a_member("security-reviewer"), a_member("perf-reviewer"), a_member("tests-reviewer")
)
PEOPLE = a_team(a_member("alice"), a_member("bob"), a_member("carol"))
TWICE = a_team(a_member("security-1"), a_member("security-2"), a_member("docs"))
BY_ROLE = a_team(
    a_member("alice", role="tester"), a_member("bob", role="writer"), a_member("carol")
)
BY_PROMPT = a_team(
    a_member("alice", prompt="Look at the pull request. You check it for security holes."),
    a_member(
        "bob", prompt="Look at the pull request. You check its performance. Not alice's part."
    ),
    a_member("carol", prompt="Look at the pull request. You check its accessibility."),
)
GERMAN = a_team(
    a_member("anna", prompt="Du prüfst die Sicherheit des Programms."),
    a_member("bernd", prompt="Du prüfst die Geschwindigkeit des Programms."),
)
RUSSIAN = a_team(
    a_member("anna", prompt="Ты проверяешь безопасность."),
    a_member("boris", prompt="Ты проверяешь скорость."),
)
CHINESE = a_team(
    a_member("wang", prompt="你负责安全审查。"), a_member("li", prompt="你负责性能测试。")
)
THINGS = a_team(a_member("cache"), a_member("race"), a_member("disk"))
WORKERS = a_team(a_member("worker-1"), a_member("worker-2"), a_member("worker-3"))


@each_row(
    ("team", "subject", "description", "expected"),
    [
        # Three reviewers, a lens each.
        (REVIEWERS, "Review for security", "", {"security-reviewer"}),
        (REVIEWERS, "Review the change for performance", "", {"perf-reviewer"}),
        (REVIEWERS, "Review test coverage", "", {"tests-reviewer"}),
        (REVIEWERS, "Testing: what is not covered", "", {"tests-reviewer"}),
        (REVIEWERS, "Secure the login", "", {"security-reviewer"}),
        # Generic tasks are for anybody.
        (REVIEWERS, "Review the change", "", set()),
        (REVIEWERS, "Read the pull request", "Say what you think of it.", set()),
        (WORKERS, "Worker threads leak", "", set()),
        (PEOPLE, "Fix the parser", "", set()),
        # Two lenses in one subject: theirs, not the third one's.
        (REVIEWERS, "Security and performance", "", {"security-reviewer", "perf-reviewer"}),
        # One word in a long description is a mention.
        (REVIEWERS, "Write the summary", "Mention security findings too.", set()),
        # Two members of one lens.
        (TWICE, "Check security of the login", "", {"security-1", "security-2"}),
        (TWICE, "Write documentation", "", {"docs"}),
        # Addressed by name.
        (PEOPLE, "bob: fix the parser", "", {"bob"}),
        (PEOPLE, "[Bob] fix the parser", "", {"bob"}),
        (PEOPLE, "@bob fix the parser", "", {"bob"}),
        (PEOPLE, "Fix the parser (carol)", "", {"carol"}),
        (PEOPLE, "Fix the parser", "Owner: bob", {"bob"}),
        (PEOPLE, "Fix the parser", "This is assigned to bob.", {"bob"}),
        (PEOPLE, "Parser for bob", "", {"bob"}),
        (WORKERS, "worker-2: fix the parser", "", {"worker-2"}),
        # Names that are only mentioned.
        (PEOPLE, "Fix the bug that alice found", "", set()),
        (PEOPLE, "Fix the bug alice reported", "", set()),
        (PEOPLE, "Continue alice's work", "", set()),
        (PEOPLE, "Fix the parser", "Ask alice if anything is unclear.", set()),
        (PEOPLE, "Ask @bob about the parser", "", set()),
        (PEOPLE, "Report to carol", "", set()),
        (REVIEWERS, "Collect what security-reviewer found", "", set()),
        (THINGS, "Prove that the cache is to blame", "", {"cache"}),
        (THINGS, "Start with the cache", "", {"cache"}),
        (THINGS, "Collect what race found", "", set()),
        # By role, by prompt.
        (BY_ROLE, "Test the parser", "", {"alice"}),
        (BY_ROLE, "Write the manual", "", {"bob"}),
        (BY_ROLE, "Draw the picture", "", set()),
        (BY_PROMPT, "Security of the new endpoint", "", {"alice"}),
        (BY_PROMPT, "How fast: performance", "", {"bob"}),
        (BY_PROMPT, "The pull request as a whole", "", set()),
        # Other languages.
        (GERMAN, "Sicherheitslücken suchen", "", {"anna"}),
        (GERMAN, "Geschwindigkeit messen", "", {"bernd"}),
        (GERMAN, "Programm lesen", "", set()),
        (RUSSIAN, "Отчёт о безопасности", "", {"anna"}),
        (CHINESE, "检查登录的安全性", "", {"wang"}),
        (CHINESE, "性能报告", "", {"li"}),
        (CHINESE, "写文档", "", set()),
    ],
)  # fmt: skip
def test_a_task_is_for_those_whose_lens_it_clearly_is(
    team: TeamConfig, subject: str, description: str, expected: set[str]
) -> None:
    assert meant(a_task(subject, description), team) == expected


def test_a_task_for_a_member_that_has_ended_is_for_all() -> None:
    gone = a_team(
        a_member("security-reviewer", ended=True),
        a_member("perf-reviewer"),
        a_member("tests-reviewer"),
    )
    assert meant(a_task("Review for security"), gone) == set()
    assert meant(a_task("security-reviewer: review"), gone) == set()


def test_a_task_that_its_member_gave_back_or_lost_is_for_all() -> None:
    back = a_task("Review for security", gave_back=["security-reviewer"])
    tasks = {back.id: back}
    assert kept_for(tasks, REVIEWERS) == {}
    assert in_order(tasks, REVIEWERS, "tests-reviewer", idle=[]) == [back]
    assert in_order(tasks, REVIEWERS, "security-reviewer", idle=[]) == []
    lost = a_task("Review for security", tried=["security-reviewer"])
    assert in_order({lost.id: lost}, REVIEWERS, "tests-reviewer", idle=[]) == [lost]
    # Of two members of one lens, the other one is next.
    first = a_task("Check security", gave_back=["security-1"])
    assert kept_for({first.id: first}, TWICE)[first.id].names == {"security-2"}


def test_a_task_is_not_kept_for_somebody_who_lacks_a_skill_or_takes_no_tasks() -> None:
    task = a_task("Review for security", needs=["rust"])
    skilled = a_team(
        a_member("security-reviewer"), a_member("bob", skills=["rust"]), a_member("carol")
    )
    assert in_order({task.id: task}, skilled, "bob", idle=[]) == [task]
    watching = a_team(
        a_member("security-reviewer", claims=False), a_member("bob"), a_member("carol")
    )
    plain = a_task("Review for security")
    assert in_order({plain.id: plain}, watching, "bob", idle=[]) == [plain]


def test_a_task_that_was_assigned_is_its_owners_whatever_its_words_say() -> None:
    task = a_task("Review for security").evolve(owner="tests-reviewer")
    assert in_order({task.id: task}, REVIEWERS, "tests-reviewer", idle=[]) == [task]
    assert kept_for({task.id: task}, REVIEWERS) == {}


def test_a_word_of_a_prompt_that_most_subjects_have_makes_no_lens() -> None:
    """All of a project's tasks name the project; so may one member's prompt."""
    team = a_team(
        a_member("alice", prompt="You work on the compiler Frobnicator."),
        a_member("bob", prompt="You are careful."),
    )
    tasks = {str(n): a_task(f"Frobnicator part {n}", task_id=str(n)) for n in range(4)}
    assert kept_for(tasks, team) == {}
    alone = a_task("Frobnicator")
    assert kept_for({alone.id: alone}, team)[alone.id].names == {"alice"}


def test_the_reason_names_the_words_that_matched() -> None:
    task = a_task("Review for security")
    assert kept_for({task.id: task}, REVIEWERS)[task.id].why == "its words match: security"
    named = a_task("bob: fix it")
    assert kept_for({named.id: named}, PEOPLE)[named.id].why == "it addresses bob"


def much_to_compare(many: int) -> tuple[dict[str, Task], TeamConfig]:
    """Fifty members with long prompts, and tasks with long descriptions."""
    words = [
        "parser",
        "lexer",
        "linker",
        "loader",
        "tests",
        "docs",
        "web",
        "mail",
        "cache",
        "index",
    ]
    members = [
        a_member(f"{words[n % 10]}-{n}", prompt=f"You are member {n}. " + "Work hard. " * 300)
        for n in range(50)
    ]
    team = a_team(*members)
    tasks = {
        str(n): a_task(f"Improve the {words[n % 10]} in part {n}", "More of it. " * 500, str(n))
        for n in range(many)
    }
    # The members' own records are parsed once, whatever is asked of them.
    assert all(member.agent for member in team.roster if not member.is_lead)
    return tasks, team


def test_twice_as_many_tasks_take_twice_the_steps_to_compare_with_50_members() -> None:
    assert len(kept_for(*much_to_compare(500))) == 500
    teams = {many: much_to_compare(many) for many in (100, 200)}
    assert growth(lambda many: in_order(*teams[many], "parser-0", idle=[]), 100) < 2.2
