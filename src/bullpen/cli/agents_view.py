"""Agents as people read them in words and columns, and as the JSON objects programs read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bullpen.agents import processes
from bullpen.agents.news import THE_RUN_IS_OVER
from bullpen.cli import sentences
from bullpen.cli.render import Cell, Draw, Page, Row
from bullpen.protocol.agent import Usage
from bullpen.protocol.request import Request
from bullpen.team.check_rules import is_done
from bullpen.team.request_handles import handles

if TYPE_CHECKING:
    from bullpen.agents.launching import Spawned
    from bullpen.agents.rollcall import AgentView
    from bullpen.agents.supervisor import Stopped
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
ENDED = frozenset({"failed", "stopped", "lost"})
COLUMNS = (
    "name", "state", "since", "driver", "backend", "task", "unread", "turns", "tokens", "cost",
    "doing",
)  # fmt: skip

_QUIET_ENDS = ("finished", "suspended")
_THOUSAND = 1000
_ACTIONS_MAX = 3


def subjects_of(snapshot: Snapshot) -> dict[str, str]:
    """The subjects of a team's tasks, by id."""
    return {task.id: task.subject for task in snapshot.tasks}


def colors_of(snapshot: Snapshot) -> dict[str, str]:
    """The colours of a team's members, by name."""
    return {view.member.name: view.member.color for view in snapshot.members if view.member.color}


def waiting_for(name: str, snapshot: Snapshot) -> list[Request]:
    """The requests that a member has not answered yet."""
    return [request for request in snapshot.pending if request.to == name]


def states_of(views: Sequence[AgentView], snapshot: Snapshot) -> dict[str, str]:
    """The states of a team's agents in one word each, by name.

    Of one that was not made to stop, it is how it ended. Who was stopped only because the goal
    was reached is done.
    """
    tasks = snapshot.tasks
    all_done = bool(tasks) and all(map(is_done, tasks))
    reached = all_done or snapshot.team.facts.result is not None
    states: dict[str, str] = {}
    for view in views:
        states[view.name] = view.state
        if view.state == "stopped" and view.end in _QUIET_ENDS:
            states[view.name] = view.end
        elif view.state == "stopped" and reached and view.cause == THE_RUN_IS_OVER:
            states[view.name] = DONE
    return states


def doing(view: AgentView, state: str, subjects: Mapping[str, str]) -> str:
    """What an agent does, waits for or ended with, in a few words."""
    return ": ".join(part for part in (task_of(view, subjects), activity(view, state)) if part)


def task_of(view: AgentView, subjects: Mapping[str, str]) -> str:
    """The task that an agent has in progress, and how many more."""
    if not view.tasks:
        return ""
    first, *more = view.tasks
    others = f" (+{len(more)})" if more else ""
    return f"#{first} {subjects.get(first, '')}".rstrip() + others


def activity(view: AgentView, state: str) -> str:
    """The tool that an agent uses, what it waits for, or why it ended; else what it did last."""
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
    """How many tokens were read for the first time or written: `12.4k`."""
    return count(usage.tokens)


def count(number: float) -> str:
    """A number in a few digits: `12.4k`."""
    if number < _THOUSAND:
        return str(int(number))
    for unit in ("k", "M"):
        number /= _THOUSAND
        # Below 9.95 a second digit says more than it costs; above 999.5 it is the next unit.
        if number < _THOUSAND - 0.5:
            return f"{number:.1f}{unit}" if number < 99.95 else f"{number:.0f}{unit}"
    return f"{number / _THOUSAND:.1f}G"


def money(usage: Usage) -> str:
    """What it cost: `$0.042`, with `+?` if some requests have no known price."""
    if usage.unpriced and not usage.cost_usd:
        return "?"
    more = "+?" if usage.unpriced else ""
    digits = 2 if usage.cost_usd >= 10 or not usage.cost_usd else 3
    return f"${usage.cost_usd:.{digits}f}{more}"


def used_any(usage: Usage) -> bool:
    """Whether a model was asked at all, as far as is known. Scripts ask none."""
    tokens_or_money = usage.tokens or usage.cache_read_tokens or usage.cost_usd
    return bool(tokens_or_money or usage.unpriced)


