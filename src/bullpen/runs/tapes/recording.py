"""Recording a run: the tape is created before it starts, and completed at its end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

import anyio

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.system.secrets import redactor_of, with_texts
from bullpen.agents.tapes.files import TapeFile, create
from bullpen.agents.tapes.format import Header, act_line, end_line, ready_line
from bullpen.agents.tapes.setting import TapeSetting
from bullpen.errors import BullpenError, Invalid
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.runs.tapes.acts import acts_in, ready_in
from bullpen.runs.tapes.trusting import refuse_own_rights
from bullpen.runs.teamfile.read import TeamFile
from bullpen.team.team import Team
from bullpen.workspace.git.run_git import Git

_GIT_S = 30.0
_ENDS = ".tape"


@dataclass(frozen=True, slots=True)
class TapeRequest:
    """Where a run is recorded, and the tape that it replays, if it does."""

    path: Path
    environ: Mapping[str, str] = field(repr=False)
    replay: Path | None = None
    # Whether the calls of that tape may use all that the user's own files allow.
    trusted: bool = True


class Recording:
    """The tape of one run; without a request, nothing is recorded."""

    def __init__(self, request: TapeRequest | None, setting: TapeSetting | None) -> None:
        self._request = request
        self._setting = setting
        # How the run ended, when it has.
        self.status: str | None = None
        self.begun = False

    def given(self, spec: AgentSpec, agent: str) -> AgentSpec:
        """The spec of an agent with its tape. Raises Refused (not_trusted)."""
        if self._setting is None:
            return spec
        request = self._request
        if request is not None and request.replay is not None and not request.trusted:
            refuse_own_rights(spec, agent=agent, tape=request.replay.name)
        return spec.evolve(options={**spec.options, **self._setting.as_option()})

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self._setting is not None

    async def complete(self, team: Team, *, after: int) -> None:
        """Add what a person did, and how the run ended. Raises BullpenError."""
        if self._setting is None or self._request is None:
            return
        events, begun_ms = await team.events(after=after), self._setting.begun_ms
        acts = acts_in(events, begun_ms=begun_ms)
        redactor, places = redactor_of(self._request.environ), self._setting.places(team.name)
        tape = TapeFile(self._setting)
        try:
            for agent, at_ms in ready_in(events, begun_ms=begun_ms):
                tape.append(ready_line(agent, at_ms))
            for act in acts:
                marked = {
                    name: with_texts(
                        getattr(act, name), lambda text: places.marked(redactor.text(text))
                    )
                    for name in ("text", "asked", "answer")
                }
                tape.append(act_line(replace(act, **marked)))
            if self.status is not None:
                tape.append(end_line(self.status))
        finally:
            tape.close()

    def drop(self) -> None:
        """Remove the tape of a run that never began."""
        if self._setting is not None:
            with suppress(OSError):
                os.unlink(self._setting.record)


@asynccontextmanager
async def completed(recording: Recording, team: Team) -> AsyncIterator[Recording]:
    """Complete the tape when the run is over, also when it was interrupted or failed."""
    if not recording.is_on:
        yield recording
        return
    after = await team.last_seq()
    try:
        yield recording
    finally:
        with anyio.CancelScope(shield=True):
            if recording.begun:
                with suppress(BullpenError):
                    await recording.complete(team, after=after)
            else:
                recording.drop()


async def begin(request: TapeRequest | None, header: Header, *, cwd: str, home: Path) -> Recording:
    """Create the tape of a run. Raises Conflict or Unavailable."""
    if request is None:
        return Recording(None, None)
    folder = await anyio.Path(request.path).is_dir()
    path = request.path / f"{header.team}.tape" if folder else request.path
    if path.suffix != _ENDS:
        raise Invalid(
            f"{path} is no directory, and no name for a tape.",
            remedy=f"Name a new file that ends with {_ENDS}, or a directory that exists.",
        )
    begun_ms = now_ms()
    setting = TapeSetting(
        record=str(path.absolute()),
        device=0,
        inode=0,
        begun_ms=begun_ms,
        project=cwd,
        home=str(home),
        replay=None if request.replay is None else str(request.replay.absolute()),
    )
    base, dirty = await anyio.to_thread.run_sync(_commit, Path(cwd))
    redactor, places = redactor_of(request.environ), setting.places()
    told = {
        name: with_texts(getattr(header, name), lambda text: places.marked(redactor.text(text)))
        for name in ("goal", "team_text", "lead")
    }
    header = replace(header, **told, base=base, dirty=dirty, begun_ms=begun_ms, bullpen=_version())
    found = await anyio.to_thread.run_sync(create, path, header)
    return Recording(request, replace(setting, device=found.st_dev, inode=found.st_ino))


def goal_header(
    team: str, goal: str, lead: SpawnRequest, *, delegate: bool, attended: bool, talks: bool
) -> Header:
    """The header of the tape of a goal. Raises Invalid if its lead cannot be recorded."""
    refuse_others({LEAD: lead.driver})
    told = {
        "model": lead.model,
        "mode": lead.mode,
        "policy": None if lead.policy is None else lead.policy.raw,
        "effort": lead.effort,
        "small_model": lead.small_model,
        "model_options": dict(lead.model_options),
        "strict_model": lead.strict_model,
        "project_settings": lead.project_settings,
    }
    told = {name: value for name, value in told.items() if value not in (None, {})}
    return Header(team, goal, lead=told, delegate=delegate, attended=attended, conversation=talks)


def file_header(file: TeamFile, *, cwd: str, attended: bool, talks: bool) -> Header:
    """The header of the tape of a team file. Raises Invalid if a member cannot be recorded."""
    refuse_others({member.name: member.driver for member in file.members})
    near = os.path.relpath(os.path.realpath(file.path), os.path.realpath(cwd))
    inside = not near.startswith(os.pardir)
    return Header(
        file.team.name,
        file.team.goal,
        team_file=near if inside else file.path.name,
        team_text=file.path.read_text(encoding="utf-8"),
        attended=attended,
        conversation=talks,
    )


def refuse_others(drivers: Mapping[str, str]) -> None:
    """Refuse to record members whose program asks its model itself. Raises Invalid."""
    others = [f"{name} ({driver})" for name, driver in drivers.items() if driver != "native"]
    if others:
        raise Invalid(
            f"The run cannot be recorded: {', '.join(others)} asks its model itself, so Bullpen"
            " does not see the answers.",
            remedy="Give every member the driver native, or omit --record.",
        )


def _commit(folder: Path) -> tuple[str | None, bool]:
    """The commit that a project is at, and whether there are changes besides."""
    try:
        git = Git(folder)
        head = git.run("rev-parse", "--verify", "--quiet", "HEAD", seconds=_GIT_S)
        if head.code != 0:
            return None, False
        changed = git.run("status", "--porcelain", seconds=_GIT_S)
        return head.out.strip(), bool(changed.out.strip())
    except BullpenError:
        return None, False


def _version() -> str:
    try:
        return metadata.version("bullpen")
    except metadata.PackageNotFoundError:
        return ""
