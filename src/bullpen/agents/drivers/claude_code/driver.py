"""Claude Code as a teammate: its process, its turns, and what it writes to its lead."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from bullpen.agents.drivers.base import EVERYTHING, Desk, TurnFailed, TurnInput, TurnResult
from bullpen.agents.drivers.claude_code import calls, memory, transcript
from bullpen.agents.drivers.claude_code.gate import HookGate
from bullpen.agents.drivers.claude_code.hooks import HookPost
from bullpen.agents.drivers.claude_code.instructions import instructions
from bullpen.agents.drivers.claude_code.lead import Lead, message_of_lead
from bullpen.agents.drivers.claude_code.mirror import COLOR, LEAD_SESSION, Mirror
from bullpen.agents.drivers.claude_code.terminal import LOG, Terminal
from bullpen.agents.drivers.programs import command_of
from bullpen.agents.tools.base import Tool
from bullpen.agents.tools.door import Door
from bullpen.agents.tools.serve import SERVER_NAME, team_tools, tool_server
from bullpen.errors import Unavailable, one_error
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.payloads import (
    IdleNotification,
    PermissionRequest,
    PermissionResponse,
    PlanApprovalRequest,
    payload_of,
)
from bullpen.protocol.times import iso
from bullpen.store.clock import now_ms

_ENV = {
    "TERM": "xterm-256color",
    "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1",
    # Otherwise the tools of the team are hidden behind a search.
    "ENABLE_TOOL_SEARCH": "false",
    "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
    "DISABLE_AUTOUPDATER": "1",
}
_READY_S = 110.0
_LOOK_S = 0.05
# How long the end of a turn may take to be on record once it is idle; and how long the notice may
# take once it is: a background command keeps it from saying so, and a notice can be lost.
_RECORD_S = 15.0
_NOTICE_S = 3.0
# How long the notice of a failed turn may take; one version sends none.
_FAILED_S = 1.5
_INTERRUPT_S = 0.9
_END_GRACE_S = 1.5


@dataclass(slots=True)
class _Turn:
    """One turn as it goes on. `mark` finds its text in the program's record."""

    mark: str
    message_id: str
    # Messages that no request has held yet that succeeded, each with when they were handed out.
    unseen: dict[str, str] = field(default_factory=dict)
    begun: str | None = None
    idle: IdleNotification | None = None
    ended_since: float | None = None
    trouble_since: float | None = None


