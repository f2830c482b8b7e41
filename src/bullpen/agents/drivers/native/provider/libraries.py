"""Open a model with the library of its provider. Only the library that is used is imported."""

from __future__ import annotations

from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model

from bullpen.agents.drivers.native.model_choice import ModelChoice
from bullpen.agents.drivers.native.provider.http_watch import WatchedConnection
from bullpen.errors import Invalid, Unavailable

_NO_KEY = "no-key"
"""Sent to servers that need no key; the library wants one."""

_CONNECT_S = 10
_PROVIDERS = "https://bullpen-dev.github.io/bullpen/latest/reference/models.html"


def open_model(choice: ModelChoice, watch: WatchedConnection) -> Model[Any]:
    """The model, whose requests the watch sees. Raises Unavailable or Invalid."""
    choice.provider.check_installed()
    try:
        return _opened(choice, watch)
    except UserError as error:
        raise Invalid(
            f"The model {choice} cannot be used: {error}",
            remedy=f"Check its name, and the variables of its provider: {_PROVIDERS}",
        ) from error


def _opened(choice: ModelChoice, watch: WatchedConnection) -> Model[Any]:
    match choice.provider.api:
        case "anthropic":
            return _anthropic(choice, watch)
        case "openai":
            return _responses(choice, watch)
        case "azure":
            return _azure(choice, watch)
        case "google" | "vertex":
            return _google(choice, watch)
        case "bedrock":
            return _bedrock(choice, watch)
    return _chat(choice, watch)


def _anthropic(choice: ModelChoice, watch: WatchedConnection) -> Model[Any]:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(
        api_key=choice.key, base_url=choice.base_url, http_client=watch.client
    )
    return AnthropicModel(choice.model, provider=provider)


def _responses(choice: ModelChoice, watch: WatchedConnection) -> Model[Any]:
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(
        api_key=choice.key, base_url=choice.base_url, http_client=watch.client
    )
    return OpenAIResponsesModel(choice.model, provider=provider)


def _chat(choice: ModelChoice, watch: WatchedConnection) -> Model[Any]:
    """A model behind Chat Completions, with what its provider is known to do differently."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # Without this, an answer that breaks off politely passes for a whole one.
    whole = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    client = AsyncOpenAI(
        api_key=choice.key or _NO_KEY, base_url=choice.base_url, http_client=watch.client
    )
    match choice.provider.prefix:
        case "openai-chat":
            provider = OpenAIProvider(openai_client=client)
            return OpenAIChatModel(choice.model, provider=provider, profile=whole)
        case "openrouter":
            from pydantic_ai.models.openrouter import OpenRouterModel
            from pydantic_ai.providers.openrouter import OpenRouterProvider

            router = OpenRouterProvider(openai_client=client)
            return OpenRouterModel(choice.model, provider=router, profile=whole)
        case "ollama":
            from pydantic_ai.models.ollama import OllamaModel
            from pydantic_ai.providers.ollama import OllamaProvider

            ollama = OllamaProvider(openai_client=client)
            return OllamaModel(choice.model, provider=ollama, profile=whole)
        case "vllm":
            from pydantic_ai.providers.vllm import VLLMProvider

            vllm = VLLMProvider(openai_client=client)
            return OpenAIChatModel(choice.model, provider=vllm, profile=whole)
        case "litellm":
            from pydantic_ai.providers.litellm import LiteLLMProvider

            litellm = LiteLLMProvider(openai_client=client)
            return OpenAIChatModel(choice.model, provider=litellm, profile=whole)
    other = OpenAICompatibleProvider(choice.provider.prefix, openai_client=client)
    return OpenAIChatModel(choice.model, provider=other, profile=whole)


def _azure(choice: ModelChoice, watch: WatchedConnection) -> Model[Any]:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.azure import AzureProvider

    version = choice.more.get("OPENAI_API_VERSION")
    url = choice.base_url.rstrip("/")
    if version is None and "/v1" not in url:
        # The API of today has no versions; an older one has to be asked for.
        url = f"{url}/openai/v1"
    provider = AzureProvider(
        azure_endpoint=url, api_key=choice.key, api_version=version, http_client=watch.client
    )
    whole = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    return OpenAIChatModel(choice.model, provider=provider, profile=whole)


def _google(choice: ModelChoice, watch: WatchedConnection) -> Model[Any]:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider
    from pydantic_ai.providers.google_cloud import GoogleCloudProvider

    if choice.provider.api == "google":
        gemini = GoogleProvider(
            api_key=choice.key, base_url=choice.base_url, http_client=watch.client
        )
        return GoogleModel(choice.model, provider=gemini)
    url = choice.base_url or None
    if choice.key_variable == "GOOGLE_API_KEY":
        cloud = GoogleCloudProvider(api_key=choice.key, base_url=url, http_client=watch.client)
        return GoogleModel(choice.model, provider=cloud)
    cloud = GoogleCloudProvider(
        credentials=_google_credentials(choice),
        project=choice.more.get("GOOGLE_CLOUD_PROJECT"),
        location=choice.more.get("GOOGLE_CLOUD_LOCATION") or "global",
        base_url=url,
        http_client=watch.client,
    )
    return GoogleModel(choice.model, provider=cloud)


def _google_credentials(choice: ModelChoice) -> Any:
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        # Typed only as far as its own documentation.
        found, _ = google.auth.load_credentials_from_file(choice.key)  # type: ignore[no-untyped-call]
    except (GoogleAuthError, OSError, ValueError) as error:
        raise Unavailable(
            f"The Google credentials in {choice.key} cannot be used: {error}",
            remedy=f"Set {choice.key_variable} to the file of a service account.",
        ) from error
    return found


def _bedrock(choice: ModelChoice, watch: WatchedConnection) -> Model[Any]:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session
    from botocore.tokens import FrozenAuthToken
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    class _WithToken(Session):  # type: ignore[misc]
        """A session with a given token; the library itself only takes it from its environment."""

        def get_auth_token(self, **_: Any) -> FrozenAuthToken:
            return FrozenAuthToken(choice.key)

        def get_credentials(self) -> None:
            return None

    region = choice.more.get("AWS_REGION") or choice.more.get("AWS_DEFAULT_REGION")
    by_token = choice.key_variable == "AWS_BEARER_TOKEN_BEDROCK"
    by_key = choice.key_variable == "AWS_ACCESS_KEY_ID"
    timing: dict[str, Any] = {
        "connect_timeout": _CONNECT_S,
        # Between two pieces of an answer.
        "read_timeout": watch.silence_s,
        # The rate limiter retries, for all agents with this key.
        "retries": {"total_max_attempts": 1},
    }
    if by_token:
        timing["signature_version"] = "bearer"
    try:
        session = boto3.Session(
            botocore_session=_WithToken() if by_token else None,
            aws_access_key_id=choice.key if by_key else None,
            aws_secret_access_key=choice.more.get("AWS_SECRET_ACCESS_KEY") if by_key else None,
            aws_session_token=choice.more.get("AWS_SESSION_TOKEN") if by_key else None,
            profile_name=None if by_token or by_key else choice.key,
            region_name=region,
        )
        client = session.client(
            "bedrock-runtime", config=Config(**timing), endpoint_url=choice.base_url or None
        )
    except (BotoCoreError, ValueError) as error:
        raise Invalid(
            f"Amazon Bedrock cannot be used like this: {error}",
            remedy="Check AWS_REGION and the AWS credentials.",
        ) from error
    watch.watch_botocore(client)
    return BedrockConverseModel(choice.model, provider=BedrockProvider(bedrock_client=client))
