"""Run Claude Code as a teammate: its process, its turns, and its messages to the lead."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import EVERYTHING, TurnFailed, TurnInput, TurnResult
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.drivers.claude_code import calls, conversation_log, memory
from bullpen.agents.drivers.claude_code.gate import HookGate
from bullpen.agents.drivers.claude_code.hooks import HookSocket
from bullpen.agents.drivers.claude_code.instructions import instructions
from bullpen.agents.drivers.claude_code.lead import Lead, message_of_lead
from bullpen.agents.drivers.claude_code.outside_watch import OutsideWatch
from bullpen.agents.drivers.claude_code.team_copy import COLOR, LEAD_SESSION, Mirror
from bullpen.agents.drivers.claude_code.terminal import LOG, Terminal
from bullpen.agents.drivers.tool_server.mcp_server import SERVER_NAME, team_tools, tool_server
from bullpen.agents.drivers.tool_server.tool_socket import ToolSocket
from bullpen.agents.system.program_sandbox import ProgramSandbox
from bullpen.agents.system.vendors.programs import command_of, refuse_unapproved
from bullpen.errors import Unavailable, one_error
from bullpen.protocol import payloads
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.protocol.clock import iso, now_ms

_READY_S = 110.0
_LOOK_S = 0.05
# How long the transcript may take to show the end of a turn after the idle notice; and how long the
# notice may take after that: a background command can delay it, and it can get lost.
_RECORD_S = 15.0
_NOTICE_S = 3.0
# How long the notice of a failed turn may take; one version never sends it.
_FAILED_S = 1.5
_INTERRUPT_S = 0.9
_END_GRACE_S = 1.5


@dataclass(slots=True)
class _Turn:
    """A running turn. `mark` finds its text in the program's transcript."""

    mark: str
    message_id: str
    # Messages that were not yet in a successful request, with the time they were delivered.
    unseen: dict[str, str] = field(default_factory=dict)
    begun: str | None = None
    idle: payloads.IdleNotification | None = None
    ended_since: float | None = None
    trouble_since: float | None = None


