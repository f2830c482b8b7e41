"""Select the environment variables of an agent: a fixed list of names, never all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bullpen.agents.contracts.backend import FORGE_TOKEN, NONCE, PERSON_KEY
from bullpen.agents.contracts.call import CommandEnvironment
from bullpen.agents.system.vendors.model_providers import PROVIDERS, provider_of
from bullpen.agents.system.vendors.programs import PROGRAMS
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentSpec

COMMON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "VIRTUAL_ENV",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
)
"""Variables that nearly every program needs; those that are not set are left out."""

OURS = ("BULLPEN_TMUX_SOCKET", "BULLPEN_TMUX_SESSION", "TMUX_TMPDIR", "BULLPEN_HOST")
"""Variables that put teammates spawned by an agent in the same place as the agent."""

MODELS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)
"""Variables that every native agent gets to reach its model. Others depend on its provider."""

_OF_PROVIDERS = tuple(name for each in PROVIDERS.values() for name in each.variables)
_CREDENTIALS = tuple(name for each in PROVIDERS.values() for name in each.credentials)

OF_PROGRAMS = tuple(dict.fromkeys(name for each in PROGRAMS.values() for name in each.env))
"""Variables that other vendors' programs need for their models and their own files."""

MODEL_KEYS = tuple(
    name
    for name in dict.fromkeys([*MODELS, *OF_PROGRAMS, *_CREDENTIALS])
    if name in _CREDENTIALS
    or name.endswith(("_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN", "_GITHUB_TOKEN"))
)
"""Variables that an agent's commands do not get: they do not talk to the model."""


def _of_driver(driver: str) -> tuple[str, ...]:
    """The variables that an agent gets because of its driver."""
    if driver == "native":
        return MODELS
    return PROGRAMS[driver].env if driver in PROGRAMS else ()


def names_for(driver: str, wanted: Iterable[str]) -> list[str]:
    """All names of an agent's variables, with those that were asked for."""
    return list(dict.fromkeys([*COMMON, *OURS, *_of_driver(driver), *wanted]))


def names_of_models(*models: str | None) -> list[str]:
    """The variables of the providers of these models, which are named by their prefixes."""
    found = [provider_of(model) for model in models]
    return [name for each in found if each is not None for name in each.variables]


def check_names(names: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """The names, if all of them are set and may be given to an agent. Raises Invalid."""
    wanted = list(dict.fromkeys(names))
    if PERSON_KEY in wanted:
        raise Invalid(
            f"An agent cannot have {PERSON_KEY}: it proves that somebody is a person.",
            remedy="Remove it from the list.",
        )
    if FORGE_TOKEN in wanted:
        raise Invalid(
            f"An agent cannot have {FORGE_TOKEN}: only the forge worker pushes and writes there.",
            remedy="Remove it from the list.",
        )
    missing = [name for name in wanted if name not in environ]
    if missing:
        raise Invalid(
            f"Environment variables are not set: {', '.join(missing)}.",
            remedy="Set them, or remove them from the list.",
        )
    return wanted


# An agent that may write files could create a bare repository whose settings make the next
# `git status` run a program. So git must not use a bare repository that is not named explicitly.
_RUN_BY_BULLPEN = frozenset(["native", "scripted"])
_NO_HIDDEN_REPOSITORY = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}


def for_commands(env: Mapping[str, str], spec: AgentSpec) -> dict[str, str]:
    """The environment of an agent's commands: all it has but for keys of models and servers.

    A key that was asked for by name is kept.
    """
    hidden = {*MODEL_KEYS, *(variables_in(spec.mcp_servers) - {*COMMON, *OURS})}
    hidden -= set(spec.env_asked)
    given = {k: v for k, v in without_person_key(env).items() if k not in hidden}
    return given if "GIT_CONFIG_COUNT" in given else {**given, **_NO_HIDDEN_REPOSITORY}


def command_environment(env: Mapping[str, str], spec: AgentSpec) -> CommandEnvironment | None:
    """What is known about the environment of an agent's commands; None if its program runs them.

    Such a program may run them in another directory, in a shell of its own.
    """
    if spec.driver not in _RUN_BY_BULLPEN:
        return None
    given = for_commands(env, spec)
    ours = set() if "GIT_CONFIG_COUNT" in env else set(_NO_HIDDEN_REPOSITORY)
    return CommandEnvironment(given.get("PATH", ""), frozenset(given) - ours)


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def variables_in(value: Any) -> set[str]:
    """The names of the variables in the texts of a JSON value: `${NAME}` or `${NAME:-default}`."""
    if isinstance(value, str):
        return {found[1] for found in _VARIABLE.finditer(value)}
    if isinstance(value, dict):
        return {name for each in value.values() for name in variables_in(each)}
    if isinstance(value, list):
        return {name for each in value for name in variables_in(each)}
    return set()


def with_variables(text: str, env: Mapping[str, str]) -> str:
    """The text with the values of its variables. Raises Invalid if one is not set."""

    def value(found: re.Match[str]) -> str:
        if found[1] in env:
            return env[found[1]]
        if found[2] is None:
            raise Invalid(
                f"The variable {found[1]} is not set.",
                remedy=f"Set it, or write ${{{found[1]}:-default}}.",
            )
        return found[2]

    return _VARIABLE.sub(value, text)


def without_person_key(env: Mapping[str, str]) -> dict[str, str]:
    """An environment without what only people have: what it is for may run the work of agents."""
    return {name: value for name, value in env.items() if name not in (PERSON_KEY, FORGE_TOKEN)}


def beyond_ours(env: Mapping[str, str]) -> list[str]:
    """The variables of a launch that were asked for by name."""
    ours = {*COMMON, *OURS, *MODELS, *_OF_PROVIDERS, *OF_PROGRAMS}
    return [name for name in env if name not in ours and not name.startswith("BULLPEN_")]


def environment(
    names: Iterable[str],
    environ: Mapping[str, str],
    *,
    home: str,
    team: str,
    agent: str,
    nonce: str,
    store: Mapping[str, str],
) -> dict[str, str]:
    """The whole environment of one launch: its listed variables, and its identity.

    `store` are the variables with which it finds its team.
    """
    found = without_person_key({name: environ[name] for name in names if name in environ})
    return {
        **found,
        **store,
        "BULLPEN_HOME": home,
        "BULLPEN_TEAM": team,
        "BULLPEN_AGENT": agent,
        NONCE: nonce,
    }
