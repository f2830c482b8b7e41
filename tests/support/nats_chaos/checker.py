"""Whether a chaos run kept every promise: pure, from notes and logs. Each answer is a violation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bullpen.protocol.changes import Deliver, Event, MarkMail, PutTask, PutTeam
from bullpen.protocol.task import Task
from bullpen.store.events.fold import fold

from .diary import Note, digest

Logs = Mapping[str, Sequence[Event]]

_RANK = {"stored": 0, "injected": 1, "seen": 2, "archived": 3}


def violations(notes: Sequence[Note], logs: Logs) -> Iterator[str]:
    """Everything that is wrong, in words."""
    found = list(holes(logs))
    yield from found
    if not found:
        yield from _violations_of_whole(notes, logs)


def _violations_of_whole(notes: Sequence[Note], logs: Logs) -> Iterator[str]:
    yield from lost_commits(notes, logs)
    yield from lost_messages(notes, logs)
    yield from lost_marks(notes, logs)
    yield from repeated(logs)
    yield from wrong_counts(logs)
    yield from double_claims(notes, logs)
    yield from wrong_injections(notes, logs)
    yield from wrong_order(notes, logs)


def holes(logs: Logs) -> Iterator[str]:
    for team, events in logs.items():
        numbers = [event.seq for event in events]
        if numbers != list(range(1, len(events) + 1)):
            yield f"the events of {team} are not numbered without holes"


def lost_commits(notes: Sequence[Note], logs: Logs) -> Iterator[str]:
    """A commit is where its acknowledgement said, with what it changed."""
    for note in notes:
        if note["kind"] != "commit":
            continue
        events, seq = logs[note["team"]], note["seq"]
        if seq > len(events):
            yield f"acknowledged event {seq} of {note['team']} is lost"
            continue
        event = events[seq - 1]
        found = (event.op, event.actor, digest(event.changes))
        if found != (note["op"], note["actor"], note["digest"]):
            yield f"event {seq} of {note['team']} is not the one that was acknowledged"


def lost_messages(notes: Sequence[Note], logs: Logs) -> Iterator[str]:
    stored = {
        (team, change.to, change.message.id)
        for team, events in logs.items()
        for event in events
        for change in event.changes
        if isinstance(change, Deliver)
    }
    for note in notes:
        if note["kind"] == "sent" and (note["team"], note["to"], note["id"]) not in stored:
            yield f"message {note['id']} to {note['to']} of {note['team']} is lost"


def lost_marks(notes: Sequence[Note], logs: Logs) -> Iterator[str]:
    mail = {team: fold(events).mail for team, events in logs.items()}
    for note in notes:
        if note["kind"] != "marked":
            continue
        box = mail[note["team"]].get(note["agent"], {})
        for key in note["ids"]:
            if _RANK[box[key]] < _RANK[note["state"]]:
                yield f"that {note['agent']} had {key} {note['state']} is lost"


def repeated(logs: Logs) -> Iterator[str]:
    """Commits with names of their own, and messages, are there once."""
    for team, events in logs.items():
        names = Counter(event.op for event in events if event.op.startswith("count."))
        yield from (f"{op} is {n} times in {team}" for op, n in names.items() if n > 1)
        ids = Counter(
            (change.to, change.message.id)
            for event in events
            for change in event.changes
            if isinstance(change, Deliver)
        )
        yield from (f"message {key} is {n} times in {team}" for key, n in ids.items() if n > 1)


def wrong_counts(logs: Logs) -> Iterator[str]:
    """Whoever adds one to a number adds it to the last."""
    for team, events in logs.items():
        count = 0
        for event in events:
            for change in event.changes:
                if isinstance(change, PutTeam) and "count" in change.fields:
                    count += 1
                    if change.fields["count"] != count:
                        yield f"event {event.seq} of {team} counts {change.fields['count']}"
                        count = change.fields["count"]


def double_claims(notes: Sequence[Note], logs: Logs) -> Iterator[str]:
    """No task is claimed twice, by the claimants' own words and by the log as a second witness."""
    claimed = [note for note in notes if note["kind"] == "claimed"]
    twice = Counter((note["team"], note["task"], note["attempt"]) for note in claimed)
    yield from (f"{key} was claimed {n} times" for key, n in twice.items() if n > 1)
    by_log: dict[tuple[str, str, int], str | None] = {}
    for team, events in logs.items():
        now: dict[str, Task] = {}
        for event in events:
            for change in event.changes:
                if not isinstance(change, PutTask):
                    continue
                task, before = change.task, now.get(change.task.id)
                if event.op == "task.claim":
                    by_log[team, task.id, task.facts.attempt] = task.owner
                    if before is None or before.status != "pending":
                        yield f"event {event.seq} of {team} claims a task that is not free"
                    others = [each for each in now.values() if _held(each, task.owner)]
                    if others:
                        yield f"after event {event.seq} of {team} {task.owner} has two tasks"
                now[task.id] = task
    for note in claimed:
        if by_log.get((note["team"], note["task"], note["attempt"])) != note["by"]:
            yield f"the log does not know that {note['by']} claimed {note['task']}"


