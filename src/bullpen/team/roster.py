"""Who is in a team: joining, leaving, looking up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bullpen.errors import Conflict, Invalid, Refused
from bullpen.protocol import names
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.changes import Change, PutMember, PutTask, PutTeam, RemoveMember
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task
from bullpen.store.base import View
from bullpen.team import budget_rules, rules
from bullpen.team.decision import Part
from bullpen.team.lookup import member_of


@dataclass(frozen=True, slots=True)
class Removal:
    """A member that is gone, and its tasks that are pending again."""

    member: Member
    released: tuple[Task, ...]


class Roster(Part):
    """The members of one team."""

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
        """Add a teammate; colours go round in join order.

        Raises:
            Invalid: the name cannot be a member's.
            Conflict: the name, or one with the same mailbox, is taken.
        """
        names.check_new_name(name, kind="member")
        now = self._clock()

        def decide(view: View) -> tuple[Member, list[Change]]:
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

    async def remove(self, name: str, *, by: str) -> Removal:
        """Remove a teammate; its unfinished tasks are pending again in the same commit.

        Raises:
            Refused: it is the lead (is_lead).
            NotFound: there is no such member; the error names those there are.
        """

        def decide(view: View) -> tuple[Removal, list[Change]]:
            member = member_of(view.team, name)
            if member.is_lead:
                raise Refused(
                    f"{name!r} leads team {view.team.name!r} and cannot be removed.",
                    reason="is_lead",
                    remedy="Delete the team instead, if its work is done.",
                )
            tasks = rules.released_from(view, name, reason=f"{name} left the team")
            changes = leaving(view.team, member)
            changes += (PutTask(task) for task in tasks)
            return Removal(member, tuple(tasks)), changes

        return await self._settle(decide, by=by, op="member.remove")

    async def list(self) -> list[Member]:
        """All members in join order, the lead first."""
        return list((await self._store.config(self._team)).roster)

    async def get(self, name: str) -> Member:
        """One member. Raises NotFound, naming those there are."""
        return member_of(await self._store.config(self._team), name)


def leaving(team: TeamConfig, member: Member) -> list[Change]:
    """The changes when a member leaves: its row goes, what it used stays used."""
    changes: list[Change] = [RemoveMember(member.name)]
    facts = budget_rules.left(team.facts, member)
    if facts != team.facts:
        changes.append(PutTeam({"bullpen": facts.raw}))
    return changes


def new_member(team: TeamConfig, name: str, spec: AgentSpec, *, now_ms: int) -> Member:
    """The row of an agent that joins. Raises Conflict if the name is taken."""
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
    """How many rows are not the lead's, those that cannot be read included."""
    return sum(not member.is_lead for member in team.roster) + len(team.bad_rows)


def _refuse_taken(team: TeamConfig, name: str) -> None:
    rows = (row.get("name") for row in team.members if isinstance(row, dict))
    # Names that differ in case only share a mailbox file on some systems.
    wanted = _mailbox_key(name)
    holder = next(
        (row for row in rows if isinstance(row, str) and _mailbox_key(row) == wanted), None
    )
    if holder is not None:
        raise Conflict(
            f"There is a member {holder!r} in team {team.name!r} already.",
            remedy="Choose another name, or remove that member first.",
        )


def _mailbox_key(name: str) -> str:
    try:
        return names.inbox_stem(name).casefold()
    except Invalid:
        # Another program's name that cannot have a mailbox here collides with nothing else.
        return name
