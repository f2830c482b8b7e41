"""One request to a model: the vendors' differences, errors and prices end here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings, ThinkingEffort
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from bullpen.agents.drivers.native.choice import Choice
from bullpen.agents.limiter import Kind, RequestFailed
from bullpen.agents.tools.base import Tool
from bullpen.errors import Invalid
from bullpen.protocol.agent import Usage

CONTEXT_WINDOW = 200_000
"""Taken for models whose window is not known."""

_FIRST_EVENT_S = 300.0
_REQUEST_S = 1_800.0
_WORDS_MAX = 1_000


def effort_of(asked: object) -> ThinkingEffort | None:
    """How hard the model is to think, as it was asked for at spawn; None leaves it to the model."""
    match asked:
        case None | "minimal" | "low" | "medium" | "high" | "xhigh" | "max":
            return asked
    raise Invalid(
        f"There is no effort {asked!r}.", remedy="Say minimal, low, medium, high, xhigh or max."
    )


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request holds beside the conversation."""

    system: str
    tools: Sequence[Tool]
    # A request for a summary offers the tools, as the API wants it, but must not use them.
    words_only: bool = False
    effort: ThinkingEffort | None = None


class Connection:
    """An open connection to the model that was chosen."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self._model = _model(choice)

    async def open(self) -> None:
        """Get ready for requests."""
        await self._model.__aenter__()

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._model.__aexit__(None, None, None)

    @property
    def context_window(self) -> int:
        """How many tokens a request may hold."""
        return self._model.context_window or CONTEXT_WINDOW

    async def request(self, messages: Sequence[ModelMessage], ask: Ask) -> ModelResponse:
        """Send one request and read the answer to its end. The library's retries are off.

        Raises:
            RequestFailed: with the API's words, and what had been said before it broke off.
        """
        said = ""
        try:
            async with model_request_stream(
                self._model,
                messages,
                model_settings=_settings(ask),
                model_request_parameters=_parameters(ask),
            ) as stream:
                try:
                    async for _ in stream:
                        pass
                finally:
                    said = stream.get().text or ""
                return stream.get()
        except AgentRunError as error:
            raise _failure(error, said) from error


def usage_of(response: ModelResponse) -> Usage:
    """What a request used. Tokens from and to the cache are not counted as input again."""
    used = response.usage
    cached = used.cache_read_tokens + used.cache_write_tokens
    cost, unpriced = _cost(response)
    return Usage.new(
        requests=1,
        input_tokens=max(used.input_tokens - cached, 0),
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cost_usd=cost,
        unpriced=unpriced,
    )


def check_price(choice: Choice) -> None:
    """Refuse a model of which nobody can say what a request costs.

    Raises:
        Invalid: its price is not known.
    """
    model = _model(choice)
    # Priced as a real answer of it would be.
    sample = ModelResponse(
        parts=[],
        usage=RequestUsage(input_tokens=1, output_tokens=1),
        model_name=model.model_name,
        provider_name=model.system,
        provider_url=model.base_url,
    )
    if _cost(sample)[1]:
        raise Invalid(
            f"A budget in money cannot be kept with the model {choice}: its price is not known.",
            remedy="Give a budget in tokens instead, or choose another model.",
        )


def _cost(response: ModelResponse) -> tuple[float, int]:
    try:
        return float(response.cost().total_price), 0
    except (LookupError, ValueError, AssertionError):
        return 0.0, 1


def _model(choice: Choice) -> Model[Any]:
    if choice.api == "anthropic":
        anthropic = AnthropicProvider(api_key=choice.key, base_url=choice.base_url)
        return AnthropicModel(choice.model, provider=anthropic)
    openai = OpenAIProvider(api_key=choice.key, base_url=choice.base_url)
    if choice.api == "openai":
        return OpenAIResponsesModel(choice.model, provider=openai)
    return OpenAIChatModel(choice.model, provider=openai)


def _settings(ask: Ask) -> ModelSettings:
    settings = ModelSettings(
        max_retries=0,
        cache=True,
        first_event_timeout=_FIRST_EVENT_S,
        request_timeout=_REQUEST_S,
    )
    if ask.words_only and ask.tools:
        settings["tool_choice"] = "none"
    if ask.effort is not None:
        settings["thinking"] = ask.effort
    return settings


def _parameters(ask: Ask) -> ModelRequestParameters:
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.input.model_json_schema(),
            )
            for tool in ask.tools
        ],
        instruction_parts=[InstructionPart(content=ask.system)],
    )


def _failure(error: AgentRunError, said: str) -> RequestFailed:
    kind, remedy = _judged(error)
    retry_after = error.retry_after if isinstance(error, ModelAPIError) else None
    return RequestFailed(
        kind, _words(error), remedy=remedy, retry_after_s=retry_after, partial=said
    )


def _judged(error: AgentRunError) -> tuple[Kind, str]:
    match error:
        case ModelContextWindowExceededError():
            return "too_long", ""
        case ModelQuotaExceededError():
            return "refused", "The account is out of credit or over its quota: look at its billing."
        case ModelAuthenticationError():
            return "refused", "Look at the API key and what it may do."
        case ModelNotFoundError():
            return "refused", "Look at the name of the model and at the base URL."
        case ModelRateLimitError() | ModelUnavailableError():
            return "limited", ""
        case ModelServerError() | ModelConnectionError() | ModelRequestTimeout():
            return "broken", "Look whether the API is reachable, then give the agent another turn."
        case ModelHTTPError(status_code=413):
            return "too_long", ""
        case ModelHTTPError(status_code=408 | 409):
            return "broken", ""
        case UnexpectedModelBehavior() | ModelAPIError(in_stream=True):
            return "broken", ""
    return "refused", "The request itself was not accepted: the transcript has it."


def _words(error: AgentRunError) -> str:
    """What the API said: the message in its body if there is one."""
    body = error.body if isinstance(error, ModelAPIError) else None
    told = body.get("error", body) if isinstance(body, dict) else None
    message = told.get("message") if isinstance(told, dict) else None
    words = message if isinstance(message, str) and message else str(error)
    status = f" (HTTP {error.status_code})" if isinstance(error, ModelHTTPError) else ""
    return f"{words[:_WORDS_MAX]}{status}"