def used(usage: Usage) -> str:
    """What was used, in a few words."""
    turns = f"{usage.turns} turn{'' if usage.turns == 1 else 's'}"
    return f"{turns}, {tokens(usage)} tokens, {money(usage)}" if used_any(usage) else turns


def total(views: Iterable[AgentView]) -> Usage:
    """What agents used together."""
    usage = Usage.new()
    for view in views:
        usage = usage.plus(view.usage)
    return usage


def duration(seconds: float) -> str:
    """How long something took: `42s`, `3m 20s`, `2h 05m`."""
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
    # In other backends it is a mark of their own.
    pane = f"pane {place.pane}" if place.pane and place.backend == "tmux" else ""
    pid = f"pid {place.pid}" if place.pid else ""
    host = f"on {place.host}" if processes.is_elsewhere(place) else ""
    return ", ".join(part for part in (host, pane, pid) if part)


def rows(views: Sequence[AgentView], snapshot: Snapshot) -> list[Row]:
    """Agents in columns, as plain text and programs like awk want them."""
    subjects, colors = subjects_of(snapshot), colors_of(snapshot)
    states = states_of(views, snapshot)
    return [
        (
            Cell(view.name, colors.get(view.name, "strong")),
            Cell(states[view.name], STATE_STYLES.get(states[view.name], "muted")),
            sentences.age(view.since_ms, snapshot.taken_ms),
            view.driver or "",
            view.backend or "",
            ",".join(view.tasks),
            "?" if view.unread is None else str(view.unread),
            str(view.usage.turns),
            str(view.usage.tokens),
            money(view.usage) if used_any(view.usage) else "",
            doing(view, states[view.name], subjects),
        )
        for view in views
    ]


def agent_json(view: AgentView) -> dict[str, Any]:
    """An agent as a JSON object."""
    return {
        "name": view.name,
        "lead": view.lead,
        "state": view.state,
        "sinceMs": view.since_ms,
        "detail": view.detail,
        "driver": view.driver,
        "backend": view.backend,
        "model": view.model,
        "tool": view.tool,
        "actions": list(view.actions[-_ACTIONS_MAX:]),
        "tasks": list(view.tasks),
        "unread": view.unread,
        "usage": view.usage.raw,
        "place": None if view.place is None else view.place.raw,
        "end": view.end,
        "cause": view.cause,
        "launch": view.launch,
        "tree": view.tree,
    }


def agents_json(views: Sequence[AgentView], snapshot: Snapshot, *, reader: str) -> dict[str, Any]:
    """All agents of a team, with what waits for whoever asks."""
    return {
        "team": snapshot.team.name,
        "agents": [agent_json(view) for view in views],
        "waiting": [request.raw for request in waiting_for(reader, snapshot)],
        "takenMs": snapshot.taken_ms,
        "problems": [{"where": problem.where, "why": problem.why} for problem in snapshot.problems],
    }


def spawned_json(spawned: Spawned) -> dict[str, Any]:
    """A start as a JSON object."""
    return {
        "name": spawned.name,
        "fresh": spawned.fresh,
        "backend": spawned.backend,
        "driver": spawned.driver,
        "place": None if spawned.place is None else spawned.place.raw,
        "tree": spawned.tree,
    }


def spawned_line(spawned: Spawned) -> str:
    """A start in a sentence that names the driver, the backend and the place."""
    where = place_of(spawned)
    how = f"{spawned.driver} driver, {spawned.backend} backend" + (f", {where}" if where else "")
    if spawned.fresh:
        tree = f" It works in {spawned.tree}." if spawned.tree else ""
        return f"Started {spawned.name} ({how}).{tree}"
    return f"{spawned.name} was started before ({how}); nothing new was started."


def stopped_json(stopped: Stopped) -> dict[str, Any]:
    """A stop as a JSON object."""
    return {"name": stopped.name, "wasAlive": stopped.was_alive, "end": stopped.end}


def stopped_line(stopped: Stopped) -> str:
    """A stop in a sentence."""
    if not stopped.was_alive:
        return f"{stopped.name} was not running ({stopped.end})."
    if stopped.end == "stopped":
        return f"Stopped {stopped.name}."
    return f"{stopped.name} ended: {stopped.end}."


