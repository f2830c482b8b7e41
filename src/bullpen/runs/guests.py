"""Runs Bullpen agents in the teams of Claude Code: `bullpen join` and `bullpen bridge`.

The home of such a team is Claude Code's configuration directory, and its lead is Claude Code. A
Bullpen agent is a guest there: its requests go to the lead as messages, and it leaves the team when
it ends.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict, ValidationError

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.system import processes
from bullpen.agents.system.transcript import rows
from bullpen.agents.work.until_stored import stored
from bullpen.app.app import App
from bullpen.errors import BullpenError, Invalid, NotFound, Refused, Unavailable, Unreadable
from bullpen.protocol.agent import GUEST, AgentSpec
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification
from bullpen.protocol.policy import MODES, Policy
from bullpen.protocol.team import Member, TeamConfig
from bullpen.team.operation.commit import new_id
from bullpen.team.team import Teams

CONFIG_DIR = "CLAUDE_CONFIG_DIR"
"""The variable that names Claude Code's configuration directory; without it, `~/.claude`."""

ASKS_THE_LEAD = {"approver": "inbox", "planApprover": "inbox"}
"""The default policy of a guest: the lead answers its requests."""

BRIDGE_DRIVER = "BULLPEN_BRIDGE_DRIVER"
BRIDGE_FILE = "bridge.toml"

_LOOK_S = 0.5
_LAST_WORD_S = 10.0
_GRACE_S = 5.0
_ROW_S = 10.0
# The backends of teammates that a lead started itself.
_ITS_OWN = ("in-process", "tmux", "iterm2")


@dataclass(frozen=True, slots=True)
class ClaudeSession:
    """A session of Claude Code that leads a team.

    `alive` is None if its process is unknown or on another machine. `hears` is False if its lead
    does not read mail now.
    """

    team: str
    session_id: str
    cwd: str | None
    began_ms: float | None
    alive: bool | None
    hears: bool


@dataclass(frozen=True, slots=True)
class Left:
    """How and why a guest left the team."""

    name: str
    end: str
    cause: str


async def sessions(teams: Teams) -> list[ClaudeSession]:
    """Return the sessions that lead a team in this home, the newest first."""
    found = []
    for name in await teams.names():
        try:
            config = await teams.open(name).agents.config()
        except (NotFound, Unavailable):
            # It has ended meanwhile, or a program without locks is writing it.
            continue
        session = _session(name, config)
        if session is not None:
            found.append(session)
    return sorted(found, key=lambda session: session.began_ms or 0, reverse=True)


def _session(team: str, config: TeamConfig) -> ClaudeSession | None:
    lead = next((member for member in config.roster if member.is_lead), None)
    if lead is None or lead.agent is not None or not config.lead_session_id:
        return None
    return ClaudeSession(
        team,
        config.lead_session_id,
        lead.cwd,
        config.created_at,
        _is_alive(config.lead_process),
        hears(config),
    )


def _is_alive(process: Mapping[str, Any] | None) -> bool | None:
    """Return whether the process of a lead runs; None if unknown."""
    pid = process.get("pid") if process is not None else None
    if (
        process is None
        or not isinstance(pid, int)
        or process.get("pidSpace") not in (None, _here())
    ):
        return None
    start = processes.start_of(pid)
    if start is None:
        return False
    # On other systems, Claude Code writes start times in another format.
    return sys.platform != "linux" or start.partition("-")[0] == str(process.get("procStart"))


