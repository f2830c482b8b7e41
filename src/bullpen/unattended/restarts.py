"""Who is started again, and when: what was killed soon, what an API turned away with patience.

A kill is one thing, and several in a row another: whoever is lost five times within half an hour
stays lost, because it may be what ends it. A rate limit, a network that is away and a full disk
pass; whoever failed by these is started again after pauses that grow to five minutes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from bullpen.agents.hosts.base import RESPAWN
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD

_LOST_PAUSES_S = (0.0, 1.0, 5.0, 15.0, 30.0)
# Somebody sits there and waits: it works soon, or not at all.
_AT_ONCE_S = (0.0, 0.0)

LOST_MAX = len(_LOST_PAUSES_S)
LOST_WITHIN_S = 1_800.0
"""So often within so long an agent may be lost and started again."""

PAUSE_MAX_S = 300.0
_FAILED_PAUSE_S = 30.0
# With the pauses above this is a day.
_FAILED_MAX = 288
# Whoever worked for so long since its start has left its trouble behind.
_STEADY_S = 600.0

_PASSES = re.compile(
    r"\b429\b|\b50[0234]\b|\b529\b|rate.?limit|too many requests|overloaded|takes no more requests"
    r"|connection|network|unreachable|timed? ?out|temporar|name resolution|no space left"
    r"|disk quota|no room|cannot allocate|try again later"
    r"|not ready in time|ended before it was ready",
    re.IGNORECASE,
)

Prospect = Literal["runs", "now", "later", "never"]
"""Of an agent: it has not ended, or is to be started again now, later, or not at all."""


def passes(cause: str | None) -> bool:
    """Whether what an agent failed by is over some time without anybody doing anything."""
    return cause is not None and _PASSES.search(cause) is not None


@dataclass(slots=True)
class _History:
    # When it was started again after it was lost; how often in a row after it failed.
    lost_s: list[float] = field(default_factory=list)
    failed: int = 0
    not_before_s: float = 0.0


class Restarts:
    """The restarts of the members of one team. Times are those of any one clock, in seconds."""

    def __init__(self, *, patient: bool, members: Collection[str] | None = None) -> None:
        """Beside the lead only `members` are started again; None for everybody.

        Without `patient`, whoever failed stays so, whatever it failed by, and whoever is lost is
        started again only twice.
        """
        self._patient = patient
        self._members = members
        self._of: defaultdict[str, _History] = defaultdict(_History)

    def prospect(self, name: str, agent: AgentFacts, now_s: float) -> Prospect:
        """Whether an agent is to be started again."""
        history = self._of[name]
        ended_s = agent.since_ms / 1000
        if agent.phase != "ended":
            if agent.phase == "running" and now_s - ended_s > _STEADY_S:
                history.failed = 0
            return "runs"
        if agent.end == "lost":
            recent = [at for at in history.lost_s if now_s - at < LOST_WITHIN_S]
            pauses = _LOST_PAUSES_S if self._patient else _AT_ONCE_S
            if len(recent) >= len(pauses):
                return "never"
            due_s = ended_s + pauses[len(recent)]
        elif agent.end == "failed" and self._patient and passes(agent.cause):
            if history.failed >= _FAILED_MAX:
                return "never"
            due_s = ended_s + min(_FAILED_PAUSE_S * 2**history.failed, PAUSE_MAX_S)
        else:
            return "never"
        if name != LEAD and self._members is not None and name not in self._members:
            # Whoever may go on elsewhere is seen to by the hosts, whether anybody watches or not.
            return "later" if agent.asked.options.get(RESPAWN) else "never"
        return "now" if now_s >= max(due_s, history.not_before_s) else "later"

    def comes_back(self, name: str, agent: AgentFacts, now_s: float) -> bool:
        """Whether an agent works, or will again."""
        return self.prospect(name, agent, now_s) != "never"

    def started(self, name: str, agent: AgentFacts, now_s: float) -> None:
        """An agent is about to be started again that ended like this."""
        history = self._of[name]
        if agent.end == "lost":
            history.lost_s = [at for at in history.lost_s if now_s - at < LOST_WITHIN_S] + [now_s]
        else:
            history.failed += 1
        if self._patient:
            history.not_before_s = now_s + min(2.0**history.failed, PAUSE_MAX_S)
