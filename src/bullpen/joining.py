"""Our agents in the teams of Claude Code: `bullpen join` and `bullpen bridge`.

The home of such a team is Claude Code's own configuration directory, and the lead is that program.
An agent of ours is a guest there: what it asks goes to the lead as messages, and when it ends it
leaves the team.
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

from bullpen.agents import processes
from bullpen.agents.backends.base import Launch
from bullpen.agents.launching import Spawned
from bullpen.agents.transcript import rows
from bullpen.errors import BullpenError, Invalid, NotFound, Refused, Unavailable, Unreadable
from bullpen.office import Office
from bullpen.protocol.agent import GUEST, AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification
from bullpen.protocol.policy import MODES, Policy
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.times import iso
from bullpen.store.clock import now_ms
from bullpen.team.teams import Teams

CONFIG_DIR = "CLAUDE_CONFIG_DIR"
"""The variable that names Claude Code's configuration directory; without it, `~/.claude`."""

ASKS_THE_LEAD = {"approver": "inbox", "planApprover": "inbox"}
"""The policy of a guest for whom nobody else was named: the lead's own program answers."""

BRIDGE_DRIVER = "BULLPEN_BRIDGE_DRIVER"
BRIDGE_FILE = "bridge.toml"

_LOOK_S = 0.5
_LAST_WORD_S = 10.0
_GRACE_S = 5.0
_ROW_S = 10.0
# Where the teammates that a lead started itself run.
_ITS_OWN = ("in-process", "tmux", "iterm2")


@dataclass(frozen=True, slots=True)
class ClaudeSession:
    """A session of Claude Code that leads a team.

    `alive` is None where the program does not say which process it is, or where only another
    machine could tell. `hears` is False if its lead does not read mail at the moment.
    """

    team: str
    session_id: str
    cwd: str | None
    began_ms: float | None
    alive: bool | None
    hears: bool


@dataclass(frozen=True, slots=True)
class Left:
    """How a guest came to leave the team."""

    name: str
    end: str
    cause: str


async def sessions(teams: Teams) -> list[ClaudeSession]:
    """The sessions whose teams lie in this home, the newest first. Ours are not among them."""
    found = []
    for name in await teams.names():
        try:
            config = await teams.open(name).agents.config()
        except (NotFound, Unavailable):
            # It has ended since, or it is being written by a program that knows no locks.
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
    """Whether the process of a lead runs; None if that cannot be known here."""
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
    # Elsewhere than on Linux the program writes starts in another form than the system tells us.
    return sys.platform != "linux" or start.partition("-")[0] == str(process.get("procStart"))


def _here() -> str:
    """The space in which pids are meant, in the words of Claude Code."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return processes.host_name()
    return f"{processes.host_name()}#{space}"


def hears(config: TeamConfig) -> bool:
    """Whether the lead reads its mail.

    Versions that name their process read it only while they have a teammate of their own.
    """
    return config.lead_process is None or any(map(_is_its_own, config.roster))


def _is_its_own(member: Member) -> bool:
    return not member.is_lead and member.backend_type in _ITS_OWN


def chosen(found: Sequence[ClaudeSession], wanted: str | None, *, home: Path) -> ClaudeSession:
    """The session that is meant: by its id, the beginning of that, or its team; else the only one.

    Only one that runs is meant without a name; if none is known to run, the newest.

    Raises:
        NotFound: there is none, or none like that.
        Refused: several could be meant (several_sessions); the text lists them.
    """
    if wanted is not None:
        meant = [each for each in found if each.team == wanted]
        meant = meant or [each for each in found if each.session_id.startswith(wanted)]
        if not meant:
            there = ", ".join(each.team for each in found) or "none"
            raise NotFound(
                f"There is no session {wanted!r} in {home}.", remedy=f"There are these: {there}."
            )
    else:
        running = [each for each in found if each.alive]
        meant = running or [each for each in found if each.alive is None][:1] or list(found[:1])
    if not meant:
        raise NotFound(
            f"No session of Claude Code leads a team in {home}.",
            remedy="Start `claude` with CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1, or name its"
            f" configuration directory with --home or {CONFIG_DIR}.",
        )
    if len(meant) > 1:
        listed = "; ".join(_described(each) for each in meant)
        raise Refused(
            f"Several sessions could be meant: {listed}.",
            reason="several_sessions",
            remedy="Say which with --claude SESSION: its id, the beginning of that, or its team.",
        )
    return meant[0]


def _described(session: ClaudeSession) -> str:
    words = f"{session.team} in {session.cwd or 'an unknown directory'}"
    if session.began_ms is None:
        return words
    minutes = max(0, round((now_ms() - session.began_ms) / 60_000))
    return f"{words}, {minutes} min old"


def warnings(session: ClaudeSession, name: str) -> list[str]:
    """What somebody must know who has an agent join this session."""
    told = []
    if session.alive is not True:
        known = "is not known to run" if session.alive is None else "does not run any more"
        told.append(f"the lead of {session.team} {known}: {name} may never hear from it.")
    if not session.hears:
        told.append(
            f"the lead reads its mail only while it has a teammate that it started itself, and it"
            f" has none: what {name} writes waits until then. Type to it, for example:"
            " Start a teammate named keeper that waits for messages."
        )
    return told


def as_guest(spec: AgentSpec) -> AgentSpec:
    """The spec of an agent in the team of another program."""
    return spec.evolve(options={**spec.options, GUEST: True})


async def enter(
    office: Office, team: str, name: str, spec: AgentSpec, *, ready_s: float | None = None
) -> Spawned:
    """Have an agent join the team of a session; returns when it can receive.

    How long that may take depends on its driver, unless `ready_s` says it.

    Raises:
        StartFailed: it did not get ready; nothing of it is left.
        Conflict: the name is taken.
    """
    return await office.supervisor(team).spawn(name, as_guest(spec), by=LEAD, ready_s=ready_s)


async def stay(office: Office, team_name: str, name: str) -> Left:
    """Wait until a guest has left and nothing of it runs; how that came.

    Raises:
        NotFound: there is no such agent.
        Unavailable: something of it cannot be ended.
    """
    team, supervisor = office.teams.open(team_name), office.supervisor(team_name)
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
            # Half a file, as programs without locks leave it for a moment.
            pass
        await anyio.sleep(_LOOK_S)
    if cause is not None:
        return Left(name, "lost", cause)
    left = Left(name, *await _last_word(transcript, agent.began_ms or 0))
    if agent.place is not None:
        place = agent.place
        await processes.end(place.pid, place.start, place.group, agent.nonce, _GRACE_S)
    return left


async def _last_word(transcript: Path, began_ms: int) -> tuple[str, str]:
    """How an agent says that it ended. It says so last of all, a moment after it has left.

    Whoever had its name before has left its words in the same file.
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


