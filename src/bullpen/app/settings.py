"""Settings: where the teams are stored, which team is meant, and who acts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bullpen.agents.contracts.backend import NONCE
from bullpen.errors import Invalid, Refused
from bullpen.protocol.names import LEAD

HOME = "BULLPEN_HOME"
TEAM = "BULLPEN_TEAM"
AGENT = "BULLPEN_AGENT"
STORE = "BULLPEN_STORE"
CREDS = "BULLPEN_CREDS"
CA = "BULLPEN_CA"
HOST_TOKEN = "BULLPEN_HOST_TOKEN"  # noqa: S105 (the name of a variable)

Source = Literal["option", "environment", "default"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the teams are stored, which one is meant, who acts; and the source of each setting.

    The teams are files in the home, unless `store` names NATS servers or the host process of this
    machine. Agents always keep their own files in the home.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "home", _absolute(self.home))


def settings_from(
    env: Mapping[str, str],
    *,
    home: str | Path | None = None,
    team: str | None = None,
    agent: str | None = None,
    store: str | None = None,
) -> Settings:
    """Return the settings: options first, then the environment, then the defaults.

    Empty values are ignored. A process of an agent acts only as that agent.

    Raises:
        Refused: an agent would act as somebody else (other_identity).
    """
    home_text, home_source = _chosen(None if home is None else str(home), env.get(HOME))
    team_text, team_source = _chosen(team, env.get(TEAM))
    agent_text, agent_source = _chosen(agent, env.get(AGENT))
    if env.get(NONCE) and env.get(AGENT) and agent_text != env[AGENT]:
        raise Refused(
            f"Agent {env[AGENT]!r} cannot act as {agent_text!r}.",
            reason="other_identity",
            remedy=f"Omit --as: you are {env[AGENT]}.",
        )
    return Settings(
        home=home_path(home_text or "~/.bullpen", env),
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


def settings_for(home: str | Path | None) -> Settings:
    """Return the settings that the command line would use, in this home if one is named."""
    return settings_from(os.environ, home=home)


def _chosen(option: str | None, variable: str | None) -> tuple[str | None, Source]:
    if option:
        return option, "option"
    if variable:
        return variable, "environment"
    return None, "default"


def _absolute(home: Path) -> Path:
    """Return the same folder for every directory. Raises Invalid."""
    try:
        return home.absolute()
    except FileNotFoundError:
        raise Invalid(
            f"{str(home)!r} cannot be found: the current directory was deleted.",
            remedy=f"Change to another directory, or use an absolute path for --home or {HOME}.",
        ) from None


def home_path(text: str, env: Mapping[str, str]) -> Path:
    """Return the directory that a text names, with `~` from the environment. Raises Invalid."""
    path = Path(text)
    if path.parts[:1] == ("~",) and env.get("HOME"):
        return Path(env["HOME"]).joinpath(*path.parts[1:])
    try:
        return path.expanduser()
    except RuntimeError:
        raise Invalid(
            f"{text!r} is not a directory: the home directory of that user is unknown.",
            remedy=f"Use --home or set {HOME}.",
        ) from None


def store_variables(settings: Settings) -> dict[str, str]:
    """Return the variables by which other processes find the same store, without secrets."""
    stated = {STORE: settings.store, CREDS: settings.creds, CA: settings.ca}
    return {name: value for name, value in stated.items() if value}


def place_of(settings: Settings) -> str:
    """Return where the teams are stored, for people."""
    return settings.store or str(settings.home)
