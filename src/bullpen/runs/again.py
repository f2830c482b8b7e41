"""Runs a finished team again from its beginning: `bullpen up --again`.

The log of the old team is copied beside its transcripts, which stay. Then the team is deleted; what
exists only in a worktree is saved first. Files that its members wrote are not touched.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from anyio import to_thread

from bullpen.agents.drivers.conversation_file import write_whole
from bullpen.agents.system.folders import agent_folder
from bullpen.app.app import App
from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import TeamConfig
from bullpen.runs.watch.ending import all_done
from bullpen.team.team import Team

_SLICE = 5_000


async def refuse_unfinished(team: Team, config: TeamConfig, *, file: Path) -> None:
    """Refuse to run the team of a file again that is at work, or has something left to do.

    Raises:
        Refused: members_alive or not_finished.
    """
    alive = [member.name for member, _ in await team.agents.living()]
    if alive:
        raise Refused(
            f"Team {team.name!r} is still running: {', '.join(sorted(alive))}.",
            reason="members_alive",
            remedy=f"Wait until it has finished, or stop it: bullpen down -t {team.name}",
        )
    tasks = (await team.tasks.list()).tasks
    lead = config.member(LEAD)
    is_led = lead is not None and lead.agent is not None
    done = config.facts.finished is not None if is_led else all_done(tasks) is not None
    if not done:
        path = shlex.quote(str(file))
        raise Refused(
            f"Team {team.name!r} has not finished.",
            reason="not_finished",
            remedy=f"To continue it: bullpen up {path}. To start over and drop what is left:"
            f" bullpen team delete {team.name}, then bullpen up {path}",
        )


async def archive(app: App, team: Team, config: TeamConfig) -> list[str]:
    """Copy the log of a finished team to a file, then delete the team. Returns what to say."""
    folder = agent_folder(app.settings.home, config, LEAD).parent
    file = folder / "events.jsonl"
    lines: list[str] = []
    after = 0
    while events := await team.events(after=after, limit=_SLICE):
        lines += [f"{json.dumps(event.encode())}\n" for event in events]
        after = events[-1].seq
    await to_thread.run_sync(write_whole, file, "".join(lines).encode("ascii"))
    said = [f"the log of the last run is in {file}, its transcripts are in {folder}"]
    await app.delete_team(team.name, by=LEAD, told=lambda end: said.append(str(end)))
    return said
