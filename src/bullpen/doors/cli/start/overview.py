"""`bullpen` alone: the team of this directory in a few lines, or what to do first."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence

from bullpen.agents.supervisor.roster_view import AgentView, RosterView
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.records_view import RecordViews, request_table
from bullpen.doors.cli.session import Session
from bullpen.errors import NotFound, Refused
from bullpen.protocol.presence import ENDED
from bullpen.team.requests.handles import handles
from bullpen.team.snapshot import Snapshot
from bullpen.team.tasks.check_rules import is_done
from bullpen.view import agent_words as words
from bullpen.view import sentences
from bullpen.view.task_state import state_word, task_states
from bullpen.view.text import Cell, shortened

TEAM_FILE = "TEAM.toml"
_MEMBERS_MAX = 10
_GOAL_MAX = 100
_STOPPED = ("suspended", "lost", "failed")
"""The ends of an agent that goes on when its team continues."""

Step = tuple[str, str]
"""A command to run next, and what it does."""


def overview(session: Session) -> None:
    """Show the team here, or what to do first."""
    try:
        snapshot, views = session.with_team(lambda team: RosterView(team).look())
    except NotFound:
        if session.team is not None:
            raise
        _begin(session, [])
        return
    except Refused as error:
        if error.reason != "several_teams":
            raise
        _begin(session, session.with_teams(lambda teams: teams.names()))
        return
    which = f" -t {shlex.quote(snapshot.team.name)}{session.elsewhere}"
    steps = next_steps(snapshot, views, which=which, has_file=os.path.isfile(TEAM_FILE))
    if session.json:
        session.page.value(
            "overview/1",
            {
                "team": snapshot.team.name,
                "teams": [],
                "goal": snapshot.team.description,
                "agents": words.states_of([view for view in views if view.driver], snapshot),
                "tasks": dict(Counter(task.status for task in snapshot.tasks)),
                "waiting": [each.id for each in snapshot.pending if sentences.is_for_people(each)],
                "next": [command for command, _ in steps],
                "problems": snapshot.problems,
            },
        )
        return
    _draw(session.page, snapshot, views)
    _draw_steps(session.page, steps)


def next_steps(
    snapshot: Snapshot, views: Sequence[AgentView], *, which: str, has_file: bool
) -> list[Step]:
    """The commands that make sense next, the first one first."""
    waiting = [each for each in snapshot.pending if sentences.is_for_people(each)]
    running = any(view.driver and view.state not in ENDED for view in views)
    ended = any(view.driver and view.state in ENDED for view in views)
    facts = snapshot.team.facts
    lead = next((view for view in views if view.lead and view.driver), None)
    # A lead may have more to do than the tasks that it has added so far.
    is_over = bool(snapshot.tasks) and all(map(is_done, snapshot.tasks))
    is_over = is_over and (lead is None or lead.end not in _STOPPED)
    is_over = is_over or facts.finished is not None
    by_goal = lead is not None and facts.origin is None
    steps: list[Step] = []
    if len(waiting) == 1:
        handle = handles(snapshot.pending)[waiting[0].id]
        steps += [(f"bullpen approve {handle}{which}", "allow it; bullpen deny refuses it")]
    elif waiting:
        steps += [(f"bullpen requests{which}", "see what waits for you")]
    if running:
        steps += [(f"bullpen tui{which}", "watch and steer the team")]
    elif is_over:
        more = [(f"bullpen run{which} 'WHAT NEXT'", "go on with the same team")]
        steps += [*(more if by_goal else []), (f"bullpen summary{which}", "see what the team did")]
    elif ended:
        again = "bullpen up" if has_file and not by_goal else f"bullpen run{which}"
        steps += [(again, "continue"), (f"bullpen summary{which}", "see what the team did")]
    elif snapshot.tasks:
        steps += [(f"bullpen spawn alice{which}", "start an agent for the tasks")]
    else:
        steps += [(f"bullpen task add 'SUBJECT'{which}", "add a task")]
        steps += [(f"bullpen spawn alice 'PROMPT'{which}", "start an agent")]
    return steps


def first_steps(*, has_file: bool) -> list[Step]:
    """What somebody can do who has no team yet."""
    file = [("bullpen up", f"start the team of {TEAM_FILE}")]
    return [
        *(file if has_file else []),
        ("bullpen demo", "watch a simulated team work; no API key needed"),
        ("bullpen run 'GOAL'", "give a team a goal and watch until it is reached"),
        *([] if has_file else [("bullpen init", "write a team file for this project")]),
    ]


def _begin(session: Session, names: Sequence[str]) -> None:
    """Say what to do where no team works."""
    steps = first_steps(has_file=os.path.isfile(TEAM_FILE))
    if names:
        steps.append(("bullpen team list", "list the teams elsewhere"))
    if session.json:
        session.page.value(
            "overview/1",
            {
                "team": None,
                "teams": list(names),
                "goal": None,
                "agents": {},
                "tasks": {},
                "waiting": [],
                "next": [command for command, _ in steps],
                "problems": [],
            },
        )
        return
    session.page.line("There is no team in this directory yet." if names else "No team yet.")
    _draw_steps(session.page, steps)


def _draw(page: Page, snapshot: Snapshot, views: Sequence[AgentView]) -> None:
    RecordViews(page).problems(snapshot.problems)
    goal = shortened(snapshot.team.description or "", _GOAL_MAX)
    page.title(f"{snapshot.team.name}: {goal}" if goal else snapshot.team.name)
    page.line()
    agents = [view for view in views if view.driver]
    states, subjects = words.states_of(views, snapshot), words.subjects_of(snapshot)
    for view in agents[:_MEMBERS_MAX]:
        state = states[view.name]
        doing = words.doing(view, state, subjects)
        style = words.STATE_STYLES.get(state, "muted")
        page.line(Cell(f"  {view.name}: {state}{f', {doing}' if doing else ''}", style))
    if len(agents) > _MEMBERS_MAX:
        page.line(f"  and {len(agents) - _MEMBERS_MAX} more: bullpen ps")
    if not agents:
        page.line("  no agents")
    counts = Counter(state_word(state) for state in task_states(snapshot.tasks).values())
    said = ", ".join(f"{number} {word}" for word, number in counts.items())
    page.line(f"  tasks: {said or 'none'}")
    waiting = [each for each in snapshot.pending if sentences.is_for_people(each)]
    if waiting:
        page.line()
        page.line(Cell(f"{len(waiting)} waiting for you:", "attention"))
        request_table(page, waiting, snapshot)


def _draw_steps(page: Page, steps: Sequence[Step]) -> None:
    page.line()
    width = max(len(command) for command, _ in steps)
    page.drawing([f"  {command:<{width}}  {what}" for command, what in steps])
    page.line()
    page.line("All commands: bullpen --help")