async def leave(office: Office, team: str, name: str, *, reason: str) -> Left:
    """Have a guest end now, and leave the team. It may have left before."""
    try:
        stopped = await office.supervisor(team).stop(name, by=LEAD, reason=reason)
    except NotFound:
        return Left(name, "stopped", "it had left before")
    return Left(name, stopped.end, reason)


# The bridge: a teammate that Claude Code wants to start is one of ours.


@dataclass(frozen=True, slots=True)
class Claim:
    """The member that Claude Code starts a process for, as it says on the command line."""

    name: str
    team: str
    plans: bool = False
    mode: str | None = None
    model: str | None = None
    # What was said and has no meaning for an agent of ours.
    ignored: tuple[str, ...] = field(default=())


_UNUSED = ("agent-id", "agent-color", "parent-session-id", "lead-verify-key", "agent-type")


def claim_of(words: Sequence[str]) -> Claim:
    """What the words of a command line say that this process is to be.

    Raises:
        Invalid: they do not say which member of which team.
    """
    said, ignored = _flags(words)
    name, _, team = said.get("agent-id", "").rpartition("@")
    name, team = said.get("agent-name") or name, said.get("team-name") or team
    if not name or not team:
        raise Invalid(
            "Nobody said which teammate this is: --agent-name and --team-name are missing.",
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
    return Claim(name, team, plans, mode, said.get("model"), tuple(ignored))


def _flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The flags that are known, with their values, and those that are not."""
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
            # Nobody knows whether it has a value; no value of Claude Code begins like a flag.
            with_value = rest and not equals and not rest[0].startswith("--")
            ignored.append(f"{word} {rest.pop(0)}" if with_value else word)
    return said, ignored


class Bridge(BaseModel):
    """`bridge.toml`: what stands in for the teammates that Claude Code starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    driver: str = "native"
    model: str | None = None
    mode: str | None = None
    # The words that start a program of another vendor; what the scripted driver plays.
    command: list[str] | None = None
    script: str | None = None
    claims: bool = False
    env: list[str] = []


def read_bridge(home: Path, environ: Mapping[str, str]) -> Bridge:
    """What the file in a home says; a driver that the environment names goes before.

    Raises:
        Unreadable: the file is there but is not TOML of this form.
    """
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
    raise Unreadable(str(path), why, remedy="Mend it, or remove it for the native driver.")


async def take_place(office: Office, claim: Claim, bridge: Bridge, *, cwd: str) -> Launch:
    """Register an agent of ours in the place of the member of a claim.

    This process becomes it by executing what is returned. If that cannot be, the lead is told.

    Raises:
        NotFound: the lead has not added such a member.
        Conflict: an agent of ours has the place.
    """
    await _added(office, claim)
    try:
        # Plan mode is the lead's word; beyond that, whoever wrote the file knows the driver.
        spec = await office.spec(
            driver=bridge.driver,
            backend="subprocess",
            cwd=cwd,
            model=bridge.model or (claim.model if bridge.driver == "native" else None),
            mode="plan" if claim.plans else bridge.mode or claim.mode,
            script=bridge.script,
            command=bridge.command,
            claims=bridge.claims,
            env=bridge.env,
            policy=Policy.parse(ASKS_THE_LEAD),
        )
        return await office.supervisor(claim.team).take_place(claim.name, as_guest(spec), by=LEAD)
    except BullpenError as error:
        await _tell_lead(office, claim, str(error))
        raise


async def _added(office: Office, claim: Claim) -> None:
    """Wait until the lead has added the member, and has said where it runs.

    Versions without a lock on the file would write over what we add to it before.
    """
    team = office.teams.open(claim.team)
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


async def _tell_lead(office: Office, claim: Claim, why: str) -> None:
    """Say in the member's name that it did not start: its lead takes it for started."""
    failed = IdleNotification.new(
        sender=claim.name, timestamp=iso(now_ms()), idle_reason="failed", failure_reason=why
    )
    with suppress(BullpenError):
        mailbox = office.teams.open(claim.team).mailbox
        await mailbox.send(LEAD, failed.text(), sender=claim.name)
