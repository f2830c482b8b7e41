"""The small model of an agent, which writes its summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic_ai.messages import ModelMessage

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.drivers.native.limiter import Limiter, RequestFailed
from bullpen.agents.drivers.native.model import Ask, ModelConnection, Waits, booked
from bullpen.agents.drivers.native.model_choice import choose
from bullpen.agents.drivers.native.provider.options import (
    SMALL_MODEL,
    SMALL_MODEL_OPTIONS,
    ModelOptions,
)
from bullpen.agents.drivers.native.provider.taped import connect
from bullpen.agents.tapes.agent_tape import AgentTape
from bullpen.protocol.agent import AgentSpec

_ROOM = 0.9


class SmallModel:
    """An open connection to an agent's small model."""

    def __init__(self, connection: ModelConnection, limiter: Limiter) -> None:
        self._connection = connection
        self._limiter = limiter

    @classmethod
    async def opened(
        cls,
        spec: AgentSpec,
        env: Mapping[str, str],
        limits: Path,
        waits: Waits,
        desk: Desk,
        tape: AgentTape | None = None,
    ) -> SmallModel | None:
        """The small model of a spec, ready for requests; None if it has none."""
        named = spec.options.get(SMALL_MODEL)
        if not isinstance(named, str):
            return None
        choice = choose(named, env)
        options = ModelOptions.of(spec.options.get(SMALL_MODEL_OPTIONS) or {})
        connection = connect(tape, "small", choice, waits, options, booked_as=str(choice))
        await connection.open()
        desk.record("note", text=f"Summaries are written by the model {choice}.")
        api = f"the API at {choice.host}"
        return cls(connection, Limiter(limits, choice.credential, api=api))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()

    async def text(
        self, messages: Sequence[ModelMessage], ask: Ask, desk: Desk, *, tokens: int
    ) -> str:
        """What the small model answers; empty, with a line in the transcript, if it cannot."""
        name, window = self._connection.choice, self._connection.context_window
        if tokens > _ROOM * window:
            text = f"The conversation is too long for the small model {name}"
            desk.record("note", text=f"{text} ({tokens} of {window} tokens).")
            return ""
        # Its effort is the agent's own matter.
        ask = replace(ask, effort=None)
        try:
            response = await booked(
                self._connection, self._limiter, messages, ask, desk, summary=True
            )
        except (RequestFailed, TurnFailed) as failed:
            words = failed.words if isinstance(failed, RequestFailed) else str(failed)
            desk.record("trouble", text=f"The small model {name} wrote no summary: {words}")
            return ""
        return response.text or ""
