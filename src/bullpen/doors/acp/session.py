"""One session: a conversation with the lead of one team."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from bullpen.app.app import App
from bullpen.doors.acp import questions, team_state
from bullpen.doors.acp.client_servers import KnownServers
from bullpen.doors.acp.lead_rows import LeadRows
from bullpen.doors.acp.team_run import SessionRun
from bullpen.doors.acp.team_start import Run, TeamStart, again
from bullpen.doors.acp.updates import (
    CallTold,
    Client,
    ModeTold,
    PlanStep,
    PlanTold,
    Said,
    StopReason,
)
from bullpen.doors.actions.answer import answer_request
from bullpen.doors.actions.identity import KnownPerson
from bullpen.doors.actions.person_actions import PersonActions
from bullpen.errors import BullpenError, Invalid, NotFound, Refused, Unavailable, one_error
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.view.sentences import is_for_people
from bullpen.view.transcript import TranscriptTail

_LOOK_S = 0.1
"""How often the client is told what is new: at most this much later than it happened."""

_SURE_S = 0.25
"""How long after the first look a second one must also find that the team rests."""

_BREAK_OFF_S = 15.0
"""How long the turns of a cancelled prompt may take to end before the run is stopped."""


class _Turn:
    """One prompt, until its answer."""

    def __init__(self) -> None:
        self.cancelled = anyio.Event()
        self.asked: set[str] = set()
        self.words: list[str] = []
        # Whether the last thing that the client got are words of the lead.
        self.speaking = False


class TeamSession:
    """A team, and the client that talks with its lead."""

    def __init__(
        self,
        app: App,
        name: str,
        *,
        cwd: str,
        start: TeamStart,
        servers: KnownServers,
        mode: str,
        client: Client,
        identity: KnownPerson,
        group: TaskGroup,
    ) -> None:
        """`group` is where the team's runs are done: they outlast prompts."""
        self.name, self.cwd = name, cwd
        self.mode = mode
        self._app = app
        self._team = app.teams.open(name)
        self._person = PersonActions(app, name, identity)
        self._identity = identity
        self._supervisor = app.supervisor(name)
        self._start, self._servers = start, servers
        self._client = client
        self._group = group
        self._run: SessionRun | None = None
        self._turn: _Turn | None = None
        self._tail: TranscriptTail | None = None
        self._rows = LeadRows(tool_name=servers.names, cwd=cwd)
        self._plan: tuple[PlanStep, ...] = ()
        self._work: dict[str, tuple[str, str]] = {}
        self._paused: list[str] = []
        # What the client must be told with the next prompt.
        self.notes: list[str] = []

    async def prompt(self, text: str) -> StopReason:
        """Give the lead words, and tell the client what the team does until it rests.

        Raises:
            Invalid: there are no words.
            Refused: another prompt is not answered yet (prompt_running).
            Unavailable: the team could not be started, or failed.
        """
        if not text.strip():
            raise Invalid("The prompt is empty.", remedy="Say what the team should do.")
        if self._turn is not None:
            raise Refused(
                f"Session {self.name!r} answers another prompt.",
                reason="prompt_running",
                remedy="Wait for its end, or cancel it.",
            )
        self._turn = turn = _Turn()
        try:
            await self._say_notes()
            run = await self._given(text)
            return await self._to_the_end(turn, run)
        finally:
            self._turn = None

    async def cancel(self) -> None:
        """End the prompt; does nothing without one."""
        if self._turn is not None:
            self._turn.cancelled.set()

    async def set_mode(self, mode: str) -> None:
        """Change the mode of the lead. Raises Refused, Invalid."""
        with suppress(NotFound):
            await self._person.set_mode(LEAD, mode)
        self.mode = mode

    async def replay(self, client: Client, servers: KnownServers) -> None:
        """Tell the client everything that was said and done, from the beginning."""
        self._client, self._servers = client, servers
        self._plan, self._work = (), {}
        self._tail = TranscriptTail(await self._supervisor.transcript(LEAD))
        rows = LeadRows(tool_name=servers.names, cwd=self.cwd, replay=True)
        for update in rows.take(await to_thread.run_sync(self._tail.more)):
            await self._client.tell(update)
        self._rows = LeadRows(tool_name=servers.names, cwd=self.cwd, first=rows.next)
        snapshot = await self._team.snapshot()
        self._plan = team_state.plan_of(snapshot.tasks)
        if self._plan:
            await self._client.tell(PlanTold(self._plan))

    async def skip(self, client: Client, servers: KnownServers) -> None:
        """Take up the conversation after its last row, without telling it again."""

        async def nothing(_: object) -> None:
            return None

        await self.replay(Client(nothing, client.ask), servers)
        self._client = client

    async def close(self) -> None:
        """Stop the team's agents; the team can be resumed."""
        await self.cancel()
        if self._run is not None:
            self._run.scope.cancel()
            await self._run.done.wait()

    # Words to the lead

    async def _given(self, text: str) -> SessionRun:
        run = self._run
        if run is not None and not run.done.is_set():
            await self._person.send(LEAD, text)
            await self._resume_paused()
            return run
        self._paused.clear()
        if await self._exists():
            await self._person.send(LEAD, text)
            return self._begin_again()
        return self._begin(
            self._start.start(
                self._app,
                self.name,
                text,
                cwd=self.cwd,
                mode=self.mode,
                servers=self._servers.definitions,
            )
        )

    async def _exists(self) -> bool:
        try:
            member = (await self._team.agents.config()).member(LEAD)
        except NotFound:
            return False
        return member is not None and member.agent is not None

    def _begin_again(self) -> SessionRun:
        return self._begin(again(self._app, self.name))

    def _begin(self, how: Run) -> SessionRun:
        self._run = run = SessionRun(self._app, self.name)
        self._group.start_soon(run.run, how)
        return run

    async def _resume_paused(self) -> None:
        """Let agents go on that a cancelled prompt paused."""
        by, voice = await self._identity.speaks(self._team)
        for name in self._paused:
            with suppress(NotFound):
                await self._supervisor.order(name, "resume", by=by, voice=voice)
        self._paused.clear()

    # Until the team rests

    async def _to_the_end(self, turn: _Turn, run: SessionRun) -> StopReason:
        with one_error():
            return await self._until_it_rests(turn, run)

    async def _until_it_rests(self, turn: _Turn, run: SessionRun) -> StopReason:
        async with anyio.create_task_group() as asking:
            while True:
                await self._tell(turn, run)
                if turn.cancelled.is_set():
                    asking.cancel_scope.cancel()
                    break
                if run.done.is_set():
                    if await self._has_more(run):
                        # The words came while the run was ending.
                        run = self._begin_again()
                        continue
                    asking.cancel_scope.cancel()
                    return await self._ended(turn, run)
                self._ask_new(turn, run, asking)
                if await self._rests(run):
                    await self._tell(turn, run)
                    asking.cancel_scope.cancel()
                    return "end_turn"
                with anyio.move_on_after(_LOOK_S):
                    await turn.cancelled.wait()
        await self._break_off(run)
        await self._tell(turn, run)
        return "cancelled"

    async def _has_more(self, run: SessionRun) -> bool:
        """Whether a run ended well, but its lead has not read what the person said."""
        if run.outcome is None:
            return False
        snapshot = await self._team.snapshot()
        if run.outcome.status != "done" and snapshot.team.facts.finished is None:
            return False
        return any(view.unread for view in snapshot.members if view.member.is_lead)

    async def _rests(self, run: SessionRun) -> bool:
        """Whether the team rests, which two looks must find."""
        progress = run.progress
        if progress is None or not team_state.rests(progress.snapshot, progress.agents):
            return False
        if not team_state.rests(*await self._supervisor.look()):
            return False
        await anyio.sleep(_SURE_S)
        return not run.done.is_set() and team_state.rests(*await self._supervisor.look())

    async def _ended(self, turn: _Turn, run: SessionRun) -> StopReason:
        """What the end of the run means for the prompt. Raises what made it fail."""
        if run.error is not None:
            raise run.error
        outcome = run.outcome
        if outcome is None:
            return "cancelled"
        if outcome.status in ("failed", "lost"):
            cause = outcome.cause or "The team failed."
            raise Unavailable(cause, remedy=f"See: bullpen logs {LEAD} -t {self.name}")
        if outcome.summary and outcome.summary.strip() not in "\n".join(turn.words):
            await self._say(turn, outcome.summary)
        if outcome.status in ("done", "ended"):
            return "end_turn"
        await self._say(turn, f"The team stopped early. {outcome.cause or ''}".rstrip())
        return "max_turn_requests" if await self._is_at_limit(outcome) else "end_turn"

    async def _is_at_limit(self, outcome: Outcome) -> bool:
        lead = (await self._team.agents.config()).member(LEAD)
        agent = None if lead is None else lead.agent
        return agent is not None and agent.at_limit is not None

    async def _break_off(self, run: SessionRun) -> None:
        """Pause every agent and deny what waits; what does not stop in time is ended."""
        if run.done.is_set():
            return
        if not await self._exists():
            run.scope.cancel()
            await run.done.wait()
            return
        by, voice = await self._identity.speaks(self._team)
        config = await self._team.agents.config()
        living = [
            member.name
            for member in config.roster
            if member.agent is not None and member.agent.phase in ("starting", "running")
        ]
        for name in living:
            await self._supervisor.order(
                name, "pause", by=by, voice=voice, reason="you cancelled the prompt"
            )
        self._paused = living
        for request in await self._team.approvals.pending():
            await self._answer(request, None)
        with anyio.move_on_after(_BREAK_OFF_S):
            while await self._is_at_work():  # noqa: ASYNC110 - other processes end turns too
                await anyio.sleep(_LOOK_S)
            return
        run.scope.cancel()
        await run.done.wait()

    async def _is_at_work(self) -> bool:
        config = await self._team.agents.config()
        return any(
            member.is_active or member.agent.phase == "starting"
            for member in config.roster
            if member.agent is not None and member.agent.phase != "ended"
        )

    # What the client is told

    async def _say(self, turn: _Turn, text: str) -> None:
        turn.words.append(text)
        between = "\n\n" if turn.speaking else ""
        turn.speaking = True
        await self._client.tell(Said(f"{between}{text}"))

    async def _say_notes(self) -> None:
        notes, self.notes = self.notes, []
        for note in notes:
            await self._client.tell(Said(f"{note}\n", "team"))

    async def _tell(self, turn: _Turn, run: SessionRun) -> None:
        """Tell the client what is new."""
        await self._tell_rows(turn)
        for line in run.take_told():
            turn.speaking = False
            await self._client.tell(Said(f"{line}\n", "team"))
        if run.progress is not None:
            await self._tell_team(turn, run.progress)

    async def _tell_rows(self, turn: _Turn) -> None:
        if self._tail is None:
            try:
                self._tail = TranscriptTail(await self._supervisor.transcript(LEAD))
            except NotFound:
                return
        for update in self._rows.take(await to_thread.run_sync(self._tail.more)):
            if isinstance(update, Said) and update.who == "lead":
                await self._say(turn, update.text)
                continue
            turn.speaking = False
            await self._client.tell(update)

    async def _tell_team(self, turn: _Turn, progress: Progress) -> None:
        snapshot = progress.snapshot
        plan = team_state.plan_of(snapshot.tasks)
        if plan != self._plan:
            self._plan = plan
            await self._client.tell(PlanTold(plan))
        for call in team_state.work_of_teammates(snapshot.tasks, self._work):
            turn.speaking = False
            await self._client.tell(call)
        lead = next((view.member for view in snapshot.members if view.member.is_lead), None)
        mode = None if lead is None or lead.agent is None else lead.agent.mode
        if mode is not None and mode != self.mode and self._shows(progress):
            self.mode = mode
            await self._client.tell(ModeTold(mode))

    def _shows(self, progress: Progress) -> bool:
        """Whether the lead runs, so that its mode is no longer only what was asked for."""
        return any(view.lead and view.state in ("working", "idle") for view in progress.agents)

    # What the client is asked

    def _ask_new(self, turn: _Turn, run: SessionRun, asking: TaskGroup) -> None:
        pending: Sequence[Request] = () if run.progress is None else run.progress.snapshot.pending
        for request in pending:
            if is_for_people(request) and request.id not in turn.asked:
                turn.asked.add(request.id)
                asking.start_soon(self._ask, turn, request)

    async def _ask(self, turn: _Turn, request: Request) -> None:
        await self._tell_rows(turn)
        tool = str(request.subject.get("toolName") or "")
        given = request.subject.get("input")
        of_lead = request.sender == LEAD and request.kind == "permission"
        known = None
        if of_lead and isinstance(given, dict):
            known = self._rows.open_call(tool, given)
        asked = questions.asked_of(request, cwd=self.cwd, call_id=known, tool=self._rows.name(tool))
        turn.speaking = False
        if asked.call.begins:
            await self._client.tell(asked.call)
        choice = await self._client.ask(asked)
        if turn.cancelled.is_set():
            return
        approved = await self._answer(request, choice)
        if asked.call.begins:
            ended = CallTold(asked.call.id, False, "completed" if approved else "failed")
            await self._client.tell(ended)

    async def _answer(self, request: Request, choice: str | None) -> bool:
        """Book an answer as the person's; whether the request was approved."""
        answer = questions.answer_of(request, choice)
        try:
            given = await answer_request(self._team, request, self._identity, **answer)
        except BullpenError as error:
            # Somebody else was faster, or it is too late.
            self.notes.append(f"Your answer to {request.sender} was not taken: {error}")
            return False
        return given.request.state == "approved"
