"""Describes agents in words: what they do, what they used, where they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bullpen.agents.system import processes
from bullpen.protocol.agent import Usage
from bullpen.protocol.presence import ENDED
from bullpen.protocol.request import Request
from bullpen.team.requests.handles import with_short_ids
from bullpen.team.tasks.check_rules import is_done
from bullpen.view.news import THE_RUN_IS_OVER
from bullpen.view.task_state import shown_subject

if TYPE_CHECKING:
    from bullpen.agents.supervisor.roster_view import AgentView
    from bullpen.agents.supervisor.start import Spawned
    from bullpen.team.snapshot import Snapshot

DONE = "done"
STATE_STYLES = {
    "starting": "attention",
    "working": "good",
    "waiting": "attention",
    "finished": "good",
    DONE: "good",
    "failed": "bad",
    "lost": "bad",
}
THINKING = "thinking"

_QUIET_ENDS = ("finished", "suspended")
_THOUSAND = 1000


def subjects_of(snapshot: Snapshot) -> dict[str, str]:
    return {task.id: shown_subject(task) for task in snapshot.tasks}


def colors_of(snapshot: Snapshot) -> dict[str, str]:
    return {view.member.name: view.member.color for view in snapshot.members if view.member.color}


def waiting_for(name: str, snapshot: Snapshot) -> list[Request]:
    """The requests that a member has not answered yet."""
    return [request for request in snapshot.pending if request.to == name]


def states_of(views: Sequence[AgentView], snapshot: Snapshot) -> dict[str, str]:
    """The states of a team's agents in one word each, by name.

    An agent that ended by itself has its end as its state. An agent that was stopped because the
    goal was reached is done.
    """
    tasks = snapshot.tasks
    all_done = bool(tasks) and all(map(is_done, tasks))
    reached = all_done or snapshot.team.facts.finished is not None
    states: dict[str, str] = {}
    for view in views:
        states[view.name] = view.state
        if view.state == "stopped" and view.end in _QUIET_ENDS:
            states[view.name] = view.end
        elif view.state == "stopped" and reached and view.cause == THE_RUN_IS_OVER:
            states[view.name] = DONE
    return states


def doing(view: AgentView, state: str, subjects: Mapping[str, str]) -> str:
    """What an agent does, waits for, or ended with, in a few words."""
    return ": ".join(part for part in (task_of(view, subjects), activity(view, state)) if part)


def task_of(view: AgentView, subjects: Mapping[str, str]) -> str:
    """The task that an agent is working on, and how many more it has."""
    if not view.tasks:
        return ""
    first, *more = view.tasks
    others = f" (+{len(more)})" if more else ""
    return f"#{first} {subjects.get(first, '')}".rstrip() + others


def activity(view: AgentView, state: str) -> str:
    """The tool that an agent uses, what it waits for, why it ended, or what it did last."""
    return with_short_ids(_activity(view, state))


def _activity(view: AgentView, state: str) -> str:
    if state == DONE:
        return ""
    if view.state in ENDED:
        return view.cause or view.detail or ""
    if view.state == "waiting" and view.detail:
        return f"waits: {view.detail}"
    if view.tool:
        return f"{view.tool} {view.detail or ''}".rstrip()
    if view.actions:
        return f"last: {view.actions[-1]}"
    return THINKING if view.state == "working" else view.detail or ""


def tokens(usage: Usage) -> str:
    """Tokens without those read from a cache: `12.4k`, with `~` if some are estimated."""
    return f"{'~' if usage.estimated else ''}{count(usage.tokens)}"


def count(number: float) -> str:
    """A number in a few digits: `12.4k`."""
    if number < _THOUSAND:
        return str(int(number))
    for unit in ("k", "M"):
        number /= _THOUSAND
        # Above 999.5 it would be rounded up to the next unit.
        if number < _THOUSAND - 0.5:
            return f"{number:.1f}{unit}" if number < 99.95 else f"{number:.0f}{unit}"
    return f"{number / _THOUSAND:.1f}G"


def money(usage: Usage) -> str:
    """What it cost: `$0.042`, with `+?` if some requests have no known price, `~` if estimated."""
    if usage.unpriced and not usage.cost_usd:
        return "?"
    about = "~" if usage.estimated else ""
    more = "+?" if usage.unpriced else ""
    digits = 2 if usage.cost_usd >= 10 or not usage.cost_usd else 3
    return f"{about}${usage.cost_usd:.{digits}f}{more}"


def context(view: AgentView) -> str:
    """How full an agent's context window is: `42%`, or nothing if it is not known."""
    return "" if view.context is None else f"{view.context:.0%}"


def used_any(usage: Usage) -> bool:
    """Whether a model was used, as far as is known. Scripts use none."""
    tokens_or_money = usage.tokens or usage.cache_read_tokens or usage.cost_usd
    return bool(tokens_or_money or usage.unpriced)


def used(usage: Usage) -> str:
    turns = f"{usage.turns} turn{'' if usage.turns == 1 else 's'}"
    return f"{turns}, {tokens(usage)} tokens, {money(usage)}" if used_any(usage) else turns


def total(views: Iterable[AgentView]) -> Usage:
    usage = Usage.new()
    for view in views:
        usage = usage.plus(view.usage)
    return usage


def duration(seconds: float) -> str:
    """A duration: `42s`, `3m 20s`, `2h 05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def place_of(view: AgentView | Spawned) -> str:
    """Where an agent runs: its process or pane."""
    place = view.place
    if place is None:
        return ""
    # Other backends use the field for something else.
    pane = f"pane {place.pane}" if place.pane and place.backend == "tmux" else ""
    pid = f"pid {place.pid}" if place.pid else ""
    host = f"on {place.host}" if processes.is_elsewhere(place) else ""
    return ", ".join(part for part in (host, pane, pid) if part)
