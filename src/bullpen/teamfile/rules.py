"""What the tables of a team file have to agree on. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from bullpen.agents.drivers.programs import is_foreign
from bullpen.agents.policy.rules import check_rules
from bullpen.agents.settings import KNOWN_TOOLS
from bullpen.agents.tools.box import check_tools
from bullpen.errors import Invalid
from bullpen.protocol.names import LEAD, check_new_name
from bullpen.protocol.workspace import WorkspaceKind
from bullpen.team.check_rules import CHECKS_MAX, stated
from bullpen.teamfile.lines import Path
from bullpen.teamfile.mistakes import Mistake
from bullpen.teamfile.tables import CheckTable, File, MemberTable, TaskTable, as_checks, nearest


def mistakes_in(file: File) -> Iterator[Mistake]:
    """All that tables which are right by themselves contradict each other in."""
    yield from _named(("team", "name"), file.team.name, "team")
    if file.team.goal is None:
        yield from _without_a_goal(file)
    for number, member in enumerate(file.member):
        yield from _of_member(file.member, number, member)
    yield from _clashes(file)
    yield from _of_trees(file)
    for number, task in enumerate(file.task):
        yield from _of_task(file, number, task)
    yield from _circle(file.task)
    yield from _of_backlog(file)
    if file.merge is not None:
        yield from _of_checks(("merge", "gate"), file.merge.gate)


def names_of(member: MemberTable) -> list[str]:
    """What the members are called that a table stands for: of several, each has a number."""
    if member.count == 1:
        return [member.name]
    return [f"{member.name}-{number}" for number in range(1, member.count + 1)]


def _named(path: Path, name: str, kind: str) -> Iterator[Mistake]:
    yield from _refused(path, partial(check_new_name, name, kind=kind))


def _without_a_goal(file: File) -> Iterator[Mistake]:
    for number, member in enumerate(file.member):
        if member.name == LEAD:
            yield Mistake(
                ("member", number, "name"), "a lead has to be told what to reach: give a team.goal"
            )
    if not (file.task or file.backlog):
        yield Mistake(("team", "goal"), "a team needs a goal, or tasks, or a backlog")
    elif not file.member:
        yield Mistake(("team", "goal"), "without a goal nobody leads, and there is no [[member]]")


def _of_member(
    members: Sequence[MemberTable], number: int, member: MemberTable
) -> Iterator[Mistake]:
    here: Path = ("member", number)
    yield from _named((*here, "name"), member.name, "member")
    if any(member.name == before.name for before in members[:number]):
        yield Mistake((*here, "name"), "another member has it")
    if member.name == LEAD and member.prompt is not None:
        yield Mistake((*here, "prompt"), "the lead is told the goal of the team and nothing else")
    if member.name == LEAD and member.count > 1:
        yield Mistake((*here, "count"), "a team has one lead")
    if member.driver == "scripted" and member.script is None:
        yield Mistake((*here, "script"), "a scripted member needs one")
    if member.driver == "acp" and member.command is None:
        yield Mistake((*here, "command"), "the driver 'acp' needs the words of the program")
    if member.command is not None and not is_foreign(member.driver):
        yield Mistake((*here, "command"), f"the driver {member.driver!r} starts no program")
    if member.respawn and member.on is None:
        yield Mistake((*here, "respawn"), "say with `on` which machines may run it")
    if member.on is not None and member.backend == "in-process":
        yield Mistake((*here, "on"), "an agent inside this process cannot run on another machine")
    for place, tool in enumerate(member.tools or ()):
        yield from _refused((*here, "tools", place), partial(check_tools, [tool]))
    for kind in ("allow", "deny", "ask"):
        for place, rule in enumerate(getattr(member.rules, kind)):
            path: Path = (*here, "rules", kind, place)
            yield from _refused(path, partial(check_rules, [rule], KNOWN_TOOLS))


def _clashes(file: File) -> Iterator[Mistake]:
    """Members whose names, with their numbers, are those of others."""
    taken = Counter(name for member in file.member for name in names_of(member))
    for number, member in enumerate(file.member):
        double = [name for name in names_of(member) if taken[name] > 1]
        if double and member.count > 1:
            yield Mistake(
                ("member", number, "count"),
                f"with its number one would be called {double[0]!r}, and so is another member",
            )


def _of_trees(file: File) -> Iterator[Mistake]:
    kinds = kinds_of(file)
    if file.merge is not None and kinds == {"shared"}:
        yield Mistake(
            ("merge",),
            "nobody works in a tree of its own, so there is nothing to merge",
            'Say in [workspace]: kind = "worktree"',
        )
    if file.workspace.remote is not None and "clone" not in kinds:
        yield Mistake(("workspace", "remote"), "it is for clones, and nobody works in one")


def kinds_of(file: File) -> set[WorkspaceKind]:
    """The kinds of trees that members work in."""
    kinds = {member.workspace or file.workspace.kind for member in file.member}
    return kinds or {file.workspace.kind}


def _of_task(file: File, number: int, task: TaskTable) -> Iterator[Mistake]:
    here: Path = ("task", number)
    ids = [each.id for each in file.task]
    if task.id in ids[:number]:
        yield Mistake((*here, "id"), "another task has it")
    for place, blocker in enumerate(task.blocked_by):
        if blocker not in ids:
            yield Mistake(
                (*here, "blocked_by", place), f"there is no task {blocker!r}{nearest(blocker, ids)}"
            )
    yield from _of_owner(file, (*here, "owner"), task)
    yield from _of_needs(file, (*here, "needs"), task.needs)
    yield from _of_checks((*here, "checks"), task.checks)


def _of_owner(file: File, path: Path, task: TaskTable) -> Iterator[Mistake]:
    owners = {name: member for member in file.member for name in names_of(member)}
    known = [*owners] if file.team.goal is None else [LEAD, *owners]
    if task.owner is None:
        return
    if task.owner not in known:
        guess = nearest(task.owner, known)
        yield Mistake(path, f"there is no member {task.owner!r}{guess}")
        return
    skills = owners[task.owner].skills if task.owner in owners else ()
    lacks = [need for need in task.needs if need not in skills]
    if lacks:
        yield Mistake(path, f"{task.owner} lacks what it needs: {', '.join(map(repr, lacks))}")


def _of_needs(file: File, path: Path, needs: Sequence[str]) -> Iterator[Mistake]:
    skills = sorted({skill for member in file.member for skill in member.skills})
    for place, need in enumerate(needs):
        if need not in skills:
            guess = nearest(need, skills) or " (no member has any)"
            yield Mistake((*path, place), f"no member has the skill {need!r}{guess}")


def _of_checks(path: Path, checks: Sequence[str | CheckTable]) -> Iterator[Mistake]:
    all_of_them = as_checks(checks)
    names = [check.name for check in all_of_them]
    for place, check in enumerate(all_of_them):
        yield from _refused((*path, place), partial(stated, [check]))
        if check.name in names[:place]:
            yield Mistake((*path, place), f"another check is called {check.name!r}")
    if len(checks) > CHECKS_MAX:
        yield from _refused(path, partial(stated, all_of_them))


def _refused(path: Path, refusing: Callable[[], object]) -> Iterator[Mistake]:
    """What a rule of another part of the program has against a value."""
    try:
        refusing()
    except Invalid as error:
        yield Mistake(path, error.message.rstrip("."), error.remedy)


def _of_backlog(file: File) -> Iterator[Mistake]:
    seen = []
    for number, backlog in enumerate(file.backlog):
        here: Path = ("backlog", number)
        source = (backlog.markdown, backlog.heading, backlog.directory, backlog.command)
        if source in seen:
            yield Mistake(here, "another backlog is the same")
        seen.append(source)
        yield from _of_needs(file, (*here, "needs"), backlog.needs)
        yield from _of_checks((*here, "checks"), backlog.checks)


def _circle(tasks: Sequence[TaskTable]) -> Iterator[Mistake]:
    """The first circle of tasks that wait for each other."""
    waits = {task.id: task.blocked_by for task in tasks}
    done: set[str] = set()
    for start in waits:
        way: list[str] = []
        stack = [(start, iter(waits[start]))]
        while stack:
            task_id, blockers = stack[-1]
            if not way or way[-1] != task_id:
                way.append(task_id)
            following = next(
                (each for each in blockers if each in waits and each not in done), None
            )
            if following is None:
                done.add(task_id)
                way.pop()
                stack.pop()
            elif following in way:
                circle = way[way.index(following) :]
                number = next(n for n, task in enumerate(tasks) if task.id == circle[0])
                names = ", ".join(map(repr, circle))
                yield Mistake(
                    ("task", number, "blocked_by"),
                    f"these wait for each other in a circle: {names}",
                )
                return
            else:
                stack.append((following, iter(waits[following])))
