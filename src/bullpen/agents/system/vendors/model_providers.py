"""Where the native agent's models are: APIs, addresses, keys and extras, in one table.

Nothing here imports a model library: `spawn` uses it to refuse what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from bullpen.errors import Unavailable

Api = Literal["anthropic", "openai", "openai-chat", "azure", "google", "vertex", "bedrock"]
"""How a provider is spoken to. Most speak the Chat Completions of OpenAI."""


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """A service or server with models, by the prefix that chooses it: `groq:MODEL`."""

    prefix: str
    title: str
    api: Api
    # One of these has to be set. Some need another one with it.
    keys: tuple[str, ...]
    url_variable: str
    # None: the variable has to be set, or the library finds the address itself.
    url: str | None
    # More variables that choose an account, a region or a version.
    more: tuple[str, ...] = ()
    # Variables that are as secret as the key.
    secret: tuple[str, ...] = ()
    needs_key: bool = True
    needs_url: bool = True
    extra: str = "native"
    library: str = "openai"
    # The name under which the price library knows it; None if it has no prices of its own.
    prices: str | None = None

    @property
    def credentials(self) -> tuple[str, ...]:
        """The variables that an agent's commands do not get."""
        return (*self.keys, *self.secret)

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables that an agent with a model of this provider gets."""
        return (*self.credentials, self.url_variable, *self.more)

    def check_installed(self) -> None:
        """Refuse a provider whose library is not installed. Raises Unavailable."""
        missing = [name for name in ("pydantic_ai", self.library) if not _installed(name)]
        if missing:
            raise Unavailable(
                f"Models of {self.title} need the package {missing[0]}, which is not installed.",
                remedy=f"Run: pip install 'bullpen[{self.extra}]'",
            )


def _installed(name: str) -> bool:
    package, _, part = name.partition(".")
    # Looking for a part imports the package, so it has to be there.
    return find_spec(package) is not None and (not part or find_spec(name) is not None)


_OPENAI = ("OPENAI_API_KEY",)
_OPENAI_URL = "https://api.openai.com/v1"

PROVIDERS: dict[str, ModelProvider] = {
    each.prefix: each
    for each in (
        ModelProvider(
            "anthropic",
            "Anthropic",
            "anthropic",
            ("ANTHROPIC_API_KEY",),
            "ANTHROPIC_BASE_URL",
            "https://api.anthropic.com",
            library="anthropic",
            prices="anthropic",
        ),
        ModelProvider(
            "openai",
            "OpenAI (Responses)",
            "openai",
            _OPENAI,
            "OPENAI_BASE_URL",
            _OPENAI_URL,
            prices="openai",
        ),
        ModelProvider(
            "openai-chat",
            "OpenAI (Chat Completions), and every gateway that speaks it",
            "openai-chat",
            _OPENAI,
            "OPENAI_BASE_URL",
            _OPENAI_URL,
            prices="openai",
        ),
        ModelProvider(
            "azure",
            "Azure OpenAI",
            "azure",
            ("AZURE_OPENAI_API_KEY",),
            "AZURE_OPENAI_ENDPOINT",
            None,
            ("OPENAI_API_VERSION",),
            prices="azure",
        ),
        ModelProvider(
            "bedrock",
            "Amazon Bedrock",
            "bedrock",
            ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            None,
            ("AWS_REGION", "AWS_DEFAULT_REGION"),
            ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
            needs_url=False,
            extra="bedrock",
            library="boto3",
            prices="aws",
        ),
        ModelProvider(
            "gemini",
            "Google Gemini",
            "google",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            "GOOGLE_GEMINI_BASE_URL",
            "https://generativelanguage.googleapis.com",
            extra="google",
            library="google.genai",
            prices="google",
        ),
        ModelProvider(
            "vertex",
            "Google Vertex AI",
            "vertex",
            ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_KEY"),
            "GOOGLE_VERTEX_BASE_URL",
            None,
            ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
            needs_url=False,
            extra="google",
            library="google.genai",
            prices="google",
        ),
        ModelProvider(
            "openrouter",
            "OpenRouter",
            "openai-chat",
            ("OPENROUTER_API_KEY",),
            "OPENROUTER_BASE_URL",
            "https://openrouter.ai/api/v1",
            prices="openrouter",
        ),
        ModelProvider(
            "groq",
            "Groq",
            "openai-chat",
            ("GROQ_API_KEY",),
            "GROQ_BASE_URL",
            "https://api.groq.com/openai/v1",
            prices="groq",
        ),
        ModelProvider(
            "litellm",
            "a LiteLLM gateway",
            "openai-chat",
            ("LITELLM_API_KEY",),
            "LITELLM_BASE_URL",
            "http://127.0.0.1:4000/v1",
            needs_key=False,
        ),
        ModelProvider(
            "ollama",
            "Ollama",
            "openai-chat",
            ("OLLAMA_API_KEY",),
            "OLLAMA_BASE_URL",
            "http://127.0.0.1:11434/v1",
            needs_key=False,
        ),
        ModelProvider(
            "vllm",
            "vLLM",
            "openai-chat",
            ("VLLM_API_KEY",),
            "VLLM_BASE_URL",
            "http://127.0.0.1:8000/v1",
            needs_key=False,
        ),
        ModelProvider(
            "llamacpp",
            "llama.cpp",
            "openai-chat",
            ("LLAMACPP_API_KEY",),
            "LLAMACPP_BASE_URL",
            "http://127.0.0.1:8080/v1",
            needs_key=False,
        ),
    )
}
"""Every provider, by its prefix."""

SMALL_MODEL = "BULLPEN_SMALL_MODEL"
"""The variable with the model for summaries, unless an agent has its own."""


def provider_of(model: str | None) -> ModelProvider | None:
    """The provider that a model's prefix names, if it has one."""
    prefix, colon, _ = (model or "").partition(":")
    return PROVIDERS.get(prefix) if colon else None
