"""Decides which agents are restarted, and when.

A killed agent is restarted soon. One that is lost five times within half an hour stays lost: it may
be the cause itself. Rate limits, network failures and full disks pass, so an agent that failed
because of them is restarted after pauses that grow to five minutes.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from bullpen.agents.contracts.machines import RESPAWN
from bullpen.protocol.agent import AgentFacts, Failure
from bullpen.protocol.names import LEAD

_LOST_PAUSES_S = (0.0, 1.0, 5.0, 15.0, 30.0)
# While a person waits: restart at once, or not at all.
_AT_ONCE_S = (0.0, 0.0)

LOST_WITHIN_S = 1_800.0
"""For how long a restart of a lost agent counts."""

PAUSE_MAX_S = 300.0
_FAILED_PAUSE_S = 30.0
# With these pauses, about a day.
_FAILED_MAX = 288
# After running this long, earlier failures no longer count.
_STEADY_S = 600.0

_PASSING: frozenset[Failure] = frozenset({"rate_limit", "overload", "network", "server"})
# Of programs, which only have words for it, and of machines.
_PASSES = re.compile(
    r"\b429\b|\b50[0234]\b|\b529\b|rate.?limit|too many requests|overloaded|takes no more requests"
    r"|connection|network|unreachable|timed? ?out|temporar|name resolution|no space left"
    r"|disk quota|no room|cannot allocate|try again later"
    r"|not ready in time|ended before it was ready",
    re.IGNORECASE,
)

# Words of a refusal that stays, whatever else they mention.
_STAYS = re.compile(
    r"\b40[1234]\b|(invalid|incorrect|no).{0,20}api.?key|authenticat|credit balance"
    r"|insufficient.?(quota|balance|credit)|permission.?(error|denied)|model.{0,10}not.?found",
    re.IGNORECASE,
)

Prospect = Literal["runs", "now", "later", "never"]
"""Of an agent: it runs, or it is to be restarted now, later, or never."""


def passes(agent: AgentFacts) -> bool:
    """Return whether the cause of a failure passes by itself.

    If a model's API failed the agent, it said why. Only other causes are judged by their words.
    """
    if agent.failure is not None:
        return agent.failure in _PASSING
    words = agent.cause or ""
    return _PASSES.search(words) is not None and _STAYS.search(words) is None


@dataclass(slots=True)
class _History:
    # When it was restarted after it was lost; how often in a row after it failed.
    lost_s: list[float] = field(default_factory=list)
    failed: int = 0
    not_before_s: float = -math.inf
    # What was last seen of it, and since when.
    seen: tuple[str, str, int] | None = None
    since_s: float = 0.0


class Restarts:
    """The restarts of one team's members. All times are seconds of one monotonic clock.

    Records have wall times. So an end counts from when it was first seen here.
    """

    def __init__(self, *, patient: bool, members: Collection[str] | None = None) -> None:
        """Besides the lead, only `members` are restarted; None means all.

        Without `patient`, failed agents are not restarted, and lost ones only twice.
        """
        self._patient = patient
        self._members = members
        self._of: defaultdict[str, _History] = defaultdict(_History)

    def prospect(self, name: str, agent: AgentFacts, now_s: float) -> Prospect:
        """Return whether an agent is to be restarted."""
        history = self._of[name]
        seen = (agent.nonce, agent.phase, agent.since_ms)
        if history.seen != seen:
            history.seen, history.since_s = seen, now_s
        ended_s = history.since_s
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
        elif agent.end == "failed" and self._patient and passes(agent):
            if history.failed >= _FAILED_MAX:
                return "never"
            due_s = ended_s + min(_FAILED_PAUSE_S * 2**history.failed, PAUSE_MAX_S)
        else:
            return "never"
        if name != LEAD and self._members is not None and name not in self._members:
            # Agents that may move to another host are restarted by the hosts.
            return "later" if agent.spec.options.get(RESPAWN) else "never"
        return "now" if now_s >= max(due_s, history.not_before_s) else "later"

    def comes_back(self, name: str, agent: AgentFacts, now_s: float) -> bool:
        """Return whether an agent runs, or will be restarted."""
        return self.prospect(name, agent, now_s) != "never"

    def started(self, name: str, agent: AgentFacts, now_s: float) -> None:
        """Note that an agent that ended like this is being restarted."""
        history = self._of[name]
        if agent.end == "lost":
            history.lost_s = [at for at in history.lost_s if now_s - at < LOST_WITHIN_S] + [now_s]
        else:
            history.failed += 1
        if self._patient:
            history.not_before_s = now_s + min(2.0**history.failed, PAUSE_MAX_S)
