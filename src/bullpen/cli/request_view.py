"""Requests as people read them before they answer, and as the JSON objects programs read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from bullpen.agents.news import asked_for
from bullpen.cli.render import Page
from bullpen.protocol.request import Request
from bullpen.store.clock import now_ms
from bullpen.team import request_rules
from bullpen.view import agent_words as words
from bullpen.view import asked, sentences
from bullpen.view.request_lookup import Found, Search
from bullpen.view.text import Cell

_LINES_MAX = 40
"""Of one request in a list so many lines are shown; alone it is shown whole."""

_STATE_STYLES = {"pending": "attention", "approved": "good", "denied": "bad", "expired": "bad"}
_ASKS = {"permission": "asks for", "plan": "asks to approve its", "shutdown": "asks"}
_VOICES = {"human": "a person", "agent": "the agent itself", "policy": "code, by a rule"}


def request_json(found: Found) -> dict[str, Any]:
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
            self._page.value({"requests": [request_json(each) for each in waiting]})
            return
        for found in waiting:
            self._card(found, lines_max=_LINES_MAX)
            self._page.line()
        if not waiting:
            where = f" in team {team}" if team else ""
            self._page.line(f"Nothing waits for an answer{where}.")
            self._page.line("Agents ask here before they do what no rule and no mode allows them.")
            answered = sum(each.request.state != "pending" for each in search.found)
            if answered:
                self._page.line(f"See {answered} that were answered: bullpen requests --all")

    def every(self, search: Search) -> None:
        """All requests there ever were, a line each."""
        self._problems(search)
        if self._page.json:
            self._page.value({"requests": [request_json(each) for each in search.found]})
        elif search.found:
            now = now_ms()
            self._page.table(
                ("request", "state", "by", "age", "from", "about"),
                [_row(each, now) for each in search.found],
            )
        else:
            self._page.line("No agent ever asked for anything here.")

    def one(self, found: Found) -> None:
        """Everything about one request."""
        if self._page.json:
            self._page.value(request_json(found))
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
                ("why", asked.why(request)),
                ("digest", request.digest or ""),
                ("plan file", str(request.subject.get("planFilePath") or "")),
                *_always(request),
            ]
        )
        self._page.title("Asked for:")
        self._action(asked.action(request, cwd=found.cwd))
        if found.waits(now):
            self._how(found)
        elif request.state != "pending":
            self._answer(found, now)

    def comes(self, found: Found) -> None:
        """A request that came while somebody watches."""
        if self._page.json:
            self._page.json_line(request_json(found))
        else:
            self._card(found, lines_max=_LINES_MAX)
            self._page.line()
        self._page.flush()

    def goes(self, found: Found) -> None:
        """A request that waits no more."""
        if self._page.json:
            self._page.json_line(request_json(found))
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
            self._page.line("Nothing waits. What is asked is shown here as it comes.")
            self._page.line(Cell("Ctrl-C ends this; answer in another terminal.", "muted"))
            self._page.line()
        self._page.flush()

    def answered(self, found: Found, request: Request, *, told: bool) -> None:
        """What was allowed or denied, exactly; and the words, if they reached the agent."""
        if self._page.json:
            self._page.value(request.raw)
            return
        answer = request.answer or {}
        self._page.line(Cell(*_verdict(request)))
        changed = answer.get("updatedInput")
        lines = asked.action(request, cwd=found.cwd)
        if changed is not None:
            self._action(lines, lines_max=_LINES_MAX)
            self._page.line(Cell("with this in its place:", "attention"))
            lines = asked.action(request, cwd=found.cwd, changed=changed)
        self._action(lines, lines_max=_LINES_MAX)
        if answer.get("always"):
            rules, directories = request_rules.granted(request)
            for what in (*rules, *directories):
                self._page.line(Cell(f"From now on allowed unasked: {what}", "attention"))
        if answer.get("feedback") and told:
            self._page.line(f"{request.sender} is told: {answer['feedback']}")

    def _card(self, found: Found, *, lines_max: int) -> None:
        request, now = found.request, now_ms()
        whom = _ASKS[request.kind]
        what = {"permission": str(request.subject.get("toolName")), "plan": "plan"}
        about = what.get(request.kind, f"{request.to} to end")
        left = _left(request, now)
        head = [f"{request.sender} {whom} {about}", f"{sentences.age(request.created_ms, now)} ago"]
        self._page.line(Cell(", ".join([*head, *([left] if left else [])]), "attention"))
        self._action(asked.action(request, cwd=found.cwd), lines_max=lines_max, found=found)
        rows = [("  why", asked.why(request)), ("  answers", _who(request))]
        self._page.fields([*rows, *((f"  {name}", value) for name, value in _always(request))])
        self._how(found)

    def _how(self, found: Found) -> None:
        """What to type."""
        handle = f"{found.handle}{self._elsewhere}"
        self._page.line(Cell(f"  bullpen approve {handle}", "good"))
        self._page.line(Cell(f"  bullpen deny {handle} 'WHY'", "bad"))

    def _action(
        self, lines: Sequence[Cell], *, lines_max: int | None = None, found: Found | None = None
    ) -> None:
        shown = lines[:lines_max]
        for style, group in groupby(shown, lambda line: line.style):
            self._page.block("\n".join(line.text for line in group), indent=4, style=style)
        if len(shown) < len(lines):
            where = f": bullpen requests {found.handle}{self._elsewhere}" if found else ""
            self._page.block(f"({len(lines) - len(shown)} more lines{where})", indent=4)

    def _answer(self, found: Found, now: int) -> None:
        request, answer = found.request, found.request.answer or {}
        by = request.answered_by or "nobody"
        used = "not yet" if request.state == "approved" and request.kind == "permission" else ""
        self._page.title("Answer:")
        self._page.fields(
            [
                ("  by", f"{by} ({_VOICES.get(request.voice or '', 'it is not known who spoke')})"),
                ("  at", _moment(request.answered_ms, now)),
                ("  words", str(answer.get("feedback") or "")),
                ("  mode", str(answer.get("permissionMode") or "")),
                ("  always", "yes" if answer.get("always") else ""),
                ("  used", _moment(request.used_ms, now) or used),
            ]
        )
        if answer.get("updatedInput") is not None:
            self._page.title("Changed to:")
            self._action(asked.action(request, cwd=found.cwd, changed=answer["updatedInput"]))

    def _deadline(self, found: Found, now: int) -> str:
        request = found.request
        left = _left(request, now) if found.waits(now) else ""
        return left or _moment(request.deadline_ms, now)

    def _problems(self, search: Search) -> None:
        for problem in search.problems:
            self._page.warn(f"cannot read {problem}")


def _row(found: Found, now: int) -> Sequence[str | Cell]:
    request = found.request
    word, style = _state(found, now)
    return (
        found.handle,
        Cell(word.split(" ")[0], style),
        request.answered_by or "",
        sentences.age(request.created_ms, now),
        request.sender,
        asked_for(request),
    )


def _state(found: Found, now: int) -> tuple[str, str]:
    request = found.request
    if found.waits(now):
        return "waits for an answer", "attention"
    state = "expired" if request.state == "pending" else request.state
    word = "rejected" if request.kind == "plan" and state == "denied" else state
    by = f" by {request.answered_by}" if request.answered_by else ""
    why = (request.answer or {}).get("feedback") if state == "expired" else None
    return f"{word}{by}" + (f" ({str(why).rstrip('.')})" if why else ""), _STATE_STYLES[state]


def _verdict(request: Request) -> tuple[str, str]:
    name, yes = request.sender, request.state == "approved"
    if request.kind == "plan":
        mode = (request.answer or {}).get("permissionMode")
        after = f" and may work in mode {mode}" if mode else " and may work"
        if yes:
            return f"Approved the plan of {name}, which leaves plan mode{after}:", "good"
        return f"Rejected the plan of {name}, which stays in plan mode and can revise it:", "bad"
    if request.kind == "shutdown":
        return f"{'Agreed' if yes else 'Refused'} in the name of {request.to}:", "good"
    tool = request.subject.get("toolName")
    if yes:
        return f"Allowed {name} this one call of {tool}:", "good"
    return f"Denied {name} this call of {tool}:", "bad"


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
    if request.kind == "permission":
        rules, directories = request_rules.granted(request)
        yield "--always", ", ".join([*rules, *directories]) or "no rule would cover only this"


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
