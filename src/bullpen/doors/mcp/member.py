"""One member connected through MCP: it joins, sends heartbeats and leaves."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio

from bullpen.agents.contracts.desk import TeamDesk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.runner.lead_lease import LeadHold
from bullpen.agents.system import processes
from bullpen.agents.tools.own_team import ends_agreed_to, second_team
from bullpen.agents.tools.task_tools import LEASE_S
from bullpen.agents.work.tree_cleanup import TreeEnd
from bullpen.app.app import App
from bullpen.doors.mcp.change_notices import ChangeNotices
from bullpen.doors.mcp.colleagues import LeadColleagues
from bullpen.doors.mcp.desk import MemberDesk
from bullpen.doors.mcp.identity import refuse_driven
from bullpen.doors.mcp.member_tools import ToolSet, tools_of
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.protocol import names
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import AgentState, Presence
from bullpen.protocol.team import TeamConfig
from bullpen.team.lookup import member_of, owner_of
from bullpen.team.team import Team

BEAT_S = 5.0
"""How often each connected member sends a heartbeat."""

_TTL_MS = 20_000
_RENEW_S = 30.0


class ConnectedMember:
    """A member whose program calls our server, from its first request to its last.

    `team` is the team that its identity is bound to; None if it may create any. `lasts_s` is how
    long it counts as connected after its last call; None for as long as this process runs.
    """

    def __init__(
        self,
        app: App,
        member: str,
        *,
        team: str | None,
        cwd: str,
        tool_set: ToolSet,
        lasts_s: float | None = None,
        warn: Callable[[str], object] = lambda _: None,
        left: Callable[[], object] = lambda: None,
    ) -> None:
        self.app = app
        self.member = member
        self.team_name = team
        self._speaks_for = team
        self._cwd = cwd
        # A member that only reads leaves no trace: no roster entry, no heartbeat, no lead lease.
        self._watches = tool_set == "read-only"
        self._lasts_s = lasts_s
        self._left = left
        self.desk = MemberDesk(
            member,
            cwd=cwd,
            home=app.settings.home,
            env=dict(os.environ),
            marks=not self._watches,
            warn=warn,
        )
        self.notices = ChangeNotices(self.desk)
        self._tool_set = tool_set
        self._arriving = anyio.Lock()
        self._here = False
        self._gone: str | None = None
        self._nonce = str(uuid.uuid4())
        self._place = processes.this_process("none", group=None)
        self._lead_hold: LeadHold | None = None
        self._open = 0
        self._last_call_s = anyio.current_time()
        self._renewed_s = 0.0
        self._shown: tuple[AgentState, int] = ("idle", now_ms())

    @property
    def tools(self) -> Sequence[Tool[TeamDesk]]:
        """The tools that this member has."""
        return tools_of(self, self._tool_set, leads=self.desk.is_lead)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While a request of this member is being answered, the member counts as connected."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self._last_call_s = anyio.current_time()

    async def arrive(self) -> None:
        """Connect the member to its team, at the program's first request.

        Raises:
            Refused: an agent that we run has this name (driven), or the member has left (left).
            Conflict: another process leads the team.
            NotFound: there is no such team, and only the lead could create it.
        """
        if self._gone is not None:
            raise Refused(
                f"{self.member!r} has left the team: it {self._gone}.",
                reason="left",
                remedy="Connect again to rejoin the team.",
            )
        async with self._arriving:
            if self._here:
                return
            found = await self.check()
            if found is not None:
                await self._join(*found)

    async def check(self) -> tuple[Team, TeamConfig] | None:
        """The team that the member can join now; None if there is none yet. Changes nothing.

        Raises:
            Refused, NotFound: as `arrive` does.
            Invalid: it is not a valid name for a member.
        """
        if self.team_name is None:
            return None
        team = self.app.teams.open(self.team_name)
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

    async def _join(self, team: Team, config: TeamConfig) -> None:
        if not self._watches:
            if config.member(self.member) is None:
                await team.roster.join(self.member, by=self.member, cwd=self._cwd)
            if self.member == LEAD:
                self._lead_hold = LeadHold(team, nonce=self._nonce, place=self._place, clock=now_ms)
                await self._lead_hold.take()
        self.desk.bind(team)
        if self.member == LEAD and not self._watches:
            self.desk.colleagues = LeadColleagues(
                self.app, team.name, agent=self.member, cwd=self._cwd
            )
        # A restarted client keeps the tasks it had claimed.
        for task in (await team.tasks.list()).tasks:
            if task.status == "in_progress" and owner_of(task, team.name) == self.member:
                self.desk.attempts[task.id] = task.facts.attempt
        self._here = True
        if not self._watches:
            await self._beat()

    async def tend(self) -> None:
        """Send a heartbeat and renew leases; disconnect the member after a long silence."""
        if not self._here or self._watches:
            return
        silent_s = anyio.current_time() - self._last_call_s
        if self._lasts_s is not None and not self._open and silent_s > self._lasts_s:
            await self.depart(f"it made no call for {round(silent_s / 60)} minutes")
            return
        try:
            await self._beat()
            await self._renew()
            if self._lead_hold is not None:
                await self._lead_hold.renew()
        except (NotFound, Conflict):
            # The team was deleted, or another process leads it: the next request gets the error.
            self._disconnect()

    async def depart(self, why: str) -> None:
        """Disconnect. It stays a member and keeps its mail, and its claims until they expire."""
        if not self._here or self._watches:
            return
        with suppress(BullpenError):
            await self._beat(state="stopped", detail=why)
            if self._lead_hold is not None:
                await self._lead_hold.leave()
        self._disconnect()

    async def withdraw(self) -> None:
        """Leave the team for good after an approved shutdown; its tasks become pending again."""
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
        """Create a team and lead it. Its name is changed so that it can be a folder name.

        Raises:
            Refused: this member is not the lead (not_lead), already leads a team (already_leads),
                or is bound to another team (other_team).
            Conflict: a team of that name exists.
        """
        folder = names.team_folder(name.strip())
        if self.member != LEAD:
            raise Refused(
                f"{self.member!r} is not a lead.", reason="not_lead", remedy="Ask the lead."
            )
        await self._refuse_leading()
        if self._speaks_for not in (None, folder):
            raise Refused(
                f"Your connection is for team {self._speaks_for!r} only, not for {folder!r}.",
                reason="other_team",
                remedy=f"Name it {self._speaks_for!r}, or connect as the lead of another team.",
            )
        config = await self.app.teams.create(
            folder, description=description, cwd=self._cwd, agent_type=agent_type or LEAD, by=LEAD
        )
        self.team_name = folder
        await self.arrive()
        settings = self.app.settings
        path = Path(settings.home, "teams", folder, "config.json")
        return {
            "team_name": folder,
            # Teams that are not kept as files have no path: name their store.
            "team_file_path": settings.store or str(path),
            "lead_agent_id": config.lead_agent_id or names.agent_id(LEAD, folder),
        }

    async def _refuse_leading(self) -> None:
        if not self.desk.is_bound:
            return
        with suppress(NotFound):
            led = await self.desk.team.agents.config()
            remedy = "Delete that team with TeamDelete when its work is done."
            raise second_team(led.name, remedy)
        self._disconnect()

    async def delete_team(self) -> tuple[str, list[str]]:
        """Delete the team that this member leads. Returns its name and notes on its worktrees.

        Raises:
            Refused: the member does not lead (not_lead), or members are running (members_alive).
        """
        team = self.desk.team
        if self.member != LEAD:
            raise Refused(
                f"{self.member!r} does not lead team {team.name!r}.",
                reason="not_lead",
                remedy="Ask the lead.",
            )
        await ends_agreed_to(team)
        trees: list[TreeEnd] = []
        try:
            await self.app.delete_team(team.name, by=self.member, told=trees.append)
        except Refused as error:
            if error.reason == "members_alive":
                error.remedy = "Send each a shutdown_request and wait for the answers."
            raise
        self._disconnect()
        self.team_name = self._speaks_for
        return team.name, [str(tree) for tree in trees]

    def _disconnect(self) -> None:
        self._here = False
        self._lead_hold = None
        self.desk.colleagues = None
        self.notices.stop()
        self.desk.bind(None)

    async def _renew(self) -> None:
        """Renew the leases of its claimed tasks, as a runner does for its agent."""
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
        self, *, state: AgentState | None = None, detail: str = "connected through MCP"
    ) -> None:
        shown = state or self._state()
        if shown != self._shown[0]:
            self._shown = shown, now_ms()
        place = self._place
        with suppress(Unavailable):
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
