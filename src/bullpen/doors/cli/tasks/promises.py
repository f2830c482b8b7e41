"""`bullpen promises`: what members promise each other, and who relies on it."""

from __future__ import annotations

import os
from typing import Annotated

from bullpen.by_name import load
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.session import Session
from bullpen.errors import Invalid
from bullpen.protocol.record.promise import Promise, PromiseKind
from bullpen.protocol.task import Check, Task
from bullpen.team.promises.rules import PromiseDraft, Standing
from bullpen.team.team import Team

PromiseId = Annotated[str, argument("The promise, such as 3.1", "PROMISE")]
TaskId = Annotated[str, argument("The task", "TASK", complete=completion.task_ids)]


@examples("bullpen promises list", "bullpen promises list --json")
def list_promises(session: Session) -> None:
    """List the promises in force, and which tasks rely on them."""

    async def look(team: Team) -> list[Standing]:
        return await team.promises.all()

    found = session.with_team(look)
    page = session.page
    if page.json:
        page.value("promises/1", {"promises": [_row(each) for each in found]})
        return
    if not found:
        page.line("No promises. Make one: bullpen promises make TASK TEXT --path PATTERN")
        return
    rows = [
        (
            each.promise.id,
            each.owner or "",
            each.promise.text,
            each.what,
            ", ".join(f"#{task.id}" for task in each.relied_by),
        )
        for each in found
    ]
    page.table(("promise", "by", "text", "proof", "relied on by"), rows)


@examples(
    "bullpen promises make 3 'It takes x' --in app.py --signature 'f(x)'",
    "bullpen promises make 3 'Only I edit routes.py' --path routes.py",
    "bullpen promises make 3 'The API answers' --command 'make test-api'",
)
def make(
    session: Session,
    task_id: TaskId,
    text: Annotated[str, argument("The promise, in a sentence", "TEXT")],
    *,
    signature: Annotated[
        str | None, option("Signature that the file will have", "SIGNATURE")
    ] = None,
    file: Annotated[str | None, option("File with the signature", "FILE", "--in")] = None,
    path: Annotated[str | None, option("Paths that only this task edits", "PATTERN")] = None,
    command: Annotated[str | None, option("Command that succeeds", "COMMAND")] = None,
) -> None:
    """Promise something with a task.

    Give one proof. It is checked when the work is handed in and before it is merged.
    """
    given = [each for each in (signature, path, command) if each is not None]
    if len(given) != 1 or (file is not None) != (signature is not None):
        raise Invalid(
            f"A promise needs one proof, not {len(given)}.",
            remedy="Give --path, --command, or --signature with --in.",
        )
    kind: PromiseKind = "signature" if signature else "command" if command else "path"
    draft = PromiseDraft(text, kind, path or file, signature, command)

    async def made(team: Team) -> Promise:
        by, voice = await session.identity.speaks(team)
        if voice == "agent" and command is not None:
            refuse_checks = load("bullpen.doors.actions.agents_checks:refuse_checks")
            agent = (await team.agents.get(by))[1]
            check = Check.new(name="promise", kind="command", run=command)
            env = {**os.environ, "BULLPEN_HOME": str(session.settings.home)}
            await refuse_checks(agent, [check], env)
        return await team.promises.make(task_id, draft, by=by)

    promise = session.with_team(made)
    said = f"Promise {promise.id}: {promise.text}"
    session.page.result("promise/1", promise.raw, said)


@examples("bullpen promises rely 3.1 4")
def rely(session: Session, promise_id: PromiseId, task_id: TaskId) -> None:
    """Build on a promise with a task.

    You are told when it changes.
    """

    async def relied(team: Team) -> Task:
        by, _ = await session.identity.speaks(team)
        return await team.promises.rely(promise_id, task_id, by=by)

    task = session.with_team(relied)
    said = f"Task {task.id} relies on promise {promise_id}."
    session.page.result("task/1", task.raw, said)


@examples("bullpen promises drop 3.1 4")
def drop(session: Session, promise_id: PromiseId, task_id: TaskId) -> None:
    """No longer build on a promise."""

    async def dropped(team: Team) -> Task:
        by, _ = await session.identity.speaks(team)
        return await team.promises.drop(promise_id, task_id, by=by)

    task = session.with_team(dropped)
    said = f"Task {task.id} no longer relies on promise {promise_id}."
    session.page.result("task/1", task.raw, said)


@examples("bullpen promises withdraw 3.1 --reason 'It takes no options'")
def withdraw(
    session: Session,
    promise_id: PromiseId,
    *,
    reason: Annotated[str, option("What those who rely on it read", "TEXT")] = "",
) -> None:
    """Withdraw a promise.

    Those who rely on it are told.
    """

    async def withdrawn(team: Team) -> Task:
        by, _ = await session.identity.speaks(team)
        return await team.promises.withdraw(promise_id, by=by, reason=reason)

    task = session.with_team(withdrawn)
    said = f"Promise {promise_id} is withdrawn."
    session.page.result("task/1", task.raw, said)


def _row(standing: Standing) -> dict[str, object]:
    return {
        **standing.promise.raw,
        "task": standing.task.id,
        "owner": standing.owner,
        "reliedBy": [task.id for task in standing.relied_by],
    }