class AgentViews:
    """Shows agents on a page."""

    def __init__(self, page: Page, *, reader: str, elsewhere: str = "") -> None:
        self._page = page
        self._reader = reader
        # What a command to type next must add.
        self._elsewhere = elsewhere

    def agents(self, views: Sequence[AgentView], snapshot: Snapshot) -> None:
        """All agents of a team: a JSON value, or columns."""
        self._problems(snapshot)
        if self._page.json:
            self._page.value(agents_json(views, snapshot, reader=self._reader))
        else:
            self._draw(views, snapshot)

    def change(
        self,
        views: Sequence[AgentView],
        snapshot: Snapshot,
        picture: Callable[[Draw], None],
    ) -> None:
        """All agents of a team after a change: a line of JSON, or another picture."""
        if self._page.json:
            self._problems(snapshot)
            self._page.json_line(agents_json(views, snapshot, reader=self._reader))
        else:
            picture(lambda _: self._draw(views, snapshot))

    def spawned(self, spawned: Spawned, *, which: str, asks: bool = False) -> None:
        """An agent that was started, and what to do with it next; `asks`: people are asked."""
        steps = [f"bullpen logs {spawned.name} -f {which}", f"bullpen stop {spawned.name} {which}"]
        if spawned.backend == "tmux":
            steps.insert(1, f"bullpen attach {spawned.name} {which}")
        if asks:
            steps.insert(0, f"bullpen requests --watch {which}")
        self._page.result(
            spawned_json(spawned), spawned_line(spawned), "Try next:", *(f"  {s}" for s in steps)
        )

    def resumed(self, team: str, resumed: Sequence[Spawned], *, which: str) -> None:
        """The agents of a team that were started again."""
        value = {"team": team, "started": [spawned_json(spawned) for spawned in resumed]}
        lines = [spawned_line(spawned) for spawned in resumed]
        nothing = [f"No agent of team {team} had to be started again. See: bullpen ps {which}"]
        self._page.result(value, *(lines or nothing))

    def stopped(self, stopped: Sequence[Stopped]) -> None:
        """The agents that were stopped."""
        self._page.result(
            {"stopped": [stopped_json(one) for one in stopped]},
            *(map(stopped_line, stopped) if stopped else ["No agent was running."]),
        )

    def table(self, views: Sequence[AgentView], snapshot: Snapshot) -> None:
        """Write a row for each agent."""
        self._page.table(COLUMNS, rows(views, snapshot))

    def _draw(self, views: Sequence[AgentView], snapshot: Snapshot) -> None:
        if any(view.driver or view.state != "unknown" for view in views):
            self.table(views, snapshot)
            self._trees(views)
        else:
            self._page.line(f"No agents in team {snapshot.team.name} yet. Start one:")
            self._page.line(f"  bullpen spawn alice 'Write the parser' -t {snapshot.team.name}")
        requests = waiting_for(self._reader, snapshot)
        if requests:
            self._page.line()
            self.requests(requests, snapshot)

    def _trees(self, views: Sequence[AgentView]) -> None:
        """Say who works in a tree of its own."""
        owning = [(view.name, view.tree) for view in views if view.tree]
        if owning:
            self._page.line()
            self._page.table(("agent", "tree"), owning)

    def requests(self, requests: Sequence[Request], snapshot: Snapshot) -> None:
        """Write what waits for the reader, and what to type about it."""
        short = handles(snapshot.pending)
        self._page.table(
            ("request", "kind", "age", "about"),
            [
                (
                    short[request.id],
                    request.kind,
                    sentences.age(request.created_ms, snapshot.taken_ms),
                    sentences.waits(request),
                )
                for request in requests
            ],
        )
        first = next(filter(sentences.is_for_people, requests), None)
        if first is not None:
            self._page.line(f"Answer: bullpen approve {short[first.id]}{self._elsewhere}")

    def _problems(self, snapshot: Snapshot) -> None:
        for problem in snapshot.problems:
            self._page.warn(f"cannot read {problem.where}: {problem.why}")
