"""The log of a home as far as it was read. Pure.

It tells what was there before a change, which mail ever arrived, and how far both directions are.
"""

from __future__ import annotations

from typing import Any

from bullpen.fleet.mirror.mirror_origin import REFUSED, TAKEN, MirrorOrigin
from bullpen.protocol.changes import DeleteTask, Deliver, Event, PutMember, PutTask, RemoveMember
from bullpen.store.events.fold import Folded, apply, raw_of


class HomeLog:
    """A home according to its log."""

    def __init__(self, origin: MirrorOrigin) -> None:
        self._origin = origin
        self.folded: Folded[dict[str, Any]] = Folded()
        # All messages that were ever in a mailbox, including removed ones.
        self.delivered: dict[str, set[str]] = {}
        # The members that joined here.
        self.born: set[str] = set()
        # Done tasks that another program removed from its list. The team keeps them.
        self.dismissed: set[str] = set()
        # How far the home has followed the other store's log, according to this log.
        self.taken = 0

    @property
    def seq(self) -> int:
        """Return the number of the last event that was applied."""
        return self.folded.seq

    def take(self, event: Event) -> None:
        """Apply the next event."""
        ours = self._origin.is_ours(event)
        if ours:
            self.taken = max(self.taken, TAKEN.seq_in(event) or 0)
        refusal = ours and REFUSED.seq_in(event) is not None
        for change in event.changes:
            match change:
                case Deliver(to, message):
                    self.delivered.setdefault(to, set()).add(message.id)
                case PutMember(member) if refusal:
                    self.born.discard(member.name)
                case PutMember(member) if not ours and member.name not in self.folded.members:
                    self.born.add(member.name)
                case RemoveMember(name):
                    self.born.discard(name)
                case PutTask(task):
                    self.dismissed.discard(task.id)
                case DeleteTask(task_id) if self.dismisses(event, task_id):
                    self.dismissed.add(task_id)
                case _:
                    pass
        apply(self.folded, event, keep=raw_of)

    def dismisses(self, event: Event, task_id: str) -> bool:
        """Return whether the next event, which deletes a task, only removes it from a list.

        Claude Code deletes all tasks when all are done, to clear its screen.
        """
        if not event.observed or self._origin.is_ours(event):
            return False
        return bool(self.folded.tasks.get(task_id, {}).get("status") == "completed")

    def knows(self, agent: str, message_id: str) -> bool:
        """Return whether a message was ever in a mailbox."""
        return message_id in self.delivered.get(agent, ())
