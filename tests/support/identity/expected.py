"""Who may do what: written by hand, from what Bullpen promises, not from its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from .cast import Identity as I

Right: TypeAlias = Literal[
    "member",
    "itself",
    "asker",
    "owner",
    "parent",
    "lead",
    "person",
    "host",
    "spawner",
    "reader",
    "nobody",
]

ALLOWED: Mapping[Right, frozenset[I]] = {
    # Every member, in its own name.
    "member": frozenset(
        {I.LEAD, I.OWNER, I.PARENT, I.CHILD, I.TEAMMATE, I.GUEST, I.PERSON, I.HOST}
    ),
    # An agent, about its own launch.
    "itself": frozenset({I.LEAD, I.OWNER, I.PARENT, I.CHILD, I.TEAMMATE, I.HOST}),
    # The member that asked, and nobody for it.
    "asker": frozenset({I.OWNER}),
    # The owner of a task, the lead and people.
    "owner": frozenset({I.OWNER, I.LEAD, I.PERSON, I.HOST}),
    # An agent itself, the member that spawned it, the lead and people.
    "parent": frozenset({I.OWNER, I.PARENT, I.LEAD, I.PERSON, I.HOST}),
    # The lead and people.
    "lead": frozenset({I.LEAD, I.PERSON, I.HOST}),
    # People, at whichever machine.
    "person": frozenset({I.PERSON, I.HOST}),
    # What no agent asks for: programs of a person do it, or the machine on its own.
    "host": frozenset({I.PERSON, I.HOST}),
    "nobody": frozenset(),
    # Whose mailbox it is, and people.
    "reader": frozenset({I.OWNER, I.PERSON, I.HOST}),
    # The member that spawned an agent, and the lead.
    "spawner": frozenset({I.PARENT, I.LEAD, I.PERSON, I.HOST}),
}

OPERATIONS: Mapping[str, Right] = {
    "teams.create": "lead",
    "teams.delete": "lead",
    "teams.move": "lead",
    "roster.join": "lead",
    "roster.remove": "parent",
    "mailbox.send": "member",
    "mailbox.send: an order to the owner": "parent",
    "mailbox.broadcast": "member",
    "mailbox.broadcast: an order to all": "lead",
    "mailbox.mark": "member",
    "tasks.add": "member",
    "tasks.add_many": "member",
    "notes.write": "member",
    "promises.make": "owner",
    "promises.change": "owner",
    "promises.withdraw": "owner",
    "promises.rely": "owner",
    "promises.drop": "owner",
    "promises.judge": "owner",
    "tasks.edit": "member",
    "tasks.claim": "member",
    "tasks.claim_next": "member",
    "tasks.done": "owner",
    "tasks.force": "person",
    "tasks.release": "owner",
    "tasks.nudge": "lead",
    "tasks.relieve": "lead",
    "tasks.give_up": "owner",
    "tasks.retry": "lead",
    "tasks.assign": "owner",
    "tasks.depend": "member",
    "tasks.undepend": "member",
    "tasks.delete": "owner",
    "tasks.renew": "owner",
    "tasks.rebudget": "person",
    "tasks.expire": "member",
    "tasks.restate": "lead",
    "tasks.provable": "owner",
    "tasks.record_checks": "owner",
    "reviews.record": "owner",
    "approvals.ask_shutdown": "member",
    "approvals.ask_plan": "member",
    "approvals.ask_permission": "member",
    "approvals.ask_question": "member",
    "approvals.answer": "lead",
    "approvals.answer: what a person was asked": "person",
    "approvals.hear": "member",
    "approvals.redeem": "asker",
    "approvals.withdraw": "asker",
    "approvals.expire": "member",
    "approvals.reschedule": "owner",
    "agents.register": "lead",
    "agents.register: in the place of a member": "lead",
    "agents.relaunch": "parent",
    "agents.withdraw": "parent",
    "agents.waiting": "itself",
    "agents.placed": "itself",
    "agents.ready": "itself",
    "agents.remind": "itself",
    "agents.begin_turn": "itself",
    "agents.spend": "itself",
    "agents.end_turn": "itself",
    "agents.ending": "parent",
    "agents.end": "parent",
    "agents.beat": "member",
    "agents.limit": "person",
    "agents.grant": "lead",
    "agents.rebudget": "person",
    "modes.change": "lead",
    "agents.take_lead": "lead",
    "agents.drop_lead": "lead",
    "agents.finish": "lead",
    "agents.unfinish": "lead",
    "agents.converse": "lead",
    "merges.configure": "person",
    "merges.note": "lead",
    "merges.about_to_land": "lead",
    "merges.landed": "lead",
    "merges.told": "lead",
    "merges.give_back": "lead",
    "forge.configure": "person",
    "forge.take": "lead",
    "forge.begin": "lead",
    "forge.finish": "lead",
    "forge.drop": "lead",
    "forge.label": "lead",
    "forge.give_back": "lead",
    "forge.hold": "lead",
    "forge.resume": "person",
    "forge.reopen": "lead",
    "forge.settle": "lead",
    "nights.gather": "lead",
    "nights.begin": "lead",
    "nights.finish": "lead",
    "nights.drop": "lead",
    "nights.join": "lead",
    "nights.ask": "lead",
    "nights.hold": "lead",
    "nights.resume": "person",
    "nights.settle": "lead",
    "origins.complete": "lead",
    "origins.rebudget": "lead",
    "origins.work_by": "lead",
    "origins.hush": "lead",
    "plans.enter": "itself",
    "plans.settle": "itself",
}
"""Every operation of a team, and who may do it to what is the owner's."""

AT_A_HOST: Mapping[str, Right] = {
    # An agent has a token for one team: it makes, moves and deletes none.
    "teams.create": "host",
    "teams.delete": "host",
    "teams.move": "host",
    # What programs of a person do, not agents.
    "agents.grant": "host",
    "agents.placed": "host",
    "agents.register: in the place of a member": "host",
    "agents.unfinish": "host",
    "agents.converse": "host",
    "agents.waiting": "host",
    "approvals.hear": "host",
    "merges.note": "host",
    "merges.about_to_land": "host",
    "merges.landed": "host",
    "merges.told": "host",
    "merges.give_back": "host",
    "forge.configure": "host",
    "forge.take": "host",
    "forge.begin": "host",
    "forge.finish": "host",
    "forge.drop": "host",
    "forge.label": "host",
    "forge.give_back": "host",
    "forge.hold": "host",
    "forge.resume": "host",
    "forge.reopen": "host",
    "forge.settle": "host",
    "nights.gather": "host",
    "nights.begin": "host",
    "nights.finish": "host",
    "nights.drop": "host",
    "nights.join": "host",
    "nights.ask": "host",
    "nights.hold": "host",
    "nights.resume": "host",
    "nights.settle": "host",
    "origins.complete": "host",
    "origins.rebudget": "host",
    "origins.work_by": "host",
    "origins.hush": "host",
    # An agent that has ended cannot start itself.
    "agents.relaunch": "spawner",
}
"""What an agent with a token of a host may do less than the rules of a team let it."""

OF_THE_OWNER_AT_A_HOST: Mapping[str, frozenset[I]] = {
    # Whoever starts an agent records where it runs.
    "agents.placed": frozenset({I.LEAD, I.PARENT}),
}
"""What others do in the owner's record at a host, because that is their part."""