def _here() -> str:
    """Return the pid namespace of this process, in the format of Claude Code."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return processes.host_name()
    return f"{processes.host_name()}#{space}"


def hears(config: TeamConfig) -> bool:
    """Return whether the lead reads its mail.

    Versions that record their process read it only while they have a teammate of their own.
    """
    return config.lead_process is None or any(map(_is_its_own, config.roster))


def _is_its_own(member: Member) -> bool:
    return not member.is_lead and member.backend_type in _ITS_OWN


def chosen(found: Sequence[ClaudeSession], wanted: str | None, *, home: Path) -> ClaudeSession:
    """Return the session with this team or id, or whose id starts with it.

    Without a name, it is the one that runs; if none is known to run, the newest.

    Raises:
        NotFound: there is no such session.
        Refused: several match (several_sessions); the text lists them.
    """
    if wanted is not None:
        meant = [each for each in found if each.team == wanted]
        meant = meant or [each for each in found if each.session_id.startswith(wanted)]
        if not meant:
            there = ", ".join(each.team for each in found) or "none"
            raise NotFound(
                f"There is no session {wanted!r} in {home}.", remedy=f"Choose one of: {there}."
            )
    else:
        running = [each for each in found if each.alive]
        meant = running or [each for each in found if each.alive is None][:1] or list(found[:1])
    if not meant:
        raise NotFound(
            f"No Claude Code session leads a team in {home}.",
            remedy="Start `claude` with CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1, or set its"
            f" configuration directory with --home or {CONFIG_DIR}.",
        )
    if len(meant) > 1:
        listed = "; ".join(_described(each) for each in meant)
        raise Refused(
            f"Several sessions match: {listed}.",
            reason="several_sessions",
            remedy="Choose one with --claude SESSION: its team, its id, or the start of its id.",
        )
    return meant[0]


def _described(session: ClaudeSession) -> str:
    words = f"{session.team} in {session.cwd or 'an unknown directory'}"
    if session.began_ms is None:
        return words
    minutes = max(0, round((now_ms() - session.began_ms) / 60_000))
    return f"{words}, {minutes} min old"


def warnings(session: ClaudeSession, name: str) -> list[str]:
    """Return what to know before an agent joins this session."""
    told = []
    if session.alive is not True:
        known = "may not be running" if session.alive is None else "is not running"
        told.append(f"the lead of {session.team} {known}: {name} may never get a message from it.")
    if not session.hears:
        told.append(
            "the lead reads its mail only while it has a teammate that it started itself, and it"
            f" has none: messages of {name} wait until then. Tell it, for example: Start a teammate"
            " named keeper that waits for messages."
        )
    return told


def as_guest(spec: AgentSpec) -> AgentSpec:
    """Return the spec of an agent in the team of another program."""
    return spec.evolve(options={**spec.options, GUEST: True})


async def enter(
    app: App, team: str, name: str, spec: AgentSpec, *, ready_s: float | None = None
) -> Spawned:
    """Start an agent in the team of a session. Returns when it can receive mail.

    By default, its driver decides how long that may take.

    Raises:
        StartFailed: it did not become ready; nothing was left running.
        Conflict: the name is taken.
    """
    return await app.supervisor(team).spawn(name, as_guest(spec), by=LEAD, ready_s=ready_s)


async def stay(app: App, team_name: str, name: str) -> Left:
    """Wait until a guest has left and its processes have ended. Returns how it left.

    Raises:
        NotFound: there is no such agent.
        Unavailable: one of its processes cannot be stopped.
    """
    team, supervisor = app.teams.open(team_name), app.supervisor(team_name)
    _, agent = await team.agents.get(name)
    transcript = await supervisor.transcript(name)
    cause = None
    while True:
        try:
            _, now = await team.agents.get(name)
            if now.nonce != agent.nonce or now.phase == "ended":
                break
            agent = now
            if name in await supervisor.tend(by=LEAD):
                cause = "its process is gone"
        except NotFound:
            break
        except Unavailable:
            # A program without locks is writing the file.
            pass
        await anyio.sleep(_LOOK_S)
    if cause is not None:
        return Left(name, "lost", cause)
    left = Left(name, *await _last_word(transcript, agent.began_ms or 0))
    if agent.process is not None:
        place = agent.process
        await processes.end(place.pid, place.start, place.group, agent.nonce, _GRACE_S)
    return left


async def _last_word(transcript: Path, began_ms: int) -> tuple[str, str]:
    """Return how an agent ended, and why. It records that a moment after it has left.

    An earlier agent of the same name used the same transcript.
    """
    began = iso(began_ms)
    with anyio.move_on_after(_LAST_WORD_S):
        while True:
            with suppress(OSError):
                for row in rows(transcript):
                    if row.get("kind") == "ended" and row.get("time", "") >= began:
                        return row.get("end", "stopped"), row.get("cause") or "it gave no cause"
            await anyio.sleep(_LOOK_S)
    return "lost", "it did not say why"


async def leave(app: App, team: str, name: str, *, reason: str) -> Left:
    """Stop a guest, so that it leaves the team. It may have left before."""
    try:
        stopped = await app.supervisor(team).stop(name, by=LEAD, reason=reason)
    except NotFound:
        return Left(name, "stopped", "it had left before")
    return Left(name, stopped.end, reason)


# The bridge: Claude Code starts a teammate, and a Bullpen agent takes its place.


@dataclass(frozen=True, slots=True)
class GuestClaim:
    """The member that Claude Code starts a process for, from the command line."""

    name: str
    team: str
    plans: bool = False
    mode: str | None = None
    model: str | None = None
    # Options that mean nothing to a Bullpen agent.
    ignored: tuple[str, ...] = field(default=())


_UNUSED = ("agent-id", "agent-color", "parent-session-id", "lead-verify-key", "agent-type")


def claim_of(words: Sequence[str]) -> GuestClaim:
    """Return which teammate this process is, from its command line. Raises Invalid."""
    said, ignored = _flags(words)
    name, _, team = said.get("agent-id", "").rpartition("@")
    name, team = said.get("agent-name") or name, said.get("team-name") or team
    if not name or not team:
        raise Invalid(
            "The options --agent-name and --team-name are missing.",
            remedy="Let Claude Code start it: CLAUDE_CODE_TEAMMATE_COMMAND=$(which bullpen-bridge)",
        )
    mode = said.get("permission-mode")
    kind = said.get("agent-type", "general-purpose")
    if kind != "general-purpose":
        ignored.append(f"--agent-type {kind}")
    if mode not in (None, *MODES):
        ignored.append(f"--permission-mode {mode}")
        mode = None
    plans = "plan-mode-required" in said or mode == "plan"
    return GuestClaim(name, team, plans, mode, said.get("model"), tuple(ignored))


def _flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the known flags with their values, and the unknown ones."""
    valued = (*_UNUSED, "agent-name", "team-name", "permission-mode", "model")
    said: dict[str, str] = {}
    ignored: list[str] = []
    rest = list(words)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        flag = word.removeprefix("--")
        if word.startswith("--") and flag in valued:
            said[flag] = value if equals else rest.pop(0) if rest else ""
        elif word == "--plan-mode-required":
            said[flag] = ""
        else:
            # It may have a value; no value of Claude Code begins like a flag.
            with_value = rest and not equals and not rest[0].startswith("--")
            ignored.append(f"{word} {rest.pop(0)}" if with_value else word)
    return said, ignored


