"""Digests of what the log last said about every record, used to notice changes by other programs.

If a record's digest differs, another program changed the record after Bullpen last logged it. The
change is then added to the log, marked as observed, so that replaying the log still gives the
current state.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import json_text
from bullpen.store.events.fold import digest
from bullpen.store.files.disk import Disk, read_bytes
from bullpen.store.files.log import event_log
from bullpen.store.files.log.event_log import Log
from bullpen.store.files.records import Stamp

CHECKPOINT_EVERY = 2_000
CHECKPOINT_BYTES = 1_000_000
"""After this many events, or so much of the log, the digests are saved, so that a new process need
not read it all."""


@dataclass(slots=True)
class Digests:
    """The team's fields, digests of its records, and the state of every message."""

    seq: int = 0
    size: int = 0
    # The event that the log begins with the state of. A split changes it, and all positions.
    begin: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    mail: dict[str, dict[str, str]] = field(default_factory=dict)
    # None in what an earlier version saved: it took no notes from the log.
    notes: dict[str, str] = field(default_factory=dict)
    # The inboxes in which the log last missed nothing, as they were then.
    looked: dict[str, Stamp] = field(default_factory=dict)

    def follow(self, path: str, size: int) -> int:
        """Read the log up to byte `size`. Returns the number of events."""
        taken = 0
        if self.size < size:
            for raw in event_log.lines_after(path, self.size, size):
                changes = raw.get("changes")
                for change in changes if isinstance(changes, list) else ():
                    # A change of a newer version says nothing about the records known here.
                    with suppress(KeyError, TypeError, AttributeError, ValueError):
                        self._take(change)
                self.seq = raw["seq"]
                taken += 1
            self.size = size
        return taken

    def is_sound(self) -> bool:
        """Return whether every value has the right type; a saved file may be damaged."""
        digests = (self.members, self.tasks, self.requests, self.notes)
        return (
            all(type(number) is int and number >= 0 for number in (self.seq, self.size, self.begin))
            and all(isinstance(value, dict) for value in (self.fields, self.mail, self.looked))
            and all(map(_is_texts, (*digests, *self.mail.values())))
            and all(map(_is_stamp, self.looked.values()))
        )

    def _take(self, change: dict[str, Any]) -> None:
        match change["put"]:
            case "task":
                self.tasks[change["task"]["id"]] = digest(change["task"])
            case "task_deleted":
                self.tasks.pop(change["id"], None)
            case "member":
                self.members[change["member"]["name"]] = digest(change["member"])
            case "member_removed":
                self.members.pop(change["name"], None)
            case "team":
                merged = {**self.fields, **change["fields"]}
                self.fields = {key: value for key, value in merged.items() if value is not None}
            case "request":
                self.requests[change["request"]["id"]] = digest(change["request"])
            case "request_removed":
                self.requests.pop(change["id"], None)
            case "note":
                self.notes[change["note"]["name"]] = digest(change["note"])
            case "message":
                self._take_message(change)
            case "mail_state":
                self._take_mail_state(change)

    def _take_message(self, change: dict[str, Any]) -> None:
        box = self.mail.setdefault(change["to"], {})
        box[change["id"]] = "seen" if change["message"].get("read") else "stored"

    def _take_mail_state(self, change: dict[str, Any]) -> None:
        box = self.mail.setdefault(change["agent"], {})
        for message_id in change["ids"]:
            if change["state"] in ("consumed", "archived"):
                box.pop(message_id, None)
            elif message_id in box:
                box[message_id] = change["state"]


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_stamp(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == len(Stamp._fields)
        and all(type(number) is int for number in value)
    )


def load(path: str, log: Log) -> Digests:
    """Return the saved digests, or empty ones if none fit the log."""
    none, head = Digests(begin=log.head.begin), log.head
    try:
        digests = Digests(**{"notes": None, **json_text.loads(read_bytes(path))})
    except (FileNotFoundError, NotADirectoryError, Unreadable, ValueError, TypeError):
        return none
    fits = (
        digests.is_sound()
        and digests.begin == head.begin
        and digests.size <= head.size
        and event_log.ends_line(log.path, digests.size)
    )
    if not fits:
        return none
    digests.looked = {agent: Stamp(*stamp) for agent, stamp in digests.looked.items()}
    return digests


def save(digests: Digests, path: str, disk: Disk, *, nonce: str) -> None:
    """Save the digests if the disk allows it. They can be lost: the log has everything."""
    raw = {name: getattr(digests, name) for name in Digests.__slots__}
    raw["looked"] = {agent: tuple(stamp) for agent, stamp in digests.looked.items()}
    with suppress(OSError):
        disk.replace(path, json_text.dumps_line(raw), nonce=nonce)
