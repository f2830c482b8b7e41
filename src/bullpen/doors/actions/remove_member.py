"""Remove a member from its team: nothing of it runs any more when this returns."""

from __future__ import annotations

from contextlib import suppress

from bullpen.app.app import App
from bullpen.errors import NotFound, Unavailable
from bullpen.team.lead_rules import refuse_strangers
from bullpen.team.lookup import member_of, owner_of
from bullpen.team.roster import Removal


async def remove_member(app: App, team_name: str, name: str, *, by: str) -> Removal:
    """Stop a member if it is a running agent, then remove it. Its tasks become pending.

    Raises:
        Refused: it is the lead (is_lead), or `by` may not remove it (not_lead).
        NotFound: there is no such member; the error names the members.
        Unavailable: its process could not be stopped. Then it stays a member.
    """
    team = app.teams.open(team_name)
    config = await team.agents.config()
    member = member_of(config, name)
    agent = member.agent
    if member.is_lead or agent is None or agent.phase == "ended":
        return await team.roster.remove(name, by=by)
    refuse_strangers(config, name, by, "remove", act="member.remove")
    held = [
        task.id
        for task in (await team.tasks.list()).tasks
        if task.status != "completed" and owner_of(task, team_name) == name
    ]
    try:
        await app.supervisor(team_name).stop(name, by=by, reason=f"{by} removed it")
    except Unavailable as error:
        raise Unavailable(
            f"{name!r} was not removed, because it could not be stopped: {error.message}",
            remedy=error.remedy,
        ) from error
    with suppress(NotFound):
        # A guest leaves its team when it ends.
        await team.roster.remove(name, by=by)
    after = {task.id: task for task in (await team.tasks.list()).tasks}
    return Removal(member, tuple(after[task_id] for task_id in held if task_id in after))
