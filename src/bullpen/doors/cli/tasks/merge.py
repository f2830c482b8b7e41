"""`bullpen merge`: the merge queue."""

from __future__ import annotations

from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.session import Session
from bullpen.doors.cli.tasks.merge_view import MergeCommands


@examples("bullpen merge list", "bullpen merge list --json")
def list_line(session: Session) -> None:
    """Show the merge queue and the work it returned."""
    MergeCommands(session).show_line()


@examples("bullpen merge log", "bullpen merge log 3", "bullpen merge log --json")
def log(
    session: Session,
    task_id: Annotated[
        str | None, argument("Show only this task", "TASK", complete=completion.task_ids)
    ] = None,
) -> None:
    """Show what the merge queue did, in order.

    Keeps the last 40 steps of each task: tries, bisections, merges, returns.
    """
    MergeCommands(session).show_log(task_id)


@examples("bullpen merge run", "bullpen merge run --once", "bullpen merge run -t alpha")
def run(
    session: Session,
    *,
    once: Annotated[bool, flag("Take one step and exit", "--once")] = False,
) -> None:
    """Run the merge queue until it is empty.

    `bullpen up` and `bullpen run` already run the queue of their team; use this for other teams. If
    something blocks a merge, such as your uncommitted changes, the queue reports it and tries
    again.
    """
    MergeCommands(session).run(once=once)


@examples(
    "bullpen merge set",
    "bullpen merge set --target main --gate 'make test'",
    "bullpen merge set --batch 8 --retries 2",
    "bullpen merge set --after 'git push origin \"$BULLPEN_TARGET\"'",
)
def set_(
    session: Session,
    *,
    target: Annotated[str | None, option("Branch to merge into", "BRANCH")] = None,
    gate: Annotated[
        list[str] | None,
        option("Command that must succeed on the target after each merge; '' for none", "COMMAND"),
    ] = None,
    batch: Annotated[
        int | None, option("The most tasks to merge together", "N", min=1, max=64)
    ] = None,
    retries: Annotated[
        int | None, option("How often to retry failing work", "N", min=0, max=10)
    ] = None,
    after: Annotated[
        str | None, option("Command to run after each merge; '' for none", "COMMAND")
    ] = None,
    setup: Annotated[
        str | None, option("Command that prepares the test worktree; '' for none", "COMMAND")
    ] = None,
    author: Annotated[
        str | None, option("Author of Bullpen's commits; '' for git's own", "'NAME <ADDRESS>'")
    ] = None,
) -> None:
    """Show or set the target branch and the merge gate.

    The default target is the branch that is checked out here. Only a person may change it.
    """
    MergeCommands(session).configure(
        target=target,
        gate=gate,
        batch=batch,
        retries=retries,
        texts={"after": after, "setup": setup, "author": author},
    )