class Bridge(BaseModel):
    """`bridge.toml`: what to run in place of the teammates that Claude Code starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    driver: str = "native"
    model: str | None = None
    mode: str | None = None
    # The command of another vendor's program; the script of the scripted driver.
    command: list[str] | None = None
    script: str | None = None
    claims: bool = False
    env: list[str] = []

    def request(self, claim: GuestClaim, *, cwd: str) -> SpawnRequest:
        """Return what to start in place of a teammate. The lead alone decides about plan mode."""
        return SpawnRequest(
            cwd=cwd,
            driver=self.driver,
            model=self.model or (claim.model if self.driver == "native" else None),
            mode="plan" if claim.plans else self.mode or claim.mode,
            script=self.script,
            command=self.command,
            claims=self.claims,
            env=self.env,
            policy=Policy.parse(ASKS_THE_LEAD),
        )


def read_bridge(home: Path, environ: Mapping[str, str]) -> Bridge:
    """Read the file in a home; a driver in the environment overrides it. Raises Unreadable."""
    path = home / BRIDGE_FILE
    try:
        said = tomllib.loads(path.read_text("utf-8"))
        if driver := environ.get(BRIDGE_DRIVER):
            said["driver"] = driver
        return Bridge.model_validate(said)
    except FileNotFoundError:
        return Bridge(driver=environ.get(BRIDGE_DRIVER) or "native")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = f"{where}: {first['msg']}"
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = str(error)
    raise Unreadable(str(path), why, remedy="Fix it, or delete it to use the native driver.")


async def take_place(app: App, claim: GuestClaim, bridge: Bridge, *, cwd: str) -> Launch:
    """Register a Bullpen agent in place of the member of a claim.

    This process becomes the agent by executing the launch. If that fails, the lead gets a message.

    Raises:
        NotFound: the lead has not added such a member.
        Conflict: another Bullpen agent has the place.
    """
    await _added(app, claim)
    try:
        spec = await app.resolve(bridge.request(claim, cwd=cwd))
        return await app.supervisor(claim.team).starter.take_place(
            claim.name, as_guest(spec), by=LEAD
        )
    except BullpenError as error:
        await _tell_lead(app, claim, str(error))
        raise


async def _added(app: App, claim: GuestClaim) -> None:
    """Wait until the lead has added the member, and its pane.

    Versions without a lock on the file would overwrite what is added before that.
    """
    team = app.teams.open(claim.team)
    until = anyio.current_time() + _ROW_S
    while True:
        try:
            member = await team.roster.get(claim.name)
            if member.tmux_pane_id or anyio.current_time() > until:
                return
        except (NotFound, Unavailable):
            if anyio.current_time() > until:
                raise
        await anyio.sleep(_LOOK_S / 5)


async def _tell_lead(app: App, claim: GuestClaim, why: str) -> None:
    """Tell the lead in the member's name that it did not start."""
    failed = IdleNotification.new(
        sender=claim.name, timestamp=iso(now_ms()), idle_reason="failed", failure_reason=why
    )
    with suppress(BullpenError):
        mailbox, key = app.teams.open(claim.team).mailbox, new_id()
        await stored(lambda: mailbox.send(LEAD, failed.text(), sender=claim.name, key=key))
