"""Everything that happened in a team, line by line, for the report of a test that failed."""

from __future__ import annotations

from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.app.app import App
from bullpen.protocol.changes import PutTask
from bullpen.view.sentences import happened
from bullpen.view.transcript import TranscriptTail, said

_LINE_MAX = 240
_LEFT_OUT = frozenset({"agent.spend", "mail.injected", "mail.seen", "task.renew", "usage"})


async def story_of(app: App, team: str) -> list[str]:
    """The events of the team's log and the rows of all transcripts, in the order of their times.

    A task that is released is given with the reason. A start that failed deletes its team.
    """
    if team not in await app.teams.names():
        return [f"There is no team {team!r}."]
    opened, supervisor = app.teams.open(team), app.supervisor(team)
    rows: list[tuple[str, str, str, str]] = []
    for event in await opened.events():
        why = [each.task.facts.released for each in event.changes if isinstance(each, PutTask)]
        words = "; ".join([happened(event), *dict.fromkeys(filter(None, why))])
        rows.append((event.time, event.actor, event.op, words))
    for name in [member.name for member in (await opened.agents.config()).roster]:
        transcript = TranscriptTail(await supervisor.transcript(name)).more()
        rows += [(row.get("time", ""), name, str(row["kind"]), said(row)) for row in transcript]
    return [
        f"{time} {who} {what}: {one_line(words, _LINE_MAX)}"
        for time, who, what, words in sorted(rows)
        if what not in _LEFT_OUT
    ]
