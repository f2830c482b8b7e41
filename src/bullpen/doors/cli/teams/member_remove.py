"""`bullpen member remove`: what runs of a member is stopped first."""

from __future__ import annotations

from typing import Annotated

from bullpen.app.app import App
from bullpen.doors.actions.remove_member import remove_member
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument
from bullpen.doors.cli.session import Session
from bullpen.team.roster import Removal


@examples("bullpen member remove bob")
def remove(
    session: Session,
    name: Annotated[str, argument("The member", "NAME", complete=completion.member_names)],
) -> None:
    """Remove a teammate and release its tasks.

    A running agent is stopped first.
    """

    async def remove_it(app: App, team: str) -> Removal:
        by = await session.identity.acts(app.teams.open(team))
        return await remove_member(app, team, name, by=by)

    removal = with_app(session, remove_it)
    released = [task.id for task in removal.released]
    session.page.result(
        "member-removed/1",
        {"member": removal.member.raw, "released": [task.raw for task in removal.released]},
        f"Removed {name}.",
        *([f"Pending again: task {', '.join(released)}."] if released else []),
    )
