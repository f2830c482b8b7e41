"""The briefing: the state of the team that starts a turn, whole or what changed in it. Pure.

It tells a compacted or restarted conversation who it is and what it still has to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from bullpen.agents.mail.promised import promise_lines, shown_lines
from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.protocol.clock import iso
from bullpen.protocol.task import Task
from bullpen.team.lookup import owner_of
from bullpen.team.requests.rules import may_answer
from bullpen.team.snapshot import MemberView, Snapshot
from bullpen.team.tasks.check_rules import is_done, said_status

T = TypeVar("T")

_MEMBERS_MAX = 60
_TASKS_MAX = 40
_NOTES_MAX = 20
_SUBJECT_MAX = 100
# How many ids the line about the reader itself names.
_IDS_MAX = 8

_TALKS = (
    "Your user is here and reads what you say. To report or to ask, end your turn: they write to"
    " you. Call Finish only when they say that they are done."
)
_PROMISED = "Promises of other members that concern your tasks:"
_LEFT_ALONE = "Your user no longer talks with you. When the goal is reached, call Finish."

BEGIN, END = "<team-digest>", "</team-digest>"


class _Member(NamedTuple):
    role: str | None
    state: str
    detail: str | None
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Briefing:
    """The state of a team as one member is told it. Two of them tell what changed in between."""

    agent: str
    is_lead: bool
    # Whether a person talks with it, as the lead.
    talks: bool
    team: str
    time_ms: int
    members: Mapping[str, _Member]
    # The open tasks, and the ids of those that are done.
    tasks: Mapping[str, Task]
    done: frozenset[str]
    unread: int
    # Requests by id: kind and the other side. Those that wait for the reader, and its own.
    to_answer: Mapping[str, tuple[str, str]]
    asked: Mapping[str, tuple[str, str]]
    # The version of each note and who wrote it, the plan first.
    notes: Mapping[str, tuple[int, str]]
    # Promises of others that concern its open tasks, by id and version.
    promises: Mapping[str, str]

    @classmethod
    def of(cls, snapshot: Snapshot, agent: str) -> Briefing:
        """The briefing of a member about its team at this moment."""
        team = snapshot.team.name
        mine = next((view for view in snapshot.members if view.member.name == agent), None)
        is_lead = mine is not None and mine.member.is_lead
        tasks = {
            task.id: task
            for task in snapshot.tasks
            if task.status != "completed" or not is_done(task)
        }
        return cls(
            agent=agent,
            is_lead=is_lead,
            talks=is_lead and bool(snapshot.team.facts.conversation),
            team=team,
            time_ms=snapshot.taken_ms,
            members={view.member.name: _member(view) for view in snapshot.members},
            tasks=tasks,
            done=frozenset(task.id for task in snapshot.tasks if task.id not in tasks),
            unread=(mine.unread or 0) if mine is not None else 0,
            # Requests that only people may answer are left out: a model would try them in vain.
            to_answer={
                request.id: (request.kind, request.sender)
                for request in snapshot.pending
                if request.to == agent and may_answer(request, "agent")
            },
            asked={
                request.id: (request.kind, request.to)
                for request in snapshot.pending
                if request.sender == agent
            },
            notes={note.name: (note.version, note.author) for note in snapshot.notes},
            promises=promise_lines(
                {task.id: task for task in snapshot.tasks},
                [task for task in tasks.values() if owner_of(task, team) == agent],
                team,
            ),
        )

    def whole(self) -> str:
        """Who the reader is, who else is in the team, the open tasks and the open requests."""
        members = [_member_line(self, name) for name in _first(self.members, _MEMBERS_MAX)]
        lines = [
            *_head(self),
            *([_TALKS] if self.talks else []),
            "Members:",
            *_counted(members, len(self.members), "members"),
        ]
        own, others = _own_and_other_tasks(self)
        lines.append("Your open tasks:" if own else "You have no open tasks.")
        lines += _task_lines(self, own)
        if self.tasks or self.done:
            done = len(self.done)
            count = f"({done} of {len(self.tasks) + done} tasks are done)"
            lines.append(
                f"Other open tasks {count}:" if others else f"No other open tasks {count}."
            )
            lines += _task_lines(self, others)
        if self.notes:
            lines.append("Notes of the team (NotesRead shows them):")
            notes = [_note_line(self, name) for name in _first(self.notes, _NOTES_MAX)]
            lines += _counted(notes, len(self.notes), "notes")
        if self.promises:
            lines.append(_PROMISED)
            lines += shown_lines(self.promises.values())
        if self.unread:
            lines.append(f"Unread messages for you: {self.unread}.")
        if self.to_answer:
            lines.append("Waiting for your answer:")
            lines += _request_lines(self.to_answer, "from")
        if self.asked:
            lines.append("Your requests without an answer:")
            lines += _request_lines(self.asked, "to")
        return "\n".join([*lines, END])


def briefing_text(snapshot: Snapshot, agent: str) -> str:
    """The whole briefing of a member about its team at this moment."""
    return Briefing.of(snapshot, agent).whole()


def changes_since(told: Briefing, now: Briefing) -> str | None:
    """What changed since the reader was told the state of its team, and where it stands.

    None if so much changed that the whole briefing says it better.
    """
    members = [
        name
        for name, member in now.members.items()
        if name != now.agent and member != told.members.get(name)
    ]
    left = [name for name in told.members if name not in now.members]
    tasks = [key for key, task in now.tasks.items() if _is_news(told.tasks.get(key), task)]
    closed = [key for key in told.tasks if key not in now.tasks]
    if len(members) + len(left) > _MEMBERS_MAX or len(tasks) + len(closed) > _TASKS_MAX:
        return None
    lines = [_member_line(now, name) for name in members]
    lines += [f"- {_one_line(name)} left the team" for name in left]
    lines += [_task_line(now.tasks[key], now.team) for key in tasks]
    for key in closed:
        how = "completed" if key in now.done else "deleted"
        lines.append(f"- #{key} {_one_line(told.tasks[key].subject)} ({how})")
    lines += _notes_news(told, now)
    promised = [line for key, line in now.promises.items() if key not in told.promises]
    if promised:
        lines += [_PROMISED, *shown_lines(promised)]
    asking = {key: to for key, to in now.to_answer.items() if key not in told.to_answer}
    if asking:
        lines.append("Waiting for your answer:")
        lines += _request_lines(asking, "from")
    since = f"Since {iso(told.time_ms)}"
    return "\n".join(
        [
            *_head(now),
            *([_TALKS if now.talks else _LEFT_ALONE] if now.talks != told.talks else []),
            f"{since}:" if lines else f"{since} nothing changed.",
            *lines,
            _standing(now, told),
            END,
        ]
    )


def _notes_news(told: Briefing, now: Briefing) -> list[str]:
    """Which notes others wrote or deleted, not what they wrote."""
    written = [
        name
        for name, (version, author) in now.notes.items()
        if author != now.agent and version != told.notes.get(name, (0, ""))[0]
    ]
    lines = [_note_line(now, name) for name in written[:_NOTES_MAX]]
    gone = [f"- note {name} was deleted" for name in told.notes if name not in now.notes]
    return [*_counted(lines, len(written), "notes"), *gone]


def _note_line(now: Briefing, name: str) -> str:
    version, author = now.notes[name]
    return f"- note {name}: version {version} by {_one_line(author)}"


def _standing(now: Briefing, told: Briefing) -> str:
    """Where the reader stands, in one line: enough for one that forgot the rest."""
    own, others = _own_and_other_tasks(now)
    tasks = f"Your open tasks: {_ids(own)}." if own else "You have no open tasks."
    count = f"{len(others)} other open task{'' if len(others) == 1 else 's'}, {len(now.done)} done"
    team = f"{len(now.members)} members (TaskList and TeamStatus show them)."
    waiting = [key for key in now.to_answer if key in told.to_answer]
    answer = f" Still waiting for your answer: {_ids(waiting, '')}." if waiting else ""
    # Its mail follows in the same turn.
    return f"{tasks} {count}, {team}{answer}"


def _head(now: Briefing) -> list[str]:
    who = "the lead of" if now.is_lead else f"{now.agent}, a teammate in"
    return [BEGIN, f"You are {who} team {_one_line(now.team)}. The time is {iso(now.time_ms)}."]


def _member(view: MemberView) -> _Member:
    detail = view.detail if view.detail and view.state != "working" else None
    return _Member(view.member.agent_type, view.state, detail, view.tasks)


def _is_news(before: Task | None, task: Task) -> bool:
    """Whether a task is new, or looks different. Stores keep an unchanged record as it is."""
    if before is None:
        return True
    return task is not before and task.raw != before.raw and _looks(task) != _looks(before)


def _looks(task: Task) -> tuple[object, ...]:
    # A task that was claimed and given back looks as before, but its attempt tells.
    attempt = task.facts.attempt
    return task.subject, said_status(task), task.owner, task.blocked_by, attempt


def _own_and_other_tasks(now: Briefing) -> tuple[list[str], list[str]]:
    own, others = list[str](), list[str]()
    names = (now.agent, f"{now.agent}@{now.team}")
    for key, task in now.tasks.items():
        (own if task.owner in names else others).append(key)
    return own, others


def _member_line(now: Briefing, name: str) -> str:
    member = now.members[name]
    you = " (you)" if name == now.agent else ""
    role = f", {_one_line(member.role)}" if member.role else ""
    detail = f": {_one_line(member.detail)}" if member.detail else ""
    tasks = f", on task {', '.join('#' + task for task in member.tasks)}" if member.tasks else ""
    return f"- {_one_line(name)}{you}{role}: {member.state}{detail}{tasks}"


def _task_lines(now: Briefing, keys: list[str]) -> list[str]:
    lines = [_task_line(now.tasks[key], now.team) for key in keys[:_TASKS_MAX]]
    return _counted(lines, len(keys), "tasks")


def _task_line(task: Task, team: str) -> str:
    owner = owner_of(task, team)
    parts = [said_status(task).replace("_", " ")]
    if owner:
        parts.append(_one_line(owner))
    if task.blocked_by:
        parts.append("after " + ", ".join(f"#{_one_line(blocker)}" for blocker in task.blocked_by))
    return f"- #{task.id} {_one_line(task.subject)} ({'; '.join(parts)})"


def _request_lines(requests: Mapping[str, tuple[str, str]], side: str) -> list[str]:
    return [
        f"- {kind} request {_one_line(key)} {side} {_one_line(who)}"
        for key, (kind, who) in requests.items()
    ]


def _ids(keys: list[str], sign: str = "#") -> str:
    more = len(keys) - _IDS_MAX
    shown = ", ".join(f"{sign}{_one_line(key)}" for key in keys[:_IDS_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def _one_line(text: str) -> str:
    """Text from others, on one line, so that it cannot break out of the briefing."""
    return one_line(text, _SUBJECT_MAX)


def _first(items: Iterable[T], most: int) -> list[T]:
    return [item for item, _ in zip(items, range(most), strict=False)]


def _counted(shown: list[str], number: int, what: str) -> list[str]:
    """These lines, and how many more there are."""
    more = number - len(shown)
    return [*shown, f"- and {more} more {what}"] if more else shown
