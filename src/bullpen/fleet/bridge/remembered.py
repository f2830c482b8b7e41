"""What the log of a home says, as far as it was read: what was there before a change, which mail
ever came, and how far both directions got. Pure."""

from __future__ import annotations

from typing import Any

from bullpen.fleet.bridge.origin import Origin
from bullpen.protocol.changes import (
    DeleteTask,
    Deliver,
    Event,
    PutMember,
    PutTask,
    RemoveMember,
)
from bullpen.store.fold import Folded, apply, raw_of


class Remembered:
    """A home by its log."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.folded: Folded[dict[str, Any]] = Folded()
        # All messages that ever were in a mailbox, those that are gone too.
        self.delivered: dict[str, set[str]] = {}
        # The members that joined here.
        self.born: set[str] = set()
        # Done tasks that another program took off its list. The team keeps them.
        self.dismissed: set[str] = set()
        # How far the home is with the other store's log, as far as this log tells.
        self.taken = 0

    @property
    def seq(self) -> int:
        """The last event that was taken into account."""
        return self.folded.seq

    def take(self, event: Event) -> None:
        """Take the next event into account."""
        ours = self._origin.is_ours(event)
        if ours:
            self.taken = max(self.taken, self._origin.taken_seq(event) or 0)
        refusal = ours and self._origin.refused_seq(event) is not None
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
        """Whether the next event, in which a task is deleted, only takes it off a list.

        Claude Code deletes all tasks when all are done, so that its screen is empty again.
        """
        if not event.observed or self._origin.is_ours(event):
            return False
        return bool(self.folded.tasks.get(task_id, {}).get("status") == "completed")

    def knows(self, agent: str, message_id: str) -> bool:
        """Whether a message ever was in a mailbox."""
        return message_id in self.delivered.get(agent, ())
