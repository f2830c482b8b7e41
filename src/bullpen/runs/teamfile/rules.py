"""The rules that the tables of a team file must keep together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from bullpen.agents.permissions.rule_language.known_tools import check_tools
from bullpen.agents.permissions.rule_language.package_names import EVERYTHING, KNOWN_TOOLS
from bullpen.agents.permissions.rule_language.rule import check_rules
from bullpen.agents.system.environment import names_for
from bullpen.agents.system.vendors.programs import is_foreign
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentSpec, WorkspaceKind
from bullpen.protocol.names import LEAD, check_new_name
from bullpen.runs.teamfile.backlog.backlog import circle_in
from bullpen.runs.teamfile.mistakes import Mistake
from bullpen.runs.teamfile.tables import (
    CheckTable,
    File,
    GuardedTable,
    MemberTable,
    TaskTable,
    as_checks,
    nearest,
)
from bullpen.runs.teamfile.toml_lines import Path
from bullpen.team.tasks.check_rules import CHECKS_MAX, stated
from bullpen.team.tasks.reviews.rules import same_as_author


def mistakes_in(file: File) -> Iterator[Mistake]:
    """Yield the contradictions between tables that are each valid."""
    yield from _refused(("team", "name"), partial(check_new_name, file.team.name, kind="team"))
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
        yield from _of_reviewers(file, ("merge", "gate"), file.merge.gate, None)
    if file.shape is not None and file.shape.review is not None:
        for mistake in _of_reviewers(file, ("shape", "reviewer"), [file.shape.review], None):
            yield replace(mistake, path=("shape", "reviewer"))
    yield from _of_forge(file)


def names_of(member: MemberTable) -> list[str]:
    """Return the names of the members of a table; several of them are numbered."""
    if member.count == 1:
        return [member.name]
    return [f"{member.name}-{number}" for number in range(1, member.count + 1)]


def _without_a_goal(file: File) -> Iterator[Mistake]:
    for number, member in enumerate(file.member):
        if member.name == LEAD:
            yield Mistake(
                ("member", number, "name"), "a team with a lead needs a goal: set team.goal"
            )
    if not (file.task or file.backlog or file.forge):
        yield Mistake(("team", "goal"), "a team needs a goal, or tasks, or a backlog, or a forge")
    elif not file.member:
        yield Mistake(
            ("team", "goal"), "without a goal there is no lead, so the team needs a [[member]]"
        )


def _of_member(
    members: Sequence[MemberTable], number: int, member: MemberTable
) -> Iterator[Mistake]:
    here: Path = ("member", number)
    yield from _refused((*here, "name"), partial(check_new_name, member.name, kind="member"))
    if any(member.name == before.name for before in members[:number]):
        yield Mistake((*here, "name"), "another member has this name")
    if member.name == LEAD and member.prompt is not None:
        yield Mistake(
            (*here, "prompt"), "the lead's prompt is the goal of the team; remove this key"
        )
    if member.name == LEAD and member.count > 1:
        yield Mistake((*here, "count"), "a team has one lead")
    if member.driver == "scripted" and member.script is None:
        yield Mistake((*here, "script"), "a scripted member needs a script")
    if member.driver == "acp" and member.command is None:
        yield Mistake((*here, "command"), "the driver 'acp' needs a command")
    if member.command is not None and not is_foreign(member.driver):
        yield Mistake((*here, "command"), f"the driver {member.driver!r} does not take a command")
    if member.respawn and member.on is None:
        yield Mistake((*here, "respawn"), "it needs `on`, which says which machines may run it")
    if member.on is not None and member.backend == "in-process":
        yield Mistake((*here, "on"), "an in-process agent cannot run on another machine")
    for place, tool in enumerate(member.tools or ()):
        if tool != EVERYTHING:
            yield from _refused((*here, "tools", place), partial(check_tools, [tool]))
    for kind in ("allow", "deny", "ask"):
        for place, rule in enumerate(getattr(member.rules, kind)):
            path: Path = (*here, "rules", kind, place)
            yield from _refused(path, partial(check_rules, [rule], KNOWN_TOOLS))


def _clashes(file: File) -> Iterator[Mistake]:
    """Yield members whose numbered names are also those of others."""
    taken = Counter(name for member in file.member for name in names_of(member))
    for number, member in enumerate(file.member):
        double = [name for name in names_of(member) if taken[name] > 1]
        if double and member.count > 1:
            yield Mistake(
                ("member", number, "count"),
                f"its numbered name {double[0]!r} is also the name of another member",
            )


def _of_trees(file: File) -> Iterator[Mistake]:
    kinds = kinds_of(file)
    if file.merge is not None and kinds == {"shared"}:
        yield Mistake(
            ("merge",),
            "no member has its own worktree or clone, so there is nothing to merge",
            'Set kind = "worktree" in [workspace].',
        )
    if file.merge is None and file.guarded != GuardedTable():
        yield Mistake(
            ("guarded",),
            "nothing is merged, so nothing is guarded",
            "Add [merge], or remove [guarded].",
        )
    if file.workspace.remote is not None and "clone" not in kinds:
        yield Mistake(("workspace", "remote"), "only clones use it, and no member has a clone")


def _of_forge(file: File) -> Iterator[Mistake]:
    if file.forge is None:
        return
    if file.merge is None:
        yield Mistake(
            ("forge",),
            "a forge gets work that members hand in, and nothing is merged",
            "Add [merge].",
        )
    if file.forge.pull_request == "night" and file.forge.merge != "queue":
        yield Mistake(
            ("forge", "pull_request"),
            "only work that the merge queue merged can share a pull request",
            'Add merge = "queue".',
        )
    variable = file.forge.token_env
    for number, member in enumerate(file.member):
        if variable is not None and variable in names_for(member.driver, member.env):
            yield Mistake(
                ("member", number, "env" if variable in member.env else "driver"),
                f"it would get {variable}, which has the token of the forge",
                "Keep the token in another variable, and name that in token_env of [forge].",
            )


def kinds_of(file: File) -> set[WorkspaceKind]:
    """Return the kinds of workspaces that members have."""
    kinds = {member.workspace or file.workspace.kind for member in file.member}
    return kinds or {file.workspace.kind}


def _of_task(file: File, number: int, task: TaskTable) -> Iterator[Mistake]:
    here: Path = ("task", number)
    ids = [each.id for each in file.task]
    if task.id in ids[:number]:
        yield Mistake((*here, "id"), "another task has this id")
    for place, blocker in enumerate(task.blocked_by):
        if blocker not in ids:
            yield Mistake(
                (*here, "blocked_by", place), f"there is no task {blocker!r}{nearest(blocker, ids)}"
            )
    yield from _of_owner(file, (*here, "owner"), task)
    yield from _of_needs(file, (*here, "needs"), task.needs)
    yield from _of_checks((*here, "checks"), task.checks)
    yield from _of_reviewers(file, (*here, "checks"), task.checks, task.owner)


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
        yield Mistake(
            path,
            f"{task.owner} lacks the skills that the task needs: {', '.join(map(repr, lacks))}",
        )


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


def _of_reviewers(
    file: File, path: Path, checks: Sequence[str | CheckTable], owner: str | None
) -> Iterator[Mistake]:
    """Yield reviews of which no author can be another than the reviewer."""
    authors = [
        AgentSpec.new(driver=member.driver, backend=member.backend, cwd=".", model=member.model)
        for member in file.member
        # The model of a role is not known here.
        if (owner is None or owner in names_of(member)) and (member.model or not member.role)
    ]
    if not authors or (owner is None and len(authors) < len(file.member)):
        return
    for place, check in enumerate(as_checks(checks)):
        refused = [same_as_author(check, author) for author in authors]
        if check.kind == "review" and refused[0] is not None and None not in refused:
            yield Mistake((*path, place), refused[0].message.rstrip("."), refused[0].remedy)


def _refused(path: Path, refusing: Callable[[], object]) -> Iterator[Mistake]:
    """Yield what another part of the program refuses about a value."""
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
            yield Mistake(here, "another backlog has the same source")
        seen.append(source)
        yield from _of_needs(file, (*here, "needs"), backlog.needs)
        yield from _of_checks((*here, "checks"), backlog.checks)
        yield from _of_reviewers(file, (*here, "checks"), backlog.checks, None)


def _circle(tasks: Sequence[TaskTable]) -> Iterator[Mistake]:
    """Yield the first circle of tasks that depend on each other."""
    ids = [task.id for task in tasks]
    if circle := circle_in({task.id: task.blocked_by for task in tasks}):
        names = ", ".join(map(repr, circle))
        yield Mistake(
            ("task", ids.index(circle[0]), "blocked_by"),
            f"these tasks depend on each other in a circle: {names}",
        )
