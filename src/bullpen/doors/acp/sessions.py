"""The sessions of one client: one team each."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass

from anyio import to_thread
from anyio.abc import TaskGroup

from bullpen.agents.runner.duties import UNTIL_DONE
from bullpen.agents.runner.lead_lease import holder_is_gone
from bullpen.app.app import App
from bullpen.doors.acp.client_servers import KnownServers, known_servers
from bullpen.doors.acp.session import TeamSession
from bullpen.doors.acp.team_start import (
    TeamStart,
    check_offered,
    first_mode,
    offered_modes,
)
from bullpen.doors.acp.updates import Client, ClientServer, StopReason
from bullpen.doors.actions.identity import KnownPerson
from bullpen.errors import BullpenError, Conflict, Invalid, NotFound
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD, name_by_time
from bullpen.protocol.team import TeamConfig

_LISTED_MAX = 100

ClientOf = Callable[[str], Client]
Mode = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Opened:
    """A session as its client is told of it: modes are id, name and what each means."""

    session: str
    mode: str
    modes: Sequence[Mode]


class Sessions:
    """Every session of this process, by its id, which is the name of its team."""

    def __init__(
        self,
        app: App,
        start: TeamStart,
        identity: KnownPerson,
        group: TaskGroup,
        environ: MutableMapping[str, str] = os.environ,
    ) -> None:
        """`environ` is what the team's agents get variables from."""
        self._app = app
        self._start = start
        self._identity = identity
        self._group = group
        self._environ = environ
        self._open: dict[str, TeamSession] = {}
        self._modes: dict[str, list[Mode]] = {}

    async def new(self, cwd: str, servers: Sequence[ClientServer], client_of: ClientOf) -> Opened:
        """Open a session in a directory. Its team is created with the first prompt.

        Raises:
            Invalid: there is no such directory, or an MCP server cannot be used.
        """
        folder = _directory(cwd)
        name = f"{name_by_time('acp', now_ms())}-{secrets.token_hex(3)}"
        settings = await to_thread.run_sync(self._app.files.settings, folder)
        mode = first_mode(self._start, settings)
        self._modes[name] = offered_modes(mode, settings)
        known = self._servers(servers, name)
        session = self._session(name, folder, mode, known, client_of)
        if servers and self._start.driver != "native":
            session.notes.append(
                f"The MCP servers of your editor are not used: the lead's driver is"
                f" {self._start.driver}. Configure them in that program."
            )
        return Opened(name, mode, self._modes[name])

    async def load(
        self,
        name: str,
        cwd: str,
        servers: Sequence[ClientServer],
        client_of: ClientOf,
        *,
        replay: bool,
    ) -> Opened:
        """Take up the conversation with the lead of a team that exists.

        Raises:
            NotFound: there is no such team, or nobody can talk with its lead.
            Invalid: it works in another directory.
            Conflict: another process runs it.
        """
        config, lead = await self._led(name)
        folder = _directory(cwd)
        if not _same(lead.spec.cwd, folder):
            raise Invalid(
                f"The team {name} works in {lead.spec.cwd}, not in {folder}.",
                remedy="Open the session in that directory.",
            )
        known = self._servers(servers, name)
        session = self._open.get(name)
        if session is None:
            await self._refuse_running(name)
            settings = await to_thread.run_sync(self._app.files.settings, folder)
            self._modes[name] = offered_modes(first_mode(self._start, settings), settings)
            session = self._session(name, folder, lead.mode, known, client_of)
        client = client_of(name)
        await (session.replay(client, known) if replay else session.skip(client, known))
        return Opened(config.name, session.mode, self._modes[name])

    async def listed(self, cwd: str | None) -> list[tuple[str, str, str]]:
        """Teams that can be loaded: name, directory and goal; the newest first."""
        found: list[tuple[float, tuple[str, str, str]]] = []
        for name in await self._app.teams.names():
            try:
                config, lead = await self._led(name)
            except BullpenError:
                # Nobody talks with its lead, or it was deleted since.
                continue
            if cwd is None or _same(lead.spec.cwd, cwd):
                about = (name, lead.spec.cwd, config.description or name)
                found.append((config.created_at or 0, about))
        return [about for _, about in sorted(found, reverse=True)[:_LISTED_MAX]]

    async def prompt(self, name: str, text: str) -> StopReason:
        """Give the lead of a session words. Raises as `TeamSession.prompt`."""
        return await self._known(name).prompt(text)

    async def cancel(self, name: str) -> None:
        """End the prompt of a session."""
        await self._known(name).cancel()

    async def set_mode(self, name: str, mode: str) -> None:
        """Change the mode of a session's lead, to one that was offered."""
        session = self._known(name)
        check_offered(mode, self._modes[name])
        await session.set_mode(mode)

    async def close(self, name: str) -> None:
        """Stop the team of a session; it can be loaded again."""
        await self._known(name).close()
        del self._open[name]

    def _known(self, name: str) -> TeamSession:
        if name not in self._open:
            raise NotFound(
                f"There is no open session {name!r}.", remedy="Open a new one, or load it."
            )
        return self._open[name]

    def _session(
        self, name: str, cwd: str, mode: str, known: KnownServers, client_of: ClientOf
    ) -> TeamSession:
        session = TeamSession(
            self._app,
            name,
            cwd=cwd,
            start=self._start,
            servers=known,
            mode=mode,
            client=client_of(name),
            identity=self._identity,
            group=self._group,
        )
        self._open[name] = session
        return session

    def _servers(self, servers: Sequence[ClientServer], name: str) -> KnownServers:
        known = known_servers(servers, session=name)
        self._environ.update(known.variables)
        return known

    async def _led(self, name: str) -> tuple[TeamConfig, AgentFacts]:
        """A team with its lead, which works until a goal is reached. Raises NotFound."""
        config = await self._app.teams.open(name).agents.config()
        member = config.member(LEAD)
        lead = None if member is None else member.agent
        if lead is None or not lead.spec.options.get(UNTIL_DONE):
            raise NotFound(
                f"The team {name!r} has no lead to talk with.", remedy="Open a new session."
            )
        return config, lead

    async def _refuse_running(self, name: str) -> None:
        held = await self._app.teams.open(name).agents.leader()
        if held is None or held.pid == os.getpid() or holder_is_gone(held):
            return
        if held.until_ms > now_ms():
            raise Conflict(
                f"Process {held.pid} on {held.host} runs the team {name}.",
                remedy="End that process, then load the session again.",
            )


def _directory(cwd: str) -> str:
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise Invalid(
            f"{cwd!r} is not the absolute path of a directory.",
            remedy="Open the session in the directory of a project.",
        )
    return os.path.normpath(cwd)


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
