"""A driver whose model is a function: by default, one that repeats what it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bullpen.agents.contracts import Capabilities, Desk, TurnFailed, TurnInput, TurnResult
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.agent import AgentSpec


@dataclass(frozen=True)
class Answer:
    """A model's answer: text, and optionally a tool call."""

    text: str = ""
    tool: str | None = None
    input: dict[str, Any] = field(default_factory=dict)


async def repeat(text: str) -> Answer:
    """Answer with the last line of the newest message."""
    # Each message is between two tags.
    lines = [line for line in text.splitlines() if line and not line.startswith("<")]
    return Answer(lines[-1] if lines else "")


class Parrot:
    """Repeats what it is told."""

    name = "parrot"
    capabilities = Capabilities(
        mid_turn=True,
        # The driver gets the rest by using `call` for every tool.
        permissions=True,
        asks_to_read=True,
        asks_to_run=True,
        edits=True,
        goes_on=True,
        plan_mode=True,
        brakes=True,
    )

    def __init__(
        self,
        spec: AgentSpec,
        env: Mapping[str, str],
        ask: Callable[[str], Awaitable[Answer]] = repeat,
    ) -> None:
        self._ask = ask

    async def start(self, desk: Desk) -> None:
        toolbox(desk)  # fail here, not in the first turn

    def remembers(self, message_id: str) -> bool:
        return False  # it keeps no history, so it does not declare `resume`

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        text, ids, said = given.text, given.ids, ""
        while True:
            await desk.may_spend()  # raises when a budget is used up
            try:
                answer = await self._ask(text)
            except ConnectionError as error:
                raise TurnFailed(f"The model failed: {error}.", partial=said) from error
            if ids:
                await desk.seen(ids)  # a request that contained this mail succeeded
            if answer.text:
                desk.record("text", text=answer.text)
                said = answer.text
            if answer.tool is None:
                return TurnResult(said)
            # Records the call, shows it in `ps`, and turns errors into text for the model.
            text, _ = await call(toolbox(desk), answer.tool, answer.input, desk)
            mail = await desk.take_mail()
            ids = mail.ids if mail else ()
            if mail:
                text = f"{text}\n\n{mail.text}"

    async def aclose(self) -> None:
        pass