def _held(task: Task, owner: str | None) -> bool:
    return task.owner == owner and task.status == "in_progress"


def wrong_injections(notes: Sequence[Note], logs: Logs) -> Iterator[str]:
    """Every message is injected once, and in the order of its mailbox."""
    injected: dict[tuple[str, str], list[str]] = defaultdict(list)
    for note in notes:
        if note["kind"] == "injected":
            injected[note["team"], note["agent"]] += note["ids"]
    for team, events in logs.items():
        marked: set[tuple[str, str]] = set()
        for event in events:
            for change in event.changes:
                if isinstance(change, MarkMail):
                    marked |= {(change.agent, key) for key in change.ids}
        for agent, box in fold(events).mail.items():
            given = injected.pop((team, agent), [])
            counts = Counter(given)
            yield from (f"{agent} of {team} got {key} twice" for key, n in counts.items() if n > 1)
            yield from (f"{agent} of {team} never got {key}" for key in box if key not in counts)
            if not {(agent, key) for key in given} <= marked:
                yield f"{agent} of {team} got mail that the log does not know as injected"
            if list(dict.fromkeys(given)) != [key for key in box if key in counts]:
                yield f"{agent} of {team} got mail out of order"
    yield from (f"{who} got mail that nobody sent" for who in injected)


def wrong_order(notes: Sequence[Note], logs: Logs) -> Iterator[str]:
    """What one sender wrote stands in its order in every mailbox."""
    for team, events in logs.items():
        last: dict[tuple[str, str], int] = {}
        for event in events:
            for change in event.changes:
                if not isinstance(change, Deliver):
                    continue
                sender, _, number = change.message.text.rpartition(" ")
                if int(number) <= last.get((change.to, sender), 0):
                    yield f"{change.message.text!r} is out of order in {team}"
                last[change.to, sender] = int(number)


def replayed(events: Sequence[Event]) -> dict[str, Any]:
    """What a log describes, as a `portrait` shows a team."""
    folded = fold(events)
    texts = {
        (change.to, change.message.id): change.message.text
        for event in events
        for change in event.changes
        if isinstance(change, Deliver)
    }
    mail = {
        agent: [
            [key, state, texts[agent, key]] for key, state in box.items() if state != "archived"
        ]
        for agent, box in folded.mail.items()
    }
    return {
        "seq": folded.seq,
        "team": folded.team,
        "members": list(folded.members.values()),
        "tasks": folded.tasks,
        "requests": folded.requests,
        "mail": {agent: rows for agent, rows in mail.items() if rows},
    }


def acknowledged(notes: Sequence[Note]) -> int:
    """How many commits and messages were acknowledged."""
    return sum(
        note["kind"] == "commit" or (note["kind"] == "marked" and note["moved"] > 0)
        for note in notes
    )
