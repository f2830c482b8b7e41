"""The records of a team as tables for people and JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from bullpen.by_name import load
from bullpen.doors.cli.output.page import Draw, Page, Row, as_json
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import now_ms
from bullpen.protocol.message import DeliveryState
from bullpen.protocol.request import Request
from bullpen.protocol.task import Check, Task, TaskStatus
from bullpen.store.contract import Entry, Finding, Mailbox, Problem
from bullpen.team.requests.handles import handles
from bullpen.team.snapshot import Snapshot
from bullpen.team.tasks import check_rules, graph, rules
from bullpen.team.tasks.operations import Listing
from bullpen.team.team import TeamSummary
from bullpen.view import sentences
from bullpen.view.news import actor_of, sender_of
from bullpen.view.text import Cell
from bullpen.view.transcript import moment

if TYPE_CHECKING:
    from bullpen.team.tasks.meant_for import MeantFor

_STATUS_STYLES: dict[str, str] = {
    "pending": "",
    "in_progress": "attention",
    "completed": "good",
}
_OUTPUT_LINES_MAX = 20
_PASSED, _FAILED = ("✓", "+"), ("✗", "x")
"""Marks for the result of a check, with an ASCII form."""

_STATE_STYLES = {"working": "good", "waiting": "attention", "failed": "bad", "lost": "bad"}
_MAIL_STYLES: dict[DeliveryState, str] = {
    "stored": "attention",
    "seen": "muted",
    "consumed": "muted",
}


_OF_TEAM = ("age", "folder", "description")


class RecordViews:
    """Shows records on a page.

    Problems with reading are always shown: on standard error, and in the JSON or the picture.
    """

    def __init__(self, page: Page) -> None:
        self._page = page

    def teams(self, teams: Sequence[TeamSummary]) -> None:
        """All teams, with the problem of each that cannot be read."""
        for team in teams:
            if team.problem:
                self._page.warn(f"team {team.name}: {team.problem}")
        self._page.listing(
            "teams/1",
            {"teams": [_team_json(team) for team in teams]},
            (*("team", "members", "pending", "in progress", "completed"), *_OF_TEAM),
            [_team_row(team, now_ms()) for team in teams],
            nothing="No teams yet. Create one: bullpen team create NAME",
        )

    def snapshot(self, snapshot: Snapshot) -> None:
        """A whole team at one moment."""
        if self._page.json:
            self.problems(snapshot.problems)
            self._page.value("team/1", snapshot)
        else:
            _draw_team(self._page, snapshot)

    def change(self, snapshot: Snapshot, picture: Callable[[Draw], None]) -> None:
        """A whole team after a change: a line of JSON, or another picture."""
        if self._page.json:
            self.problems(snapshot.problems)
            self._page.json_line("team/1", snapshot)
        else:
            picture(partial(_draw_team, snapshot=snapshot))

    def members(self, snapshot: Snapshot) -> None:
        """The members of a team."""
        self.problems(snapshot.problems)
        if self._page.json:
            value = {"members": snapshot.members, "problems": snapshot.problems}
            self._page.value("members/1", value)
        else:
            _draw_members(self._page, snapshot)

    def tasks(self, listing: Listing, shown: Sequence[Task]) -> None:
        """Some of the tasks of a listing, with what each still waits for."""
        self.problems(listing.problems)
        if self._page.json:
            self._page.value("tasks/1", {"tasks": shown, "problems": listing.problems})
        elif shown:
            self._page.table(
                ("id", "status", "owner", "waits for", "subject"), _task_rows(listing, shown)
            )
        elif listing.tasks:
            self._page.line("No task matches. See all: bullpen task list")
        else:
            self._no_tasks(listing)

    def task(self, task: Task, kept: MeantFor | None = None) -> None:
        """One task with all it says; `kept` says whom it waits for, and why."""
        if self._page.json:
            self._page.value("task/1", task)
            return
        facts = task.facts
        self._page.fields(
            [
                ("task", Cell(task.id, "strong")),
                ("subject", task.subject),
                ("status", _status(task)),
                ("owner", task.owner or ""),
                ("doing", (task.active_form or "") if task.status == "in_progress" else ""),
                ("blocked by", ", ".join(task.blocked_by)),
                ("blocks", ", ".join(task.blocks)),
                ("attempt", str(facts.attempt or "")),
                ("released", facts.released or ""),
                ("kept for", _kept(kept) if kept is not None else ""),
                ("given back", ", ".join(facts.gave_back or ())),
            ]
        )
        word = facts.forced
        if word is not None:
            self._page.line(
                Cell(f"completed without its checks by {word.by}: {word.reason}", "attention")
            )
        for check in facts.checks:
            self._page.line(_check(check, facts.attempt))
            if check.passed is False and check.detail:
                self._page.block(_last_lines(check.detail), indent=4)
        if facts.has("promises") or facts.has("relies"):
            for line in load("bullpen.team.promises.concerns:promise_words")(task):
                self._page.line(line)
        for title, text in (("Description", task.description), ("Report", facts.report)):
            if text:
                self._page.title(f"{title}:")
                self._page.block(text, indent=2)

    def checked(self, check: Check) -> None:
        """A check, when it begins and when it is over, for people who wait for it."""
        if self._page.json:
            return
        what = None if check.kind == "review" else check.run or check.path or check.ref
        about = f"{check.name}: {what}" if what not in (None, check.name) else check.name
        if check.passed is None:
            if self._page.draws and check.kind in ("command", "review"):
                self._page.line(Cell(f"… {about}", "muted"))
                self._page.flush()
            return
        mark, style = (_PASSED, "good") if check.passed else (_FAILED, "bad")
        self._page.line(Cell(f"{self._page.mark(mark)} {about}", style))
        if not check.passed and check.detail:
            self._page.block(_last_lines(check.detail), indent=4)
        self._page.flush()

    def proof(self, task: Task, *, report: str | None) -> bool:
        """What the checks of a task found, each of which was shown before; whether all passed."""
        missing = check_rules.missing(task, report=report)
        checks = task.facts.checks
        passed = f"{len(checks) - len(missing)} of {len(checks)} checks of task {task.id} passed."
        if not checks:
            passed = f"Task {task.id} has no checks."
        value = {"passed": not missing, "missing": missing, "checks": checks}
        self._page.result("task-checks/1", value, passed)
        return not missing

    def _no_tasks(self, listing: Listing) -> None:
        if listing.problems:
            self._page.line("No task could be read. Repair what is possible: bullpen doctor --fix")
        else:
            self._page.line("No tasks yet. Add one: bullpen task add 'SUBJECT'")

    def graph(self, listing: Listing, *, mermaid: bool) -> None:
        """Who waits for whom: as Mermaid text, else as this page shows graphs."""
        self.problems(listing.problems)
        tasks = listing.tasks
        if self._page.json:
            edges = [[blocker, task.id] for task in tasks for blocker in task.blocked_by]
            value = {"layers": graph.layers(tasks), "edges": edges, "mermaid": graph.mermaid(tasks)}
            self._page.value("task-graph/1", {**value, "problems": listing.problems})
        elif mermaid:
            self._page.drawing(graph.mermaid(tasks).splitlines())
        elif not tasks:
            self._no_tasks(listing)
        elif self._page.draws:
            lines = graph.lines(tasks)
            self._page.drawing(lines)
            if any(line.endswith(graph.LONGEST) for line in lines):
                self._page.line(Cell("* marks the longest chain of unfinished tasks", "muted"))
        else:
            self._page.table(
                ("layer", "id", "status", "blocked by", "blocks", "subject"), _graph_rows(tasks)
            )

    def mailbox(self, mailbox: Mailbox, entries: Sequence[Entry], *, name: str) -> None:
        """Some of the messages of a mailbox."""
        if self._page.jsonl:
            self.letters(mailbox, entries)
            return
        self.problems(mailbox.problems)
        if self._page.json:
            messages = [_entry(entry) for entry in entries]
            value = {"messages": messages, "problems": mailbox.problems}
            self._page.value("inbox/1", value)
            return
        self._letters(entries)
        if not entries:
            self._page.line(
                f"No unread messages for {name}. See all: bullpen inbox {name}"
                if mailbox.entries
                else f"No messages for {name}. Send one: bullpen send {name} 'TEXT'"
            )

    def letters(self, mailbox: Mailbox, entries: Sequence[Entry]) -> None:
        """Messages as they come, each at once."""
        self.problems(mailbox.problems)
        if self._page.json:
            for entry in entries:
                self._page.json_line("inbox-message/1", _entry(entry))
        else:
            self._letters(entries)
            self._page.flush()

    def _letters(self, entries: Sequence[Entry]) -> None:
        now = now_ms()
        for entry in entries:
            message = entry.message
            sent = sentences.age(sentences.sent_ms(message), now)
            head = [sender_of(message), f"{sent or '?'} ago", entry.state, entry.id]
            summary = f": {message.summary}" if message.summary else ""
            style = _MAIL_STYLES.get(entry.state, "")
            self._page.line(Cell("  ".join(head) + summary, style))
            self._page.block(sentences.body(message), indent=4)

    def events(self, events: Sequence[Event]) -> None:
        """What happened, oldest first."""
        if self._page.jsonl:
            self.event_lines(events)
            return
        self._page.listing(
            "events/1",
            {"events": [event.encode() for event in events]},
            ("seq", "time", "who", *([] if self._page.draws else ["op"]), "what"),
            [self._event_row(event) for event in events],
            nothing="No events yet.",
        )

    def event_lines(self, events: Sequence[Event]) -> None:
        """What happens, each event at once."""
        for event in events:
            if self._page.json:
                self._page.json_line("event/1", event.encode())
            else:
                self._page.line("  ".join(self._event_row(event)))
                self._page.flush()

    def _event_row(self, event: Event) -> tuple[str, ...]:
        """An event in columns: for people in their time, for programs such as awk with its name."""
        said, who = sentences.happened(event), actor_of(event)
        if self._page.draws:
            return (str(event.seq), " ".join(moment(event.time)), who, said)
        return (str(event.seq), event.time, who, event.op, said)

    def findings(self, findings: Sequence[Finding], *, fix: bool) -> None:
        """What a checkup found, and what was done about it."""
        if self._page.json:
            self._page.value("findings/1", {"findings": findings})
            return
        if not findings:
            self._page.line(Cell("No problems found.", "good"))
            return
        self._page.table(
            ("done", "kind", "where", "what"), [_finding_row(finding) for finding in findings]
        )
        left = sum(not finding.fixed for finding in findings)
        if left and not fix:
            self._page.line(f"{left} not repaired. Repair what is possible: bullpen doctor --fix")
        elif left:
            self._page.line(f"{left} could not be repaired. Each line says what to do.")

    def problems(self, problems: Iterable[Problem]) -> None:
        """What is there but could not be read."""
        for problem in problems:
            self._page.warn(f"cannot read {problem.where}: {problem.why}")


def _draw_team(page: Page, snapshot: Snapshot) -> None:
    team = snapshot.team
    page.title(f"{team.name}: {team.description}" if team.description else team.name)
    page.line()
    _draw_members(page, snapshot)
    page.line()
    counts = Counter[str](task.status for task in snapshot.tasks)
    said = [f"{counts[status]} {status.replace('_', ' ')}" for status in get_args(TaskStatus)]
    said += [f"{counts['unknown']} unknown"] if counts["unknown"] else []
    page.fields(
        [
            ("tasks", ", ".join(said)),
            ("waiting for an answer", str(len(snapshot.pending))),
            ("problems", Cell(str(len(snapshot.problems) or ""), "bad")),
        ]
    )
    if snapshot.pending:
        page.line()
        request_table(page, snapshot.pending, snapshot)
        page.line("See them: bullpen requests")
    for problem in snapshot.problems:
        page.line(Cell(f"problem: {problem.where}: {problem.why}", "bad"))


def request_table(page: Page, requests: Sequence[Request], snapshot: Snapshot) -> None:
    """Write some of the requests that wait in a team, a row each."""
    short = handles(snapshot.pending)
    page.table(
        ("request", "kind", "age", "about"),
        [
            (
                short[request.id],
                request.kind,
                sentences.age(request.created_ms, snapshot.taken_ms),
                sentences.waits(request),
            )
            for request in requests
        ],
    )


def _draw_members(page: Page, snapshot: Snapshot) -> None:
    page.table(
        ("member", "color", "state", "since", "tasks", "unread", "type"),
        [
            (
                Cell(view.member.name, view.member.color or "strong"),
                view.member.color or "",
                Cell(view.state, _STATE_STYLES.get(view.state, "muted")),
                sentences.age(view.since_ms, snapshot.taken_ms),
                ",".join(view.tasks),
                "?" if view.unread is None else str(view.unread),
                view.member.agent_type or "",
            )
            for view in snapshot.members
        ],
    )


def _team_json(team: TeamSummary) -> dict[str, Any]:
    # Its folder is for people, who know by it which team is theirs.
    return {key: value for key, value in as_json(team).items() if key != "cwd"}


def _team_row(team: TeamSummary, now: int) -> Row:
    if team.problem and not team.tasks:
        return (Cell(team.name, "bad"), "?", "?", "?", "?", "?", "?", "cannot be read")
    counts = [str(team.tasks.get(status, 0)) for status in _STATUS_STYLES]
    made = sentences.age(None if team.created_at is None else int(team.created_at), now)
    more = (made, team.cwd or "", team.description or "")
    return (Cell(team.name, "strong"), str(team.members), *counts, *more)


def _task_rows(listing: Listing, shown: Sequence[Task]) -> list[Row]:
    by_id = {task.id: task for task in listing.tasks}
    return [
        (
            task.id,
            _status(task),
            task.owner or "",
            ",".join(rules.open_blockers(task, by_id.get)) if task.blocked_by else "",
            task.subject,
        )
        for task in shown
    ]


def _graph_rows(tasks: Sequence[Task]) -> list[Row]:
    by_id = {task.id: task for task in tasks}
    return [
        (
            str(number),
            task_id,
            by_id[task_id].status,
            ",".join(by_id[task_id].blocked_by),
            ",".join(by_id[task_id].blocks),
            by_id[task_id].subject,
        )
        for number, layer in enumerate(graph.layers(tasks))
        for task_id in layer
    ]


def _status(task: Task) -> Cell:
    said = check_rules.said_status(task)
    if said == task.status:
        return Cell(said, _STATUS_STYLES.get(task.status, "bad"))
    return Cell(said, "attention" if check_rules.is_queued(task) else "bad")


def _check(check: Check, attempt: int) -> Cell:
    words = {None: ("open", "muted"), True: ("passed", "good"), False: ("failed", "bad")}
    word, style = words[check.passed]
    ago = f" {sentences.age(check.at_ms, now_ms())} ago" if check.at_ms is not None else ""
    if check.passed is not None and check.attempt != attempt:
        ago, style = f"{ago} in attempt {check.attempt}, which is over", "muted"
    what = check.run or check.path or check.ref
    about = f": {what}" if what not in (None, check.name) else ""
    return Cell(f"check {check.name}, {word}{ago}{about}", style)


def _kept(kept: MeantFor) -> str:
    return f"{', '.join(sorted(kept.names))} ({kept.why})"


def _last_lines(text: str) -> str:
    """What a check found and the end of its output, as much as one looks at."""
    first, *rest = text.split("\n")
    left_out = len(rest) - _OUTPUT_LINES_MAX
    if left_out <= 0:
        return text
    note = f"({left_out} earlier lines; --json shows all)"
    return "\n".join([first, note, *rest[-_OUTPUT_LINES_MAX:]])


def _entry(entry: Entry) -> dict[str, Any]:
    return {"id": entry.id, "state": entry.state, "message": entry.message}


def _finding_row(finding: Finding) -> Row:
    done = Cell("fixed", "good") if finding.fixed else Cell("open", "attention")
    action = f": {finding.action}" if finding.action else ""
    return (done, finding.kind, finding.where, finding.what + action)
