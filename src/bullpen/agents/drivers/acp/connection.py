"""The connection to a program over the Agent Client Protocol, version 1.

It turns the program's messages into our own types (`events`) and our calls into requests. No other
module knows the protocol or its SDK, so only this one changes when the protocol does.
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

from bullpen.agents.drivers.acp import program_events as events
from bullpen.agents.drivers.acp import vendor_fields

LINE_BYTES_MAX = 50 * 1024 * 1024
"""The most bytes of one message: messages can contain files and pictures."""

_DOLLARS_MAX = 1e6

# An extension that lacks the underscore that the protocol requires.
_DRAIN = "craft/drainMidTurnQueue"


class AcpConnection:
    """The connection to one program, over its stdin and stdout."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: events.Listener
    ) -> None:
        self._listener = listener
        self._connection = Connection(self._handle, _Lines(reader, writer, listener))

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def initialize(self) -> events.Hello:
        """Start the protocol. Files and terminals are not offered: the program has its own."""
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
            raise events.ProgramError(
                f"it speaks version {told.protocol_version} of the protocol, not {PROTOCOL_VERSION}"
            )
        can = told.agent_capabilities
        session = _table(_table(raw.get("agentCapabilities")).get("sessionCapabilities"))
        info = told.agent_info
        return events.Hello(
            program=f"{info.title or info.name} {info.version}" if info else "",
            loads=bool(can and can.load_session),
            takes_system_text="systemPrompt" in session,
            auth=vendor_fields.auth_methods(raw.get("authMethods")),
        )

    async def authenticate(self, method: str) -> None:
        """Log in by one of the offered methods."""
        await self._request("authenticate", {"methodId": method})

    async def new_session(
        self, cwd: str, server: events.ToolServer, system: str | None, meta: Mapping[str, Any]
    ) -> events.Opened:
        """Open a session with our tool server, and our system text if the program takes one."""
        asked = schema.NewSessionRequest(cwd=cwd, mcp_servers=[_server(server)])
        raw = await self._request("session/new", _with(asked, system, meta))
        told = schema.NewSessionResponse.model_validate(raw)
        return _opened(told.session_id, told.modes, told.config_options, raw)

    async def load_session(
        self,
        session: str,
        cwd: str,
        server: events.ToolServer,
        system: str | None,
        meta: Mapping[str, Any],
    ) -> events.Opened:
        """Resume a session of an earlier process. The program replays what was said in it."""
        asked = schema.LoadSessionRequest(
            session_id=session, cwd=cwd, mcp_servers=[_server(server)]
        )
        raw = await self._request("session/load", _with(asked, system, meta))
        told = schema.LoadSessionResponse.model_validate(raw or {})
        return _opened(session, told.modes, told.config_options, raw or {})

    async def set_mode(self, session: str, mode: str) -> None:
        """Put the program into one of its modes."""
        asked = schema.SetSessionModeRequest(session_id=session, mode_id=mode)
        await self._request("session/set_mode", _dump(asked))

    async def set_model(self, session: str, option: str | None, model: str) -> str:
        """Choose a model. Returns the model that the program then reports."""
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

    async def prompt(self, session: str, text: str) -> events.PromptEnd:
        """Send a prompt; returns when the program has finished."""
        raw = await self._request("session/prompt", _prompt(session, text))
        told = schema.PromptResponse.model_validate(raw)
        meta = raw.get("_meta")
        quota, models = vendor_fields.quota_of(meta)
        used = _table(raw.get("usage"))
        return events.PromptEnd(
            told.stop_reason, vendor_fields.usage_of(used) if used else None, quota, models
        )

    async def steer(self, session: str, text: str) -> bool:
        """Deliver a text to the running turn; false if there is none."""
        meta = {"steering": {"idleBehavior": "promptRequired"}}
        asked = {**_prompt(session, text), "_meta": meta}
        return vendor_fields.steered(await self._request("_session/steering", asked))

    async def steer_run(self, session: str, run: str, text: str) -> bool:
        """Like `steer`, for a program that needs the id of the run."""
        asked = {**_prompt(session, text), "expectedRunId": run}
        try:
            await self._request("_goose/unstable/session/steer", asked)
        except events.ProgramError as error:
            if error.gone:
                raise
            # The run is over, or another one has started.
            return False
        return True

    async def cancel(self, session: str) -> None:
        """Tell the program to end its turn."""
        asked = schema.CancelNotification(session_id=session)
        try:
            await self._connection.send_notification("session/cancel", _dump(asked))
        except OSError as error:
            raise events.ProgramError("it has ended", gone=True) from error

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        try:
            return await self._connection.send_request(method, params)
        except RequestError as error:
            raise events.ProgramError(_words(error), code=error.code) from error
        except OSError as error:
            raise events.ProgramError("it has ended", gone=True) from error

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Handle what the program sends. Updates are passed on before anything is awaited."""
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
        options = tuple(events.Option(option.option_id, option.kind) for option in told.options)
        answer = await self._listener.asked(told.session_id, events.PermissionAsked(use, options))
        if answer is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": answer}}

    def _update(self, params: Any) -> None:
        try:
            told = schema.SessionNotification.model_validate(params)
        except ValidationError:
            # An update from a later version, or an invalid one: ignore it.
            self._listener.garbage(json.dumps(params)[:2000])
            return
        for event in _events(told.update, _table(params["update"])):
            self._listener.heard(told.session_id, event)


class _Lines:
    """One message per line in both directions. Other lines are skipped and reported."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: events.Listener
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


