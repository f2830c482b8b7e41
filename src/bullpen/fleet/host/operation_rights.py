"""Which operations an agent may ask its host for, and in whose name. Pure.

The rules in `bullpen.team` decide what a member may do. This table adds what they cannot know:
that the caller is the agent it says it is, where the operation has no actor. Where it has one, the
host sets who acts and in which voice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentFacts, Spent, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification
from bullpen.protocol.presence import ENDED, Presence
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import View

Right = Callable[[str, View, Mapping[str, Any]], None]
"""Refuses a call of this agent, given the team and the arguments."""


def anyone(caller: str, view: View, args: Mapping[str, Any]) -> None:
    """Leave it to the rules of the team, with the caller as the actor."""


def nobody(caller: str, view: View, args: Mapping[str, Any]) -> None:
    """Refuse every agent: only people and their programs do this."""
    raise Refused(
        f"Agent {caller!r} cannot do this: only people can, or programs that they run.",
        reason="not_a_person",
        remedy="Ask the person who runs this team.",
    )


def itself(caller: str, view: View, args: Mapping[str, Any]) -> None:
    """Refuse everybody but the agent that the call names."""
    if args["name"] != caller:
        raise other_identity(caller, args["name"])


def above(caller: str, view: View, args: Mapping[str, Any]) -> None:
    """Refuse everybody but the lead and the member that spawned the agent that the call names."""
    name = args["name"]
    if not is_above(caller, name, view.team):
        raise Refused(
            f"Agent {caller!r} did not spawn {name!r}.",
            reason="other_identity",
            remedy="Ask the lead.",
        )


def another(caller: str, view: View, args: Mapping[str, Any]) -> None:
    """Refuse to add or start oneself again: a launch cannot replace itself."""
    if args["name"] == caller:
        raise other_identity(caller, args["name"])


def new_name(caller: str, view: View, args: Mapping[str, Any]) -> None:
    """Refuse to register an agent in the place of another member, or as the lead."""
    if args["name"] == LEAD or args.get("in_place"):
        raise other_identity(caller, args["name"])


def own_words(caller: str, view: View, args: Mapping[str, Any]) -> None:
    """Refuse an end of a turn that is another agent's, or that reports in another name."""
    own_usage(caller, view, args)
    idle: IdleNotification | None = args["idle"]
    if idle is not None and idle.sender != caller:
        raise other_identity(caller, idle.sender)


def own_usage(caller: str, view: View, args: Mapping[str, Any]) -> None:
    """Refuse usage of another agent, and usage that would lower what was used."""
    itself(caller, view, args)
    reports: Mapping[int, Spent] = args["reports"]
    for row in reports.values():
        numbers = [getattr(row, name) or 0 for name in Usage.field_keys()]
        if row.agent is not None or row.parent is not None or min(numbers) < 0:
            raise Invalid(
                "A report of usage has only the usage of who sends it.",
                remedy="Use the same version on both sides of the socket.",
            )


