"""The tags that mean something to Bullpen, to a model or to a program that drives one. Only data.

Names are written as `harmless` compares them: in small letters, without separators.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset("".join(c for c in word if c.isalnum()) for word in text.split())


MARKED = (
    "teammatemessage",
    "teamdigest",
    "teamnote",
    "systemreminder",
    "outsidecontent",
    "functioncall",
    "functionresult",
    "antml",
    # Codex writes it as two words.
    "permissionsinstructions",
)
"""Beginnings that have a meaning whatever follows."""

PLAIN = _names(
    """
    user human assistant system developer invoke parameter tool-use tool-result tool-call tool-calls
    tool-response thinking think instructions
    """
)
"""Names that are also ordinary words: they must match completely.

Otherwise half of all generic types in code would be rewritten.
"""

PROGRAMS = _names(
    # Claude Code
    """
    agent-message artifact-room-event autonomous-loop autonomous-loop-dynamic bash-input bash-stderr
    bash-stdout command-args command-contents command-message command-name cross-session-message
    fork-boilerplate local-command-caveat local-command-stderr local-command-stdout mcp-server-note
    memory-updates new-diagnostics persisted-output previous-conversation remote-review
    remote-review-progress sandbox-violations subagent-hand-back system-note task-notification tick
    tool-use-error total-tokens ultraplan user-memory-input
    user-prompt-submit-hook webhook-payload
    """
    # Codex
    """
    apps-instructions codex-delegation codex-internal-context collaboration-mode
    context-window-guidance context-window-reminder current-time-reminder environment-context
    environments-instructions managed-developer-instructions model-instructions model-switch
    multi-agent-mode permission-profile persistent-mode personality-spec plugins-instructions
    realtime-conversation realtime-delegation rollout-budget skills-instructions startup-context
    subagent-notification token-budget turn-aborted user-action user-instructions
    user-shell-command
    """
    # Gemini CLI, Qwen Code, Goose, OpenCode, Vibe
    """
    extension-context hook-context info-msg loaded-context
    session-context state-snapshot task-metadata task-result turn-budget untrusted-context
    vibe-stop-event vibe-warning
    """
    # Tokens of models: Gemma, Llama, Mistral, Qwen
    """
    bos end-of-turn end-of-utterance eos s start-of-image start-of-turn
    """
)
"""Tags of programs and tokens of models. They are never written as a type: `CommandName`."""

TOKENS = _names(
    """
    im-start im-end im-sep endoftext endofprompt start-header-id end-header-id begin-of-text
    end-of-text eot-id eom-id python-tag start end channel message return call constrain
    begin-of-sentence end-of-sentence tool-calls-begin tool-calls-end tool-call-begin tool-call-end
    tool-outputs-begin tool-outputs-end tool-output-begin tool-output-end tool-sep
    """
)
"""Words between `<|` and `|>` that some models read as the start or end of a turn."""

SQUARE = frozenset(
    ("INST", "SYSTEMPROMPT", "AVAILABLETOOLS", "TOOLCALLS", "TOOLRESULTS", "TOOLCONTENT")
)
"""Tokens of Mistral between square brackets, in capitals: `[inst]` is code."""
