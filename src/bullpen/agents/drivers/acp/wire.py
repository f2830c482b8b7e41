"""The one place that knows the Agent Client Protocol, version 1, and its SDK.

It turns what a program sends into our own types (`events`), and our calls into its requests. When
the protocol changes, this changes, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema
from acp.connection import Connection
from pydantic import ValidationError

from bullpen.agents.drivers.acp import dialects
from bullpen.agents.drivers.acp.events import (
    Asked,
    Broke,
    Choice,
    Diff,
    Event,
    Hello,
    Listener,
    ModeTold,
    Opened,
    Option,
    ProgramError,
    PromptEnd,
    RunBegan,
    Said,
    Thought,
    ToolServer,
    ToolUse,
    UsageTold,
)

LINE_BYTES_MAX = 50 * 1024 * 1024
"""What one message of a program may have: files and pictures are in them."""

_METHOD_NOT_FOUND = -32601
# Not of the protocol, and without the underscore that extensions must have.
_DRAIN = "craft/drainMidTurnQueue"


class Wire:
    """The connection to one program, over its stdin and stdout."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: Listener
    ) -> None:
        self._listener = listener
        self._connection = Connection(self._handle, _Lines(reader, writer, listener))

    async def aclose(self) -> None:
        """Send and hear nothing any more."""
        await self._connection.close()

    async def initialize(self) -> Hello:
        """Say hello. Neither files nor terminals are offered: the program has its own."""
        asked = schema.InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(
                fs=schema.FileSystemCapabilities(read_text_file=False, write_text_file=False),
                terminal=False,
            ),
            client_info=schema.Implementation(
                name="bullpen", title="Bullpen", version=metadata.version("bullpen")
            ),
        )
        raw = await self._request("initialize", _dump(asked))
        told = schema.InitializeResponse.model_validate(raw)
        if told.protocol_version != PROTOCOL_VERSION:
            raise ProgramError(
                f"it speaks version {told.protocol_version} of the protocol, not {PROTOCOL_VERSION}"
            )
        can = told.agent_capabilities
        session = _table(_table(raw.get("agentCapabilities")).get("sessionCapabilities"))
        info = told.agent_info
        return Hello(
            program=f"{info.title or info.name} {info.version}" if info else "",
            loads=bool(can and can.load_session),
            steers=bool(_table(_table(raw.get("_meta")).get("steering")).get("supported")),
            takes_system_text="systemPrompt" in session,
        )

    async def new_session(self, cwd: str, server: ToolServer, system: str | None) -> Opened:
        """Open a session with our server of tools, and our system text if it takes one."""
        asked = schema.NewSessionRequest(cwd=cwd, mcp_servers=[_server(server)])
        raw = await self._request("session/new", {**_dump(asked), **_system(system)})
        told = schema.NewSessionResponse.model_validate(raw)
        return _opened(told.session_id, told.modes, told.config_options, raw)

    async def load_session(
        self, session: str, cwd: str, server: ToolServer, system: str | None
    ) -> Opened:
        """Take up a session of an earlier process; what was said in it is sent again."""
        asked = schema.LoadSessionRequest(
            session_id=session, cwd=cwd, mcp_servers=[_server(server)]
        )
        raw = await self._request("session/load", {**_dump(asked), **_system(system)})
        told = schema.LoadSessionResponse.model_validate(raw or {})
        return _opened(session, told.modes, told.config_options, raw or {})

    async def set_mode(self, session: str, mode: str) -> None:
        """Put the program into one of its modes."""
        asked = schema.SetSessionModeRequest(session_id=session, mode_id=mode)
        await self._request("session/set_mode", _dump(asked))

    async def set_model(self, session: str, option: str | None, model: str) -> str:
        """Choose a model. Returns the one that the program says it uses then."""
        if option is None:
            await self._request("session/set_model", {"sessionId": session, "modelId": model})
            return model
        asked = schema.SetSessionConfigOptionSelectRequest(
            session_id=session, config_id=option, value=model
        )
        raw = await self._request("session/set_config_option", _dump(asked))
        told = schema.SetSessionConfigOptionResponse.model_validate(raw or {"configOptions": []})
        now = _choice(told.config_options, "model")
        return model if now is None else now.value

    async def prompt(self, session: str, text: str) -> PromptEnd:
        """Give the program something to do; returns when it has ended."""
        asked = schema.PromptRequest(session_id=session, prompt=_blocks(text))
        raw = await self._request("session/prompt", _dump(asked))
        told = schema.PromptResponse.model_validate(raw)
        meta = raw.get("_meta")
        quota, models = dialects.quota_of(meta)
        used = _table(raw.get("usage"))
        return PromptEnd(told.stop_reason, dialects.usage_of(used) if used else None, quota, models)

    async def steer(self, session: str, text: str) -> bool:
        """Hand a text into the turn that goes on; false if there is none."""
        asked = {
            **_prompt(session, text),
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }
        return dialects.steered(await self._request("_session/steering", asked))

    async def steer_run(self, session: str, run: str, text: str) -> bool:
        """The same for a program that wants to be told which run is meant."""
        asked = {**_prompt(session, text), "expectedRunId": run}
        try:
            await self._request("_goose/unstable/session/steer", asked)
        except ProgramError as error:
            if error.gone:
                raise
            # The run is over, or another one has begun.
            return False
        return True

    async def cancel(self, session: str) -> None:
        """Tell the program to end its turn."""
        asked = schema.CancelNotification(session_id=session)
        try:
            await self._connection.send_notification("session/cancel", _dump(asked))
        except OSError as error:
            raise ProgramError("it has ended", gone=True) from error

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        try:
            return await self._connection.send_request(method, params)
        except RequestError as error:
            raise ProgramError(_words(error), unknown=error.code == _METHOD_NOT_FOUND) from error
        except OSError as error:
            raise ProgramError("it has ended", gone=True) from error

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """What the program sends by itself. Nothing is awaited before an update is passed on."""
        if method == "session/update":
            self._update(params)
            return None
        if is_notification:
            return None
        if method == "session/request_permission":
            return await self._permission(params)
        if method == _DRAIN:
            texts = await self._listener.drained(str(_table(params).get("sessionId")))
            return {"messages": list(texts)}
        raise RequestError.method_not_found(method)

    async def _permission(self, params: Any) -> dict[str, Any]:
        told = schema.RequestPermissionRequest.model_validate(params)
        use = _use(told.tool_call, _table(params["toolCall"]))
        options = tuple(Option(option.option_id, option.kind) for option in told.options)
        answer = await self._listener.asked(told.session_id, Asked(use, options))
        if answer is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": answer}}

    def _update(self, params: Any) -> None:
        try:
            told = schema.SessionNotification.model_validate(params)
        except ValidationError:
            # An update of a later version, or a broken one: the next one may be right.
            self._listener.garbage(json.dumps(params)[:2000])
            return
        for event in _events(told.update, _table(params["update"])):
            self._listener.heard(told.session_id, event)


