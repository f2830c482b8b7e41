"""Rules about who may manage a team: what only its lead may do, and what else a parent may. Pure.

People act as the lead. A team's `agentsMay` opens some of these acts to all its agents.
"""

from __future__ import annotations

from collections.abc import Mapping

from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, ModeSetRequest, payload_of
from bullpen.protocol.team import TeamConfig
from bullpen.team.lookup import leads

_ONLY_THE_LEAD: Mapping[str, tuple[str, str | None]] = {
    "task.nudge": ("nudge members", None),
    "task.relieve": ("take tasks away from their owners", "task.release"),
    "task.retry": ("retry tasks that were given up", "task.retry"),
    "team.limits": ("change limits", None),
    "agent.budget": ("change budgets", None),
    "agent.mode": ("change the modes of agents", None),
    "lead.take": ("lead it", None),
    "lead.drop": ("give back its lease", None),
    "team.unfinish": ("give it a new goal", None),
    "run.begin": ("begin a run of it", None),
    "run.end": ("say how a run of it ended", None),
    "team.converse": ("say whether a person talks with its lead", None),
    "team.complete": ("change where it came from", None),
    "team.unattended": ("change how it works unattended", None),
    "team.quiet": ("start or end quiet hours", None),
    "merge.configure": ("change the target branch or the merge gate", None),
    "forge.configure": ("change how it uses a forge", None),
    "forge.resume": ("let work on a forge go on", None),
}
"""What each of these commits does, by its name in the log, and the act that opens it."""


def check_commit(team: TeamConfig, op: str, by: str) -> None:
    """Refuse a commit that only the lead may make, by its name in the log.

    Raises:
        Refused: not_lead.
    """
    if op in _ONLY_THE_LEAD:
        what, act = _ONLY_THE_LEAD[op]
        refuse_others(team, by, what, act=act)


def refuse_others(team: TeamConfig, by: str, what: str, *, act: str | None = None) -> None:
    """Refuse what only the lead may do, unless the team opened this act to its agents.

    Raises:
        Refused: not_lead.
    """
    if not (leads(team, by) or is_open(team, act)):
        raise not_lead(f"the lead of team {team.name!r}", by, what, act=act)


def refuse_creating(by: str) -> None:
    """Refuse to let a teammate create a team: it would lead what nobody gave it.

    Raises:
        Refused: not_lead.
    """
    if by != LEAD:
        raise not_lead("a person or a lead", by, "create a team")


def refuse_strangers(team: TeamConfig, name: str, by: str, what: str, *, act: str) -> None:
    """Refuse everybody but the member itself, its parent and the lead.

    Raises:
        Refused: not_lead.
    """
    if not may_manage(team, name, by, act=act):
        raise Refused(
            f"{by!r} may not {what} {name!r}.",
            reason="not_lead",
            remedy="Ask the lead, or the member that spawned it.",
        )


def may_manage(team: TeamConfig, name: str, by: str, *, act: str) -> bool:
    """Return whether `by` is that member, spawned it or leads, or the act is open to all agents."""
    if by == name or leads(team, by) or is_open(team, act):
        return True
    member = team.member(name)
    agent = member.agent if member is not None else None
    return agent is not None and agent.parent == by


def may_order(team: TeamConfig, to: str, sender: str) -> bool:
    """Return whether an agent's runner obeys orders from this sender."""
    return may_manage(team, to, sender, act="member.stop")


def refuse_orders(team: TeamConfig, to: str, sender: str, text: str) -> None:
    """Refuse a message that a runner would obey without its model, from a stranger.

    Answers to requests are not orders: they count only if the request names the sender.

    Raises:
        Refused: not_lead.
    """
    if isinstance(payload_of(text), Control | ModeSetRequest) and not may_order(team, to, sender):
        raise Refused(
            f"{sender!r} may not give orders to {to!r}.",
            reason="not_lead",
            remedy="Ask the lead to stop or pause it, or write it a message.",
        )


def is_open(team: TeamConfig, act: str | None) -> bool:
    """Return whether the team opened an act to all its agents."""
    return act in (team.facts.agents_may or ())


def not_lead(who: str, by: str, what: str, *, act: str | None = None) -> Refused:
    """Return the refusal of what only the lead may do. A team file can open the act."""
    opens = "" if act is None else f' A team file opens it to agents: agents_may = ["{act}"].'
    return Refused(
        f"Only {who} may {what}, not {by!r}.",
        reason="not_lead",
        remedy=f"Ask the lead. If you are a person, leave out --as.{opens}",
    )
