"""What the model says in a turn, of which its report is made."""

from __future__ import annotations

from pydantic_ai.messages import ModelResponse

from bullpen.agents.contracts.driver import TurnFailed

_CUT_OFF = "(The answer was cut off at its maximum length.)"


class Said:
    """What the model said in a turn: its last text, and each text that would have ended it."""

    def __init__(self) -> None:
        self._last = ""
        self._endings: list[str] = []

    def add(self, response: ModelResponse) -> None:
        """Add the text of a response."""
        text = response.text or ""
        if response.finish_reason == "content_filter" and not text:
            raise TurnFailed(
                "The model's API blocked the answer (content filter).",
                remedy="Reword what the agent was given.",
            )
        if response.finish_reason == "length" and not response.tool_calls:
            text = f"{text}\n{_CUT_OFF}".lstrip()
        self._last = text or self._last

    def end(self) -> None:
        """Note that the model wants to end its turn here."""
        if self._last:
            self._endings.append(self._last)
        self._last = ""

    def endings(self) -> str:
        """All texts that would have ended the turn; mail may have continued it."""
        return "\n\n".join(self._endings)

    def with_partial(self, partial: str) -> str:
        """All texts, and the partial one that was interrupted."""
        return "\n\n".join(text for text in (*self._endings, self._last, partial) if text)
