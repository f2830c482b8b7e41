"""Choose the model, key and address of an agent. Pure; needs no model library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bullpen.agents.system.vendors.model_providers import PROVIDERS, ModelProvider
from bullpen.errors import Invalid, Unavailable

ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
OPENAI_KEY = "OPENAI_API_KEY"

ANTHROPIC_DEFAULT = "claude-sonnet-5-5"
"""The default model if there is an Anthropic key."""

OPENAI_DEFAULT = "gpt-6.1-sol"
"""The default model if there is only an OpenAI key."""

_DATED = re.compile(r"(-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)$")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The chosen model. Its text form does not show the key."""

    provider: ModelProvider
    model: str
    # Empty if the server needs none. The name of a profile or of a file, if that leads to a key.
    key: str = field(repr=False)
    key_variable: str
    # Empty if the library finds the address by itself.
    base_url: str
    # The provider's other variables, as far as they are set.
    more: Mapping[str, str] = field(repr=False, default_factory=dict)

    def __str__(self) -> str:
        return f"{self.provider.prefix}:{self.model}"

    @property
    def host(self) -> str:
        """Where the API is, as people name it."""
        if not self.base_url:
            return self.provider.title
        # Without a name and password, which an address can also contain.
        return urlsplit(self.base_url).netloc.rpartition("@")[2] or self.base_url

    @property
    def credential(self) -> str:
        """What its rate limit belongs to: the key and its region, or a server without a key."""
        where = [self.more[name] for name in self.provider.more if name in self.more]
        return "\n".join([self.key, *where]) if self.key else self.base_url

    @property
    def url_variable(self) -> str:
        """The environment variable with the address of the API."""
        return self.provider.url_variable


def choose(model: str | None, env: Mapping[str, str]) -> ModelChoice:
    """The model that was asked for, or the default for the available key."""
    provider, name = _default(env) if model is None else _split(model)
    key_variable = next((each for each in provider.keys if env.get(each)), None)
    if key_variable is None and provider.needs_key:
        named = " or ".join(provider.keys)
        raise Unavailable(
            f"The model {name} needs an API key, but {named} is not set for the agent.",
            remedy=f"Set {provider.keys[0]} to a valid key.",
        )
    url = env.get(provider.url_variable) or provider.url or ""
    if not url and provider.needs_url:
        raise Unavailable(
            f"The model {name} needs an address, but {provider.url_variable} is not set for the"
            " agent.",
            remedy=f"Set {provider.url_variable} to the address of {provider.title}.",
        )
    others = (*provider.more, *provider.secret)
    return ModelChoice(
        provider,
        name,
        env.get(key_variable or "") or "",
        key_variable or provider.keys[0],
        url,
        {each: env[each] for each in others if env.get(each)},
    )


def same_model(asked: str, told: str) -> bool:
    """Whether the API's name is the model that was asked for; it may add or resolve a date."""
    return _DATED.sub("", asked) == _DATED.sub("", told)


def _default(env: Mapping[str, str]) -> tuple[ModelProvider, str]:
    if env.get(ANTHROPIC_KEY):
        return PROVIDERS["anthropic"], ANTHROPIC_DEFAULT
    if env.get(OPENAI_KEY):
        return PROVIDERS["openai"], OPENAI_DEFAULT
    raise Unavailable(
        f"There is no API key: neither {ANTHROPIC_KEY} nor {OPENAI_KEY} is set in the agent's"
        " environment.",
        remedy="Set one, or use an agent program that is installed: bullpen drivers. To try"
        " without a key: bullpen demo",
    )


def _split(model: str) -> tuple[ModelProvider, str]:
    prefix, colon, name = model.partition(":")
    if colon:
        if prefix in PROVIDERS and name:
            return PROVIDERS[prefix], name
    elif model.startswith("claude"):
        return PROVIDERS["anthropic"], model
    elif re.match(r"(gpt|o\d)", model):
        return PROVIDERS["openai"], model
    elif model.startswith("gemini-"):
        return PROVIDERS["gemini"], model
    raise Invalid(
        f"Cannot tell which API serves the model {model!r}.",
        remedy=f"Write PROVIDER:MODEL, for example anthropic:{ANTHROPIC_DEFAULT}. The providers are"
        f" {', '.join(PROVIDERS)}.",
    )
