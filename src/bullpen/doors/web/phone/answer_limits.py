"""How often links may be tried. Bad links and good ones count apart."""

from __future__ import annotations

from collections import deque

_SPAN_MS = 60_000
_KNOWN_MAX = 500


class Tries:
    """The tries of the last minute, together or by what they are about."""

    def __init__(self, each_max: int) -> None:
        self._each_max = each_max
        self._tries: dict[bytes, deque[int]] = {}

    def too_many(self, about: bytes, now_ms: int) -> bool:
        """Count one more try, and return whether there are too many."""
        tries = self._tries.pop(about, None) or deque(maxlen=self._each_max + 1)
        # The one that was tried last is forgotten last.
        self._tries[about] = tries
        while len(self._tries) > _KNOWN_MAX:
            self._tries.pop(next(iter(self._tries)))
        while tries and tries[0] <= now_ms - _SPAN_MS:
            tries.popleft()
        tries.append(now_ms)
        return len(tries) > self._each_max
