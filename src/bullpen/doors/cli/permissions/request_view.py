"""Requests as people read them before they answer, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from bullpen.doors.actions.request_lookup import FoundRequest, Search
from bullpen.doors.cli.output.page import Page
from bullpen.protocol.clock import now_ms
from bullpen.protocol.request import Request
from bullpen.team.requests import always_rules
from bullpen.team.requests.handles import short_id
from bullpen.team.tasks import guarded_rules
from bullpen.view import agent_words as words
from bullpen.view import sentences
from bullpen.view.calls import request_content
from bullpen.view.news import answered_by, asked_for
from bullpen.view.text import Cell

_LINES_MAX = 40
"""How many lines of a request a list shows; alone it is shown whole."""

_STATE_STYLES = {"pending": "attention", "approved": "good", "denied": "bad", "expired": "bad"}
_ASKS = {
    "permission": "asks for",
    "plan": "asks to approve its",
    "question": "asks",
    "shutdown": "asks",
}
_VOICES = {"human": "a person", "agent": "the agent itself", "policy": "code, by a rule"}


def request_json(found: FoundRequest) -> dict[str, Any]:
    """A request as a JSON object, with its team and the handle to answer it by."""
    return {**found.request.raw, "team": found.team, "handle": found.handle}


class RequestViews:
    """Shows requests on a page. `elsewhere` is what commands to type must add."""

    def __init__(self, page: Page, *, elsewhere: str) -> None:
        self._page = page
        self._elsewhere = elsewhere

    def waiting(self, search: Search, *, team: str | None) -> None:
        """What waits for an answer, each with all it takes to answer it."""
        self._problems(search)
        waiting = search.waiting
        if self._page.json:
            self._json(waiting)
            return
        for found in waiting:
            self._card(found, lines_max=_LINES_MAX)
            self._page.line()
        if not waiting:
            where = f" in team {team}" if team else ""
            self._page.line(f"No requests wait for an answer{where}.")
            self._page.line("Agents ask before they do what no rule and no mode allows.")
            answered = sum(each.request.state != "pending" for each in search.found)
            if answered:
                many = "1 answered request" if answered == 1 else f"{answered} answered requests"
                self._page.line(f"See {many}: bullpen requests --all")

    def every(self, search: Search) -> None:
        """All requests there ever were, a line each."""
        self._problems(search)
        now = now_ms()
        if self._page.json:
            self._json(search.found)
        elif search.found:
            columns = ("request", "state", "by", "age", "from", "about")
            self._page.table(columns, [_row(each, now) for each in search.found])
        else:
            self._page.line("No requests yet.")

    def _json(self, found: Sequence[FoundRequest]) -> None:
        """Requests for programs: one object, or a line for each."""
        if not self._page.jsonl:
            self._page.value("requests/1", {"requests": [request_json(each) for each in found]})
            return
        for each in found:
            self._page.json_line("request/1", request_json(each))

    def one(self, found: FoundRequest) -> None:
        """Everything about one request."""
        if self._page.json:
            self._page.value("request/1", request_json(found))
            return
        request, now = found.request, now_ms()
        self._page.fields(
            [
                ("request", Cell(request.id, "strong")),
                ("team", found.team),
                ("from", f"{request.sender}, {request.kind}"),
                ("state", Cell(*_state(found, now))),
                ("asked", _moment(request.created_ms, now)),
                ("deadline", self._deadline(found, now)),
                ("answers", _who(request)),
                ("why", request_content.why(request)),
                ("digest", request.digest or ""),
                ("plan file", str(request.subject.get("planFilePath") or "")),
                *_always(request),
            ]
        )
        self._page.title("Asked for:")
        self._action(request_content.action(request, cwd=found.cwd))
        if found.waits(now):
            self._how(found)
        elif request.state != "pending":
            self._answer(found, now)

    def comes(self, found: FoundRequest) -> None:
        """A request that came while somebody watches."""
        if self._page.json:
            self._page.json_line("request/1", request_json(found))
        else:
            self._card(found, lines_max=_LINES_MAX)
            self._page.line()
        self._page.flush()

    def goes(self, found: FoundRequest) -> None:
        """A request that no longer waits for an answer."""
        if self._page.json:
            self._page.json_line("request/1", request_json(found))
        else:
            said, style = _state(found, now_ms())
            short = asked_for(found.request)
            self._page.line(Cell(f"{found.request.sender}: {said}: {short}", style))
            self._page.line()
        self._page.flush()

    def begins(self, search: Search) -> None:
        """Somebody begins to watch."""
        self._problems(search)
        if not (self._page.json or search.waiting):
            self._page.line("No requests wait. New requests are shown here.")
            self._page.line(Cell("Press Ctrl-C to quit; answer in another terminal.", "muted"))
            self._page.line()
        self._page.flush()

    def answered(self, found: FoundRequest, request: Request, *, told: bool) -> None:
        """What was allowed or denied, exactly; and the words, if they reached the agent."""
        if self._page.json:
            self._page.value("request/1", request.raw)
            return
        answer = request.answer or {}
        self._page.line(Cell(*_verdict(request)))
        changed = answer.get("updatedInput")
        lines = request_content.action(request, cwd=found.cwd)
        if changed is not None:
            self._action(lines, lines_max=_LINES_MAX)
            self._page.line(Cell("changed to:", "attention"))
            lines = request_content.action(request, cwd=found.cwd, changed=changed)
        self._action(lines, lines_max=_LINES_MAX)
        if answer.get("always"):
            rules, directories = always_rules.granted(request)
            for what in (*rules, *directories):
                self._page.line(Cell(f"Allowed from now on: {what}", "attention"))
        if answer.get("feedback") and told:
            self._page.line(f"{request.sender} will see: {answer['feedback']}")

    def _card(self, found: FoundRequest, *, lines_max: int) -> None:
        request, now = found.request, now_ms()
        whom = _ASKS[request.kind]
        tool = str(request.subject.get("toolName"))
        if guarded_rules.is_hand_in(request):
            tool = "changes to guarded paths"
        what = {"permission": tool, "plan": "plan", "question": "you"}
        about = what.get(request.kind, f"{request.to} to end")
        left = _left(request, now)
        head = [f"{request.sender} {whom} {about}", f"{sentences.age(request.created_ms, now)} ago"]
        self._page.line(Cell(", ".join([*head, *([left] if left else [])]), "attention"))
        self._action(
            request_content.action(request, cwd=found.cwd), lines_max=lines_max, found=found
        )
        rows = [("  why", request_content.why(request)), ("  answers", _who(request))]
        self._page.fields([*rows, *((f"  {name}", value) for name, value in _always(request))])
        self._how(found)

    def _how(self, found: FoundRequest) -> None:
        """What to type."""
        handle = f"{found.handle}{self._elsewhere}"
        words = " --message 'YOUR ANSWER'" if found.request.kind == "question" else ""
        self._page.line(Cell(f"  bullpen approve {handle}{words}", "good"))
        self._page.line(Cell(f"  bullpen deny {handle} 'WHY'", "bad"))

    def _action(
        self,
        lines: Sequence[Cell],
        *,
        lines_max: int | None = None,
        found: FoundRequest | None = None,
    ) -> None:
        shown = lines[:lines_max]
        for style, group in groupby(shown, lambda line: line.style):
            self._page.block("\n".join(line.text for line in group), indent=4, style=style)
        if len(shown) < len(lines):
            where = f": bullpen requests {found.handle}{self._elsewhere}" if found else ""
            self._page.block(f"({len(lines) - len(shown)} more lines{where})", indent=4)

    def _answer(self, found: FoundRequest, now: int) -> None:
        request, answer = found.request, found.request.answer or {}
        by = answered_by(request) or "nobody"
        used = "not yet" if request.state == "approved" and request.kind == "permission" else ""
        self._page.title("Answer:")
        self._page.fields(
            [
                ("  by", f"{by} ({_VOICES.get(request.voice or '', 'unknown')})"),
                ("  at", _moment(request.answered_ms, now)),
                ("  words", str(answer.get("feedback") or "")),
                ("  mode", str(answer.get("permissionMode") or "")),
                ("  always", "yes" if answer.get("always") else ""),
                ("  used", _moment(request.used_ms, now) or used),
            ]
        )
        if answer.get("updatedInput") is not None:
            self._page.title("Changed to:")
            self._action(
                request_content.action(request, cwd=found.cwd, changed=answer["updatedInput"])
            )

    def _deadline(self, found: FoundRequest, now: int) -> str:
        request = found.request
        left = _left(request, now) if found.waits(now) else ""
        return left or _moment(request.deadline_ms, now)

    def _problems(self, search: Search) -> None:
        for problem in search.problems:
            self._page.warn(f"cannot read {problem}")


def _row(found: FoundRequest, now: int) -> Sequence[str | Cell]:
    request = found.request
    word, style = _state(found, now)
    # That of one which waits is unique among those that wait.
    handle = found.handle if found.waits(now) else short_id(request.id)
    return (
        handle,
        Cell(word.split(" ")[0], style),
        answered_by(request),
        sentences.age(request.created_ms, now),
        request.sender,
        asked_for(request),
    )


def _state(found: FoundRequest, now: int) -> tuple[str, str]:
    request = found.request
    if found.waits(now):
        return "waits for an answer", "attention"
    state = "expired" if request.state == "pending" else request.state
    word = "rejected" if request.kind == "plan" and state == "denied" else state
    who = answered_by(request)
    by = f" by {who}" if who else ""
    why = (request.answer or {}).get("feedback") if state == "expired" else None
    return f"{word}{by}" + (f" ({str(why).rstrip('.')})" if why else ""), _STATE_STYLES[state]


def _verdict(request: Request) -> tuple[str, str]:
    name, yes = request.sender, request.state == "approved"
    if request.kind == "plan":
        mode = (request.answer or {}).get("permissionMode")
        after = f" and may work in mode {mode}" if mode else " and may work"
        if yes:
            return f"Approved the plan of {name}; it leaves plan mode{after}:", "good"
        return f"Denied the plan of {name}; it stays in plan mode and can revise the plan:", "bad"
    if request.kind == "question":
        return (f"Answered {name}:", "good") if yes else (f"Did not answer {name}:", "bad")
    if request.kind == "shutdown":
        return f"{'Approved' if yes else 'Denied'} for {request.to}:", "good"
    tool = request.subject.get("toolName")
    if guarded_rules.is_hand_in(request):
        word = "Approved" if yes else "Denied"
        return f"{word} these changes of {name} to guarded paths:", "good" if yes else "bad"
    if yes:
        return f"Approved one call of {tool} by {name}:", "good"
    return f"Denied a call of {tool} by {name}:", "bad"


def _who(request: Request) -> str:
    """Who may answer."""
    return {
        None: f"{request.to}, or a person",
        "human": "only a person",
        "lead": "the lead, or a person",
        "policy": "the policy file, or a person",
        "rule": "the rule for plans, or a person",
        "auto": "code approves it, or a person",
    }[request.approver]


def _always(request: Request) -> Iterator[tuple[str, str]]:
    """What an "always" would allow."""
    if request.kind != "permission":
        return
    lines = always_rules.choice_lines(request)
    rules, directories = always_rules.granted(request)
    if len(lines) > 1:
        plain = next(
            name for name, _ in lines if always_rules.granted(request, name) == (rules, directories)
        )
        for number, (name, line) in enumerate(lines, 1):
            mark = ", the default of --always" if name == plain else ""
            yield f"--choice {number}", f"{name}{mark}: {line}"
    else:
        yield "--always", ", ".join([*rules, *directories]) or 'no "always" rule fits this call'


def _left(request: Request, now: int) -> str:
    if request.deadline_ms is None:
        return ""
    return f"{words.duration((request.deadline_ms - now) / 1000)} left"


def _moment(ms: int | None, now: int) -> str:
    if ms is None:
        return ""
    try:
        there = datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(ms)
    return f"{there}, {sentences.age(ms, now)} ago" if ms <= now else there
