"""The rows of the lead's transcript as updates for the client. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bullpen.doors.acp.updates import CallKind, CallTold, FileChange, Said, Update
from bullpen.protocol import json_text
from bullpen.view.calls.call_line import call_line, path_of
from bullpen.view.stream import Stream
from bullpen.view.text import one_line

_RESULT_CHARS_MAX = 4_000

_KINDS: dict[str, CallKind] = {
    **dict.fromkeys(("Bash", "BashOutput", "KillShell", "TaskStop"), "execute"),
    **dict.fromkeys(("Read", "NotebookRead", "LS"), "read"),
    **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "edit"),
    **dict.fromkeys(("Glob", "Grep"), "search"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "fetch"),
    **dict.fromkeys(("TaskCreate", "TaskUpdate", "TodoWrite"), "think"),
    "ExitPlanMode": "switch_mode",
}


def kind_of(tool: str) -> CallKind:
    """What a tool does, in the protocol's words."""
    return _KINDS.get(tool, "other")


def change_of(tool: str, given: Mapping[str, Any]) -> FileChange | None:
    """The change that a call makes to a file, if its input says it."""
    path = path_of(given)
    if path is None:
        return None
    content, old, new = given.get("content"), given.get("old_string"), given.get("new_string")
    if tool == "Write" and isinstance(content, str):
        return FileChange(path, None, content)
    if tool == "Edit" and isinstance(old, str) and isinstance(new, str):
        return FileChange(path, old, new)
    return None


@dataclass(slots=True)
class _OpenCall:
    id: str
    tool: str
    given: Mapping[str, Any]
    asked: bool = False


class LeadRows:
    """Takes the rows in order, and remembers which calls are open.

    `tool_name` gives a tool the name by which the client knows it; `cwd` shortens paths.
    """

    def __init__(
        self, *, tool_name: Mapping[str, str], cwd: str, replay: bool = False, first: int = 1
    ) -> None:
        """With `replay`, the person's words are told too. `first` numbers the calls."""
        self._names = tool_name
        self._cwd = cwd
        self._replay = replay
        self._open: list[_OpenCall] = []
        self._words: list[str] = []
        self.next = first

    def take(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Update]:
        """The updates that rows mean."""
        for row in rows:
            yield from self._row(row)

    def open_call(self, tool: str, given: Mapping[str, Any]) -> str | None:
        """The id of the open call that a request is about: told, and not asked about before."""
        for call in self._open:
            if call.tool == tool and not call.asked and dict(call.given) == dict(given):
                call.asked = True
                return call.id
        return None

    def name(self, tool: str) -> str:
        """A tool's name as the client knows it."""
        server, _, rest = tool.removeprefix("mcp__").partition("__")
        if tool.startswith("mcp__") and server in self._names:
            return f"mcp__{self._names[server]}__{rest}"
        return tool

    def _row(self, row: Mapping[str, Any]) -> Iterator[Update]:
        text = row.get("text")
        match row.get("kind"):
            case "turn":
                self._words = []
            case "mail" if self._replay:
                stream = Stream(lambda name: name)
                stream.take([row])
                for item in stream.items:
                    if item.kind == "mail" and item.sender == "you":
                        yield Said(item.text, "person")
            case "text" if isinstance(text, str) and text.strip():
                self._words.append(text)
                yield Said(text)
            case "tool":
                yield self._begins(str(row.get("name") or "?"), row.get("input"))
            case "result":
                yield from self._ends(
                    str(row.get("name") or "?"), _cut(text), failed=row.get("error") is True
                )
            case "denied":
                why = f"Denied: {one_line(str(row.get('why') or 'no reason was given'))}"
                yield from self._ends(str(row.get("tool") or "?"), why, failed=True)
            case "end":
                yield from self._turn_ends(text, row.get("failure"))

    def _begins(self, tool: str, given: Any) -> CallTold:
        given = _table(given)
        call = _OpenCall(f"call-{self.next}", tool, given)
        self.next += 1
        self._open.append(call)
        return told(call.id, self.name(tool), given, cwd=self._cwd, status="in_progress")

    def _ends(self, tool: str, text: str, *, failed: bool) -> Iterator[Update]:
        for call in self._open:
            if call.tool == tool:
                self._open.remove(call)
                yield CallTold(call.id, False, "failed" if failed else "completed", text=text)
                return

    def _turn_ends(self, text: Any, failure: Any) -> Iterator[Update]:
        known = _flat("\n".join(self._words))
        if isinstance(text, str) and text.strip() and _flat(text) not in known:
            yield Said(text)
        for call in self._open:
            yield CallTold(call.id, False, "failed", text="The turn ended before its result.")
        self._open, self._words = [], []
        # A client takes any words for an answer. If there was none, the prompt's error says why.
        if isinstance(failure, str) and failure and known:
            yield Said(f"The turn of the lead failed: {failure}", "team")


def told(call_id: str, name: str, given: Mapping[str, Any], *, cwd: str, status: Any) -> CallTold:
    """A call that the client has not heard of."""
    return CallTold(
        call_id,
        True,
        status,
        title=call_line(name, given, cwd=cwd),
        kind=kind_of(name),
        tool=name,
        input=given,
        change=change_of(name, given),
    )


def _cut(text: Any) -> str:
    text = text if isinstance(text, str) else ""
    return text if len(text) <= _RESULT_CHARS_MAX else f"{text[:_RESULT_CHARS_MAX]}…"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _table(given: Any) -> Mapping[str, Any]:
    """The input of a call: some models give it as JSON text."""
    if isinstance(given, str) and given.startswith("{"):
        try:
            given = json_text.loads(given.encode())
        except ValueError:
            return {"input": given}
    if isinstance(given, Mapping):
        return given
    return {} if given is None else {"input": given}
