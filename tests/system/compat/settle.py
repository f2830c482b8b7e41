"""What differs from run to run is taken out of an answer; all else stays as it is."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from .stage import RECORDED

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_CREDENTIAL = re.compile(r"\b(?:bp_[\w-]{40,}|eyJ[\w.-]{40,}|[ACNOSUX][A-Z2-7]{55,57})(?![\w-])")
_ID = re.compile(
    r"(?<![\w-])(?:"
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a message, a session
    r"|[0-9a-f]{12,64}"  # a commit, a digest
    r"|(?<= as )[0-9a-f]{7,11}"  # a commit in a sentence
    r"|[0-9a-f]{8}-[0-9a-f]{24}"  # a launch
    r"|\d{4,}-[0-9a-f]{8}"  # the start of a process
    r"|run-\d{8}-\d{6}"  # a team without a name
    r"|[a-z_]+-\d{13}[-@][\w@-]+"  # a request
    r")(?![\w-])"
)

VOLATILE = frozenset(
    {"git", "group", "pid", "seconds", "waitedMs", "waitingS", "workingS"}
    | {"waited_ms", "waiting_s", "working_s"},
)
"""Keys whose values are of the moment or of the machine."""


_SECONDS = frozenset({"issuedS", "expiresS", "revokedS", "issued_s", "expires_s", "revoked_s"})


@cache
def _recorded() -> tuple[str, datetime]:
    """All that was recorded as one text, and when the recording ended."""
    paths = sorted(path for path in RECORDED.rglob("*") if path.is_file())
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return text, max(_when(each) for each in _ISO.findall(text))


def _when(text: str) -> datetime:
    return datetime.fromisoformat(text)


class Settler:
    """Takes the moment and the machine out of the answers of one run."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._known, self._end = _recorded()
        self._ids: dict[str, str] = {}

    def settle(self, value: Any, key: str = "") -> Any:
        """An answer without what differs from run to run."""
        if isinstance(value, dict):
            if value.get("limit") == "wall_s":
                clock = {name: "<volatile>" for name in ("used", "left") if name in value}
                value = {**value, **clock}
            return {self._text(name): self.settle(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.settle(each, key) for each in value]
        if key in VOLATILE and value is not None:
            return "<volatile>"
        if isinstance(value, str):
            return self._embedded(value) or self._text(value)
        if isinstance(value, bool) or value is None:
            return value
        end_s = self._end.timestamp()
        return "<now>" if value > end_s * 1000 or (key in _SECONDS and value > end_s) else value

    def _embedded(self, text: str) -> str | None:
        """A text that is JSON itself."""
        if text[:1] not in ("{", "["):
            return None
        try:
            return json.dumps(self.settle(json.loads(text)), ensure_ascii=False)
        except ValueError:
            return None

    def _text(self, text: str) -> str:
        text = text.replace(self._root, "<root>").replace(sys.executable, "<python>")
        text = _CREDENTIAL.sub("<credential>", text)
        text = _ISO.sub(lambda found: self._time(found[0]), text)
        return _ID.sub(lambda found: self._id(found[0]), text)

    def _time(self, text: str) -> str:
        return "<now>" if _when(text) > self._end else text

    def _id(self, text: str) -> str:
        if text in self._known:
            return text
        return self._ids.setdefault(text, f"<id {len(self._ids) + 1}>")
