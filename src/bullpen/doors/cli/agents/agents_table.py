"""Agents as tables for people and JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bullpen.agents.permissions.rule_language.tool_names import missing_tools_note
from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.doors.cli.output.page import Draw, Page, Row, as_json
from bullpen.doors.cli.output.records_view import RecordViews, request_table
from bullpen.doors.cli.session import Session
from bullpen.protocol.request import Request
from bullpen.team.requests.handles import handles
from bullpen.team.snapshot import Snapshot
from bullpen.view import agent_words as words
from bullpen.view import sentences
from bullpen.view.text import Cell

if TYPE_CHECKING:
    # To show agents, nothing that starts or stops them is imported.
    from bullpen.agents.supervisor.start import Spawned
    from bullpen.agents.supervisor.supervisor import Stopped

# For output that is piped; a terminal has room for less.
COLUMNS = (
    "name", "state", "since", "driver", "backend", "task", "unread", "turns", "tokens", "cost",
    "doing",
)  # fmt: skip

_ACTIONS_MAX = 3


def rows(views: Sequence[AgentView], snapshot: Snapshot) -> list[Row]:
    """Agents in columns, for plain text and programs such as awk."""
    subjects, colors = words.subjects_of(snapshot), words.colors_of(snapshot)
    states = words.states_of(views, snapshot)
    known = _knows_context(views)
    return [
        (
            Cell(_name(view), colors.get(view.name, "strong")),
            Cell(
                "" if _is_person(view) else states[view.name],
                words.STATE_STYLES.get(states[view.name], "muted"),
            ),
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


def people_table(views: Sequence[AgentView], snapshot: Snapshot) -> tuple[list[str], list[Row]]:
    """The columns and rows of agents at a terminal; what nobody used has no column."""
    subjects, colors = words.subjects_of(snapshot), words.colors_of(snapshot)
    states = words.states_of(views, snapshot)
    used = any(words.used_any(view.usage) for view in views)
    rows: list[Row] = []
    for view in views:
        state, unread = states[view.name], "?" if view.unread is None else str(view.unread or "")
        since = sentences.age(view.since_ms, snapshot.taken_ms)
        cost = f"{words.tokens(view.usage)} {words.money(view.usage)}"
        rows.append(
            (
                Cell(_name(view), colors.get(view.name, "strong")),
                Cell(
                    "" if _is_person(view) else f"{state} {since}".rstrip(),
                    words.STATE_STYLES.get(state, "muted"),
                ),
                *([cost if words.used_any(view.usage) else ""] if used else []),
                unread,
                words.doing(view, state, subjects),
            )
        )
    return ["agent", "state", *(["used"] if used else []), "unread", "doing"], rows


def _is_person(view: AgentView) -> bool:
    """Whether this is a lead that no program is: the person who looks."""
    return view.lead and not view.driver and view.state == "unknown"


def _name(view: AgentView) -> str:
    return "you" if _is_person(view) else view.name


def _knows_context(views: Sequence[AgentView]) -> bool:
    return any(view.context is not None for view in views)


def agent_json(view: AgentView) -> dict[str, Any]:
    """An agent as a JSON object."""
    return {**as_json(view), "actions": list(view.actions[-_ACTIONS_MAX:])}


def agents_json(views: Sequence[AgentView], snapshot: Snapshot, *, reader: str) -> dict[str, Any]:
    """All agents of a team, with the requests that the reader can answer."""
    return {
        "team": snapshot.team.name,
        "agents": [agent_json(view) for view in views],
        "waiting": words.waiting_for(reader, snapshot),
        "takenMs": snapshot.taken_ms,
        "problems": snapshot.problems,
    }


def spawned_line(spawned: Spawned) -> str:
    """A start in a sentence that names the driver, the backend and the place."""
    where = words.place_of(spawned)
    how = f"{spawned.driver} driver, {spawned.backend} backend" + (f", {where}" if where else "")
    if spawned.fresh:
        tree = f" It works in {spawned.tree}." if spawned.tree else ""
        return f"Started {spawned.name} ({how}).{tree}"
    return f"{spawned.name} was already started ({how}); nothing new was started."


def stopped_line(stopped: Stopped) -> str:
    """A stop in a sentence."""
    if not stopped.was_alive:
        return f"{stopped.name} was not running ({stopped.end})."
    if stopped.end == "stopped":
        return f"Stopped {stopped.name}."
    if stopped.end == "finished":
        return f"{stopped.name} agreed to end, and has ended."
    return f"{stopped.name} ended: {stopped.end}."


def agent_views(session: Session) -> AgentViews:
    """Shows the agents of a team to the reader of a command."""
    reader = session.settings.agent
    return AgentViews(session.page, reader=reader, elsewhere=session.elsewhere)


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
            self._page.value("agents/1", agents_json(views, snapshot, reader=self._reader))
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
            value = agents_json(views, snapshot, reader=self._reader)
            self._page.json_line("agents/1", value)
        else:
            picture(lambda _: self._draw(views, snapshot))

    def spawned(self, spawned: Spawned, *, which: str, asks: bool = False) -> None:
        """An agent that was started, and what to do next; `asks`: a person answers its requests."""
        steps = [f"bullpen logs {spawned.name} -f {which}", f"bullpen stop {spawned.name} {which}"]
        if spawned.backend == "tmux":
            steps.insert(1, f"bullpen attach {spawned.name} {which}")
        if asks:
            steps.insert(0, f"bullpen requests --watch {which}")
        if spawned.fresh and spawned.missing_tools:
            self._page.warn(f"{spawned.name}: {missing_tools_note(spawned.missing_tools)}")
        lines = [spawned_line(spawned), "Try next:", *(f"  {step}" for step in steps)]
        self._page.result("spawned/1", spawned, *lines)

    def resumed(self, team: str, resumed: Sequence[Spawned], *, which: str) -> None:
        """The agents of a team that were started again."""
        value = {"team": team, "started": resumed}
        lines = [spawned_line(spawned) for spawned in resumed]
        nothing = [f"No agent of team {team} needed a restart. See: bullpen ps {which}"]
        self._page.result("started/1", value, *(lines or nothing))

    def stopped(self, stopped: Sequence[Stopped]) -> None:
        """The agents that were stopped."""
        self._page.result(
            "stopped/1",
            {"stopped": stopped},
            *(map(stopped_line, stopped) if stopped else ["No agent was running."]),
        )

    def table(self, views: Sequence[AgentView], snapshot: Snapshot) -> None:
        """Write a row for each agent."""
        if self._page.draws:
            self._page.table(*people_table(views, snapshot))
            return
        # Just before the last: columns that are there always keep their numbers.
        known = ["context"] if _knows_context(views) else []
        self._page.table([*COLUMNS[:-1], *known, COLUMNS[-1]], rows(views, snapshot))

    def _draw(self, views: Sequence[AgentView], snapshot: Snapshot) -> None:
        if any(view.driver or view.state != "unknown" for view in views):
            # A lead that is no agent is the person who looks; only unread messages tell something.
            shown = [view for view in views if not view.lead or view.driver or view.unread]
            self.table(shown, snapshot)
            self._trees(views)
        else:
            self._page.line(f"No agents in team {snapshot.team.name} yet. Start one:")
            self._page.line(f"  bullpen spawn alice 'Write the parser' -t {snapshot.team.name}")
        requests = words.waiting_for(self._reader, snapshot)
        if requests:
            self._page.line()
            self.requests(requests, snapshot)

    def _trees(self, views: Sequence[AgentView]) -> None:
        """Show who works in a worktree."""
        owning = [(view.name, view.tree) for view in views if view.tree]
        if owning:
            self._page.line()
            self._page.table(("agent", "worktree"), owning)

    def requests(self, requests: Sequence[Request], snapshot: Snapshot) -> None:
        """Write the requests that wait for the reader, and the command that answers."""
        request_table(self._page, requests, snapshot)
        short = handles(snapshot.pending)
        first = next(filter(sentences.is_for_people, requests), None)
        if first is not None:
            self._page.line(f"Answer: bullpen approve {short[first.id]}{self._elsewhere}")

    def _problems(self, snapshot: Snapshot) -> None:
        RecordViews(self._page).problems(snapshot.problems)