class _Lines:
    """One message a line, each way. Lines that are none are passed over, and told."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: Listener
    ) -> None:
        self._reader, self._writer, self._listener = reader, writer, listener
        self._sending = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._sending:
            self._writer.write(line)
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        while True:
            try:
                line = await self._reader.readline()
            except (OSError, ValueError) as error:
                self._listener.garbage(f"The program sent a line that is too long: {error}")
                return None
            if not line:
                return None
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                return message
            if line.strip():
                self._listener.garbage(line.decode("utf-8", "replace").rstrip())

    async def close(self) -> None:
        self._writer.close()


def _server(server: ToolServer) -> schema.McpServerStdio:
    return schema.McpServerStdio(
        name=server.name,
        command=server.command[0],
        args=list(server.command[1:]),
        env=[schema.EnvVariable(name=key, value=value) for key, value in server.env.items()],
    )


def _events(update: Any, raw: Mapping[str, Any]) -> list[Event]:
    meta = update.field_meta
    match update:
        case schema.AgentMessageChunk():
            text = _text_of(update.content)
            used = dialects.chunk_usage(meta)
            told: list[Event] = [Said(text, _id(raw))] if text else []
            return [*told, UsageTold(usage=used)] if used is not None else told
        case schema.AgentThoughtChunk():
            return [Thought(_text_of(update.content))]
        case schema.ToolCallStart() | schema.ToolCallProgress():
            return [_use(update, raw)]
        case schema.CurrentModeUpdate():
            return [ModeTold(update.current_mode_id)]
        case schema.ConfigOptionUpdate():
            now = _choice(update.config_options, "mode")
            return [] if now is None else [ModeTold(now.value)]
        case schema.SessionInfoUpdate():
            run = dialects.run_of(meta)
            begun: list[Event] = [] if run is None else [RunBegan(run)]
            return [*begun, Broke()] if dialects.broke(meta) else begun
        case schema.UsageUpdate():
            cost = update.cost
            dollars = cost.amount if cost is not None and cost.currency == "USD" else None
            return [UsageTold(None, update.used, dollars, dialects.model_of(meta), update.size)]
    return []


def _use(told: Any, raw: Mapping[str, Any]) -> ToolUse:
    server, tool = dialects.tool_of(raw)
    content = told.content or []
    texts = tuple(
        text
        for item in content
        if isinstance(item, schema.ContentToolCallContent) and (text := _text_of(item.content))
    )
    return ToolUse(
        id=told.tool_call_id,
        title=told.title or "",
        kind=told.kind or "",
        status=told.status or "",
        tool=tool,
        server=server,
        input=_table(told.raw_input),
        paths=tuple(location.path for location in told.locations or []),
        diffs=tuple(
            Diff(item.path, item.old_text, item.new_text)
            for item in content
            if isinstance(item, schema.FileEditToolCallContent)
        ),
        texts=texts,
        output=_output(told.raw_output, texts),
    )


def _opened(session: str, modes: Any, options: Any, raw: Mapping[str, Any]) -> Opened:
    mode = _choice(options, "mode")
    if modes is not None:
        mode = Choice(modes.current_mode_id, tuple(each.id for each in modes.available_modes))
    model = _choice(options, "model")
    if model is None and (models := _table(raw.get("models"))):
        rows = [_table(row) for row in models.get("availableModels") or []]
        offered = tuple(str(row.get("modelId")) for row in rows)
        model = Choice(str(models.get("currentModelId")), offered)
    return Opened(session, mode, model)


def _choice(options: Any, category: str) -> Choice | None:
    """The option that is about this, by its category or else by its id."""
    for option in options or []:
        if category not in (option.category, option.id) or option.type != "select":
            continue
        rows = [row for each in option.options for row in getattr(each, "options", [each])]
        return Choice(option.current_value, tuple(row.value for row in rows), option.id)
    return None


def _output(raw: Any, texts: tuple[str, ...]) -> str:
    """What came of a call: in plain words if there are any."""
    if isinstance(raw, str):
        return raw
    if raw is None:
        # Texts may also be told before a call has ended.
        return ""
    return "\n".join(texts) or json.dumps(raw, ensure_ascii=False)


def _text_of(content: Any) -> str:
    return content.text if isinstance(content, schema.TextContentBlock) else ""


def _id(raw: Mapping[str, Any]) -> str | None:
    found = raw.get("messageId")
    return found if isinstance(found, str) else None


def _blocks(text: str) -> list[Any]:
    return [schema.TextContentBlock(type="text", text=text)]


def _prompt(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def _system(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    return {"systemPrompt": {"mode": "append", "content": [{"type": "text", "text": text}]}}


def _dump(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _words(error: RequestError) -> str:
    """What the program says went wrong; the details are in its data, if they are anywhere."""
    data = error.data
    if isinstance(data, dict):
        found = [data[key] for key in ("details", "message", "error") if data.get(key)]
        data = found[0] if found else data
    details = data if isinstance(data, str) else json.dumps(data) if data else ""
    text = str(error)
    return text if not details or details in text else f"{text}: {details}"


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
