"""Send one request to a model, hiding the differences between vendors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai import exceptions as errors
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings, ThinkingEffort
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.drivers.native.limiter import Kind, RequestFailed
from bullpen.agents.drivers.native.model_choice import ModelChoice
from bullpen.errors import Invalid
from bullpen.protocol.agent import Usage

CONTEXT_WINDOW = 200_000
"""The context window of models whose window is not known."""

_FIRST_EVENT_S = 300.0
_REQUEST_S = 1_800.0
_WORDS_MAX = 1_000


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


class ModelConnection:
    """An open connection to the chosen model."""

    def __init__(self, choice: ModelChoice) -> None:
        self.choice = choice
        self._model = _model(choice)

    async def open(self) -> None:
        """Prepare for requests."""
        await self._model.__aenter__()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._model.__aexit__(None, None, None)

    @property
    def context_window(self) -> int:
        """How many tokens a request may have."""
        return self._model.context_window or CONTEXT_WINDOW

    async def request(self, messages: Sequence[ModelMessage], ask: Ask) -> ModelResponse:
        """Send one request, without the library's retries. Raises RequestFailed."""
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
        except errors.AgentRunError as error:
            raise _failure(error, said) from error


def usage_of(response: ModelResponse) -> Usage:
    """The usage of a request. Cached tokens are not also counted as input."""
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


def check_price(choice: ModelChoice) -> None:
    """Refuse a model whose price is not known. Raises Invalid."""
    model = _model(choice)
    # Priced like a real response.
    sample = ModelResponse(
        parts=[],
        usage=RequestUsage(input_tokens=1, output_tokens=1),
        model_name=model.model_name,
        provider_name=model.system,
        provider_url=model.base_url,
    )
    if _cost(sample)[1]:
        raise Invalid(
            f"A budget in money cannot be enforced for the model {choice}: its price is not known.",
            remedy="Give a budget in tokens instead, or choose another model.",
        )


def _cost(response: ModelResponse) -> tuple[float, int]:
    try:
        return float(response.cost().total_price), 0
    except (LookupError, ValueError, AssertionError):
        return 0.0, 1


def _model(choice: ModelChoice) -> Model[Any]:
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


def _failure(error: errors.AgentRunError, said: str) -> RequestFailed:
    kind, remedy = _judged(error)
    retry_after = error.retry_after if isinstance(error, errors.ModelAPIError) else None
    return RequestFailed(
        kind, _words(error), remedy=remedy, retry_after_s=retry_after, partial=said
    )


def _judged(error: errors.AgentRunError) -> tuple[Kind, str]:
    match error:
        case errors.ModelContextWindowExceededError():
            return "too_long", ""
        case errors.ModelQuotaExceededError():
            return (
                "refused",
                "Check the billing of the account: it is out of credit or over its quota.",
            )
        case errors.ModelAuthenticationError():
            return "refused", "Check the API key and its permissions."
        case errors.ModelNotFoundError():
            return "refused", "Check the name of the model and the base URL."
        case errors.ModelRateLimitError() | errors.ModelUnavailableError():
            return "limited", ""
        case (
            errors.ModelServerError() | errors.ModelConnectionError() | errors.ModelRequestTimeout()
        ):
            return "broken", "Check that the API is reachable, then try again."
        case errors.ModelHTTPError(status_code=413):
            return "too_long", ""
        case errors.ModelHTTPError(status_code=408 | 409):
            return "broken", ""
        case errors.UnexpectedModelBehavior() | errors.ModelAPIError(in_stream=True):
            return "broken", ""
    return "refused", "See the transcript for the request."


def _words(error: errors.AgentRunError) -> str:
    """The API's error message, from the body if there is one."""
    body = error.body if isinstance(error, errors.ModelAPIError) else None
    told = body.get("error", body) if isinstance(body, dict) else None
    message = told.get("message") if isinstance(told, dict) else None
    words = message if isinstance(message, str) and message else str(error)
    status = f" (HTTP {error.status_code})" if isinstance(error, errors.ModelHTTPError) else ""
    return f"{words[:_WORDS_MAX]}{status}"
