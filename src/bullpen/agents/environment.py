"""Which environment variables an agent gets: a list of names that is kept, never "all of them"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bullpen.agents.backends.base import NONCE
from bullpen.agents.drivers.programs import PROGRAMS
from bullpen.errors import Invalid

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
"""What nearly every program needs; variables that are not set are left out."""

OURS = ("BULLPEN_TMUX_SOCKET", "BULLPEN_TMUX_SESSION", "TMUX_TMPDIR", "BULLPEN_HOST")
"""Where the teammates go that an agent spawns: to the same place as it."""

MODELS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)
"""How our own agent reaches its model."""

OF_PROGRAMS = tuple(dict.fromkeys(name for each in PROGRAMS.values() for name in each.env))
"""How programs of other vendors reach their models, and where they keep their things."""

MODEL_KEYS = tuple(
    name
    for name in dict.fromkeys([*MODELS, *OF_PROGRAMS])
    if name.endswith(("_API_KEY", "_AUTH_TOKEN", "_OAUTH_TOKEN"))
)
"""What of this its commands have no use for: they do not talk to the model."""


def _of_driver(driver: str) -> tuple[str, ...]:
    """The variables that an agent gets because of the program that takes its turns."""
    if driver == "native":
        return MODELS
    return PROGRAMS[driver].env if driver in PROGRAMS else ()


def names_for(driver: str, wanted: Iterable[str]) -> list[str]:
    """The whole list of an agent's variables, with those that somebody asked for by name."""
    return list(dict.fromkeys([*COMMON, *OURS, *_of_driver(driver), *wanted]))


def check_names(names: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """The names, if all that were asked for are set. Raises Invalid, naming those that are not."""
    wanted = list(dict.fromkeys(names))
    missing = [name for name in wanted if name not in environ]
    if missing:
        raise Invalid(
            f"These environment variables are not set: {', '.join(missing)}.",
            remedy="Set them, or do not ask for them.",
        )
    return wanted


# An agent that may write files could write those of a bare repository, whose settings make the
# next `git status` run a program. Git is to take no directory for one that nobody named.
_NO_HIDDEN_REPOSITORY = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}


def for_commands(env: Mapping[str, str], asked: Iterable[str]) -> dict[str, str]:
    """What the commands of an agent get: all that it has, but no key of its model.

    Unless somebody asked for that key by name: then it is for the commands.
    """
    kept = frozenset(asked)
    given = {name: value for name, value in env.items() if name not in MODEL_KEYS or name in kept}
    return given if "GIT_CONFIG_COUNT" in given else {**given, **_NO_HIDDEN_REPOSITORY}


def beyond_ours(env: Mapping[str, str]) -> list[str]:
    """The variables of a launch that are there because somebody asked for them."""
    ours = {*COMMON, *OURS, *MODELS, *OF_PROGRAMS}
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
    """The whole environment of one launch: what is on its list and set, and who it is.

    `store` are the variables by which it finds its team.
    """
    found = {name: environ[name] for name in names if name in environ}
    return {
        **found,
        **store,
        "BULLPEN_HOME": home,
        "BULLPEN_TEAM": team,
        "BULLPEN_AGENT": agent,
        NONCE: nonce,
    }
