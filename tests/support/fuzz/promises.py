"""What must hold after every case: nothing left the home, nothing valid was lost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.protocol.message import Message
from bullpen.protocol.names import inbox_stem
from bullpen.store.contract import Finding

from .damage import Damage
from .exercise import Meant
from .home import MEMBERS, TEAM, Sandbox

ROOT = f"teams/{TEAM}"
OWN = f"{ROOT}/.bullpen"
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a case did, and what it left behind."""

    sandbox: Sandbox
    damages: Sequence[Damage]
    meant: Meant
    # What the damaged files held when the doctor came; None where there was no file.
    before: dict[str, bytes | None]
    # What the doctor found and did; None if it gave up.
    findings: list[Finding] | None

    def broken(self) -> Iterator[str]:
        """Every promise that does not hold, in words."""
        for path in self.sandbox.changed("/beta/"):
            yield f"another team's file changed: {path}"
        yield from self._records("task", f"tasks/{TEAM}/")
        yield from self._records("request", f"{OWN}/requests/")
        yield from self._members()
        yield from self._mail()
        yield from self._quarantine()

    def _touched(self, path: str) -> bool:
        return any(path == d.path or path.startswith(f"{d.path}/") for d in self.damages)

    def _value(self, path: str) -> Any:
        return _parsed(content_of(self.sandbox.at(path)))

    def _records(self, kind: str, folder: str) -> Iterator[str]:
        for path, data in self.sandbox.base.items():
            if not (path.startswith(folder) and path.endswith(".json")):
                continue
            if self._touched(path) and not self._restored(path):
                continue
            now = self._value(path)
            key = Path(path).stem
            if (now if now is not _NOTHING else None) not in self.meant.allowed(
                kind, key, json.loads(data)
            ):
                yield f"{kind} {key} is {now!r}, was {json.loads(data)!r}"
        for (meant_kind, key), value in self.meant.settled.items():
            path = f"{folder}{key}.json"
            if meant_kind == kind and path not in self.sandbox.base and not self._touched(path):
                now = self._value(path)
                if (now if now is not _NOTHING else None) not in self.meant.allowed(
                    kind, key, value
                ):
                    yield f"{kind} {key} is {now!r}, was committed as {value!r}"

    def _members(self) -> Iterator[str]:
        path = f"{ROOT}/config.json"
        rows = self._rows_that_stand(path)
        if self._touched(path) and not self._mended(path):
            return
        config = self._value(path)
        members = config.get("members") if isinstance(config, dict) else None
        for row in rows:
            allowed = self.meant.allowed("member", row["name"], row)
            if None not in allowed and not any(row in (members or ()) for row in allowed):
                yield f"member {row!r} is lost from {config!r}"

    def _rows_that_stand(self, path: str) -> list[dict[str, Any]]:
        """The rows of the valid file that are in the damaged one too."""
        base = json.loads(self.sandbox.base[path])
        rows: list[dict[str, Any]] = base["members"] if isinstance(base, dict) else base
        if self._restored(path):
            return [row for row in rows if not row.get("read")]
        for damage in reversed(self.damages):
            if path == damage.path:
                value = _parsed(damage.data)
                value = value.get("members") if isinstance(value, dict) else value
                return [row for row in rows if isinstance(value, list) and row in value]
        return [] if self._touched(path) else rows

    def _restored(self, path: str) -> bool:
        """Whether the doctor could not read a file, and had the log to restore it from."""
        if any(self._touched(part) for part in (f"{OWN}/events.jsonl", f"{OWN}/head")):
            return False
        return any(
            finding.kind == "unreadable"
            and finding.fixed
            and finding.where == self.sandbox.at(path)
            for finding in self.findings or ()
        )

    def _mended(self, path: str) -> bool:
        """Whether the doctor finished and left nothing wrong with a file."""
        if self.findings is None:
            return False
        return not any(
            not f.fixed and f.where.startswith(self.sandbox.at(path)) for f in self.findings
        )

    def _mail(self) -> Iterator[str]:
        for agent in MEMBERS:
            stem = inbox_stem(agent)
            path = f"{ROOT}/inboxes/{stem}.json"
            archive = f"{OWN}/archive/{stem}.jsonl"
            if (self._touched(path) or self._touched(archive)) and not self._mended(path):
                continue
            here = dict(self._stored(path, archive))
            expected = [
                Message.parse(row)
                for row in (self._rows_that_stand(path) if path in self.sandbox.base else ())
            ]
            expected += [message for to, message in self.meant.sent if to == agent]
            for message in expected:
                found = here.get(message.id)
                if found is None:
                    yield f"a message to {agent} is lost: {message.raw!r}"
                elif {**found, "read": 0} != {**message.raw, "read": 0}:
                    yield f"a message to {agent} is {found!r}, was {message.raw!r}"
            if archive in self.sandbox.base and not self._touched(archive):
                whole = (self.sandbox.home / archive).read_bytes()
                if not whole.startswith(self.sandbox.base[archive]):
                    yield f"{archive} lost lines"

    def _stored(self, path: str, archive: str) -> Iterator[tuple[str, dict[str, Any]]]:
        rows = self._value(path)
        lines = (content_of(self.sandbox.at(archive)) or b"").split(b"\n")
        for row in [*(rows if isinstance(rows, list) else ()), *map(_parsed, lines)]:
            try:
                yield Message.parse(row).id, row
            except ValueError:
                continue

    def _quarantine(self) -> Iterator[str]:
        """What the doctor took away must lie in the quarantine."""
        folder = self.sandbox.home / OWN / "quarantine"
        kept = (
            [entry.read_bytes() for entry in folder.iterdir() if entry.is_file()]
            if (folder.is_dir())
            else []
        )
        for finding in self.findings or ():
            for path, data in self.before.items():
                taken = finding.fixed and "quarantine" in finding.action and data is not None
                if not taken or not finding.where.startswith(self.sandbox.at(path)):
                    continue
                if finding.kind == "unreadable" and data not in kept:
                    yield f"{path} was taken away, and the quarantine does not have it"
                if finding.kind == "bad_row" and path.endswith(".jsonl"):
                    yield from self._lines_kept(path, data or b"", kept)
                elif finding.kind == "bad_row":
                    yield from self._rows_kept(path, data or b"", kept)

    def _lines_kept(self, path: str, data: bytes, kept: list[bytes]) -> Iterator[str]:
        now = b"".join([(self.sandbox.home / path).read_bytes(), *kept])
        for line in data.split(b"\n"):
            if line not in now:
                yield f"the line {line!r} of {path} is nowhere"

    def _rows_kept(self, path: str, data: bytes, kept: list[bytes]) -> Iterator[str]:
        now, old = self._value(path), _parsed(data)
        rows = old["members"] if isinstance(old, dict) else old
        left = now["members"] if isinstance(now, dict) else now
        lists = (value for value in map(_parsed, kept) if isinstance(value, list))
        quarantined = [row for value in lists for row in value]
        for row in rows:
            known = isinstance(row, dict) and (
                ("member", str(row.get("name"))) in self.meant.settled or "text" in row
            )
            if not known and row not in left and row not in quarantined:
                yield f"the row {row!r} of {path} is nowhere"


def _parsed(data: bytes | None) -> Any:
    """The JSON value of a file or line; `_NOTHING` if it has none."""
    try:
        return json.loads(data.decode("utf-8")) if data else _NOTHING
    except (ValueError, RecursionError):
        return _NOTHING


def content_of(path: str) -> bytes | None:
    """What a file holds, if it is a file."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read()
