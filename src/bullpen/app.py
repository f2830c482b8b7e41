"""The composition root: the only place that knows settings, the environment and the home."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bullpen.agents.backends.base import NONCE
from bullpen.agents.hosts.base import Hosts, OneMachine
from bullpen.agents.processes import host_name
from bullpen.errors import BullpenError, Invalid, NotFound, Refused, Unavailable
from bullpen.protocol.names import LEAD
from bullpen.store.base import Finding, Store
from bullpen.store.clock import Clock, now_ms
from bullpen.store.files.store import FileStore
from bullpen.team.checkup import checkup
from bullpen.team.ids import NewId, new_id
from bullpen.team.teams import Teams

HOME = "BULLPEN_HOME"
TEAM = "BULLPEN_TEAM"
AGENT = "BULLPEN_AGENT"
STORE = "BULLPEN_STORE"
CREDS = "BULLPEN_CREDS"
CA = "BULLPEN_CA"
HOST_TOKEN = "BULLPEN_HOST_TOKEN"  # noqa: S105 (the name of a variable)

FILES = "files:"
THROUGH_HOST = "host:"

Source = Literal["option", "environment", "default"]

_TEAMS_SHOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the teams live, which one is meant, who acts; and where each of these came from.

    The teams are files in the home unless `store` names another place: NATS servers, or the host
    process of this machine. What agents keep for themselves is in the home in any case.
    """

    home: Path
    team: str | None
    agent: str
    store: str | None = None
    creds: str | None = None
    ca: str | None = None
    host_token: str | None = field(default=None, repr=False)
    home_source: Source = "default"
    team_source: Source = "default"
    agent_source: Source = "default"


def settings_from(
    env: Mapping[str, str],
    *,
    home: str | Path | None = None,
    team: str | None = None,
    agent: str | None = None,
    store: str | None = None,
) -> Settings:
    """The settings: options first, then the environment, then the defaults.

    An empty value counts as none. A process that was started as an agent, or by one, speaks as
    that agent only.

    Raises:
        Refused: an agent would speak as somebody else (other_identity).
    """
    home_text, home_source = _chosen(str(home) if home is not None else None, env.get(HOME))
    team_text, team_source = _chosen(team, env.get(TEAM))
    agent_text, agent_source = _chosen(agent, env.get(AGENT))
    if env.get(NONCE) and env.get(AGENT) and agent_text != env[AGENT]:
        raise Refused(
            f"This process belongs to agent {env[AGENT]!r} and cannot act as {agent_text!r}.",
            reason="other_identity",
            remedy=f"Leave --as out: you are {env[AGENT]}.",
        )
    return Settings(
        home=_home(home_text or "~/.bullpen", env),
        team=team_text,
        agent=agent_text or LEAD,
        home_source=home_source,
        team_source=team_source,
        agent_source=agent_source,
        store=_chosen(store, env.get(STORE))[0],
        creds=env.get(CREDS) or None,
        ca=env.get(CA) or None,
        host_token=env.get(HOST_TOKEN) or None,
    )


def _chosen(option: str | None, variable: str | None) -> tuple[str | None, Source]:
    if option:
        return option, "option"
    if variable:
        return variable, "environment"
    return None, "default"


def _home(text: str, env: Mapping[str, str]) -> Path:
    path = Path(text)
    if path.parts[:1] == ("~",) and env.get("HOME"):
        return Path(env["HOME"]).joinpath(*path.parts[1:])
    try:
        return path.expanduser()
    except RuntimeError:
        raise Invalid(
            f"{text!r} names no directory: whose home it is in is not known.",
            remedy=f"Name one with --home, or in {HOME}.",
        ) from None


def open_teams(
    settings: Settings | None = None, *, clock: Clock = now_ms, new_id: NewId = new_id
) -> Teams:
    """All teams in the home, ready to be used; nothing is read yet. Close them when done.

    Without settings the home is the one that the command line would use.
    """
    settings = settings or settings_from(os.environ)
    return Teams(open_store(settings), clock=clock, new_id=new_id)


def open_store(settings: Settings) -> Store:
    """The store that the settings mean; nothing is read or connected yet. Close it when done.

    Raises:
        Invalid: they name no store.
        Unavailable: what it needs is not installed.
    """
    return open_store_at(settings.store or f"{FILES}{settings.home}", settings)


