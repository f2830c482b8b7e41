"""The texts and the usage of a turn."""

from __future__ import annotations

from bullpen.agents.drivers.acp.program_events import PromptEnd, UsageTold
from bullpen.agents.system.vendors.acp_presets import UsageFrom
from bullpen.protocol.agent import Usage


class Spoken:
    """The texts of a turn. The last text of each prompt is what follows its last tool call."""

    def __init__(self) -> None:
        # The messages since the last tool call, by id.
        self._messages: list[tuple[str | None, list[str]]] = []
        self._last = ""
        self._all: list[str] = []
        self._endings: list[str] = []

    def add(self, text: str, message: str | None) -> None:
        """Add a piece of a message."""
        if not self._messages or self._messages[-1][0] != message:
            self._messages.append((message, []))
        self._messages[-1][1].append(text)

    def next(self) -> list[str]:
        """Note a tool call: the messages before it were not the last. Returns them."""
        texts = self._texts()
        self._last = "\n\n".join(texts) or self._last
        self._all += texts
        self._messages.clear()
        return texts

    def end(self) -> list[str]:
        """Note that the program ends its turn. Returns the messages since its last tool call."""
        texts = self.next()
        if self._last:
            self._endings.append(self._last)
        self._last = ""
        return texts

    def last(self) -> str:
        """The last text."""
        return "\n\n".join(self._texts()) or self._last

    def endings(self) -> str:
        """The last texts of all prompts."""
        return "\n\n".join(self._endings)

    def all(self) -> str:
        """All texts."""
        return "\n\n".join([*self._all, *self._texts()])

    def _texts(self) -> list[str]:
        return [text for _, pieces in self._messages if (text := "".join(pieces)).strip()]


class Tally:
    """The usage of a prompt, as far as the program reports it."""

    def __init__(self, source: UsageFrom, cost_usd: float, context: int) -> None:
        self._source = source
        # The cost of the whole session: programs report that, not the cost of a turn.
        self.cost_usd = cost_usd
        self.context = context
        self.tools: list[str] = []
        self._cost_before = cost_usd
        self._chunks: Usage | None = None
        self._contexts: list[int] = []
        # Whether the conversation only grew, as far as it was reported.
        self._has_grown: bool | None = None

    @property
    def has_grown(self) -> bool:
        """Whether the program told the size of the conversation, and it never got smaller."""
        return self._has_grown is True

    def begin(self) -> None:
        """Start another prompt."""
        self.tools = []
        self._cost_before = self.cost_usd
        self._chunks = None
        self._contexts = []

    def add(self, told: UsageTold) -> None:
        """Add usage that was reported during the prompt."""
        if told.usage is not None:
            self._chunks = told.usage if self._chunks is None else self._chunks.plus(told.usage)
        if told.cost_usd is not None:
            self.cost_usd = max(self.cost_usd, told.cost_usd)
        if told.context:
            self._has_grown = self._has_grown is not False and told.context >= self.context
        if told.context and told.context != self.context:
            self.context = told.context
            self._contexts.append(told.context)

    def of(self, end: PromptEnd) -> Usage | None:
        """The usage of the prompt."""
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
        """The last request plus those before it, each of which sent the whole conversation."""
        if last is None:
            return None
        earlier = self._contexts[:-1]
        count = len(earlier) + 1
        tokens = last.input_tokens + sum(earlier)
        return last.evolve(requests=count, unpriced=count, input_tokens=tokens)