def _server(server: events.ToolServer) -> schema.McpServerStdio:
    return schema.McpServerStdio(
        name=server.name,
        command=server.command[0],
        args=list(server.command[1:]),
        env=[schema.EnvVariable(name=key, value=value) for key, value in server.env.items()],
    )


def _events(update: Any, raw: Mapping[str, Any]) -> list[events.Event]:
    meta = update.field_meta
    match update:
        case schema.AgentMessageChunk():
            text = _text_of(update.content)
            used = vendor_fields.chunk_usage(meta)
            message = raw.get("messageId") if isinstance(raw.get("messageId"), str) else None
            told: list[events.Event] = [events.TextSaid(text, message)] if text else []
            return [*told, events.UsageTold(usage=used)] if used is not None else told
        case schema.AgentThoughtChunk():
            return [events.Thought()]
        case schema.ToolCallStart() | schema.ToolCallProgress():
            return [_use(update, raw)]
        case schema.CurrentModeUpdate():
            return [events.ModeTold(update.current_mode_id)]
        case schema.ConfigOptionUpdate():
            now = _choice(update.config_options, "mode")
            return [] if now is None else [events.ModeTold(now.value)]
        case schema.SessionInfoUpdate():
            run = vendor_fields.run_of(meta)
            begun: list[events.Event] = [] if run is None else [events.RunBegan(run)]
            if vendor_fields.begins(meta):
                begun.append(events.WorkBegan())
            return [*begun, events.Broke()] if vendor_fields.broke(meta) else begun
        case schema.UsageUpdate():
            cost = update.cost
            dollars = cost.amount if cost is not None and cost.currency == "USD" else None
            if dollars is not None and not 0 <= dollars < _DOLLARS_MAX:
                # Not a number, or infinite: it would be in the team's record for good.
                dollars = None
            return [
                events.UsageTold(
                    None, update.used, dollars, vendor_fields.model_of(meta), update.size
                )
            ]
    return []


def _use(told: Any, raw: Mapping[str, Any]) -> events.ToolUse:
    server, tool = vendor_fields.tool_of(raw)
    content = told.content or []
    texts = tuple(
        text
        for item in content
        if isinstance(item, schema.ContentToolCallContent) and (text := _text_of(item.content))
    )
    return events.ToolUse(
        id=told.tool_call_id,
        title=told.title or "",
        kind=told.kind or "",
        status=told.status or "",
        tool=tool,
        server=server,
        input=_table(told.raw_input),
        paths=tuple(location.path for location in told.locations or []),
        diffs=tuple(
            events.Diff(item.path, item.old_text, item.new_text)
            for item in content
            if isinstance(item, schema.FileEditToolCallContent)
        ),
        texts=texts,
        output=_output(told.raw_output, texts),
    )


def _opened(session: str, modes: Any, options: Any, raw: Mapping[str, Any]) -> events.Opened:
    mode = _choice(options, "mode")
    if modes is not None:
        mode = events.AnswerChoice(
            modes.current_mode_id, tuple(each.id for each in modes.available_modes)
        )
    model = _choice(options, "model")
    if model is None and (models := _table(raw.get("models"))):
        rows = [_table(row) for row in models.get("availableModels") or []]
        offered = tuple(str(row.get("modelId")) for row in rows)
        model = events.AnswerChoice(str(models.get("currentModelId")), offered)
    return events.Opened(session, mode, model)


def _choice(options: Any, category: str) -> events.AnswerChoice | None:
    """The option of this category, or else with this id."""
    for option in options or []:
        if category not in (option.category, option.id) or option.type != "select":
            continue
        rows = [row for each in option.options for row in getattr(each, "options", [each])]
        return events.AnswerChoice(
            option.current_value, tuple(row.value for row in rows), option.id
        )
    return None


def _output(raw: Any, texts: tuple[str, ...]) -> str:
    """The result of a call, as text if there is any."""
    if isinstance(raw, str):
        return raw
    if raw is None:
        # Texts can also come before a call has ended.
        return ""
    return "\n".join(texts) or json.dumps(raw, ensure_ascii=False)


def _text_of(content: Any) -> str:
    return content.text if isinstance(content, schema.TextContentBlock) else ""


def _prompt(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def _with(asked: Any, system: str | None, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The request for a session, with our system text and the settings for this program."""
    params = _dump(asked)
    if system is not None:
        text = {"type": "text", "text": system}
        params["systemPrompt"] = {"mode": "append", "content": [text]}
    if meta:
        params["_meta"] = dict(meta)
    return params


def _dump(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _words(error: RequestError) -> str:
    """The program's error message, with the details in its data."""
    data = error.data
    if isinstance(data, dict):
        found = [data[key] for key in ("details", "message", "error") if data.get(key)]
        data = found[0] if found else data
    details = data if isinstance(data, str) else json.dumps(data) if data else ""
    text = str(error)
    return text if not details or details in text else f"{text}: {details}"


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
