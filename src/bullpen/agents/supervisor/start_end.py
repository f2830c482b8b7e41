"""How a start fails: what is recorded of it, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bullpen.agents.system.token_shapes import without_tokens
from bullpen.agents.work.until_stored import StoreAway, stored
from bullpen.errors import BullpenError, StartFailed, Unavailable
from bullpen.protocol.agent import AgentFacts, End
from bullpen.team.agents.operations import Agents

SPAWN_AGAIN = "Fix the cause and spawn the agent again; nothing was left running."

_SCREEN_LINES = 20


@dataclass(frozen=True, slots=True)
class Answered:
    """The spawner was answered before the agent is ready, so it is told by mail of a failure.

    If the spawner's own process ends meanwhile, the agent ends in this way, and is started again
    with its team.
    """

    cut_off: Callable[[], End]


async def nonce_to_undo(
    agents: Agents,
    name: str,
    agent: AgentFacts,
    error: BaseException,
    *,
    by: str,
    instead: str,
    for_other: bool = False,
) -> str | None:
    """Return the nonce with which to undo a start that failed; None if it is to stay.

    A call that is given up takes back what others would get: a process elsewhere that asked for it,
    or another call with its key. If it is ready, they may use it by now.
    """
    shared = for_other or agent.key is not None
    if isinstance(error, Exception) or not shared:
        return agent.nonce
    try:
        taken = await agents.take_back(name, by=by, nonce=agent.nonce, instead=instead)
    except BullpenError:
        return agent.nonce
    return instead if taken else None


async def undo(
    agents: Agents,
    name: str,
    nonce: str,
    error: BaseException,
    *,
    by: str,
    answered: Answered | None,
) -> None:
    """Record that a launch did not get ready. Raises NotFound or Unavailable."""
    cause, end, tell = cause_of(error), end_of(error), None
    if answered is not None:
        if not isinstance(error, Exception):
            # The spawner was told that it is starting, so it is started again with its team.
            cut, why = answered.cut_off(), f"{by} ended before it was ready"
            await stored(lambda: agents.end(name, cut, by=by, nonce=nonce, cause=why))
            return
        # Nobody redacts mail.
        cause = without_tokens(cause)
        tell = getattr(error, "remedy", "") or SPAWN_AGAIN
    await stored(lambda: agents.withdraw(name, by=by, nonce=nonce, cause=cause, end=end, tell=tell))


def cause_of(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "It was not ready in time."
    if isinstance(error, BullpenError):
        return error.message
    return repr(error) if isinstance(error, Exception) else "its start was cancelled"


def end_of(error: BaseException) -> End:
    """Return how a launch ended that was not ready: an agent is not to blame for its store."""
    return "lost" if isinstance(error, StoreAway) else "failed"


def last_lines(screen: str) -> str:
    return "\n".join(screen.strip().splitlines()[-_SCREEN_LINES:])


def start_failed(name: str, error: BaseException, screen: str) -> Unavailable:
    why, remedy = "Its process was not started in time.", ""
    if isinstance(error, BullpenError):
        why, remedy = error.message, error.remedy
    message = f"{name!r} could not be started: {why}"
    if isinstance(error, StoreAway):
        return StoreAway(message, remedy=remedy)
    return StartFailed(message, screen=last_lines(screen), remedy=remedy or SPAWN_AGAIN)
