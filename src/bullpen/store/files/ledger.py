"""What the log last said of every record, as digests: how a foreign change is noticed.

A record whose digest is not the ledger's was changed by another program since Bullpen last
logged it. The change then enters the log, marked as observed, so that replaying the log still
gives the live state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import jsontext
from bullpen.store.files import log
from bullpen.store.files.disk import Disk, read_bytes
from bullpen.store.fold import digest

CHECKPOINT_EVERY = 2_000
"""Events after which the ledger is written down, so that a new process need not read them all."""


@dataclass(slots=True)
class Ledger:
    """The team's fields, digests of its records, and the state of every message."""

    seq: int = 0
    size: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    mail: dict[str, dict[str, str]] = field(default_factory=dict)

    def follow(self, path: str, size: int) -> int:
        """Take in the log up to byte `size`; how many events that were."""
        taken = 0
        if self.size < size:
            for raw in log.lines_after(path, self.size, size):
                try:
                    for change in raw["changes"]:
                        self._take(change)
                except (KeyError, TypeError, AttributeError, ValueError) as error:
                    raise Unreadable(path, f"event {raw['seq']} is damaged ({error!r})") from None
                self.seq = raw["seq"]
                taken += 1
            self.size = size
        return taken

    def is_sound(self) -> bool:
        """Whether everything is of the kind it should be; what was written down may be not."""
        digests = (self.members, self.tasks, self.requests)
        return (
            all(type(number) is int and number >= 0 for number in (self.seq, self.size))
            and all(isinstance(value, dict) for value in (self.fields, self.mail))
            and all(map(_is_texts, (*digests, *self.mail.values())))
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
                merge_fields(self.fields, change["fields"])
            case "request":
                self.requests[change["request"]["id"]] = digest(change["request"])
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


def merge_fields(fields: dict[str, Any], changes: dict[str, Any]) -> None:
    """Set a team's own fields; None removes one."""
    for key, value in changes.items():
        if value is None:
            fields.pop(key, None)
        else:
            fields[key] = value


def load(path: str, events: str, log_size: int) -> Ledger:
    """The ledger as last written down; an empty one if there is none that fits the log."""
    try:
        ledger = Ledger(**jsontext.loads(read_bytes(path)))
    except (FileNotFoundError, NotADirectoryError, Unreadable, ValueError, TypeError):
        return Ledger()
    fits = ledger.is_sound() and ledger.size <= log_size and log.ends_line(events, ledger.size)
    return ledger if fits else Ledger()


def save(ledger: Ledger, path: str, disk: Disk, *, nonce: str) -> None:
    """Write the ledger down. It can be lost: the log has it all."""
    raw = {name: getattr(ledger, name) for name in Ledger.__slots__}
    disk.replace(path, jsontext.dumps_line(raw), nonce=nonce)
