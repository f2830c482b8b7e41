"""Which model an agent uses, with which key, at which address. Pure; needs no model library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bullpen.errors import Invalid, Unavailable

Api = Literal["anthropic", "openai", "openai-chat"]

ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
OPENAI_KEY = "OPENAI_API_KEY"

ANTHROPIC_DEFAULT = "claude-sonnet-5-5"
"""The model when none was asked for and there is a key of Anthropic."""

OPENAI_DEFAULT = "gpt-6.1-sol"
"""The model when none was asked for and the only key is one of OpenAI."""

_VARIABLES: dict[Api, tuple[str, str, str]] = {
    "anthropic": (ANTHROPIC_KEY, "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": (OPENAI_KEY, "OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "openai-chat": (OPENAI_KEY, "OPENAI_BASE_URL", "https://api.openai.com/v1"),
}
_DATED = re.compile(r"(-\d{8}|-\d{4}-\d{2}-\d{2}|-latest)$")


@dataclass(frozen=True, slots=True)
class Choice:
    """A model that was decided on. The key is not shown."""

    api: Api
    model: str
    key: str = field(repr=False)
    base_url: str

    def __str__(self) -> str:
        return f"{self.api}:{self.model}"


def choose(model: str | None, env: Mapping[str, str]) -> Choice:
    """The model that was asked for, or the default for the key there is.

    Raises:
        Invalid: no telling which vendor's model this is.
        Unavailable: there is no key for it.
    """
    api, name = _default(env) if model is None else _split(model)
    key_variable, url_variable, url = _VARIABLES[api]
    key = env.get(key_variable)
    if not key:
        raise Unavailable(
            f"The model {name} needs a key: {key_variable} is not in the agent's environment.",
            remedy=f"Set {key_variable}.",
        )
    return Choice(api, name, key, env.get(url_variable) or url)


def same_model(asked: str, told: str) -> bool:
    """Whether an API means the model that was asked for; it may add or resolve a date."""
    return _DATED.sub("", asked) == _DATED.sub("", told)


def _default(env: Mapping[str, str]) -> tuple[Api, str]:
    if env.get(ANTHROPIC_KEY):
        return "anthropic", ANTHROPIC_DEFAULT
    if env.get(OPENAI_KEY):
        return "openai", OPENAI_DEFAULT
    raise Unavailable(
        f"There is no model to use: neither {ANTHROPIC_KEY} nor {OPENAI_KEY} is in the agent's"
        " environment.",
        remedy="Set one of them.",
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
        f"No telling which API serves the model {model!r}.",
        remedy="Name it as anthropic:MODEL, openai:MODEL or openai-chat:MODEL.",
    )
