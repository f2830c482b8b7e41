"""Send one request to a model, hiding the differences between vendors."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

import anyio
from pydantic_ai import exceptions as errors
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
)
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.settings import ModelSettings, ThinkingEffort
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.drivers.native.attachments import sent_size
from bullpen.agents.drivers.native.limiter import Limiter, RequestFailed
from bullpen.agents.drivers.native.model_choice import ModelChoice, same_model
from bullpen.agents.drivers.native.provider.connection_cause import connection_cause
from bullpen.agents.drivers.native.provider.http_watch import WatchedConnection
from bullpen.agents.drivers.native.provider.libraries import open_model
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.agents.drivers.native.provider.prices import price
from bullpen.agents.drivers.native.provider.served import told_by_server
from bullpen.agents.drivers.native.sent_schema import sent_schema
from bullpen.errors import Invalid
from bullpen.protocol.agent import Failure, Usage

CONTEXT_WINDOW = 32_768
"""The context window of models whose window nobody tells. Most models have more, none has less."""

ANSWER_CHARS_MAX = 1_000_000
"""The longest answer that is kept, in characters. No model's own limit is that high."""

SILENT_S = 20.0
"""After so long without the beginning of an answer, an agent is shown as waiting for it."""

_LOOK_EVERY_S = 1.0
_WORDS_MAX = 1_000
_BYTES_PER_TOKEN = 3
_TOKENS_PER_PART = 20

_NO_CREDIT = re.compile(
    r"credit balance|insufficient[ _](quota|balance|credit|fund)", re.IGNORECASE
)


class Used(Protocol):
    """Takes the usage of a request."""

    def __call__(self, usage: Usage, *, calls: Sequence[str], model: str | None) -> None:
        """Report the usage, the tools that the answer calls, and the model if it is another."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long an answer may take, in seconds. Tests set their own."""

    first_event_s: float = 300.0
    # Between two events, pings included.
    silence_s: float = 120.0
    request_s: float = 1_800.0


