"""Who is in a team: join, leave, look up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Conflict, Invalid, Refused
from bullpen.protocol import names
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.changes import (
    Change,
    Deliver,
    PutMember,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.contract import View
from bullpen.team import lead_rules
from bullpen.team.budget import rules as budget_rules
from bullpen.team.lookup import listed, member_of
from bullpen.team.mail.operations import new_message
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.tasks import rules
from bullpen.team.tasks.guarded_rules import is_hand_in


@dataclass(frozen=True, slots=True)
class Removal:
    """A member that was removed, and its tasks that went back to pending."""

    member: Member
    released: tuple[Task, ...]


class Roster(TeamPart):
    """The members of one team."""

    @operation
    async def join(
        self,
        name: str,
        *,
        by: str,
        agent_type: str = "general-purpose",
        model: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        plan_mode_required: bool = False,
        backend_type: str | None = None,
    ) -> Member:
        """Add a teammate, as the lead or as that teammate. Colours are assigned in join order.

        Raises:
            Refused: not_lead.
            Invalid: the name is not a valid member name.
            Conflict: the name, or one with the same mailbox, is taken.
        """
        names.check_new_name(name, kind="member")
        now = self._clock()

        def decide(view: View) -> tuple[Member, list[Change]]:
            if by != name:
                lead_rules.refuse_others(view.team, by, "add members", act="member.add")
            member = _joining(
                view.team,
                name,
                now,
                agent_type=agent_type,
                model=model,
                prompt=prompt,
                plan_mode_required=plan_mode_required,
                cwd=cwd,
                backend_type=backend_type,
            )
            return member, [PutMember(member)]

        return await self._settle(decide, by=by, op="member.join")

    @operation
    async def remove(self, name: str, *, by: str) -> Removal:
        """Remove a teammate. Its unfinished tasks go back to pending in the same commit.

        If it leaves by itself, the lead is told which tasks.

        The lead, the member that spawned it and the teammate itself may do so. A process of it is
        not stopped here: whoever removes a running agent stops it first.

        Raises:
            Refused: it is the lead (is_lead), or not_lead.
            NotFound: there is no such member; the error names the members.
        """

        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Removal, list[Change]]:
            member = member_of(view.team, name)
            if member.is_lead:
                raise Refused(
                    f"{name!r} is the lead of team {view.team.name!r} and cannot be removed.",
                    reason="is_lead",
                    remedy="If the work is done, delete the team instead.",
                )
            lead_rules.refuse_strangers(view.team, name, by, "remove", act="member.remove")
            tasks = rules.released_from(view, name, reason=f"{name} left the team")
            changes = leaving(view.team, member)
            changes += (PutTask(task) for task in tasks)
            if by == name:
                # A lead that removes it is told by the result.
                changes += farewell(
                    view.team, name, "left the team", tasks, message_id=message_id, now_ms=now
                )
            return Removal(member, tuple(tasks)), changes

        return await self._settle(decide, by=by, op="member.remove")

    async def list(self) -> list[Member]:
        """Return all members in join order, the lead first."""
        return list((await self._store.config(self._team)).roster)

    async def get(self, name: str) -> Member:
        """Return one member. Raises NotFound with the names there are."""
        return member_of(await self._store.config(self._team), name)


def farewell(
    team: TeamConfig,
    name: str,
    how: str,
    left: Sequence[Task],
    *,
    message_id: str,
    now_ms: int,
) -> list[Change]:
    """Return the message that tells the lead which tasks a member left when it ended, if any.

    An agent that leads and has ended reads nothing: when it is started again, its briefing says
    which tasks are free.
    """
    lead = team.member(LEAD)
    gone = lead is None or (lead.agent is not None and lead.agent.phase == "ended")
    if gone or not left:
        return []
    message = new_message(
        f"{name} has ended ({how}). {tasks_left(left)}",
        team=team,
        sender=name,
        message_id=message_id,
        now_ms=now_ms,
        summary=f"{name} left {_several(left)}",
    )
    return [Deliver(LEAD, message, fresh=True)]


def requests_left(requests: Iterable[Request], name: str, *, now_ms: int) -> list[Request]:
    """Return the open requests of an agent that ended, closed: nobody waits for their answers.

    A plan stays for the agent's next launch, and a change to guarded paths for the next owner.
    """
    why = f"{name} has ended and does not wait for an answer."
    return [
        request.evolve(state="expired", answered_ms=now_ms, answer={"feedback": why})
        for request in requests
        if request.sender == name
        and request.state == "pending"
        and request.kind in ("permission", "question")
        and not is_hand_in(request)
    ]


def tasks_left(tasks: Sequence[Task]) -> str:
    """Say which tasks a member left."""
    named = listed(f"#{task.id}" for task in tasks)
    return f"It left {_several(tasks)}, pending and nobody's now: {named}. See TaskList."


def _several(tasks: Sequence[Task]) -> str:
    return "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"


def leaving(team: TeamConfig, member: Member) -> list[Change]:
    """Return the changes when a member leaves: its entry is removed, its usage still counts."""
    changes: list[Change] = [RemoveMember(member.name)]
    facts = budget_rules.left(team.facts, member)
    if facts != team.facts:
        changes.append(PutTeam({"bullpen": facts.raw}))
    return changes


def new_member(team: TeamConfig, name: str, spec: AgentSpec, *, now_ms: int) -> Member:
    """Return the roster entry of an agent that joins. Raises Conflict if the name is taken."""
    return _joining(
        team,
        name,
        now_ms,
        agent_type=spec.role or "general-purpose",
        model=spec.model,
        prompt=spec.prompt,
        plan_mode_required=spec.mode == "plan",
        cwd=spec.cwd,
        backend_type=spec.backend,
        mode=spec.mode,
        allowed_tools=spec.tools,
        disallowed_tools=spec.disallowed_tools,
    )


def _joining(team: TeamConfig, name: str, now_ms: int, **fields: Any) -> Member:
    _refuse_taken(team, name)
    return Member.new(
        agent_id=names.agent_id(name, team.name),
        name=name,
        color=names.color_for(_teammates(team)),
        joined_at=now_ms,
        tmux_pane_id="",
        subscriptions=[],
        **fields,
    )


def _teammates(team: TeamConfig) -> int:
    """Return how many entries are not the lead's, including those that cannot be read."""
    return sum(not member.is_lead for member in team.roster) + len(team.bad_rows)


def _refuse_taken(team: TeamConfig, name: str) -> None:
    rows = (row.get("name") for row in team.members if isinstance(row, dict))
    # On some systems, names that differ only in case share a mailbox file.
    wanted = _mailbox_key(name)
    holder = next(
        (row for row in rows if isinstance(row, str) and _mailbox_key(row) == wanted), None
    )
    if holder is not None:
        raise Conflict(
            f"Team {team.name!r} already has a member {holder!r}.",
            remedy="Choose another name, or remove that member first.",
        )


def _mailbox_key(name: str) -> str:
    try:
        return names.inbox_stem(name).casefold()
    except Invalid:
        # A name from another program that cannot have a mailbox here conflicts with nothing else.
        return name
