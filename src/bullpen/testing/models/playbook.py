"""A brain that plays a part for each agent, step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from bullpen.testing.models.shapes import Fault, ModelRequest, Reply

Answer: TypeAlias = Reply | Fault | str
Step: TypeAlias = Answer | Callable[[ModelRequest], Answer]


class Playbook:
    """One step per request of an agent, found by the "You are NAME" in its system text.

    A step is an answer, or a function from the request to one. An agent's part may also be one
    function that answers all its requests. When the steps are used up, `otherwise` is played.
    """

    def __init__(
        self,
        parts: Mapping[str, Iterable[Step] | Callable[[ModelRequest], Answer]],
        *,
        otherwise: Step = "Nothing more to do.",
    ) -> None:
        self._parts = {name: part if callable(part) else list(part) for name, part in parts.items()}
        self._played = dict.fromkeys(self._parts, 0)
        self._otherwise = otherwise
        self._lock = threading.Lock()

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        """Play the next step of the agent that asks."""
        step = self._step(request.agent)
        answer = step(request) if callable(step) else step
        return Reply(answer) if isinstance(answer, str) else answer

    def played(self, agent: str) -> int:
        """Return how many requests the agent has made."""
        with self._lock:
            return self._played[agent]

    def _step(self, agent: str | None) -> Step:
        with self._lock:
            if agent is None or agent not in self._parts:
                known = ", ".join(sorted(self._parts)) or "nobody"
                return Fault(400, "invalid_request_error", f"No part for {agent}; only {known}.")
            part = self._parts[agent]
            number = self._played[agent]
            self._played[agent] = number + 1
        if callable(part):
            return part
        return part[number] if number < len(part) else self._otherwise
