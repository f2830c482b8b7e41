"""Complete an agent's own tasks, and refuse checks that it may not state."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.hooks.lifecycle import AgentHooks
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.rule_language.rule import tool_of
from bullpen.agents.work.proving import Completed, Proving
from bullpen.agents.work.tree_of_task import TreeWork
from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.task import Check
from bullpen.team.tasks.check_rules import is_queued
from bullpen.team.tasks.rules import Done


async def complete(
    desk: Desk, hooks: AgentHooks, work: TreeWork, task_id: str, *, report: str | None
) -> Done:
    """Complete one of the agent's own tasks. Raises Refused as `Proving.complete`."""

    def tell(check: Check) -> None:
        if check.passed is None:
            desk.doing("TaskUpdate", f"#{task_id}: check {check.name}")
        else:
            desk.record(
                "check", task=task_id, name=check.name, passed=check.passed, text=check.detail
            )

    proving = Proving(desk.team, desk.agent, desk, hooks.task_completed, desk.redacted, tell, work)
    done = await proving.complete(task_id, attempt=desk.attempts.get(task_id), report=report)
    if merge := done.task.facts.merge:
        desk.record("handed_in", task=task_id, commit=merge.commit, text=handed_in(done))
    return done


def handed_in(done: Done) -> str | None:
    """A text about the work that was handed in with a task, or None."""
    merge = done.task.facts.merge if is_queued(done.task) else None
    if merge is None:
        return None
    files = done.committed if isinstance(done, Completed) else ()
    several = "s" if len(files) != 1 else ""
    added = f"{len(files)} uncommitted file{several} committed for it, " if files else ""
    return f"{added}handed in as {merge.commit[:7]} to the merge queue"


def refuse_without_shell(spec: AgentSpec, checks: Sequence[Check]) -> None:
    """Refuse commands as checks of an agent without Bash. Raises Refused: denied."""
    given = ["Bash"] if spec.tools is None else [tool_of(name) for name in spec.tools]
    has_shell = "Bash" in given and "Bash" not in (spec.disallowed_tools or ())
    commands = [check for check in checks if check.run is not None]
    if commands and not has_shell:
        raise Refused(
            f"You may not use {commands[0].run!r} as a check: you do not have the tool Bash.",
            reason="denied",
            remedy="Use a file, commit or report check, or ask a person to add the command.",
        )


async def refuse_beyond(rights: Rights, checks: Sequence[Check]) -> None:
    """Refuse checks that the agent may not run itself, where nobody can be asked.

    Bullpen would run these commands for the agent. Raises Refused: denied.
    """
    for call in [running(check.run) for check in checks if check.run]:
        ruling = await to_thread.run_sync(decide, call, rights)
        if ruling.effect != "allow":
            raise Refused(
                f"You may not use {call} as a check: {ruling.why}.",
                reason="denied",
                remedy="Add it with TaskCreate, which asks for permission, or ask a person.",
            )


def running(command: str) -> Call:
    """A check's command as a tool call, so that the gate can decide about it."""
    return Call("Bash", {"command": command}, "run")


def refuse_reviews(checks: Sequence[Check]) -> None:
    """Refuse reviews as checks that an agent states: they start agents. Raises Refused: denied."""
    reviews = [check for check in checks if check.kind == "review"]
    if reviews:
        raise Refused(
            f"You may not use {reviews[0].name!r} as a check: a review starts another agent.",
            reason="denied",
            remedy="Ask a person to add it: bullpen task edit ID --review DRIVER",
        )


def refuse_outside(checks: Sequence[Check]) -> None:
    """Refuse file checks outside the project. Raises Invalid.

    An agent that may not read outside must not learn which files exist there.
    """
    for check in checks:
        path = check.path or ""
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise Invalid(
                f"The file {path!r} of a check is not in the project.",
                remedy="Name a file relative to your working directory.",
            )
