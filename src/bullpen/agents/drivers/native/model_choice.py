"""Choose the model, key and address of an agent. Pure; needs no model library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from bullpen.errors import Invalid, Unavailable

Api = Literal["anthropic", "openai", "openai-chat"]

ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
OPENAI_KEY = "OPENAI_API_KEY"

ANTHROPIC_DEFAULT = "claude-sonnet-5-5"
"""The default model if there is an Anthropic key."""

OPENAI_DEFAULT = "gpt-6.1-sol"
"""The default model if there is only an OpenAI key."""

_VARIABLES: dict[Api, tuple[str, str, str]] = {
    "anthropic": (ANTHROPIC_KEY, "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": (OPENAI_KEY, "OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "openai-chat": (OPENAI_KEY, "OPENAI_BASE_URL", "https://api.openai.com/v1"),
}
_DATED = re.compile(r"(-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)$")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The chosen model. Its text form does not show the key."""

    api: Api
    model: str
    key: str = field(repr=False)
    base_url: str

    def __str__(self) -> str:
        return f"{self.api}:{self.model}"

    @property
    def host(self) -> str:
        """Where the API is, as people name it."""
        # Without a name and password, which an address can also contain.
        return urlsplit(self.base_url).netloc.rpartition("@")[2] or self.base_url

    @property
    def key_variable(self) -> str:
        """The environment variable with the key."""
        return _VARIABLES[self.api][0]

    @property
    def url_variable(self) -> str:
        """The environment variable with the address of the API."""
        return _VARIABLES[self.api][1]


def choose(model: str | None, env: Mapping[str, str]) -> ModelChoice:
    """The model that was asked for, or the default for the available key."""
    api, name = _default(env) if model is None else _split(model)
    key_variable, url_variable, url = _VARIABLES[api]
    key = env.get(key_variable)
    if not key:
        raise Unavailable(
            f"The model {name} needs an API key, but {key_variable} is not set for the agent.",
            remedy=f"Set {key_variable} to a valid key.",
        )
    return ModelChoice(api, name, key, env.get(url_variable) or url)


def same_model(asked: str, told: str) -> bool:
    """Whether the API's name is the model that was asked for; it may add or resolve a date."""
    return _DATED.sub("", asked) == _DATED.sub("", told)


def _default(env: Mapping[str, str]) -> tuple[Api, str]:
    if env.get(ANTHROPIC_KEY):
        return "anthropic", ANTHROPIC_DEFAULT
    if env.get(OPENAI_KEY):
        return "openai", OPENAI_DEFAULT
    raise Unavailable(
        f"There is no API key: neither {ANTHROPIC_KEY} nor {OPENAI_KEY} is set in the agent's"
        " environment.",
        remedy=f"Set {ANTHROPIC_KEY} or {OPENAI_KEY}.",
    )


def _split(model: str) -> tuple[Api, str]:
    vendor, colon, name = model.partition(":")
    if colon:
        for api in _VARIABLES:
            if vendor == api and name:
                return api, name
    elif model.startswith("claude"):
        return "anthropic", model
    elif re.match(r"(gpt|o\d)", model):
        return "openai", model
    raise Invalid(
        f"Cannot tell which API serves the model {model!r}.",
        remedy="Write anthropic:MODEL, openai:MODEL or openai-chat:MODEL.",
    )
