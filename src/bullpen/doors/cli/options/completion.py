"""Shell completion: names of teams and members, ids of tasks and requests.

If a lookup fails, nothing is offered and nothing is printed. Only plain words are offered, because
some shells evaluate what they get, and agents write names and subjects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import typer

from bullpen.by_name import load
from bullpen.doors.actions.request_lookup import search
from bullpen.doors.cli.session import Session

EVERYBODY = "@team"
"""The receiver that means everybody else in the team."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_,.-]+")
_SUBJECT_MAX = 60

Offer = tuple[str, str]


def team_names(context: typer.Context) -> list[Offer]:
    """The names of teams."""
    return _offers(
        context, lambda session: ((name, "") for name in session.with_teams(lambda t: t.names()))
    )


def member_names(context: typer.Context) -> list[Offer]:
    """The names of the members of the team that is meant."""
    return _offers(
        context,
        lambda session: (
            (member.name, member.agent_type or "")
            for member in session.with_team(lambda team: team.roster.list())
        ),
    )


def receivers(context: typer.Context) -> list[Offer]:
    """The names to which a message can be sent."""
    return [*member_names(context), (EVERYBODY, "everybody else")]


def task_ids(context: typer.Context) -> list[Offer]:
    """The ids of tasks, with their subjects."""
    return _offers(
        context,
        lambda session: (
            (task.id, task.subject)
            for task in session.with_team(lambda team: team.tasks.list()).tasks
        ),
    )


def note_names(context: typer.Context) -> list[Offer]:
    """Complete a note, with who wrote it last."""
    return _offers(
        context,
        lambda session: [
            (note.name, f"by {note.author}")
            for note in session.with_team(lambda team: team.notes.list()).notes
        ],
    )


def request_ids(context: typer.Context) -> list[Offer]:
    """The handles of waiting requests, with who asks."""

    def look(session: Session) -> list[Offer]:
        found = session.with_teams(lambda teams: search(teams, session.team))
        return [(each.handle, each.request.sender) for each in found.waiting]

    return _offers(context, look)


def config_keys(context: typer.Context) -> list[Offer]:
    """The keys of `bullpen config`."""
    return [(key.name, key.about) for key in load("bullpen.app.config.keys:KEYS")]


def _offers(context: typer.Context, look: Callable[[Session], Iterable[Offer]]) -> list[Offer]:
    try:
        found = list(look(Session.of(context)))
    except Exception:
        # Somebody is typing: an error must not write into that line.
        return []
    return [
        (word, _NOT_PLAIN.sub(" ", text)[:_SUBJECT_MAX].strip())
        for word, text in found
        if _PLAIN.fullmatch(word)
    ]
