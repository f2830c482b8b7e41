"""The Agent Client Protocol, version 1, for the program that started us.

It turns requests into calls of `Sessions` and our updates into messages. No other module of this
door knows the protocol or its SDK, so only this one changes when the protocol does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from acp import PROTOCOL_VERSION, AgentSideConnection, RequestError, schema

from bullpen.doors.acp import updates
from bullpen.doors.acp.sessions import Opened, Sessions
from bullpen.errors import BullpenError, Invalid, NotFound
from bullpen.view.text import one_line

LINE_BYTES_MAX = 50 * 1024 * 1024
"""The most bytes of one message: messages can contain files."""

_NOT_READ = "Bullpen reads text and files; it did not say that it reads this: {}."
_GARBAGE_CHARS_MAX = 200
_BATCH = "A message must be one JSON object on one line."


async def converse(
    sessions: Sessions, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the client until it closes its end."""
    lines = _Lines(reader, writer)
    connection = AgentSideConnection(
        lambda client: _Agent(sessions, client),
        lines,
        listening=False,
        use_unstable_protocol=True,
    )
    try:
        await connection.listen()
    finally:
        await asyncio.shield(connection.close())


class _Agent:
    """The methods that the SDK calls, one for each request of the protocol."""

    def __init__(self, sessions: Sessions, client: Any) -> None:
        self._sessions = sessions
        self._client = client

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(
                    image=False, audio=False, embedded_context=True
                ),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=False),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            agent_info=schema.Implementation(
                name="bullpen", title="Bullpen", version=metadata.version("bullpen")
            ),
            auth_methods=[],
        )

    async def new_session(
        self, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> schema.NewSessionResponse:
        servers = _servers(mcp_servers)
        with _Told():
            opened = await self._sessions.new(cwd, servers, self._client_of)
        return schema.NewSessionResponse(session_id=opened.session, modes=_modes(opened))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> schema.LoadSessionResponse:
        servers = _servers(mcp_servers)
        with _Told(session_id):
            opened = await self._sessions.load(
                session_id, cwd, servers, self._client_of, replay=True
            )
        return schema.LoadSessionResponse(modes=_modes(opened))

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        servers = _servers(mcp_servers)
        with _Told(session_id):
            opened = await self._sessions.load(
                session_id, cwd, servers, self._client_of, replay=False
            )
        return schema.ResumeSessionResponse(modes=_modes(opened))

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        with _Told():
            found = await self._sessions.listed(cwd)
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(session_id=name, cwd=where, title=title)
                for name, where, title in found
            ]
        )

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        with _Told(session_id):
            await self._sessions.close(session_id)
        return schema.CloseSessionResponse()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        with _Told(session_id):
            await self._sessions.set_mode(session_id, mode_id)
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> schema.PromptResponse:
        text = _text_of(prompt)
        with _Told(session_id):
            return schema.PromptResponse(stop_reason=await self._sessions.prompt(session_id, text))

    async def cancel(self, session_id: str, **_: Any) -> None:
        with _Told(session_id):
            await self._sessions.cancel(session_id)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return None

    def _client_of(self, session: str) -> updates.Client:
        client = self._client

        async def tell(update: updates.Update) -> None:
            await client.session_update(session, _message(update))

        async def ask(asked: updates.Asked) -> str | None:
            answer = await client.request_permission(
                session,
                schema.ToolCallUpdate(**_call(asked.call)),
                [
                    schema.PermissionOption(option_id=each.id, name=each.name, kind=each.kind)
                    for each in asked.choices
                ],
            )
            chosen = answer.outcome
            return chosen.option_id if isinstance(chosen, schema.AllowedOutcome) else None

        return updates.Client(tell, ask)


