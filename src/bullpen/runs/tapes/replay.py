"""Replays a tape: the run again, with today's code, without a model and without a key."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.system import environment
from bullpen.agents.system.vendors.model_providers import PROVIDERS
from bullpen.agents.tapes.departures import Departure, calls_left
from bullpen.agents.tapes.files import TapeFile, read_tape
from bullpen.agents.tapes.follower import Follower
from bullpen.agents.tapes.format import Tape, key, ready_line
from bullpen.agents.tapes.places import Places
from bullpen.agents.tapes.setting import TapeSetting
from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.errors import BullpenError, Invalid, NotFound, Unavailable
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.runs.goal import Goal, pursue
from bullpen.runs.tapes.acts import ready_in
from bullpen.runs.tapes.person import TapedPerson
from bullpen.runs.tapes.project import copy_project
from bullpen.runs.tapes.recording import TapeRequest
from bullpen.runs.tapes.trusting import refuse_unless_trusted
from bullpen.runs.teamfile.read import TeamFile, read_team_file
from bullpen.runs.up import StartRequest, follow
from bullpen.runs.watch.outcome import Outcome, Watch, unwatched
from bullpen.team.agents.verdict import MANNERS
from bullpen.team.team import Team

TIMEOUT_S = 900.0
"""How long a replay may take, unless it is told another limit."""

_NOWHERE = "http://127.0.0.1:9"
_NO_KEY = "no-key-in-a-replay"
_STARTS_S = 120.0
_SETTLED_S = 5.0
_LOOK_EVERY_S = 0.1
_FAKED = ("anthropic", "openai", "openai-chat", "google")


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A tape, and how to replay it."""

    tape: Path
    # The project: it is copied, and not changed.
    cwd: Path
    environ: Mapping[str, str] = field(repr=False)
    # The team file instead of what is on the tape.
    team_file: Path | None = None
    trust: bool = False
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a replay went: whether it took the path of its tape, or where it left that."""

    calls: int
    made: int
    departure: Departure | None = None
    outcome: Outcome | None = None
    told: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """The exit code of the command."""
        return 0 if self.departure is None else 1


async def replay(request: ReplayRequest, watch: Watch = unwatched) -> Replayed:
    """Replay a tape in a folder of its own, which is removed at the end.

    Raises:
        NotFound, Invalid, Unavailable: the tape or the team file cannot be read.
        Refused: the tape allows its agents something, and is not trusted (not_trusted).
    """
    tape = await anyio.to_thread.run_sync(read_tape, request.tape)
    own = request.team_file is not None or await anyio.to_thread.run_sync(_is_own, request, tape)
    refuse_unless_trusted(tape, name=request.tape.name, own_file=own, trust=request.trust)
    folder = Path(await anyio.to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="bullpen-")))
    try:
        return await _Replay(request, tape, folder).run(watch)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


class _Replay:
    """One replay in its folder."""

    def __init__(self, request: ReplayRequest, tape: Tape, folder: Path) -> None:
        self._request = request
        self._tape = tape
        self._home = folder / "home"
        self._project = folder / (request.cwd.resolve().name or "project")
        self._written = folder / "replayed.tape"
        self._environ = environ_of(request.environ, tape)
        self._outcome: Outcome | None = None
        self._left: Departure | None = None
        self._failed: BullpenError | None = None

    async def run(self, watch: Watch) -> Replayed:
        tape, request = self._tape, self._request
        self._project, told = await anyio.to_thread.run_sync(
            copy_project, request.cwd, self._project, tape.header.base
        )
        notes = [*([told] if told else [])]
        if tape.header.dirty:
            notes.append("The project had changes without a commit when the tape was recorded.")
        settings = Settings(home=self._home, team=None, agent=LEAD)
        async with App(settings, self._environ) as app:
            with anyio.move_on_after(request.timeout_s) as limit:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._beside, app, group.cancel_scope)
                    try:
                        self._outcome = await self._start(app, watch)
                    except BullpenError as error:
                        self._failed = error
                    group.cancel_scope.cancel()
            if limit.cancelled_caught and self._left is None:
                lines = (f"+ not over after {request.timeout_s:.0f} s",)
                self._left = Departure("the run", "main", 0, "time", lines)
        made = await self._tape_written()
        self._left = self._left or await self._last_look()
        if self._left is None and self._failed is not None:
            raise self._failed
        if self._left is None and made is not None:
            self._left = calls_left(tape, made) or self._other_end()
        return Replayed(
            len(tape.calls),
            0 if made is None else len(made.calls),
            self._left,
            self._outcome,
            tuple(notes),
        )

    def _other_end(self) -> Departure | None:
        """Return where the end differs: the run ended as another one."""
        was, ended = self._tape.status, self._outcome
        if was is None or ended is None or ended.status == was:
            return None
        if any(word == was and manner.code == ended.code for word, manner in MANNERS.items()):
            # Older versions had one word for several ends.
            return None
        lines = (f"- {was}", f"+ {ended.status}: {ended.cause or ended.summary}")
        return Departure("the run", "main", len(self._tape.calls), "end of the run", lines)

    async def _start(self, app: App, watch: Watch) -> Outcome:
        header = self._tape.header
        request = TapeRequest(
            self._written,
            self._environ,
            self._request.tape.absolute(),
            trusted=self._request.trust,
        )
        file = await anyio.to_thread.run_sync(self._file)
        if file is not None:
            start = StartRequest(
                file,
                str(self._project),
                attended=header.attended,
                conversation=header.conversation and file.lead is not None,
                tape=request,
            )
            return await follow(app, start, watch)
        goal = Goal(
            self._places(header.team).unmarked(header.goal or ""),
            self._lead(),
            team=header.team,
            delegate=header.delegate,
            attended=header.attended,
            conversation=header.conversation,
            tape=request,
        )
        return await pursue(app, goal, watch)

    def _lead(self) -> SpawnRequest:
        told, tape = self._tape.header.lead, self._tape
        model = told.get("model") or next(
            (call.model for call in tape.calls if call.agent == LEAD), None
        )
        options = told.get("model_options") or {}
        try:
            return SpawnRequest(
                cwd=str(self._project),
                backend="in-process",
                model=None if model is None else str(model),
                mode=told.get("mode"),
                policy=None if "policy" not in told else Policy.parse(told["policy"]),
                project_settings=told.get("project_settings") is not False,
                model_options=options if isinstance(options, dict) else {},
                small_model=told.get("small_model"),
                effort=told.get("effort"),
            )
        except ValueError as error:
            raise Invalid(
                f"The lead on the tape cannot be read: {error}", remedy="Record the run again."
            ) from None

    def _file(self) -> TeamFile | None:
        """Return the team file to start, with members in this process. Raises as reading does."""
        header, named = self._tape.header, self._request.team_file
        if named is None and header.team_text is not None:
            named = self._project / (header.team_file or "TEAM.toml")
            if not named.resolve().is_relative_to(self._project.resolve()):
                named = self._project / "TEAM.toml"
            named.parent.mkdir(parents=True, exist_ok=True)
            named.write_text(self._places("").unmarked(header.team_text), encoding="utf-8")
        return None if named is None else _inside(read_team_file(named.absolute()))

    def _places(self, team: str) -> Places:
        return Places({"project": str(self._project), "home": str(self._home)}, team)

    async def _beside(self, app: App, scope: anyio.CancelScope) -> None:
        """Do what the person did, and end the run where it leaves the tape, or has come to its end.

        Raises BullpenError.
        """
        written = await self._opened()
        if written is None:
            return
        try:
            team = (await anyio.to_thread.run_sync(written.tape)).header.team
            places, follower = self._places(team), Follower(written)
            supervisor, opened = app.supervisor(team), app.teams.open(team)
            person = TapedPerson(self._tape, opened, supervisor, follower, places)
            async with anyio.create_task_group() as group:
                group.start_soon(self._watched, person, follower, scope)
                group.start_soon(_note_ready, opened, written)
                await person.act()
        finally:
            written.close()

    async def _watched(
        self, person: TapedPerson, follower: Follower, scope: anyio.CancelScope
    ) -> None:
        wanted, settled_s = {key(call) for call in self._tape.calls}, 0.0
        # A tape without an end is of a run that was interrupted.
        ends = self._tape.status in (None, "interrupted")
        while True:
            seen = follower.look()
            self._left = self._left or seen.left or person.left
            settled_s = settled_s + _LOOK_EVERY_S if ends and wanted <= seen.answered else 0.0
            if self._left is not None or settled_s > _SETTLED_S:
                scope.cancel()
                return
            await anyio.sleep(_LOOK_EVERY_S)

    async def _opened(self) -> TapeFile | None:
        """Open the tape that the replay writes, when it is there."""
        path = anyio.Path(self._written)
        with anyio.move_on_after(_STARTS_S):
            while not await path.exists():  # noqa: ASYNC110 - a file
                await anyio.sleep(_LOOK_EVERY_S)
            try:
                found = await path.stat()
                setting = TapeSetting(str(path), found.st_dev, found.st_ino, 0, "", "")
                return TapeFile(setting)
            except (FileNotFoundError, Unavailable):
                # A run that never began has removed it, and says why.
                if await path.exists():
                    raise
        return None

    async def _last_look(self) -> Departure | None:
        """Return where the run left its tape, if that was written when it ended."""
        if not await anyio.Path(self._written).exists():
            return None
        written = await self._opened()
        if written is None:
            return None
        try:
            return Follower(written).look().left
        finally:
            written.close()

    async def _tape_written(self) -> Tape | None:
        if not self._written.exists():
            return None
        return await anyio.to_thread.run_sync(read_tape, self._written)


async def _note_ready(team: Team, written: TapeFile) -> None:
    """Write down which agents are ready: answers wait for that, as on the tape."""
    seq = 0
    while True:
        try:
            events = await team.events(after=seq)
        except NotFound:
            # The team is created after its tape.
            events = []
        seq = events[-1].seq if events else seq
        for agent, _ in ready_in(events, begun_ms=0):
            written.append(ready_line(agent, 0))
        await anyio.sleep(_LOOK_EVERY_S)


def environ_of(environ: Mapping[str, str], tape: Tape) -> dict[str, str]:
    """The environment of a replay: no key and no address of any model, and nothing of a team."""
    credentials = {name for each in PROVIDERS.values() for name in each.variables}
    hidden = {*credentials, *environment.MODEL_KEYS}
    kept = {
        name: value
        for name, value in environ.items()
        if name not in hidden and not name.startswith("BULLPEN_")
    }
    used = {call.model.partition(":")[0] for call in tape.calls}
    for prefix, provider in PROVIDERS.items():
        if provider.api not in _FAKED:
            continue
        if prefix == "anthropic" and used and prefix not in used and "openai" in used:
            # Without its key, the default is the model of the tape.
            continue
        kept[provider.keys[0]] = _NO_KEY
        kept[provider.url_variable] = _NOWHERE
    return kept


def _is_own(request: ReplayRequest, tape: Tape) -> bool:
    """Return whether the team file of a tape is the one in the project."""
    name, text = tape.header.team_file, tape.header.team_text
    if name is None or text is None:
        return False
    path = request.cwd / name
    if not path.resolve().is_relative_to(request.cwd.resolve()):
        return False
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        return False


def _inside(file: TeamFile) -> TeamFile:
    """Return the file with members in this process, which the replay ends with."""
    inside = {"backend": "in-process"}
    return replace(
        file,
        lead=None if file.lead is None else file.lead.model_copy(update=inside),
        teammates=tuple(each.model_copy(update=inside) for each in file.teammates),
    )