def effort_of(asked: object) -> ThinkingEffort | None:
    """The thinking effort asked for at spawn; None leaves it to the model."""
    match asked:
        case None | "minimal" | "low" | "medium" | "high" | "xhigh" | "max":
            return asked
    raise Invalid(
        f"There is no effort {asked!r}.", remedy="Use minimal, low, medium, high, xhigh or max."
    )


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request contains in addition to the conversation."""

    system: str
    tools: Sequence[Tool[Desk]]
    # A request for a summary lists the tools, as the API requires, but must not use them.
    words_only: bool = False
    effort: ThinkingEffort | None = None
    # The API's own search, which it runs itself.
    search: WebSearchTool | None = None


class ModelConnection:
    """An open connection to the chosen model, for one request at a time."""

    def __init__(
        self,
        choice: ModelChoice,
        waits: Waits = Waits(),  # noqa: B008 - frozen
        options: ModelOptions = ModelOptions(),  # noqa: B008 - frozen
        *,
        booked_as: str | None = None,
        http: WatchedConnection | None = None,
    ) -> None:
        self.choice = choice
        # What was set; what the server tells is added when the connection opens.
        self.options = options
        self.window_from = "set"
        # The name of a model that is not the agent's own.
        self._booked_as = booked_as
        self._waits = waits
        self._http = http or WatchedConnection(silence_s=waits.silence_s)
        self._model = open_model(choice, self._http)

    async def open(self) -> None:
        """Prepare for requests, and ask the server about the model as far as it is not set."""
        await self._model.__aenter__()
        if self.options.context_window is not None:
            return
        self.window_from = "as its server says"
        if self._model.context_window is None:
            told = await told_by_server(self.choice, self._http.client)
            self.options = self.options.over(told)
        if self.options.context_window is None:
            self.window_from = "known" if self._model.context_window else "not known, so assumed"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._model.__aexit__(None, None, None)
        await self._http.client.aclose()

    @property
    def context_window(self) -> int:
        """How many tokens a request may have."""
        return self.options.context_window or self._model.context_window or CONTEXT_WINDOW

    @property
    def keeps_effort(self) -> bool:
        """Whether the model is known to think as much as it is told."""
        profile = self._model.profile
        return bool(profile.get("supports_thinking") or profile.get("thinking_always_enabled"))

    @property
    def is_answered(self) -> bool:
        """Whether the API has begun to answer the request under way."""
        return bool(self._http.status)

    def sees(self, media_type: str) -> bool:
        """Whether the model can see files of this type, as far as that is known."""
        profile = self._model.profile
        if media_type.startswith("image/"):
            return bool(profile.get("supports_image_input", True))
        supported = profile.get("supported_document_media_types")
        return (
            bool(profile.get("supports_document_input", True))
            and bool(profile.get("openai_chat_supports_document_input", True))
            and (supported is None or media_type in supported)
        )

    async def request(
        self, messages: Sequence[ModelMessage], ask: Ask, *, used: Used
    ) -> ModelResponse:
        """Send one request, without the library's retries. Raises RequestFailed.

        `used` is told the usage of every request that may be billed, also of one that fails or is
        cancelled. What the API did not say is estimated.
        """
        self._http.begin()
        said: ModelResponse | None = None
        sent = True
        try:
            async with model_request_stream(
                self._model,
                messages,
                model_settings=self._settings(ask),
                model_request_parameters=_parameters(ask),
            ) as stream:
                try:
                    await _read(stream)
                finally:
                    said = stream.get()
            _refuse_unfinished(said)
            return said
        except RequestFailed as failed:
            failed.partial = _partial(said)
            raise
        except errors.AgentRunError as error:
            sent = getattr(error, "phase", None) not in ("pool", "connect")
            if self.choice.provider.api == "openai-chat":
                sent = sent and not _refused_in_body(error, said)
            raise self._failure(error, said) from error
        except Exception as error:
            # An answer can be too odd for the libraries, and so can a conversation from elsewhere.
            kind: Failure = "network" if self._http.status else "rejected"
            words = f"{type(error).__name__}: {error}"[:_WORDS_MAX]
            raise RequestFailed(kind, words, partial=_partial(said)) from error
        finally:
            if sent and self._http.sent_bytes and self._http.status < 400:
                calls = [] if said is None else [call.tool_name for call in said.tool_calls]
                self._report(self._usage(said, messages), said, calls, used)

    def _report(
        self, usage: Usage, said: ModelResponse | None, calls: Sequence[str], used: Used
    ) -> None:
        other = (None if said is None else self.answered(said)) or self._booked_as
        # What has no price stays in the account of the agent's own model, where budgets see it.
        used(usage, calls=calls, model=None if usage.unpriced else other)

    def answered(self, said: ModelResponse) -> str | None:
        """The name with which the API answered, if it is not that of the model asked for."""
        told = said.model_name
        same = not told or same_model(self.choice.model, told)
        return None if same else f"{self.choice.provider.prefix}:{told}"

    def _usage(self, said: ModelResponse | None, messages: Sequence[ModelMessage]) -> Usage:
        """The usage of a request, as far as the API said it, and an estimate of the rest."""
        told = RequestUsage() if said is None else said.usage
        if said is not None and _stop_reason(said) and told.input_tokens:
            return self._priced(told, said)
        files, tokens = sent_size(messages)
        sent = _tokens(max(self._http.sent_bytes - files, 0)) + tokens
        guess = RequestUsage(
            input_tokens=told.input_tokens or sent,
            output_tokens=max(told.output_tokens, 0 if said is None else _tokens_said(said)),
            cache_read_tokens=told.cache_read_tokens,
            cache_write_tokens=told.cache_write_tokens,
        )
        return self._priced(guess, said).evolve(estimated=1)

    def _priced(self, used: RequestUsage, said: ModelResponse | None) -> Usage:
        """The usage with its price. Cached tokens are not also counted as input."""
        cached = used.cache_read_tokens + used.cache_write_tokens
        usage = Usage.new(
            requests=1,
            input_tokens=max(used.input_tokens - cached, 0),
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_tokens=used.cache_write_tokens,
        )
        answered = None if said is None else said.model_name
        # The library adds this field where the API searched.
        searches = int(getattr(used, "web_searches", 0) or 0)
        cost = price(self.choice, usage, answered=answered, options=self.options, searches=searches)
        return usage.evolve(cost_usd=cost or 0.0, unpriced=int(cost is None))

    def _settings(self, ask: Ask) -> ModelSettings:
        settings = ModelSettings(
            cache=True,
            first_event_timeout=self._waits.first_event_s,
            request_timeout=self._waits.request_s,
        )
        if self.choice.provider.api != "bedrock":
            # There the client itself is told not to retry.
            settings["max_retries"] = 0
        if self.options.max_output is not None:
            settings["max_tokens"] = self.options.max_output
        if ask.words_only and ask.tools:
            settings["tool_choice"] = "none"
        if ask.effort is not None:
            settings["thinking"] = ask.effort
        if ask.search is not None:
            # A setting of OpenAI's Responses; the others do not look at it.
            settings = cast(
                "ModelSettings", {**settings, "openai_include_web_search_sources": True}
            )
        return settings

    def _failure(self, error: errors.AgentRunError, said: ModelResponse | None) -> RequestFailed:
        kind = _kind(error)
        return RequestFailed(
            kind,
            _words(error),
            remedy=_remedy(kind, self.choice),
            retry_after_s=error.retry_after if isinstance(error, errors.ModelAPIError) else None,
            partial=_partial(said),
        )


async def booked(
    connection: ModelConnection,
    limiter: Limiter,
    messages: Sequence[ModelMessage],
    ask: Ask,
    desk: Desk,
    *,
    mail: Sequence[str] = (),
    summary: bool = False,
    used: Used | None = None,
    **about: str | None,
) -> ModelResponse:
    """Send a request within the rate limit and the budget, and record it with what it is about."""
    begun = time.monotonic()

    async def attempt() -> ModelResponse:
        # What a broken attempt cost counts for the next one.
        await desk.may_spend()
        asking = partial(connection.request, messages, ask, used=used or desk.used)
        return await _while_told(asking, connection, desk)

    response = await limiter.run(attempt, waiting=desk.waiting)
    desk.record(
        "request",
        model=response.model_name,
        messages=len(messages),
        mail=list(mail),
        summary=summary,
        **about,
        seconds=round(time.monotonic() - begun, 3),
    )
    return response


async def _while_told(
    asking: Callable[[], Awaitable[ModelResponse]], connection: ModelConnection, desk: Desk
) -> ModelResponse:
    """Send a request. If the API stays silent, the agent is shown as waiting for it."""
    said: ModelResponse | Exception

    async def tell() -> None:
        await anyio.sleep(SILENT_S)
        with desk.waiting(f"an answer of the API at {connection.choice.host}"):
            # Amazon's library says in a thread that the answer has begun.
            while not connection.is_answered:  # noqa: ASYNC110
                await anyio.sleep(_LOOK_EVERY_S)

    async with anyio.create_task_group() as group:
        group.start_soon(tell)
        try:
            said = await asking()
        except Exception as error:
            # Raised below, because a task group would put it into a group of errors.
            said = error
        group.cancel_scope.cancel()
    if isinstance(said, Exception):
        raise said
    return said


async def _read(stream: StreamedResponse) -> None:
    """Read a stream to its end. Raises RequestFailed if that is too far away."""
    size = 0
    async for event in stream:
        match event:
            case PartStartEvent(part=new) | PartDeltaEvent(delta=new):
                size += sum(len(text) for text in _texts(new))
        if size > ANSWER_CHARS_MAX:
            raise RequestFailed(
                "endless",
                f"more than {ANSWER_CHARS_MAX:,} characters",
                remedy="Check the model and its server.",
            )


def _texts(part: object) -> Iterator[str]:
    for name in ("content", "content_delta", "args", "args_delta"):
        value = getattr(part, name, None)
        if value:
            yield value if isinstance(value, str) else json.dumps(value, default=str)


def _stop_reason(said: ModelResponse) -> str | None:
    """Why the model stopped, as the API says it; None if it did not say so."""
    raw = (said.provider_details or {}).get("finish_reason")
    return said.finish_reason or (raw if isinstance(raw, str) else None)


def _refuse_unfinished(said: ModelResponse) -> None:
    """Refuse an answer that ended politely, but before its end."""
    if _stop_reason(said) is None:
        raise RequestFailed("network", "the answer ended without a stop reason")
    if said.finish_reason == "error":
        raise RequestFailed("server", "the API reported an error instead of an answer")


def _refused_in_body(error: errors.AgentRunError, said: ModelResponse | None) -> bool:
    """Whether an answer is nothing but an error: gateways send a refusal with the status 200."""
    empty = said is None or not (said.parts or said.usage.input_tokens)
    return empty and isinstance(error, errors.ModelHTTPError)


def _partial(said: ModelResponse | None) -> str:
    return "" if said is None else (said.text or "")


def _tokens(size: int) -> int:
    """How many tokens a text of so many bytes has at most, in most languages."""
    return -(-size // _BYTES_PER_TOKEN)


def _tokens_said(said: ModelResponse) -> int:
    return sum(
        _TOKENS_PER_PART
        + sum(_tokens(len(text.encode("utf-8", "replace"))) for text in _texts(part))
        for part in said.parts
    )


def _parameters(ask: Ask) -> ModelRequestParameters:
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=sent_schema(tool.input),
            )
            for tool in ask.tools
        ],
        native_tools=[] if ask.search is None else [ask.search],
        instruction_parts=[InstructionPart(content=ask.system)],
    )


def _kind(error: errors.AgentRunError) -> Failure:
    """What failed, by the API's status and code. Words decide only where there is no code."""
    match error:
        case errors.ModelContextWindowExceededError() | errors.ModelHTTPError(status_code=413):
            return "too_long"
        case errors.ModelQuotaExceededError():
            return "credit"
        case errors.ModelHTTPError(status_code=400 | 403 | 429) if _NO_CREDIT.search(_words(error)):
            return "credit"
        case errors.ModelHTTPError(status_code=403 | 451):
            return "permission"
        case errors.ModelAuthenticationError():
            return "key"
        case errors.ModelNotFoundError() | errors.ModelHTTPError(status_code=405 | 410):
            return "model"
        case errors.ModelRateLimitError():
            return "rate_limit"
        case errors.ModelUnavailableError():
            return "overload"
        case errors.ModelServerError() | errors.ModelHTTPError(status_code=409):
            return "server"
        case errors.ModelHTTPError(status_code=408 | 425):
            return "network"
        case errors.ModelRequestRejectedError() | errors.ModelHTTPError():
            return "rejected"
    # A connection that broke, silence, or an answer that cannot be read.
    return "network"


def _remedy(kind: Failure, choice: ModelChoice) -> str:
    key, url = choice.key_variable, choice.url_variable
    match kind:
        case "key":
            return f"Set {key} to a valid API key, then start the agent again."
        case "permission":
            return f"Set {key} to an API key that may use {choice.model}, or choose another model."
        case "credit":
            return f"Check the billing of the account that {key} belongs to, or set another key."
        case "model":
            return f"Check the name of the model, {choice.model}, and the address in {url}."
        case "network":
            return f"Check the network, and that {choice.host} is reachable."
        case "rejected":
            return "See the transcript for the request."
    return ""


def _words(error: errors.AgentRunError) -> str:
    """The API's error message, from the body if there is one."""
    body = error.body if isinstance(error, errors.ModelAPIError) else None
    told = body.get("error") or body.get("Error") or body if isinstance(body, dict) else None
    message = (told.get("message") or told.get("Message")) if isinstance(told, dict) else None
    words = message if isinstance(message, str) and message else str(error)
    if isinstance(error, errors.ModelConnectionError):
        words = connection_cause(error) or words
    status = f" (HTTP {error.status_code})" if isinstance(error, errors.ModelHTTPError) else ""
    return f"{words[:_WORDS_MAX]}{status}"