DOOR: Mapping[str, Right] = {
    "teams.create": nobody,
    "teams.delete": nobody,
    "teams.move": nobody,
    "roster.join": another,
    "roster.remove": anyone,
    "mailbox.send": anyone,
    "mailbox.broadcast": anyone,
    "mailbox.mark": itself,
    "tasks.add": anyone,
    "tasks.add_many": anyone,
    "tasks.edit": anyone,
    "tasks.claim": anyone,
    "tasks.claim_next": anyone,
    "tasks.done": anyone,
    "tasks.force": anyone,
    "tasks.release": anyone,
    "tasks.nudge": anyone,
    "tasks.relieve": anyone,
    "tasks.give_up": anyone,
    "tasks.retry": anyone,
    "tasks.assign": anyone,
    "tasks.depend": anyone,
    "tasks.undepend": anyone,
    "tasks.delete": anyone,
    "tasks.renew": anyone,
    "tasks.rebudget": anyone,
    "tasks.expire": anyone,
    "tasks.restate": anyone,
    "tasks.provable": anyone,
    "tasks.record_checks": anyone,
    "approvals.ask_shutdown": anyone,
    "approvals.ask_plan": anyone,
    "approvals.ask_permission": anyone,
    "approvals.ask_question": anyone,
    "approvals.answer": anyone,
    "approvals.hear": anyone,
    "approvals.redeem": anyone,
    "approvals.withdraw": anyone,
    "approvals.expire": anyone,
    "approvals.reschedule": anyone,
    "agents.register": new_name,
    "agents.relaunch": another,
    "agents.withdraw": anyone,
    "agents.take_back": anyone,
    "agents.waiting": nobody,
    "agents.placed": above,
    "agents.ready": itself,
    "agents.remind": itself,
    "agents.begin_turn": itself,
    "agents.spend": own_usage,
    "agents.end_turn": own_words,
    "agents.ending": anyone,
    "agents.end": anyone,
    "agents.beat": anyone,
    "agents.limit": anyone,
    "agents.grant": nobody,
    "agents.rebudget": anyone,
    "modes.change": anyone,
    "notes.write": anyone,
    "agents.take_lead": anyone,
    "agents.drop_lead": anyone,
    "agents.finish": anyone,
    "agents.unfinish": nobody,
    "agents.converse": nobody,
    "agents.begin_run": nobody,
    "agents.end_run": nobody,
    "merges.configure": anyone,
    "merges.note": nobody,
    "merges.about_to_land": nobody,
    "merges.landed": nobody,
    "merges.told": nobody,
    "merges.give_back": nobody,
    "promises.make": anyone,
    "promises.change": anyone,
    "promises.withdraw": anyone,
    "promises.rely": anyone,
    "promises.drop": anyone,
    "promises.judge": anyone,
    "reviews.record": anyone,
    "forge.configure": nobody,
    "forge.take": nobody,
    "forge.begin": nobody,
    "forge.finish": nobody,
    "forge.drop": nobody,
    "forge.label": nobody,
    "forge.give_back": nobody,
    "forge.hold": nobody,
    "forge.resume": nobody,
    "forge.reopen": nobody,
    "forge.settle": nobody,
    "nights.gather": nobody,
    "nights.begin": nobody,
    "nights.finish": nobody,
    "nights.drop": nobody,
    "nights.join": nobody,
    "nights.ask": nobody,
    "nights.hold": nobody,
    "nights.resume": nobody,
    "nights.settle": nobody,
    "origins.complete": nobody,
    "origins.rebudget": nobody,
    "origins.work_by": nobody,
    "origins.hush": nobody,
    "plans.enter": itself,
    "plans.settle": itself,
}
"""Who may ask for each operation. For `anyone`, the host still sets the actor and the voice."""


def is_above(caller: str, name: str, team: TeamConfig) -> bool:
    """Return whether a caller is the lead, or spawned this agent."""
    agent = facts_of(team, name)
    return caller != name and agent is not None and caller in (LEAD, agent.parent)


def facts_of(team: TeamConfig, name: str) -> AgentFacts | None:
    """Return what is known of an agent; None if there is no such agent."""
    member = team.member(name)
    return None if member is None else member.agent


def check_beat(caller: str, presence: Presence, team: TeamConfig) -> None:
    """Refuse another agent's heartbeat.

    The lead and the member that spawned it send the last one of a launch that has ended, and those
    of a launch that they are about to start.
    """
    agent = facts_of(team, presence.agent)
    if presence.state in ENDED and team.member(presence.agent) is None and caller == LEAD:
        return
    known = agent is not None and agent.nonce == presence.nonce
    if agent is not None and known and is_above(caller, presence.agent, team):
        if agent.phase == "ended" and presence.state in ENDED:
            return
        if agent.phase == "starting" and presence.state == "starting":
            return
    raise other_identity(caller, presence.agent)


def other_identity(caller: str, name: str) -> Refused:
    """Return the refusal of a call that is not the caller's."""
    return Refused(
        f"Agent {caller!r} cannot do this for {name!r}.",
        reason="other_identity",
        remedy=f"You are {caller}.",
    )
