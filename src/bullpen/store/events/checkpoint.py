"""The state of a team at one event, as the first event of a log that begins later. Pure.

A long log is kept in parts. Each part but the first begins with an event `log.begin`: it has the
number of the event before the part, and changes that give the whole team at that moment. So a part
can be replayed without those before it, which may have been removed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from bullpen.protocol.changes import Event

BEGIN = "log.begin"
"""The operation of the event that a log begins with if it does not begin with event 1."""


def is_begin(event: Event, after: int) -> bool:
    """Return whether an event replaces the whole state instead of continuing after `after`.

    An event that has the next number continues the log, whatever its operation is called.
    """
    return event.op == BEGIN and event.seq > after + 1


class Checkpoint:
    """The team that the events so far describe, without messages that left their inbox."""

    def __init__(self) -> None:
        self.seq = 0
        self.time = ""
        self._high = 0
        self._fields: dict[str, Any] = {}
        # The whole change that last wrote a record, by kind and key.
        self._records: dict[str, dict[str, dict[str, Any]]] = {
            kind: {} for kind in ("member", "task", "request", "note")
        }
        self._mail: dict[str, dict[str, tuple[dict[str, Any], str]]] = {}
        self._unknown: list[Any] = []

    def take(self, raw: dict[str, Any]) -> None:
        """Add the next event, as it is in the log."""
        changes = raw.get("changes")
        for change in changes if isinstance(changes, list) else ():
            try:
                self._take(change)
            except (KeyError, TypeError, AttributeError, ValueError):
                self._unknown.append(change)
        self.seq = raw["seq"]
        self.time = str(raw.get("time", ""))

    def changes(self) -> list[Any]:
        """Return the changes that give this team."""
        found: list[Any] = [{"put": "team", "fields": self._fields}]
        found += self._records["member"].values()
        if self._high and str(self._high) not in self._records["task"]:
            # The ids of deleted tasks are never used again.
            found.append({"put": "task_deleted", "id": str(self._high)})
        for kind in ("task", "request", "note"):
            found += self._records[kind].values()
        for agent, box in self._mail.items():
            found += (change for change, _ in box.values())
            for state in ("injected", "seen"):
                ids = [
                    key
                    for key, (change, now) in box.items()
                    if now == state and not change["message"].get("read")
                ]
                if ids:
                    found.append({"put": "mail_state", "agent": agent, "ids": ids, "state": state})
        return [*found, *self._unknown]

    def _take(self, change: dict[str, Any]) -> None:
        match change["put"]:
            case "task" | "member" | "request" | "note" as kind:
                key = change[kind]["name" if kind in ("member", "note") else "id"]
                self._records[kind][key] = change
                if kind == "task":
                    self._count(key)
            case "task_deleted":
                self._records["task"].pop(change["id"], None)
                self._count(change["id"])
            case "member_removed":
                self._records["member"].pop(change["name"], None)
            case "request_removed":
                self._records["request"].pop(change["id"], None)
            case "team":
                merged = {**self._fields, **change["fields"]}
                self._fields = {key: value for key, value in merged.items() if value is not None}
            case "message":
                state = "seen" if change["message"].get("read") else "stored"
                self._mail.setdefault(change["to"], {}).setdefault(change["id"], (change, state))
            case "mail_state":
                self._mark(self._mail.get(change["agent"], {}), change["ids"], change["state"])
            case _:
                self._unknown.append(change)

    def _mark(self, box: dict[str, tuple[dict[str, Any], str]], ids: list[str], state: str) -> None:
        for message_id in ids:
            if state in ("consumed", "archived"):
                box.pop(message_id, None)
            elif message_id in box:
                box[message_id] = (box[message_id][0], state)

    def _count(self, task_id: str) -> None:
        with suppress(ValueError):
            if task_id.isascii() and len(task_id) < 16:
                self._high = max(self._high, int(task_id))