class _Lines:
    """One message per line in both directions. A line that is no message is answered as one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._sending = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        async with self._sending:
            self._writer.write(line)
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        while True:
            try:
                line = await self._reader.readline()
            except (OSError, ValueError) as error:
                _log(f"The client sent a line that is too long: {error}")
                return None
            if not line:
                return None
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                _log(f"Not JSON: {one_line(line.decode('utf-8', 'replace'))[:_GARBAGE_CHARS_MAX]}")
                await self._refuse(RequestError.parse_error(), None)
                continue
            if isinstance(message, dict) and _is_message(message):
                return message
            known = message.get("id") if isinstance(message, dict) else None
            await self._refuse(
                RequestError.invalid_request({"details": _BATCH}),
                known if isinstance(known, str | int) else None,
            )

    async def close(self) -> None:
        self._writer.close()

    async def _refuse(self, error: RequestError, known: str | int | None) -> None:
        await self.send({"jsonrpc": "2.0", "id": known, "error": error.to_error_obj()})


def _is_message(message: dict[str, Any]) -> bool:
    """Whether it is a request, a notification or an answer, as far as the SDK relies on it."""
    if "method" in message:
        return isinstance(message["method"], str)
    return isinstance(message.get("id"), int) and ("result" in message or "error" in message)


class _Told:
    """Turns errors of ours into errors of the protocol, with what to do about them."""

    def __init__(self, session: str | None = None) -> None:
        self._session = session

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, BullpenError):
            return
        words = " ".join(each for each in (error.message, error.remedy) if each)
        if isinstance(error, NotFound) and self._session is not None:
            raise RequestError(-32002, words, {"uri": self._session}) from error
        code = -32602 if isinstance(error, Invalid) else -32603
        raise RequestError(code, words, {"details": words}) from error


def _log(text: str) -> None:
    print(f"bullpen acp: {text}", file=sys.stderr, flush=True)


def _servers(given: Any) -> list[updates.ClientServer]:
    return [_server(each) for each in given or ()]


def _server(given: Any) -> updates.ClientServer:
    match given:
        case schema.McpServerStdio():
            env = {each.name: each.value for each in given.env}
            return updates.ClientServer(given.name, given.command, tuple(given.args), env)
        case schema.HttpMcpServer():
            headers = {each.name: each.value for each in given.headers}
            return updates.ClientServer(given.name, url=str(given.url), headers=headers)
    words = (
        f"The MCP server {getattr(given, 'name', '?')!r} uses a transport that Bullpen did not"
        " offer. Use stdio or http."
    )
    raise RequestError(-32602, words, {"details": words})


def _text_of(blocks: Sequence[Any]) -> str:
    """The words of a prompt; files that it contains are shown with their names."""
    parts = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                parts.append(block.text)
            case schema.ResourceContentBlock():
                parts.append(f"[{block.name}]({block.uri})")
            case schema.EmbeddedResourceContentBlock() if isinstance(
                block.resource, schema.TextResourceContents
            ):
                parts.append(f'<file uri="{block.resource.uri}">\n{block.resource.text}\n</file>')
            case _:
                words = _NOT_READ.format(getattr(block, "type", "?"))
                raise RequestError(-32602, words, {"details": words})
    return "\n\n".join(part for part in parts if part.strip())


def _modes(opened: Opened) -> schema.SessionModeState:
    return schema.SessionModeState(
        current_mode_id=opened.mode,
        available_modes=[
            schema.SessionMode(id=mode, name=name, description=about)
            for mode, name, about in opened.modes
        ],
    )


def _message(update: updates.Update) -> Any:
    match update:
        case updates.Said(text, who):
            content = schema.TextContentBlock(type="text", text=text)
            if who == "lead":
                return schema.AgentMessageChunk(
                    session_update="agent_message_chunk", content=content
                )
            if who == "person":
                return schema.UserMessageChunk(session_update="user_message_chunk", content=content)
            return schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=content)
        case updates.CallTold(begins=True):
            return schema.ToolCallStart(session_update="tool_call", **_call(update))
        case updates.CallTold():
            return schema.ToolCallProgress(session_update="tool_call_update", **_call(update))
        case updates.PlanTold(steps):
            entries = [
                schema.PlanEntry(content=step.text, priority="medium", status=step.status)
                for step in steps
            ]
            return schema.AgentPlanUpdate(session_update="plan", entries=entries)
        case updates.ModeTold(mode):
            return schema.CurrentModeUpdate(
                session_update="current_mode_update", current_mode_id=mode
            )


def _call(told: updates.CallTold) -> dict[str, Any]:
    content: list[Any] = []
    locations = None
    if told.change is not None:
        change = told.change
        content.append(
            schema.FileEditToolCallContent(
                type="diff", path=change.path, old_text=change.old, new_text=change.new
            )
        )
        locations = [schema.ToolCallLocation(path=change.path)]
    if told.text:
        text = schema.TextContentBlock(type="text", text=told.text)
        content.append(schema.ContentToolCallContent(type="content", content=text))
    fields = {
        "title": told.title,
        "kind": told.kind,
        "raw_input": None if told.input is None else dict(told.input),
        "content": content or None,
        "locations": locations,
        "field_meta": None if told.tool is None else {"toolName": told.tool},
    }
    known = {key: value for key, value in fields.items() if value is not None}
    return {"tool_call_id": told.id, "status": told.status, **known}