class ClaudeCodeDriver:
    """Claude Code in its own terminal, on a private copy of the team."""

    name = "claude-code"
    capabilities = EVERYTHING

    def __init__(self, spec: AgentSpec, env: Mapping[str, str]) -> None:
        self._spec = spec
        self._env = env
        self._memory = memory.ClaudeMemory()
        self._tail = conversation_log.ClaudeTail()
        self._reported: set[str] = set()
        self._last_usage = Usage.new(requests=1, unpriced=1)
        self._turn: _Turn | None = None
        self._terminal: Terminal | None = None
        self._door: ToolSocket | None = None
        self._post: HookSocket | None = None
        self._has_listed = False
        # The model that answered, if it is not the one asked for.
        self._other_model: str | None = None
        # Since when it has no turn.
        self._ended_at = ""

    # Its process

    async def start(self, desk: Desk) -> None:
        """Start the program and wait until its hooks, inbox and team tools work."""
        if desk.is_lead:
            raise Unavailable(
                "The driver 'claude-code' cannot be used for the lead, only for teammates.",
                remedy="Choose the driver native or claude for the lead.",
            )
        self._desk = desk
        self._folder = desk.folder
        self._memory, damage = memory.load(desk.folder)
        if damage is not None:
            desk.record("trouble", text=damage)
        self._mirror = Mirror(desk.folder / "claude", desk.team.name, desk.agent)
        self._gate = HookGate(
            desk,
            self._mirror,
            catch_up=self._caught_up,
            mail_given=self._mail_given,
            in_turn=self._in_turn,
            outside_turn=self._heard_outside,
        )
        self._lead = Lead(desk, self._mirror, self._gate)
        self._watch = OutsideWatch(
            desk, requests=self._requests, stop=self._stop, last_usage=lambda: self._last_usage
        )
        self._post = HookSocket(self._gate.answer)
        await self._post.open()
        self._door = ToolSocket(tool_server(desk, in_turn=self._in_turn, tools=self._offered))
        await self._door.open()
        try:
            await self._launch()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise

    def _offered(self, desk: Desk) -> Sequence[Tool[Desk]]:
        self._has_listed = True
        return [tool for tool in team_tools(desk) if tool.name not in calls.NOT_OFFERED]

    async def _launch(self) -> None:
        """Start the program, and resume its conversation if it has one."""
        desk = self._desk
        await to_thread.run_sync(refuse_unapproved, self._spec, "Claude Code")
        self._lead.begin()
        self._gate.has_started, self._has_listed, self._gate.leaves = False, False, False
        await to_thread.run_sync(self._mirror.furnish, desk.spec.cwd, self._env)
        await self._gate.show_team()
        known = self._record_file()
        self._tail.skip(known)
        terminal = await Terminal.start(
            self._command(resume=known is not None),
            env={**self._env, **calls.ENVIRONMENT, "CLAUDE_CONFIG_DIR": str(self._mirror.root)},
            cwd=desk.spec.cwd,
            log=desk.folder / LOG,
            redact=desk.redacted,
            sandbox=self._sandbox(),
        )
        try:
            await self._ready(terminal)
        except BaseException as error:
            gave_up = not terminal.runs
            with anyio.CancelScope(shield=True):
                await terminal.end(0.0)
            if known is None or not gave_up or not isinstance(error, Unavailable):
                raise
            desk.record("trouble", text=f"Starting a new conversation. {error.message}")
            self._memory = memory.ClaudeMemory()
            await self._launch()
            return
        self._terminal = terminal
        self._rest()
        memory.save(self._folder, self._memory)

    def _sandbox(self) -> ProgramSandbox | None:
        if self._spec.policy.sandbox is None:
            return None
        desk = self._desk
        assert self._post is not None and self._door is not None
        return ProgramSandbox(
            self._spec,
            desk.folder,
            [self._post.path, self._door.path],
            lambda why: desk.record("note", text=why),
            shares=self._mirror.directories,
            reads=[*self._mirror.users_files(self._env), *self._mirror.kept],
        )

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
            # In files: the key of the socket must not appear in the process list.
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
        """Wait until its hooks call us, it has listed our tools, and it has read its inbox.

        The message in its inbox answers a request that does not exist, so no model sees it.
        """
        hello = payloads.PermissionResponse.new(
            request_id="bullpen-hello", subtype="error", error="Hello."
        )
        greeting = message_of_lead(hello.text())
        await to_thread.run_sync(self._mirror.put, [greeting])
        with anyio.move_on_after(_READY_S):
            while terminal.runs:
                taken = self._mirror.has_taken([greeting.id])
                if taken and self._gate.has_started and self._has_listed:
                    return
                await anyio.sleep(_LOOK_S)
        done = {
            "run its hooks": self._gate.has_started,
            "list the team tools": self._has_listed,
            "read its inbox": self._mirror.has_taken([greeting.id]),
        }
        lacks = [what for what, holds in done.items() if not holds]
        raise Unavailable(
            f"Claude Code did not {' or '.join(lacks) or 'keep running'}. {terminal.last_words()}",
            remedy="Run `claude` by hand in this directory to see what is wrong.",
        )

    async def aclose(self) -> None:
        """Stop the program and everything it started, and close the sockets."""
        await self._watch.stopped()
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
        """Put the text into its inbox and wait until the program is idle again."""
        await self._watch.settle()
        await desk.may_spend()
        if self._terminal is None or not self._terminal.runs or self._lead.is_out_of_step:
            if self._terminal is not None:
                await self._terminal.end(0.0)
            await self._launch()
        text = given.text
        if not given.whole and not self._gate.knows_team:
            text = f"{await desk.briefing()}\n\n{text}"
        self._gate.knows_team = True
        answers = self._lead.plan_answers(given.text)
        await self._gate.show_team()
        await self._caught_up()
        self._tail.rows.clear()
        self._gate.over = None
        self._gate.permitted.clear()
        mark = f"turn {uuid.uuid4().hex[:8]}"
        message = message_of_lead(self._watch.told(text), summary=mark)
        turn = self._turn = _Turn(f'summary="{mark}"', message.id)
        self._ended_at = ""
        turn.unseen = dict.fromkeys(given.ids, "")
        is_over = False
        try:
            with one_error():
                async with anyio.create_task_group() as group:
                    await to_thread.run_sync(self._mirror.put, [*answers, message])
                    try:
                        result = await self._followed(turn, group)
                    except TurnFailed:
                        is_over = True
                        raise
                    is_over = True
                    group.cancel_scope.cancel()
            return result
        finally:
            self._turn = None
            if not is_over:
                with anyio.CancelScope(shield=True):
                    await self._break_off(turn)
            self._rest()

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
            # However the turn ended, its usage is known by now.
            self._report(but_last=False)

    async def _look(self, turn: _Turn, group: TaskGroup) -> None:
        """Read what the program wrote since: to its lead and into its transcript."""
        for text in await to_thread.run_sync(self._mirror.collect):
            payload = payloads.payload_of(text)
            if isinstance(payload, payloads.IdleNotification):
                turn.idle = payload
            elif isinstance(payload, payloads.PermissionRequest):
                group.start_soon(self._lead.permit, payload)
            elif isinstance(payload, payloads.PlanApprovalRequest):
                await self._lead.submit(payload)
        self._read()
        rows = self._tail.rows
        if turn.begun is None:
            turn.begun = conversation_log.given_at(rows, turn.mark)
            if turn.begun is not None:
                # One version removes mail only a while after it gave it to its model. On a busy
                # machine it may read the mail again before that, and deliver it twice.
                await to_thread.run_sync(self._mirror.withdraw, [turn.message_id])
        await self._saw(turn)
        self._report(but_last=True)
        for use_id, text in conversation_log.failed_results(rows):
            if (call := self._gate.permitted.pop(use_id, None)) is not None:
                await self._gate.ended(call, text, failed=True)

    def _outcome(self, turn: _Turn) -> TurnResult | None:
        """The result of the turn, if it is over. Raises TurnFailed or Refused (budget)."""
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
        failure = conversation_log.failure(self._tail.rows, turn.begun)
        if turn.idle is not None and idle and turn.idle.failure_reason:
            failure = failure or turn.idle.failure_reason
        if failure is not None:
            turn.trouble_since = turn.trouble_since or now
            if not idle and now - turn.trouble_since < _FAILED_S:
                return None
            raise TurnFailed(
                f"Claude Code's model request failed: {failure}",
                remedy="Check the API key, the model and the API, then try again.",
                partial="\n\n".join(self._said(turn)),
            )
        settled = conversation_log.is_settled(self._tail.rows, turn.begun)
        if not (settled or idle):
            return None
        turn.ended_since = turn.ended_since or now
        if not (settled and idle) and now - turn.ended_since < (_RECORD_S if idle else _NOTICE_S):
            return None
        if not self._said(turn) and not settled:
            raise TurnFailed("Claude Code ended its turn, but its transcript shows nothing of it.")
        return TurnResult(self._last_said(turn))

    def _refuse_other_model(self) -> None:
        if self._other_model is not None:
            raise TurnFailed(
                f"The agent asked for the model {self._spec.model}, but Claude Code used"
                f" {self._other_model}.",
                remedy=f"Ask for {self._other_model}, or check Claude Code's settings.",
                for_good=True,
            )

    def _last_said(self, turn: _Turn) -> str:
        said = self._said(turn)
        return said[-1] if said else ""

    def _said(self, turn: _Turn) -> list[str]:
        """The model's texts in this turn."""
        if turn.begun is None:
            return []
        found = conversation_log.answers(self._tail.rows, turn.begun)
        return [answer.text for answer in found if answer.text]

    async def _break_off(self, turn: _Turn) -> None:
        """Stop a turn at once: withdraw its text, or interrupt it, or stop the program."""
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
                interrupted = conversation_log.was_interrupted(self._tail.rows[known:])
        await self._post.hang_up()
        if not interrupted:
            await terminal.end(0.0)
            self._read()
        self._report(but_last=False)

    # Between its turns

    def _in_turn(self) -> bool:
        return self._turn is not None

    def _rest(self) -> None:
        """Note that from now on it has no turn."""
        self._ended_at = iso(now_ms())
        self._watch.begin(len(self._reported))

    def _heard_outside(self, call: Call | None) -> None:
        """Stop a program that calls a tool, or has had an answer, although no turn runs."""
        if self._terminal is None or not self._ended_at:
            return
        self._read()
        if call is not None or conversation_log.answers(self._tail.rows, self._ended_at):
            self._watch.worked(call)

    async def _stop(self) -> None:
        """Stop the program at once, and hang up on the hooks that wait."""
        if self._terminal is not None:
            await self._terminal.end(0.0)
        if self._post is not None:
            await self._post.hang_up()

    # Its transcript

    def _record_file(self) -> Path | None:
        """The program's own transcript of the conversation, if it exists yet."""
        found = self._mirror.root.glob(f"projects/*/{self._memory.session}.jsonl")
        return next(iter(found), None)

    def _read(self) -> None:
        if self._tail.path is None:
            self._tail.path = self._record_file()
        self._tail.read()

    async def _caught_up(self) -> None:
        """Report all requests in the transcript."""
        self._requests()

    def _requests(self) -> int:
        """Report all requests in the transcript; returns how many there were so far."""
        self._read()
        self._report(but_last=False)
        return len(self._reported)

    def _report(self, *, but_last: bool) -> None:
        """Report the usage of requests, without the last if it may still be running."""
        found = conversation_log.answers(self._tail.rows, "")
        for answer in found[:-1] if but_last else found:
            if answer.id in self._reported:
                continue
            self._reported.add(answer.id)
            self._last_usage = answer.usage
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
        """Mark the messages that were in a successful request, one that got an answer."""
        if turn.begun is None or not turn.unseen:
            return
        found = conversation_log.answers(self._tail.rows, turn.begun)
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
    """Whether it is the named model, or one of the named family."""
    if asked is None:
        return True
    name = asked.removeprefix("anthropic:").removesuffix("[1m]")
    return told.startswith(name) or name in told.split("-") or name in ("default", "best")