class ClaudeCodeDriver:
    """The real program in a terminal of its own, on a mirror of the team."""

    name = "claude-code"
    capabilities = EVERYTHING

    def __init__(self, spec: AgentSpec, env: Mapping[str, str]) -> None:
        self._spec = spec
        self._env = env
        self._memory = memory.Memory()
        self._tail = transcript.Tail()
        self._reported: set[str] = set()
        self._turn: _Turn | None = None
        self._terminal: Terminal | None = None
        self._door: Door | None = None
        self._post: HookPost | None = None
        self._has_listed = False
        # The model that answered, if it is not the one that was asked for.
        self._other_model: str | None = None

    # Its process

    async def start(self, desk: Desk) -> None:
        """Start the program and wait until it has proved that it asks, hears and has our tools."""
        if desk.is_lead:
            raise Unavailable(
                "Claude Code can be a teammate, but not the lead: its lead is a person's session.",
                remedy="Choose the driver native or claude for the lead.",
            )
        self._desk = desk
        self._folder = desk.folder
        self._memory, damage = memory.load(desk.folder)
        if damage is not None:
            desk.record("trouble", text=damage)
        self._mirror = Mirror(desk.folder / "claude", desk.team.name, desk.agent)
        self._gate = HookGate(
            desk, self._mirror, catch_up=self._caught_up, mail_given=self._mail_given
        )
        self._lead = Lead(desk, self._mirror, self._gate)
        self._post = HookPost(self._gate.answer)
        await self._post.open()
        self._door = Door(tool_server(desk, tools=self._offered))
        await self._door.open()
        try:
            await self._launch()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise

    def _offered(self, desk: Desk) -> Sequence[Tool]:
        self._has_listed = True
        return [tool for tool in team_tools(desk) if tool.name not in calls.NOT_OFFERED]

    async def _launch(self) -> None:
        """Start the program, with its conversation if it has one."""
        desk = self._desk
        self._lead.begin()
        self._gate.has_started, self._has_listed, self._gate.leaves = False, False, False
        await to_thread.run_sync(self._mirror.furnish, desk.spec.cwd, self._env)
        await self._gate.show_team()
        known = self._record_file()
        self._tail.skip(known)
        terminal = await Terminal.start(
            self._command(resume=known is not None),
            env={**self._env, **_ENV, "CLAUDE_CONFIG_DIR": str(self._mirror.root)},
            cwd=desk.spec.cwd,
            log=desk.folder / LOG,
            redact=desk.redacted,
        )
        try:
            await self._ready(terminal)
        except BaseException as error:
            gave_up = not terminal.runs
            with anyio.CancelScope(shield=True):
                await terminal.end(0.0)
            if known is None or not gave_up or not isinstance(error, Unavailable):
                raise
            desk.record("trouble", text=f"A new conversation begins. {error.message}")
            self._memory = memory.Memory()
            await self._launch()
            return
        self._terminal = terminal
        memory.save(self._folder, self._memory)

    def _command(self, *, resume: bool) -> list[str]:
        desk, spec = self._desk, self._spec
        agent, team = desk.agent, desk.team.name
        assert self._post is not None and self._door is not None
        server = {"command": self._door.command[0], "args": self._door.command[1:]}
        servers = {SERVER_NAME: {**server, "env": self._door.env}}
        words = [
            *command_of(spec),
            *("--agent-id", f"{agent}@{team}", "--agent-name", agent, "--team-name", team),
            *("--agent-color", COLOR, "--parent-session-id", LEAD_SESSION),
            *("--agent-type", "general-purpose"),
            *("--permission-mode", "plan" if self._lead.plans else "default"),
            # In files: the key to the door must not be in everybody's list of processes.
            *("--settings", self._mirror.keep("settings-of-ours.json", self._post.settings)),
            *("--mcp-config", self._mirror.keep("servers.json", {"mcpServers": servers})),
            "--strict-mcp-config",
            *("--disallowedTools", ",".join(calls.DISALLOWED)),
            *("--append-system-prompt", instructions(agent, team, spec)),
            *("--resume" if resume else "--session-id", self._memory.session),
        ]
        if self._lead.plans:
            words.append("--plan-mode-required")
        if spec.model is not None:
            words += ["--model", spec.model]
        return words

    async def _ready(self, terminal: Terminal) -> None:
        """Wait until its hooks ask us, its tools are listed, and it has read its inbox.

        The message that it reads is the answer to a question nobody asked: no model hears of it.
        """
        hello = PermissionResponse.new(request_id="bullpen-hello", subtype="error", error="Hello.")
        greeting = message_of_lead(hello.text())
        await to_thread.run_sync(self._mirror.put, [greeting])
        with anyio.move_on_after(_READY_S):
            while terminal.runs:
                taken = self._mirror.has_taken([greeting.id])
                if taken and self._gate.has_started and self._has_listed:
                    return
                await anyio.sleep(_LOOK_S)
        lacks = [
            what
            for what, holds in (
                ("run the hooks that ask before each call", self._gate.has_started),
                ("list the tools of the team", self._has_listed),
                ("read its inbox", self._mirror.has_taken([greeting.id])),
            )
            if not holds
        ]
        raise Unavailable(
            f"Claude Code did not {' or '.join(lacks) or 'go on running'}. {terminal.last_words()}",
            remedy="Start it once by hand in this directory, and look what it asks for.",
        )

    async def aclose(self) -> None:
        """End the program with all that it started, and answer it no more."""
        terminal, self._terminal = self._terminal, None
        try:
            if terminal is not None:
                await terminal.end(_END_GRACE_S)
        finally:
            for part in (self._post, self._door):
                if part is not None:
                    await part.aclose()

    def remembers(self, message_id: str) -> bool:
        """Whether a message is in its conversation."""
        return message_id in self._memory.seen

    # Its turns

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        """Put the text into its inbox and follow the program until it is idle again."""
        await desk.may_spend()
        if self._terminal is None or not self._terminal.runs:
            await self._relaunch()
        if self._lead.is_out_of_step:
            await self._relaunch()
        answers = self._lead.plan_answers(given.text)
        await self._gate.show_team()
        await self._caught_up()
        self._tail.rows.clear()
        self._gate.over = None
        self._gate.permitted.clear()
        mark = f"turn {uuid.uuid4().hex[:8]}"
        message = message_of_lead(given.text, summary=mark)
        turn = self._turn = _Turn(f'summary="{mark}"', message.id)
        turn.unseen = dict.fromkeys(given.ids, "")
        is_over = False
        try:
            with one_error():
                async with anyio.create_task_group() as group:
                    await to_thread.run_sync(self._mirror.put, [*answers, message])
                    try:
                        result = await self._followed(turn, group)
                        is_over = True
                    except TurnFailed:
                        is_over = True
                        raise
                    group.cancel_scope.cancel()
            return result
        finally:
            self._turn = None
            if not is_over:
                with anyio.CancelScope(shield=True):
                    await self._break_off(turn)

    async def _relaunch(self) -> None:
        if self._terminal is not None:
            await self._terminal.end(0.0)
        await self._launch()

    async def _followed(self, turn: _Turn, group: TaskGroup) -> TurnResult:
        try:
            while True:
                await self._look(turn, group)
                result = self._outcome(turn)
                if result is not None:
                    self._report(but_last=False)
                    self._refuse_other_model()
                    return result
                await anyio.sleep(_LOOK_S)
        finally:
            # However it ended, what it used is known by now.
            self._report(but_last=False)

    async def _look(self, turn: _Turn, group: TaskGroup) -> None:
        """Take in what the program wrote since: to its lead, and into its record."""
        for text in await to_thread.run_sync(self._mirror.collect):
            payload = payload_of(text)
            if isinstance(payload, IdleNotification):
                turn.idle = payload
            elif isinstance(payload, PermissionRequest):
                group.start_soon(self._lead.permit, payload)
            elif isinstance(payload, PlanApprovalRequest):
                await self._lead.submit(payload)
        self._read()
        rows = self._tail.rows
        if turn.begun is None:
            turn.begun = transcript.given_at(rows, turn.mark)
            if turn.begun is not None:
                # One version removes mail a while after it gave it to its model. On a busy machine
                # it looks again before that, and gives it a second time.
                await to_thread.run_sync(self._mirror.withdraw, [turn.message_id])
        await self._saw(turn)
        self._report(but_last=True)
        for use_id, text in transcript.failed_results(rows):
            if (call := self._gate.permitted.pop(use_id, None)) is not None:
                await self._gate.ended(call, text, failed=True)

    def _outcome(self, turn: _Turn) -> TurnResult | None:
        """What the turn came to, if it is over.

        Raises:
            TurnFailed: the API failed, or the program ended.
            Refused: no more may be spent.
        """
        now = anyio.current_time()
        terminal = self._terminal
        if self._gate.over is not None:
            raise self._gate.over
        self._refuse_other_model()
        if terminal is None or not terminal.runs:
            if self._gate.leaves:
                return TurnResult(self._last_said(turn))
            words = "" if terminal is None else terminal.last_words()
            raise TurnFailed(
                f"Claude Code ended in the middle of a turn. {words}",
                partial="\n\n".join(self._said(turn)),
            )
        if turn.begun is None:
            return None
        idle = turn.idle is not None and turn.idle.timestamp >= turn.begun
        failure = transcript.failure(self._tail.rows, turn.begun)
        if turn.idle is not None and idle and turn.idle.failure_reason:
            failure = failure or turn.idle.failure_reason
        if failure is not None:
            turn.trouble_since = turn.trouble_since or now
            if not idle and now - turn.trouble_since < _FAILED_S:
                return None
            raise TurnFailed(
                f"The model of Claude Code failed: {failure}",
                remedy="Look at the key, the model and its API, then give it another turn.",
                partial="\n\n".join(self._said(turn)),
            )
        settled = transcript.is_settled(self._tail.rows, turn.begun)
        if not (settled or idle):
            return None
        turn.ended_since = turn.ended_since or now
        if not (settled and idle) and now - turn.ended_since < (_RECORD_S if idle else _NOTICE_S):
            return None
        if not self._said(turn) and not settled:
            raise TurnFailed("Claude Code ended its turn, but nothing of it is on its record.")
        return TurnResult(self._last_said(turn))

    def _refuse_other_model(self) -> None:
        if self._other_model is not None:
            raise TurnFailed(
                f"The agent was to use the model {self._spec.model}, but Claude Code used"
                f" {self._other_model}.",
                remedy="Ask for that model, or look at its settings.",
                for_good=True,
            )

    def _last_said(self, turn: _Turn) -> str:
        said = self._said(turn)
        return said[-1] if said else ""

    def _said(self, turn: _Turn) -> list[str]:
        """The texts of the model in this turn."""
        if turn.begun is None:
            return []
        found = transcript.answers(self._tail.rows, turn.begun)
        return [answer.text for answer in found if answer.text]

    async def _break_off(self, turn: _Turn) -> None:
        """End a turn at once: take its text back, or press the key, or end the program."""
        terminal = self._terminal
        if terminal is None or self._post is None:
            return
        await to_thread.run_sync(self._mirror.withdraw, [turn.message_id])
        known = len(self._tail.rows)
        terminal.interrupt()
        interrupted = False
        with anyio.move_on_after(_INTERRUPT_S):
            while terminal.runs and not interrupted:
                await anyio.sleep(_LOOK_S)
                self._read()
                interrupted = transcript.was_interrupted(self._tail.rows[known:])
        await self._post.hang_up()
        if not interrupted:
            await terminal.end(0.0)
            self._read()
        self._report(but_last=False)

    # Its record

    def _record_file(self) -> Path | None:
        """The program's own record of the conversation, if there is one yet."""
        found = self._mirror.root.glob(f"projects/*/{self._memory.session}.jsonl")
        return next(iter(found), None)

    def _read(self) -> None:
        if self._tail.path is None:
            self._tail.path = self._record_file()
        self._tail.read()

    async def _caught_up(self) -> None:
        """Report all requests that are on record."""
        self._read()
        self._report(but_last=False)

    def _report(self, *, but_last: bool) -> None:
        """Report what requests used. The last may still go on."""
        found = transcript.answers(self._tail.rows, "")
        for answer in found[:-1] if but_last else found:
            if answer.id in self._reported:
                continue
            self._reported.add(answer.id)
            self._desk.used(answer.usage, calls=answer.calls)
            self._desk.record("request", model=answer.model)
            if answer.text:
                self._desk.record("text", text=answer.text)
            if not _same_model(self._spec.model, answer.model):
                self._other_model = answer.model

    def _mail_given(self, ids: tuple[str, ...]) -> None:
        if self._turn is not None:
            self._turn.unseen |= dict.fromkeys(ids, iso(now_ms()))

    async def _saw(self, turn: _Turn) -> None:
        """Say which messages were in a request that succeeded: those that an answer followed."""
        if turn.begun is None or not turn.unseen:
            return
        found = transcript.answers(self._tail.rows, turn.begun)
        latest = max((answer.at for answer in found), default="")
        ids = tuple(key for key, at in turn.unseen.items() if latest > max(at, turn.begun))
        if not ids:
            return
        for key in ids:
            del turn.unseen[key]
        self._memory.saw(ids)
        await to_thread.run_sync(memory.save, self._folder, self._memory)
        await self._desk.seen(ids)


def _same_model(asked: str | None, told: str) -> bool:
    """Whether it is the model of that name, or of that family where only a family was named."""
    if asked is None:
        return True
    name = asked.removeprefix("anthropic:").removesuffix("[1m]")
    return told.startswith(name) or name in told.split("-") or name in ("default", "best")
