"""Tell those who wrote to an agent that it did not get ready, and that their mail waits."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress

from bullpen.errors import BullpenError
from bullpen.protocol.agent import End
from bullpen.protocol.changes import Change, Deliver
from bullpen.protocol.payloads import (
    Control,
    IdleNotification,
    ModeSetRequest,
    TaskAssignment,
    payload_of,
)
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Entry, Store, View
from bullpen.team.mail.operations import new_message
from bullpen.team.operation.commit import settle

_KEYED = uuid.uuid5(uuid.NAMESPACE_URL, "urn:bullpen:not-started")
_NOT_WORDS = Control | IdleNotification | ModeSetRequest | TaskAssignment
"""Messages whose senders do not wait for the receiver to read them."""


class Writers:
    """Those whose mail an agent has not read that did not get ready."""

    def __init__(self, store: Store, team: str, name: str, *, nonce: str) -> None:
        self._store = store
        self._team = team
        self._name = name
        self._nonce = nonce
        self._waiting: Sequence[Entry] = ()

    async def look(self) -> None:
        """Read the mailbox. One that cannot be read names nobody: the end is recorded anyway."""
        with suppress(BullpenError):
            self._waiting = (await self._store.mailbox(self._team, self._name)).unread

    def told(
        self,
        team: TeamConfig,
        cause: str,
        *,
        end: End,
        now_ms: int,
        spawner: tuple[str, str] | None = None,
    ) -> list[Deliver]:
        """Return the messages that tell them, for the commit that records the end."""
        return not_started_notices(
            team,
            self._name,
            cause,
            self._waiting,
            end=end,
            nonce=self._nonce,
            now_ms=now_ms,
            spawner=spawner,
        )

    async def tell_late(self, cause: str, *, end: End, by: str, now_ms: int) -> None:
        """Tell those whose mail came in while the end was recorded."""
        before = {entry.id for entry in self._waiting}
        await self.look()
        if all(entry.id in before for entry in self._waiting):
            return

        def decide(view: View) -> tuple[None, list[Change]]:
            # Who was told before has this message already.
            return None, [*self.told(view.team, cause, end=end, now_ms=now_ms)]

        await settle(self._store, self._team, decide, by=by, op="message.send")


def not_started_notices(
    team: TeamConfig,
    name: str,
    cause: str,
    waiting: Iterable[Entry],
    *,
    end: End,
    nonce: str,
    now_ms: int,
    spawner: tuple[str, str] | None = None,
) -> list[Deliver]:
    """Tell everybody whose mail waits for an agent that it did not get ready, and why.

    A launch tells each of them once: whoever records its end again makes the same ids. So is the
    spawner told, if it was answered before; with its name comes what it can do.
    """
    how = "was stopped before it was ready" if end == "stopped" else "could not be started"
    senders = {
        entry.message.sender
        for entry in waiting
        if entry.state != "seen" and not isinstance(payload_of(entry.message.text), _NOT_WORDS)
    }
    asked, remedy = spawner or ("", "")
    why = f"{name} {how}: {cause.rstrip('.')}."
    kept = f" Your message is kept and delivered if {name} is started again."
    return [
        Deliver(
            to,
            new_message(
                why + (kept if to in senders else "") + (f" {remedy}" if to == asked else ""),
                team=team,
                sender=name,
                message_id=str(uuid.uuid5(_KEYED, json.dumps(["not started", nonce, to]))),
                now_ms=now_ms,
                summary=f"{name} {how}",
            ),
        )
        for to in sorted({*senders, asked} - {name, ""})
        if team.member(to) is not None
    ]
