"""Names of attributes and operations: those of the GenAI semantic conventions, and our own.

They are listed here because the package of the conventions marks its names as deprecated while the
conventions change.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
CONVERSATION = "gen_ai.conversation.id"
MODEL = "gen_ai.request.model"
PROVIDER = "gen_ai.provider.name"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_INPUT = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
ERROR = "error.type"
SERVICE = "service.name"

INVOKE_WORKFLOW = "invoke_workflow"
INVOKE_AGENT = "invoke_agent"
EXECUTE_TOOL = "execute_tool"

TEAM = "bullpen.team"
SEQ = "bullpen.seq"
DRIVER = "bullpen.driver"
COST = "bullpen.cost.usd"
END = "bullpen.end"
MAIL = "bullpen.mail.read"
TASK = "bullpen.task.id"
TASKS = "bullpen.tasks"
TASK_SUBJECT = "bullpen.task.subject"
TASK_OWNER = "bullpen.task.owner"
TASK_ATTEMPT = "bullpen.task.attempt"
GOAL = "bullpen.goal"

_MODELS = (("claude", "anthropic"), ("gpt", "openai"), ("o1", "openai"), ("o3", "openai"),
           ("o4", "openai"), ("codex", "openai"), ("gemini", "gcp.gemini"),
           ("mistral", "mistral_ai"), ("devstral", "mistral_ai"), ("qwen", "qwen"))  # fmt: skip
_DRIVERS = {
    "claude": "anthropic",
    "claude-code": "anthropic",
    "codex": "openai",
    "gemini": "gcp.gemini",
    "vibe": "mistral_ai",
    "qwen": "qwen",
}


def provider_of(driver: str | None, model: str | None) -> str:
    """The provider of an agent's model, guessed from the names of the model and the driver."""
    name = (model or "").lower()
    api, colon, rest = name.partition(":")
    if colon:
        return {"openai-chat": "openai"}.get(api, api)
    for begins, provider in _MODELS:
        if rest.startswith(begins) or name.startswith(begins):
            return provider
    return _DRIVERS.get(driver or "", driver or "unknown")
