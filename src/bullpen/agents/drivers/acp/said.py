"""What a program said and used in a turn."""

from __future__ import annotations

from bullpen.agents.drivers.acp.events import PromptEnd, UsageTold
from bullpen.agents.drivers.acp.presets import UsageFrom
from bullpen.protocol.agent import Usage


class Spoken:
    """The words of a turn. The last word of each prompt counts: what follows its last call."""

    def __init__(self) -> None:
        # The messages since the last call, each with its id.
        self._messages: list[tuple[str | None, list[str]]] = []
        self._last = ""
        self._all: list[str] = []
        self._endings: list[str] = []

    def add(self, text: str, message: str | None) -> None:
        """A piece of a message."""
        if not self._messages or self._messages[-1][0] != message:
            self._messages.append((message, []))
        self._messages[-1][1].append(text)

    def next(self) -> list[str]:
        """A call begins: what was said before it was not the last word. Returns these messages."""
        texts = self._texts()
        self._last = "\n\n".join(texts) or self._last
        self._all += texts
        self._messages.clear()
        return texts

    def end(self) -> list[str]:
        """The program would end its turn here. Returns what it said since its last call."""
        texts = self.next()
        if self._last:
            self._endings.append(self._last)
        self._last = ""
        return texts

    def last(self) -> str:
        """What it said last."""
        return "\n\n".join(self._texts()) or self._last

    def endings(self) -> str:
        """Everything that it meant as its last word."""
        return "\n\n".join(self._endings)

    def all(self) -> str:
        """Everything that it said."""
        return "\n\n".join([*self._all, *self._texts()])

    def _texts(self) -> list[str]:
        return [text for _, pieces in self._messages if (text := "".join(pieces)).strip()]


class Tally:
    """What a prompt used, as far as the program tells."""

    def __init__(self, source: UsageFrom, cost_usd: float, context: int) -> None:
        self._source = source
        # What the whole session has cost: programs tell that, not what a turn did.
        self.cost_usd = cost_usd
        self.context = context
        self.tools: list[str] = []
        self._cost_before = cost_usd
        self._chunks: Usage | None = None
        self._contexts: list[int] = []

    def begin(self) -> None:
        """Another prompt begins."""
        self.tools = []
        self._cost_before = self.cost_usd
        self._chunks = None
        self._contexts = []

    def add(self, told: UsageTold) -> None:
        """Something that was told in between."""
        if told.usage is not None:
            self._chunks = told.usage if self._chunks is None else self._chunks.plus(told.usage)
        if told.cost_usd is not None:
            self.cost_usd = max(self.cost_usd, told.cost_usd)
        if told.context and told.context != self.context:
            self.context = told.context
            self._contexts.append(told.context)

    def of(self, end: PromptEnd) -> Usage | None:
        """What the prompt used."""
        used = {
            "result": end.usage,
            "last": self._with_earlier(end.usage),
            "gemini": end.quota,
            "chunks": self._chunks,
            "none": None,
        }[self._source]
        cost = self.cost_usd - self._cost_before
        if used is None or cost <= 0:
            return used
        return used.evolve(cost_usd=cost, unpriced=0)

    def _with_earlier(self, last: Usage | None) -> Usage | None:
        """The last request, and those before it: each sent the whole conversation of its time."""
        if last is None:
            return None
        earlier = self._contexts[:-1]
        count = len(earlier) + 1
        tokens = last.input_tokens + sum(earlier)
        return last.evolve(requests=count, unpriced=count, input_tokens=tokens)
