"""The presets: how each program is started over ACP, and its quirks. Only data.

Everything was observed on the named version; `tests/programs` checks each program against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bullpen.agents.contracts.driver import Capabilities
from bullpen.agents.system.vendors import acp_overrides as overrides

Steering = Literal["steering", "goose", "prompt", "drain", "none"]
"""How mail is delivered to a program during a turn.

`steering`: the extension `_session/steering`. `goose`: its own extension, with the id of the run.
`prompt`: a second prompt joins the running turn. `drain`: the program asks us. `none`: mail waits.
"""

AfterRefusal = Literal["goes on", "ends"]
"""What a program does when a call is refused. In both cases it does not tell the model why.

If it goes on, the reason is delivered during the turn. If its turn ends, or that is not possible,
the reason is the next prompt of the same agent turn. So the agent always continues.
"""

UsageFrom = Literal["result", "last", "gemini", "chunks", "none"]
"""Where a program reports the usage of a turn.

`result`: in the prompt's result. `last`: there, but only for the last request; earlier requests are
estimated from the reported sizes of the conversation. `gemini`: in the result's `_meta`. `chunks`:
with its text.
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be a driver."""

    name: str
    title: str
    command: tuple[str, ...]
    # How to install it, for the error if it is missing.
    install: str
    observed: str
    # Names of environment variables that it gets, besides those that every agent gets.
    env: tuple[str, ...] = ()
    # The extra that its driver needs, and the libraries in it.
    extra: str = "acp"
    libraries: tuple[str, ...] = ("acp", "mcp")
    # Whether it reports the cost of its requests, so that a budget in money can be enforced.
    tells_cost: bool = False
    # Its tools that it calls without asking: they read, or keep the program's own lists and notes.
    # `asks_to_run` says this about commands.
    unasked_tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset(Program):
    """A program that speaks ACP: its capabilities and quirks."""

    capabilities: Capabilities
    # Variables that are always set: no telemetry, no updates, visible tools.
    fixed_env: tuple[tuple[str, str], ...] = ()
    # Its own mode in which it asks before it changes something; None for its default.
    asking_mode: str | None = None
    # Its own mode for plan mode, if that helps; the gate decides in any case.
    plan_mode: str | None = None
    steering: Steering = "none"
    after_refusal: AfterRefusal = "ends"
    usage_from: UsageFrom = "result"
    # A pattern for the ids of messages from the program itself, not its model.
    own_messages: str | None = None
    # The same for a program that gives no ids: a pattern for the whole text of such a message.
    own_texts: str | None = None
    # How such a message starts if it says why the turn failed.
    failure: str | None = None
    # It derives the ids of its calls from the tool name, and puts commands into titles.
    ids_name_tools: bool = False
    # It empties a conversation that is resumed in the minute in which it was opened.
    loads_next_minute: bool = False
    # Whether it starts MCP servers only with the first prompt. None: it may do so.
    late_server: bool | None = False
    # The way to log in, if it wants that before a conversation and offers several.
    auth_method: str | None = None
    # Seconds it may take to exit after its input is closed, before it gets a signal.
    exit_s: float = 5.0
    # Sent with every conversation that is opened or resumed.
    session_meta: Mapping[str, Any] = field(default_factory=dict)
    # Files for the agent's folder. `{folder}` in `fixed_env` and `forced_args` stands for it,
    # `{server}` in a file for the server of the team's tools.
    forced_files: tuple[tuple[str, str], ...] = ()
    forced_args: tuple[str, ...] = ()
    # Calls of these tools are refused: what follows from a yes would not be asked about.
    refused_tools: tuple[str, ...] = ()


_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ASKS = {"permissions": True, "goes_on": True, "plan_mode": True, "resume": True}
_ASKS_TO_RUN = {**_ASKS, "asks_to_run": True}

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
            capabilities=Capabilities(**_ASKS, mid_turn=True, usage=True, keeps_briefing=True),
            env=(*_OPENAI, "CODEX_HOME", "CODEX_API_KEY"),
            fixed_env=(("NO_BROWSER", "1"), ("CODEX_CONFIG", overrides.CODEX_CONFIG)),
            asking_mode="read-only",
            steering="steering",
            # Warnings and errors look like model text, but have no id.
            own_messages="",
            unasked_tools=(
                *("view_image", "tool_search", "request_user_input", "write_stdin"),
                *("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"),
            ),
        ),
        Preset(
            "claude",
            "Claude",
            ("claude-agent-acp",),
            "npm install -g @agentclientprotocol/claude-agent-acp (under Node 22)",
            "claude-agent-acp 0.99.1",
            capabilities=Capabilities(
                **_ASKS_TO_RUN, mid_turn=True, usage=True, keeps_briefing=True
            ),
            env=(
                *_ANTHROPIC,
                "CLAUDE_CONFIG_DIR",
                "CLAUDE_CODE_OAUTH_TOKEN",
                # Keep the user's opt-out of telemetry.
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
                "DISABLE_ERROR_REPORTING",
                "DISABLE_TELEMETRY",
            ),
            fixed_env=(
                # Otherwise the team tools are hidden behind a search.
                ("ENABLE_TOOL_SEARCH", "false"),
                ("DISABLE_AUTOUPDATER", "1"),
                # Otherwise a command that ends later, or a schedule, begins a turn of its own.
                ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
                ("CLAUDE_CODE_DISABLE_CRON", "1"),
            ),
            session_meta=overrides.CLAUDE_META,
            unasked_tools=("ExitPlanMode", "ReportFindings", "TaskStop"),
            tells_cost=True,
            asking_mode="default",
            steering="steering",
            after_refusal="goes on",
            # An API error, before the turn fails with it.
            own_messages=_UUID,
        ),
        Preset(
            "goose",
            "Goose",
            ("goose", "acp", "--with-builtin", "developer"),
            "npm install -g @aaif/goose-binary-linux-x64",
            "goose 1.52.0",
            capabilities=Capabilities(
                **_ASKS_TO_RUN, mid_turn=True, usage=True, keeps_briefing=True
            ),
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
            fixed_env=(
                ("GOOSE_MODE", "approve"),
                ("GOOSE_TELEMETRY_ENABLED", "false"),
                # Its requests for a title are in no report of usage.
                ("GOOSE_DISABLE_SESSION_NAMING", "true"),
            ),
            asking_mode="approve",
            steering="goose",
            after_refusal="goes on",
            # A failed turn ends like a successful one, with such a message.
            own_messages=f"msg_{_UUID}",
            failure="Ran into this error:",
            usage_from="last",
            # The calls of an agent that it starts are not asked about.
            refused_tools=("mcp__summon__delegate",),
        ),
        Preset(
            "opencode",
            "OpenCode",
            ("opencode", "acp", "--pure"),
            "npm install -g opencode-ai",
            "opencode 1.18.33",
            # It reports only the usage of the last request of a turn.
            capabilities=Capabilities(**_ASKS_TO_RUN, mid_turn=True),
            env=(*_OPENAI, *_ANTHROPIC, *_XDG, "OPENCODE_CONFIG"),
            fixed_env=(
                ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                # By default it never asks. This overrides its settings files.
                ("OPENCODE_CONFIG_CONTENT", overrides.OPENCODE_CONFIG),
                ("OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
            ),
            steering="prompt",
            unasked_tools=("todowrite",),
        ),
        Preset(
            "gemini",
            "Gemini CLI",
            ("gemini", "--acp"),
            "npm install -g @google/gemini-cli",
            "gemini-cli 0.61.0",
            capabilities=Capabilities(**_ASKS, usage=True),
            env=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL"),
            # Otherwise it starts a child that outlives a killed parent.
            fixed_env=(
                ("GEMINI_CLI_NO_RELAUNCH", "true"),
                ("NO_BROWSER", "1"),
                ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "{folder}/gemini.json"),
            ),
            forced_files=(
                ("gemini.json", overrides.GEMINI_SETTINGS),
                ("gemini.toml", overrides.GEMINI_POLICY),
            ),
            forced_args=("--admin-policy", "{folder}/gemini.toml"),
            asking_mode="default",
            usage_from="gemini",
            ids_name_tools=True,
            loads_next_minute=True,
            # With an MCP server attached, it does not exit by itself.
            exit_s=1.0,
            unasked_tools=(
                *("read_file", "list_directory", "glob", "grep_search"),
                *("update_topic", "write_todos", "activate_skill", "invoke_agent"),
            ),
        ),
        Preset(
            "qwen",
            "Qwen Code",
            ("qwen", "--acp"),
            "npm install -g @qwen-code/qwen-code (under Node 22)",
            "qwen-code 0.24.4",
            capabilities=Capabilities(**_ASKS_TO_RUN, mid_turn=True, usage=True),
            env=(*_OPENAI, "OPENAI_MODEL"),
            fixed_env=(("QWEN_CODE_SYSTEM_SETTINGS_PATH", "{folder}/qwen.json"),),
            forced_files=(("qwen.json", overrides.QWEN_SETTINGS),),
            asking_mode="default",
            steering="drain",
            usage_from="chunks",
            exit_s=8.0,
            unasked_tools=(
                *("ask_user_question", "enter_plan_mode", "exit_plan_mode", "skill"),
                *("get_goal", "update_goal", "list_agents", "tool_search", "tool_call"),
            ),
        ),
        Preset(
            "copilot",
            "GitHub Copilot",
            ("copilot", "--acp"),
            "npm install -g @github/copilot",
            "copilot 1.0.102",
            capabilities=Capabilities(**_ASKS_TO_RUN),
            env=(
                "COPILOT_GITHUB_TOKEN",
                "COPILOT_HOME",
                "COPILOT_MODEL",
                "COPILOT_OFFLINE",
                "COPILOT_PROVIDER_API_KEY",
                "COPILOT_PROVIDER_BASE_URL",
                "COPILOT_PROVIDER_TYPE",
            ),
            fixed_env=(("COPILOT_AUTO_UPDATE", "false"),),
            # Over ACP it takes only servers on the network.
            forced_files=(("copilot.json", "{server}"),),
            forced_args=(
                *("--additional-mcp-config", "@{folder}/copilot.json"),
                "--disable-builtin-mcps",
                "--no-remote",
                # Agents of its own, which go on without a turn.
                "--excluded-tools=task,read_agent,list_agents,write_agent",
            ),
            late_server=True,
            # A failed turn ends like a successful one, with an error.
            own_texts="(?s)Info: Disabled tools: .*|Error: .+",
            failure="Error: ",
            unasked_tools=("grep", "glob", "read_bash", "stop_bash", "list_bash", "sql"),
        ),
        Preset(
            "vibe",
            "Mistral Vibe",
            ("vibe-acp",),
            "uv tool install mistral-vibe (Python 3.12)",
            "mistral-vibe 3.0.2",
            capabilities=Capabilities(**_ASKS, usage=True),
            env=("MISTRAL_API_KEY", "VIBE_HOME"),
            asking_mode="ask",
            # In a resumed conversation it is late.
            late_server=None,
        ),
    )
}

GENERIC = Preset(
    "acp",
    "an ACP agent",
    (),
    "",
    "any program that speaks ACP v1",
    # Nothing is promised that was not observed.
    capabilities=Capabilities(permissions=True, goes_on=True),
    late_server=None,
)
"""A program that the user names. Its command is in the options of the spec."""
