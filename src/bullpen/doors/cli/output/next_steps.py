"""The commands that make sense after a run, the first one first."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.team.agents.verdict import open_tasks
from bullpen.view.agent_words import used_any
from bullpen.view.summary import held_by_gate

_GAP = "   "


def next_steps(
    outcome: Outcome, elsewhere: str | None, progress: Progress | None, running: Sequence[str]
) -> list[str]:
    """Commands that make sense after a run; none if there is no team to speak of.

    `elsewhere` is what they must add, None if nothing is left to look at. `running` are the agents
    that still run.
    """
    if not outcome.team or elsewhere is None:
        return []
    which = f"{shlex.quote(outcome.team)}{elsewhere}"
    agents = progress.agents if progress is not None else []
    lead = next((view for view in agents if view.lead and view.driver), None)
    steps = []
    if held(progress) is not None:
        steps.append(f"bullpen merge log -t {which}")
    looks = []
    did_nothing = outcome.code == 1 and not (outcome.tasks or used_any(outcome.usage))
    if outcome.account is not None and not did_nothing:
        looks = [f"bullpen summary -t {which}", f"bullpen report -t {which} -o report.html"]
    if outcome.code == 0 or (lead is not None and lead.end == "finished"):
        steps += [*_more(outcome, which, elsewhere, progress, lead), *looks]
        steps += [f"bullpen task list -t {which}"] if outcome.tasks else []
        if lead is not None:
            # A lead that ended by itself is not started again: there only is what it said.
            steps.append(f"bullpen logs team-lead -t {which}")
        elif progress is not None and progress.snapshot.team.facts.merge is not None:
            steps.append(f"bullpen merge log -t {which}")
    else:
        go_on = command_to_go_on(progress, elsewhere)
        steps += _again(which, lead) if go_on is None else [go_on]
        steps += [*looks, f"bullpen ps -t {which}"]
    if outcome.account is not None and outcome.account.removal is not None:
        steps.append(f"{outcome.account.removal}{elsewhere}")
    steps += [f"bullpen stop --all -t {which}"] if running else []
    return list(dict.fromkeys(steps))


def held(progress: Progress | None) -> str | None:
    """Return how many tasks wait because the target itself fails the gate; None if none does."""
    seen = None if progress is None else progress.snapshot
    return None if seen is None else held_by_gate(seen.team, seen.tasks)


def _more(
    outcome: Outcome,
    which: str,
    elsewhere: str,
    progress: Progress | None,
    lead: AgentView | None,
) -> list[str]:
    """Return how a run that is over goes on: with what is left, or with more to do."""
    if lead is None:
        rest = command_for_the_rest(progress, elsewhere)
        return [] if rest is None else [rest]
    if progress is None or progress.snapshot.team.facts.origin is not None:
        return []
    return [f"bullpen run -t {which} 'WHAT NEXT'"]


def _again(which: str, lead: AgentView | None) -> list[str]:
    """Return how a team without a file goes on that has not reached its end."""
    if lead is None:
        return [f"bullpen team resume {which}"]
    again = f"bullpen run -t {which}"
    cause = (lead.cause or "") if lead.end == "failed" else ""
    # The words are those that the lead was told when its request failed.
    if "know the model" in cause:
        return [f"{again} --model MODEL 'GOAL'{_GAP}starts again with another model"]
    if "API key" in cause:
        return [f"{again}{_GAP}continues with the right key"]
    # A lead that somebody stopped stays so until it is told what to do.
    return [f"{again} 'WHAT NEXT'" if lead.end == "stopped" else again]


def command_for_the_rest(progress: Progress | None, elsewhere: str) -> str | None:
    """Return the command that goes on with what a person left open; None if nothing is.

    It is for a team of a team file without a lead: a lead that was stopped stays so.
    """
    left = progress is not None and open_tasks(progress.snapshot.tasks)
    return command_to_go_on(progress, elsewhere) if left else None


def command_to_go_on(progress: Progress | None, elsewhere: str) -> str | None:
    """Return the command that goes on with a team of a team file: only it reads the file."""
    origin = None if progress is None else progress.snapshot.team.facts.origin
    if origin is None or not os.path.isfile(origin.file):
        return None
    near = os.path.relpath(origin.file)
    path = origin.file if near.startswith(os.pardir) else near
    return f"bullpen up {shlex.quote(path)}{elsewhere}"
