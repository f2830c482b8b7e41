"""One member that is connected by MCP: how it comes, is known to be there, and goes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio

from bullpen.agents import processes
from bullpen.agents.chair import Chair
from bullpen.agents.tools.base import Tool
from bullpen.agents.tools.tasks import LEASE_S
from bullpen.agents.tree_keeping import TreeEnd
from bullpen.errors import BullpenError, Conflict, NotFound, Refused
from bullpen.mcp.colleagues import LeadColleagues
from bullpen.mcp.desk import MemberDesk
from bullpen.mcp.identity import refuse_driven
from bullpen.mcp.notices import Notices
from bullpen.mcp.tools import ToolSet, tools_of
from bullpen.office import Office
from bullpen.protocol import names
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import AgentState, Presence
from bullpen.protocol.roster import TeamConfig
from bullpen.store.clock import now_ms
from bullpen.team.lookup import member_of, owner_of
from bullpen.team.team import Team

BEAT_S = 5.0
"""How often everybody who is there says so."""

_TTL_MS = 20_000
_RENEW_S = 30.0


class Seat:
    """A member of a team whose program talks to us, from its first request to its last.

    `team` is the one that its identity is bound to; None if it may make any. `lasts_s` is how long
    it counts as there after its last call, None if as long as this process runs.
    """

    def __init__(
        self,
        office: Office,
        member: str,
        *,
        team: str | None,
        cwd: str,
        tool_set: ToolSet,
        lasts_s: float | None = None,
        warn: Callable[[str], object] = lambda _: None,
        left: Callable[[], object] = lambda: None,
    ) -> None:
        self.office = office
        self.member = member
        self.team_name = team
        self._speaks_for = team
        self._cwd = cwd
        # Who only reads leaves no trace: no row, no heartbeat, no chair.
        self._watches = tool_set == "read-only"
        self._lasts_s = lasts_s
        self._left = left
        self.desk = MemberDesk(
            member,
            cwd=cwd,
            home=office.settings.home,
            env=dict(os.environ),
            marks=not self._watches,
            warn=warn,
        )
        self.notices = Notices(self.desk)
        self._tool_set = tool_set
        self._arriving = anyio.Lock()
        self._here = False
        self._gone: str | None = None
        self._nonce = str(uuid.uuid4())
        self._place = processes.this_process("none", group=None)
        self._chair: Chair | None = None
        self._open = 0
        self._last_call_s = anyio.current_time()
        self._renewed_s = 0.0
        self._shown: tuple[AgentState, int] = ("idle", now_ms())

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that this member has."""
        return tools_of(self, self._tool_set)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """A request of this member is being answered: as long as that takes, it is there."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self._last_call_s = anyio.current_time()

    async def arrive(self) -> None:
        """Take the seat, when the program has proved by a request that it is there.

        Raises:
            Refused: the name is an agent's that we run (driven), or it has left (left).
            Conflict: another process leads the team.
            NotFound: there is no such team, and it is not the lead, who could make it.
        """
        if self._gone is not None:
            raise Refused(
                f"{self.member!r} has left the team: it {self._gone}.",
                reason="left",
                remedy="Connect anew to join again.",
            )
        async with self._arriving:
            if self._here:
                return
            found = await self.check()
            if found is not None:
                await self._sit_down(*found)

    async def check(self) -> tuple[Team, TeamConfig] | None:
        """The team that it could join now; None if there is none yet. Changes nothing.

        Raises:
            Refused, NotFound: as `arrive` does.
            Invalid: the name cannot be a member's.
        """
        if self.team_name is None:
            return None
        team = self.office.teams.open(self.team_name)
        try:
            config = await team.agents.config()
        except NotFound:
            if self.member == LEAD and not self._watches:
                return None
            raise
        if self._watches:
            member_of(config, self.member)
        else:
            refuse_driven(team, config, self.member)
            if config.member(self.member) is None:
                names.check_new_name(self.member, kind="member")
        return team, config

    async def _sit_down(self, team: Team, config: TeamConfig) -> None:
        if not self._watches:
            if config.member(self.member) is None:
                await team.roster.join(self.member, by=self.member, cwd=self._cwd)
            if self.member == LEAD:
                self._chair = Chair(team, nonce=self._nonce, place=self._place, clock=now_ms)
                await self._chair.take()
        self.desk.bind(team)
        if self.member == LEAD and not self._watches:
            self.desk.colleagues = LeadColleagues(
                self.office, team.name, agent=self.member, cwd=self._cwd
            )
        # A client that was started again goes on with what it had claimed.
        for task in (await team.tasks.list()).tasks:
            if task.status == "in_progress" and owner_of(task, team.name) == self.member:
                self.desk.attempts[task.id] = task.facts.attempt
        self._here = True
        if not self._watches:
            await self._beat()

    async def tend(self) -> None:
        """Say that the member is there, and keep what is its own; or note that it is gone."""
        if not self._here or self._watches:
            return
        silent_s = anyio.current_time() - self._last_call_s
        if self._lasts_s is not None and not self._open and silent_s > self._lasts_s:
            await self.depart(f"it made no call for {round(silent_s / 60)} minutes")
            return
        try:
            await self._beat()
            await self._renew()
            if self._chair is not None:
                await self._chair.renew()
        except (NotFound, Conflict):
            # The team is gone, or another process leads it: the next request is told.
            self._stand_up()

    async def depart(self, why: str) -> None:
        """Go. It stays a member, its mail is kept, and what it has in progress for a while."""
        if not self._here or self._watches:
            return
        with suppress(BullpenError):
            await self._beat(state="stopped", detail=why)
            if self._chair is not None:
                await self._chair.leave()
        self._stand_up()

    async def withdraw(self) -> None:
        """Leave the team for good, as the member agreed to; its tasks are pending again."""
        why = self.desk.leaving
        if why is None:
            return
        team = self.desk.team
        await self.depart(why)
        if self.member != LEAD:
            await team.roster.remove(self.member, by=self.member)
        self._gone = why
        self._left()

    async def create_team(
        self, name: str, *, description: str | None, agent_type: str | None
    ) -> dict[str, str]:
        """Make a team and lead it. Its name is made one that can be a folder's.

        Raises:
            Refused: this member does not lead (not_lead), leads already (already_leads), or
                speaks for another team only (other_team).
            Conflict: there is one of that name.
        """
        folder = names.team_folder(name.strip())
        if self.member != LEAD:
            raise Refused(f"{self.member!r} is no lead.", reason="not_lead", remedy="Ask the lead.")
        await self._refuse_leading()
        if self._speaks_for not in (None, folder):
            raise Refused(
                f"This connection speaks for team {self._speaks_for!r} only, not for {folder!r}.",
                reason="other_team",
                remedy=f"Name it {self._speaks_for!r}, or connect as the lead of another team.",
            )
        config = await self.office.teams.create(
            folder, description=description, cwd=self._cwd, agent_type=agent_type or LEAD, by=LEAD
        )
        self.team_name = folder
        await self.arrive()
        settings = self.office.settings
        path = Path(settings.home, "teams", folder, "config.json")
        return {
            "team_name": folder,
            # Where the teams are no files, there is nothing better to name than their store.
            "team_file_path": settings.store or str(path),
            "lead_agent_id": config.lead_agent_id or names.agent_id(LEAD, folder),
        }

    async def _refuse_leading(self) -> None:
        if not self.desk.is_bound:
            return
        with suppress(NotFound):
            led = await self.desk.team.agents.config()
            raise Refused(
                f"You lead team {led.name!r} already.",
                reason="already_leads",
                remedy="Delete it with TeamDelete first, when its work is done.",
            )
        self._stand_up()

    async def delete_team(self) -> tuple[str, list[str]]:
        """Delete the team that this member leads; its name, and what is to be said of its trees.

        Raises:
            Refused: it does not lead (not_lead), or members are at work (members_alive).
        """
        team = self.desk.team
        if self.member != LEAD:
            raise Refused(
                f"{self.member!r} does not lead team {team.name!r}.",
                reason="not_lead",
                remedy="Ask the lead.",
            )
        trees: list[TreeEnd] = []
        try:
            await self.office.delete_team(team.name, by=self.member, told=trees.append)
        except Refused as error:
            if error.reason == "members_alive":
                error.remedy = "Ask each to end with a shutdown_request, and wait for the answers."
            raise
        self._stand_up()
        self.team_name = self._speaks_for
        return team.name, [str(tree) for tree in trees]

    def _stand_up(self) -> None:
        self._here = False
        self._chair = None
        self.desk.colleagues = None
        self.notices.stop()
        self.desk.bind(None)

    async def _renew(self) -> None:
        """Keep the leases of what it has in progress, as a runner does for its agent."""
        now = anyio.current_time()
        if not self.desk.attempts or now - self._renewed_s < _RENEW_S:
            return
        self._renewed_s = now
        for task_id, attempt in list(self.desk.attempts.items()):
            try:
                await self.desk.team.tasks.renew(
                    task_id, by=self.member, attempt=attempt, lease_s=LEASE_S
                )
            except Refused:
                self.desk.attempts.pop(task_id, None)

    async def _beat(
        self, *, state: AgentState | None = None, detail: str = "connected by MCP"
    ) -> None:
        shown = state or self._state()
        if shown != self._shown[0]:
            self._shown = shown, now_ms()
        place = self._place
        await self.desk.team.agents.beat(
            Presence.new(
                agent=self.member,
                state=shown,
                since_ms=self._shown[1],
                beat_ms=now_ms(),
                ttl_ms=_TTL_MS,
                detail=detail,
                host=place.host,
                pid=place.pid,
                start=place.start,
                nonce=self._nonce,
            )
        )

    def _state(self) -> AgentState:
        if self.desk.waits_on is not None:
            return "waiting"
        return "working" if self.desk.attempts else "idle"
