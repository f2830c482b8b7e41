"""The MCP servers of a native agent: started with it, and told if they fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.tools.outside_text.harmless import from_outside, harmless
from bullpen.agents.work.until_stored import stored
from bullpen.errors import BullpenError, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.team.operation.commit import new_id


class ServerTools(Protocol):
    """The servers of one agent, while it runs."""

    @property
    def tools(self) -> Sequence[Tool[Desk]]:
        """Their tools."""

    @property
    def failed(self) -> Sequence[str]:
        """What the agent should know about servers that did not start, one sentence each."""

    async def aclose(self) -> None:
        """End them."""


OpenServers = Callable[[AgentSpec, Desk], Awaitable[ServerTools | None]]
"""Starts the servers of a spec."""


async def open_servers(spec: AgentSpec, desk: Desk) -> ServerTools | None:
    """Start the servers of an agent, and tell its lead which of them failed. Raises Unavailable."""
    if not spec.mcp_servers:
        return None
    try:
        # An optional extra.
        from bullpen.agents.tools.mcp_servers.servers import servers_of
    except ModuleNotFoundError as error:
        raise Unavailable(
            f"The agent has MCP servers, but a package is not installed: {error.name}.",
            remedy="Run: pip install 'bullpen[mcp]'",
        ) from error
    servers = servers_of(spec.mcp_servers, desk, clean=harmless)
    try:
        await servers.start()
    except BaseException:
        await servers.aclose()
        raise
    if servers.failed and not desk.is_lead:
        await _tell_lead(servers.failed, desk)
    return servers


def failures_text(failed: Sequence[str]) -> str:
    """What a model is told of servers that failed. What they printed is anybody's words."""
    return from_outside("MCP servers that are missing", "\n".join(failed))


async def _tell_lead(failed: Sequence[str], desk: Desk) -> None:
    text, key = f"{failures_text(failed)}\nI go on without it.", new_id()
    # The agent works without them, and its transcript says so too.
    with suppress(BullpenError):
        await stored(
            lambda: desk.team.mailbox.send(
                LEAD, text, sender=desk.agent, summary="An MCP server is missing", key=key
            )
        )
