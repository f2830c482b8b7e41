"""What a program does while no turn runs: which updates are work, and what they used. Pure."""

from __future__ import annotations

import re

from bullpen.agents.drivers.acp import program_events as events
from bullpen.agents.system.vendors.acp_presets import Preset
from bullpen.protocol.agent import Usage

_TEXT_CHARS_MAX = 400
_CALLS_MAX = 5

LATE = (events.TextSaid, events.Thought)
"""Updates that may come shortly after the end of the turn that they belong to."""

REPLAYED = (*LATE, events.ToolUse)
"""Updates that may come shortly after a conversation was loaded, which replays it."""


def is_own_message(event: events.TextSaid, preset: Preset) -> bool:
    """Whether a text is a warning or an error of the program itself, not of its model."""
    ids, texts = preset.own_messages, preset.own_texts
    if ids is not None and re.fullmatch(ids, event.message or ""):
        return True
    return texts is not None and re.fullmatch(texts, event.text) is not None


class OutsideWork:
    """What a program did since its last turn ended. `found` says whether it worked."""

    def __init__(self, preset: Preset, *, cost_usd: float, context: int) -> None:
        self.found = False
        self.cost_usd = cost_usd
        self._cost_before = cost_usd
        self._context = context
        self._preset = preset
        self._updates = 0
        self._refused = 0
        self._began = 0
        self._text = ""
        self._calls: dict[str, str] = {}
        # What is reported of requests: their usage, or only the size of the conversation.
        self._told: Usage | None = None
        self._contexts: list[int] = []

    def add(
        self,
        event: events.Event,
        *,
        running: frozenset[str] = frozenset(),
        excused: tuple[type, ...] = (),
    ) -> None:
        """Add an update. `running` are calls that began in a turn; `excused` are late updates."""
        match event:
            case events.UsageTold():
                self._add_usage(event)
                return
            case events.ModeTold() | events.Broke() | events.RunBegan():
                # Programs report these after a turn too; the model need not be at work.
                return
            case events.TextSaid() if is_own_message(event, self._preset):
                return
            case events.ToolUse(id=call) if call in running:
                return
        if isinstance(event, excused):
            return
        self.found = True
        self._updates += 1
        match event:
            case events.WorkBegan():
                self._began += 1
            case events.TextSaid(text):
                self._text = (self._text + text)[:_TEXT_CHARS_MAX]
            case events.ToolUse() if len(self._calls) < _CALLS_MAX:
                name = event.tool or event.kind or "a tool"
                self._calls.setdefault(event.id, f"{name} {event.title}".strip()[:80])

    def add_question(self, use: events.ToolUse) -> None:
        """Add a call that the program asked for, and that was refused."""
        self.add(use)
        self._refused += 1

    def usage(self) -> tuple[Usage, bool]:
        """What it used, and whether that is an estimate."""
        used = self._told
        if used is None:
            # Each request sends the whole conversation, the size of which is reported after it.
            requests = max(len(self._contexts), self._began, 1)
            last = self._contexts[-1] if self._contexts else self._context
            tokens = sum(self._contexts) + last * (requests - len(self._contexts))
            used = Usage.new(requests=requests, input_tokens=tokens, unpriced=requests)
        cost = self.cost_usd - self._cost_before
        if cost > 0:
            used = used.evolve(cost_usd=cost, unpriced=0)
        return used, self._told is None

    def words(self) -> str:
        """What it did, in words."""
        did = [f"{self._updates} {'update' if self._updates == 1 else 'updates'}"]
        if self._calls:
            did.append(f"calls: {', '.join(self._calls.values())}")
        if self._refused:
            did.append(f"{self._refused} refused")
        if text := self._text.strip():
            did.append(f"it said: {text}")
        return "; ".join(did)

    def _add_usage(self, told: events.UsageTold) -> None:
        if told.usage is not None:
            self._told = told.usage if self._told is None else self._told.plus(told.usage)
        if told.context and told.context != self._context:
            self._context = told.context
            self._contexts.append(told.context)
        if told.cost_usd is not None:
            self.cost_usd = max(self.cost_usd, told.cost_usd)
