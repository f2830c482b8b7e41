"""Agents as people read them in words and columns, and as the JSON objects programs read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bullpen.cli.render import Draw, Page, Row
from bullpen.protocol.request import Request
from bullpen.team.request_handles import handles
from bullpen.view import agent_words as words
from bullpen.view import sentences
from bullpen.view.text import Cell

if TYPE_CHECKING:
    from bullpen.agents.launching import Spawned
    from bullpen.agents.rollcall import AgentView
    from bullpen.agents.supervisor import Stopped
    from bullpen.team.snapshot import Snapshot

COLUMNS = (
    "name", "state", "since", "driver", "backend", "task", "unread", "turns", "tokens", "cost",
    "doing",
)  # fmt: skip

_ACTIONS_MAX = 3


def rows(views: Sequence[AgentView], snapshot: Snapshot) -> list[Row]:
    """Agents in columns, as plain text and programs like awk want them."""
    subjects, colors = words.subjects_of(snapshot), words.colors_of(snapshot)
    states = words.states_of(views, snapshot)
    known = _knows_context(views)
    return [
        (
            Cell(view.name, colors.get(view.name, "strong")),
            Cell(states[view.name], words.STATE_STYLES.get(states[view.name], "muted")),
            sentences.age(view.since_ms, snapshot.taken_ms),
            view.driver or "",
            view.backend or "",
            ",".join(view.tasks),
            "?" if view.unread is None else str(view.unread),
            str(view.usage.turns),
            str(view.usage.tokens),
            words.money(view.usage) if words.used_any(view.usage) else "",
            *([words.context(view)] if known else []),
            words.doing(view, states[view.name], subjects),
        )
        for view in views
    ]


def _knows_context(views: Sequence[AgentView]) -> bool:
    return any(view.context is not None for view in views)


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
        "context": view.context,
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
        "waiting": [request.raw for request in words.waiting_for(reader, snapshot)],
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
    where = words.place_of(spawned)
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
        # Just before the last: columns that are there always keep their numbers.
        known = ["context"] if _knows_context(views) else []
        self._page.table([*COLUMNS[:-1], *known, COLUMNS[-1]], rows(views, snapshot))

    def _draw(self, views: Sequence[AgentView], snapshot: Snapshot) -> None:
        if any(view.driver or view.state != "unknown" for view in views):
            self.table(views, snapshot)
            self._trees(views)
        else:
            self._page.line(f"No agents in team {snapshot.team.name} yet. Start one:")
            self._page.line(f"  bullpen spawn alice 'Write the parser' -t {snapshot.team.name}")
        requests = words.waiting_for(self._reader, snapshot)
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
