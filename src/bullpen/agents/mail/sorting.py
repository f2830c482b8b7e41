"""Sort unread mail: orders for the runner, mail that starts a turn, mail that can wait. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bullpen.protocol import json_text
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import (
    Control,
    IdleNotification,
    ModeSetRequest,
    PermissionResponse,
    PlanApprovalResponse,
    payload_of,
)
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Entry
from bullpen.team.lead_rules import may_order

_POLITE = re.compile(
    r"(ok(ay)?|thanks|thank you|thx|ack|acknowledged|got it|understood|noted|will do|roger|"
    r"sounds good|great|perfect|received)",
)
_POLITE_CHARACTERS_MAX = 60


Order = Control | ModeSetRequest | PermissionResponse | PlanApprovalResponse
"""Messages that the runner handles itself. Answers are among them, so that no model fakes one."""


@dataclass(frozen=True, slots=True)
class SortedMail:
    """Unread mail, sorted.

    The runner obeys `orders`; they never reach a model. Everything else is `mail`, in the order it
    came. If some of it is `urgent`, it starts a turn at once. If there are only `reports`, it
    starts a turn once their senders are idle. Other mail waits for the next turn.
    """

    orders: tuple[tuple[Entry, Order], ...]
    mail: tuple[Entry, ...]
    urgent: bool
    reports: bool


def triage(
    entries: Iterable[Entry], team: TeamConfig, *, agent: str, waits: bool = False
) -> SortedMail:
    """Sort the unread mail of an agent.

    One that `waits`, because a person interrupted it, is not woken by the mail of that turn.
    """
    orders: list[tuple[Entry, Order]] = []
    mail: list[Entry] = []
    urgent = reports = False
    for entry in entries:
        payload = payload_of(entry.message.text)
        if isinstance(payload, PermissionResponse | PlanApprovalResponse) or (
            isinstance(payload, Control | ModeSetRequest)
            and may_order(team, agent, entry.message.sender)
        ):
            orders.append((entry, payload))
            continue
        mail.append(entry)
        if isinstance(payload, IdleNotification):
            reports = reports or bool(payload.result or payload.failure_reason)
        elif waits and entry.state == "injected":
            continue
        elif payload is not None or _starts_a_turn(entry):
            urgent = True
    return SortedMail(tuple(orders), tuple(mail), urgent, reports)


def _starts_a_turn(entry: Entry) -> bool:
    """Whether words start a turn: those of a person always, those of agents if they say something.

    A person who types "ok" to an idle agent answers it.
    """
    return entry.message.is_of_a_person or not is_acknowledgement(entry.message.text)


def is_spoken_to(entries: Iterable[Entry]) -> bool:
    """Whether a person or the lead wrote any of this mail that was in no turn before."""
    return any(
        each.state == "stored" and (each.message.is_of_a_person or each.message.sender == LEAD)
        for each in entries
    )


def is_acknowledgement(text: str) -> bool:
    """Whether a message only says that another one was received."""
    if len(text) > _POLITE_CHARACTERS_MAX:
        return False
    rest = _POLITE.sub("", text.lower())
    return bool(text.strip()) and not re.search(r"\w", rest)


def without_repeats(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries, with only the last of several identical idle notices from one sender."""
    kept: dict[object, Entry] = {}
    for entry in entries:
        payload = payload_of(entry.message.text)
        key: object = entry.id
        if isinstance(payload, IdleNotification):
            said = {field: value for field, value in payload.raw.items() if field != "timestamp"}
            key = (entry.message.sender, json_text.dumps_line(said))
            kept.pop(key, None)
        kept[key] = entry
    return tuple(kept.values())