def open_store_at(url: str, settings: Settings) -> Store:
    """The store of that name, with the credentials of the settings. Raises as `open_store`."""
    if url.startswith(FILES) and url != FILES:
        return FileStore(_home(url.removeprefix(FILES), {}))
    if url.startswith(THROUGH_HOST) and url != THROUGH_HOST:
        # Only those who use it pay for its import, here and below.
        from bullpen.store.hosted.client import HostedStore
        from bullpen.store.hosted.place import operator_token

        path = url.removeprefix(THROUGH_HOST)
        return HostedStore(path, settings.host_token or operator_token(path))
    if not is_nats(url):
        raise Invalid(
            f"{url!r} names no store.",
            remedy="Write nats://HOST:4222, tls://HOST:4222, host:SOCKET or files:DIR.",
        )
    try:
        from bullpen.store.nats.connection import Endpoint
        from bullpen.store.nats.store import NatsStore
    except ImportError as error:
        raise Unavailable(
            f"Teams on NATS need a library that is not installed ({error.name}).",
            remedy="Install it: pip install 'bullpen[nats]'",
        ) from None
    endpoint = Endpoint.parse(url, creds=settings.creds, ca=settings.ca)
    return NatsStore(endpoint, host=host_name())


def is_nats(url: str | None) -> bool:
    """Whether a store is on NATS servers."""
    return (url or "").startswith(("nats://", "tls://"))


def store_variables(settings: Settings) -> dict[str, str]:
    """The environment by which other processes find the same store. No secrets are in it."""
    stated = {STORE: settings.store, CREDS: settings.creds, CA: settings.ca}
    return {name: value for name, value in stated.items() if value}


def place_of(settings: Settings) -> str:
    """Where the teams live, for people."""
    return settings.store or str(settings.home)


async def resolve_team(teams: Teams, settings: Settings) -> str:
    """The team that was named, or the only one there is.

    Raises:
        NotFound: none was named and there is none.
        Refused: none was named and there are several (several_teams).
    """
    if settings.team is not None:
        return settings.team
    names = await teams.names()
    if not names:
        raise NotFound(
            f"There is no team in {place_of(settings)}.",
            remedy="Create one: bullpen team create NAME",
        )
    if len(names) > 1:
        more = len(names) - _TEAMS_SHOWN_MAX
        shown = ", ".join(names[:_TEAMS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        raise Refused(
            f"There are several teams in {place_of(settings)}: {shown}.",
            reason="several_teams",
            remedy=f"Say which with --team NAME, or set {TEAM}.",
        )
    return names[0]


def open_hosts(store: Store, settings: Settings) -> Hosts:
    """How to reach the other machines of the teams in a store, and who starts agents here."""
    url, variables = settings.store or "", store_variables(settings)
    if url.startswith(THROUGH_HOST):
        from bullpen.agents.hosts.through import ThroughHost
        from bullpen.store.hosted.client import HostedStore

        assert isinstance(store, HostedStore)
        return ThroughHost(store, variables)
    if is_nats(url):
        from bullpen.agents.hosts.over_nats import NatsHosts
        from bullpen.store.nats.store import NatsStore

        assert isinstance(store, NatsStore)
        return NatsHosts(store.link, variables, home=settings.home)
    return OneMachine(variables)


async def doctor(settings: Settings, team: str | None, fix: bool) -> list[Finding]:
    """Look for damage in one team or, with None, in all and in what belongs to none.

    Files are mended before records. A team that cannot be examined is a finding of its own.
    """
    async with aclosing(open_store(settings)) as store:
        if team is not None:
            return await _examined(store, team, fix=fix, by=settings.agent)
        findings = await store.checkup(None, fix=fix)
        for name in await store.teams():
            try:
                findings += await _examined(store, name, fix=fix, by=settings.agent)
            except NotFound:
                # Deleted since the names were read.
                continue
            except (Invalid, Unavailable) as error:
                findings.append(_unusable(name, error))
        return findings


async def _examined(store: Store, team: str, *, fix: bool, by: str) -> list[Finding]:
    findings = await store.checkup(team, fix=fix)
    try:
        findings += await checkup(store, team, fix=fix, by=by)
    except Unavailable as error:
        findings.append(_unusable(team, error))
    return findings


def _unusable(team: str, error: BullpenError) -> Finding:
    return Finding("unusable", f"teams/{team}", error.message, action=error.remedy)
