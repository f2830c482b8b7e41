"""The driver `claude-code`: the real Claude Code as a teammate, through its own files and hooks."""

from __future__ import annotations

from collections.abc import Mapping

from bullpen.agents.drivers.base import Driver
from bullpen.protocol.agent import AgentSpec


def make(spec: AgentSpec, env: Mapping[str, str]) -> Driver:
    """A driver for the Claude Code that a spec names, or that is on the agent's PATH."""
    from bullpen.agents.drivers.claude_code.driver import ClaudeCodeDriver

    return ClaudeCodeDriver(spec, env)
