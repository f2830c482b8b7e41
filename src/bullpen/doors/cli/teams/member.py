"""`bullpen member`: who is in a team."""

from __future__ import annotations

from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session, directory


@examples(
    "bullpen member add alice",
    "bullpen member add bob --type reviewer --prompt 'Review changes' --plan-mode",
)
def add(
    session: Session,
    name: Annotated[str, argument("Name of the new member", "NAME")],
    *,
    agent_type: Annotated[str, option("Kind of agent", "TYPE", "--type")] = "general-purpose",
    model: Annotated[str | None, option("Model it uses", "NAME")] = None,
    prompt: Annotated[str | None, option("Its first instruction", "TEXT")] = None,
    cwd: Annotated[
        str | None, option("Working directory [default: current directory]", "DIR")
    ] = None,
    plan_mode: Annotated[
        bool, flag("Require an approved plan before it works", "--plan-mode")
    ] = False,
) -> None:
    """Add a teammate."""
    where = directory(cwd)
    member = session.as_actor(
        lambda team, by: team.roster.join(
            name,
            by=by,
            agent_type=agent_type,
            model=model,
            prompt=prompt,
            cwd=where,
            plan_mode_required=plan_mode,
        )
    )
    session.page.result("member/1", member.raw, f"Added {member.name} ({member.color}).")


@examples("bullpen member list")
def list_members(session: Session) -> None:
    """List members: state, tasks, unread messages."""
    RecordViews(session.page).members(session.with_team(lambda team: team.snapshot()))
