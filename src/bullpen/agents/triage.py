"""Which mail is an order for the runner, which is worth a turn, and which can wait. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bullpen.protocol import jsontext
from bullpen.protocol.payloads import (
    Control,
    IdleNotification,
    PermissionResponse,
    PlanApprovalResponse,
    payload_of,
)
from bullpen.protocol.roster import TeamConfig
from bullpen.store.base import Entry
from bullpen.team.lookup import leads

_POLITE = re.compile(
    r"(ok(ay)?|thanks|thank you|thx|ack|acknowledged|got it|understood|noted|will do|roger|"
    r"sounds good|great|perfect|received)",
)
_POLITE_CHARACTERS_MAX = 60


Order = Control | PermissionResponse | PlanApprovalResponse
"""What the runner acts on itself. Answers are among it: no model takes a message for one."""


@dataclass(frozen=True, slots=True)
class Triage:
    """Unread mail, sorted.

    `orders` are obeyed by the runner and never reach a model. All other mail is `mail`, as it
    came. It begins a turn at once if some is `urgent`; if there are only `reports`, when their
    senders have come to rest; what is neither waits for a turn that something else begins.
    """

    orders: tuple[tuple[Entry, Order], ...]
    mail: tuple[Entry, ...]
    urgent: bool
    reports: bool


def triage(entries: Iterable[Entry], team: TeamConfig, *, agent: str) -> Triage:
    """Sort the unread mail of an agent."""
    orders: list[tuple[Entry, Order]] = []
    mail: list[Entry] = []
    urgent = reports = False
    for entry in entries:
        payload = payload_of(entry.message.text)
        if isinstance(payload, PermissionResponse | PlanApprovalResponse) or (
            isinstance(payload, Control) and _may_order(team, entry.message.sender, agent)
        ):
            orders.append((entry, payload))
            continue
        mail.append(entry)
        if isinstance(payload, IdleNotification):
            reports = reports or bool(payload.result or payload.failure_reason)
        elif payload is not None or not is_acknowledgement(entry.message.text):
            urgent = True
    return Triage(tuple(orders), tuple(mail), urgent, reports)


def is_acknowledgement(text: str) -> bool:
    """Whether a message only says that another one was received."""
    if len(text) > _POLITE_CHARACTERS_MAX:
        return False
    rest = _POLITE.sub("", text.lower())
    return bool(text.strip()) and not re.search(r"\w", rest)


def _may_order(team: TeamConfig, sender: str, agent: str) -> bool:
    """The lead may give orders to everybody, and whoever spawned an agent to that agent."""
    member = team.member(agent)
    facts = member.agent if member is not None else None
    return leads(team, sender) or (facts is not None and facts.parent == sender)


def without_repeats(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries, of identical idle notices of one sender only the last."""
    kept: dict[object, Entry] = {}
    for entry in entries:
        payload = payload_of(entry.message.text)
        key: object = entry.id
        if isinstance(payload, IdleNotification):
            said = {field: value for field, value in payload.raw.items() if field != "timestamp"}
            key = (entry.message.sender, jsontext.dumps_line(said))
            kept.pop(key, None)
        kept[key] = entry
    return tuple(kept.values())
