"""How each program is started over ACP, and where it differs from the others. Only data.

All of it was observed on the version that is named; `tests/programs` holds each program to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bullpen.agents.drivers.base import Capabilities

Steering = Literal["steering", "goose", "prompt", "drain", "none"]
"""How mail reaches a program in mid-turn.

`steering`: the extension `_session/steering`. `goose`: its own, with the id of the run. `prompt`:
a second prompt joins the running turn. `drain`: the program asks us. `none`: it waits.
"""

AfterRefusal = Literal["goes on", "ends"]
"""What a program does when a call is refused. Both times it tells the model no reason.

Where it goes on, the reason is handed into the turn. Where its turn ends, or that cannot be done,
the reason is the next prompt of the same turn of ours. So every one of them `goes_on`.
"""

UsageFrom = Literal["result", "last", "gemini", "chunks", "none"]
"""Where a program says what a turn used.

`result`: in the prompt's result. `last`: there for the last request only, and for those before it
by the sizes of the conversation that it tells in between. `gemini`: in the result's `_meta`.
`chunks`: with its text.
"""


@dataclass(frozen=True, slots=True)
class Preset:
    """A program: its command, what it needs, what it can do, and how it must be treated."""

    name: str
    title: str
    command: tuple[str, ...]
    # Where to get it, for the error that it is missing.
    install: str
    observed: str
    capabilities: Capabilities
    # Names of variables that it gets of the environment, beside those that every agent gets.
    env: tuple[str, ...] = ()
    # What is always set: no telemetry, no updates, tools in sight.
    fixed_env: tuple[tuple[str, str], ...] = ()
    # The mode of its own in which it asks before it changes something; None is its default.
    asking_mode: str | None = None
    # The mode of its own for plan mode, where that helps: what we permit is what counts.
    plan_mode: str | None = None
    steering: Steering = "none"
    after_refusal: AfterRefusal = "ends"
    usage_from: UsageFrom = "result"
    # Whether it says what its requests cost, so that a budget in money can be kept.
    tells_cost: bool = False
    # The ids of messages that are the program's own words, not its model's: a pattern.
    own_messages: str | None = None
    # How such a message begins when it says why the turn failed.
    failure: str | None = None
    # It makes the ids of its calls itself, of the name of the tool, and tells commands as titles.
    ids_name_tools: bool = False
    # A conversation that it takes up in the minute in which it was opened it writes anew, empty.
    loads_next_minute: bool = False
    # In a conversation that it takes up again it starts servers with the first prompt only.
    late_server: bool = False
    # Seconds it may take to end after its input is closed, before it is sent a signal.
    exit_s: float = 5.0


_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ASKS = {"permissions": True, "goes_on": True, "plan_mode": True, "resume": True}

_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT")
_ANTHROPIC = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL")
_XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "codex",
            "Codex",
            ("codex-acp",),
            "npm install -g @openai/codex @agentclientprotocol/codex-acp",
            "codex-acp 2.6.0 with codex 0.166.0",
            Capabilities(**_ASKS, mid_turn=True, usage=True),
            env=(*_OPENAI, "CODEX_HOME", "CODEX_API_KEY"),
            fixed_env=(("NO_BROWSER", "1"),),
            asking_mode="read-only",
            steering="steering",
            # Warnings and errors come as if its model had said them, but without an id.
            own_messages="",
        ),
        Preset(
            "claude",
            "Claude",
            ("claude-agent-acp",),
            "npm install -g @agentclientprotocol/claude-agent-acp (under Node 22)",
            "claude-agent-acp 0.99.0",
            Capabilities(**_ASKS, mid_turn=True, usage=True),
            env=(
                *_ANTHROPIC,
                "CLAUDE_CONFIG_DIR",
                "CLAUDE_CODE_OAUTH_TOKEN",
                # Whoever wants no reports sent wants none from here either.
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
                "DISABLE_ERROR_REPORTING",
                "DISABLE_TELEMETRY",
            ),
            fixed_env=(
                # Otherwise the team's tools are hidden behind a search.
                ("ENABLE_TOOL_SEARCH", "false"),
                ("DISABLE_AUTOUPDATER", "1"),
            ),
            tells_cost=True,
            asking_mode="default",
            steering="steering",
            after_refusal="goes on",
            # The error of an API, before the turn fails with it.
            own_messages=_UUID,
        ),
        Preset(
            "goose",
            "Goose",
            ("goose", "acp", "--with-builtin", "developer"),
            "npm install -g @aaif/goose-binary-linux-x64",
            "goose 1.52.0",
            Capabilities(**_ASKS, mid_turn=True, usage=True),
            env=(
                *_OPENAI,
                *_ANTHROPIC,
                *_XDG,
                "GOOSE_PROVIDER",
                "GOOSE_MODEL",
                "OPENAI_HOST",
                "OPENAI_BASE_PATH",
                "GOOSE_DISABLE_KEYRING",
            ),
            fixed_env=(("GOOSE_MODE", "approve"), ("GOOSE_TELEMETRY_ENABLED", "false")),
            asking_mode="approve",
            steering="goose",
            after_refusal="goes on",
            # A turn that failed ends as if it had not, with such a message.
            own_messages=f"msg_{_UUID}",
            failure="Ran into this error:",
            usage_from="last",
        ),
        Preset(
            "opencode",
            "OpenCode",
            ("opencode", "acp", "--pure"),
            "npm install -g opencode-ai",
            "opencode 1.18.33",
            # It tells what the last request of a turn used, and nothing of those before it.
            Capabilities(**_ASKS, mid_turn=True),
            env=(*_OPENAI, *_ANTHROPIC, *_XDG, "OPENCODE_CONFIG"),
            fixed_env=(
                ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                # Left alone it asks nobody. This counts before what its files say.
                ("OPENCODE_PERMISSION", '{"edit":"ask","bash":"ask","webfetch":"ask"}'),
            ),
            steering="prompt",
        ),
        Preset(
            "gemini",
            "Gemini CLI",
            ("gemini", "--acp"),
            "npm install -g @google/gemini-cli",
            "gemini-cli 0.61.0",
            Capabilities(**_ASKS, usage=True),
            env=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL"),
            # Else it starts a child that outlives a killed parent.
            fixed_env=(("GEMINI_CLI_NO_RELAUNCH", "true"), ("NO_BROWSER", "1")),
            asking_mode="default",
            usage_from="gemini",
            ids_name_tools=True,
            loads_next_minute=True,
            # With an MCP server attached it does not end by itself.
            exit_s=1.0,
        ),
        Preset(
            "qwen",
            "Qwen Code",
            ("qwen", "--acp"),
            "npm install -g @qwen-code/qwen-code (under Node 22)",
            "qwen-code 0.24.4",
            Capabilities(**_ASKS, mid_turn=True, usage=True),
            env=(*_OPENAI, "OPENAI_MODEL"),
            asking_mode="default",
            steering="drain",
            usage_from="chunks",
            exit_s=8.0,
        ),
        Preset(
            "vibe",
            "Mistral Vibe",
            ("vibe-acp",),
            "uv tool install mistral-vibe (Python 3.12)",
            "mistral-vibe 3.0.2",
            Capabilities(**_ASKS, usage=True),
            env=("MISTRAL_API_KEY", "VIBE_HOME"),
            asking_mode="ask",
            late_server=True,
        ),
    )
}

GENERIC = Preset(
    "acp",
    "an ACP agent",
    (),
    "",
    "any program that speaks ACP v1",
    # What nobody has observed is not promised.
    Capabilities(permissions=True, goes_on=True),
)
"""A program that the user names. Its command is in the options of the spec."""
