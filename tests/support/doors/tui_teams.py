"""Teams to look at: made by the team's own operations, with heartbeats that nobody sends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bullpen.app.settings import Settings, settings_from
from bullpen.app.stores import open_teams
from bullpen.protocol.agent import AgentSpec, ProcessRecord, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.protocol.request import Request
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams

NOW_MS = 1_794_787_200_000
"""What the clock says on every picture that is compared."""

PUSH = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "git push:*"}],
    "behavior": "allow",
    "destination": "session",
}
ELSEWHERE = ProcessRecord.new(backend="subprocess", host="build-7", pid=4711)
"""Where nobody can look, so that heartbeats are believed."""

PLAN = """# Make the parser fast

1. Measure it with `time`.
2. Read the file **once**.

See [the numbers](https://example.org/numbers).
"""


class Time:
    """A clock that goes on when it is told to."""

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def __call__(self) -> int:
        return self._ms

    def on(self, seconds: int) -> None:
        self._ms += seconds * 1000


def at(home: Path, team: str | None = None) -> Settings:
    """The settings of a person at this home."""
    return settings_from({"HOME": str(home)}, home=home, team=team)


def nonce(name: str) -> str:
    """The mark of the launch of a member that was hired here."""
    return f"nonce-{name}"


async def hire(team: Team, name: str, *, place: ProcessRecord = ELSEWHERE, **fields: Any) -> None:
    """Make an agent a member, as a spawn does."""
    spec = {"driver": "scripted", "backend": "subprocess", "cwd": "/", **fields}
    await team.agents.register(name, AgentSpec.new(**spec), by=LEAD, nonce=nonce(name))
    await team.agents.ready(name, nonce=nonce(name), place=place)


async def beat(team: Team, name: str, state: str, *, ms: int, ago_s: int = 0, **more: Any) -> None:
    """Say for a member what it would say of itself."""
    await team.agents.beat(
        Presence.new(
            agent=name,
            state=state,
            since_ms=ms - ago_s * 1000,
            beat_ms=ms,
            ttl_ms=10**9,
            nonce=nonce(name),
            **more,
        )
    )


def usage(tokens: int, usd: float) -> dict[str, Any]:
    """What a member says it used."""
    return Usage.new(turns=3, requests=3, input_tokens=tokens, cost_usd=usd).raw


async def ask(team: Team, name: str, command: str = "git push origin main") -> Request:
    """Ask for permission of a command, as an agent's gate does."""
    return await team.approvals.ask_permission(
        "Bash",
        {"command": command},
        by=name,
        description=f"Bash {command} (the mode default asks before anything is run)",
        suggestions=(PUSH,),
        approver="human",
        deadline_s=600,
    )


async def small_team(home: Path, *, name: str = "alpha") -> None:
    """A team at work at the moment that the pictures show."""
    time = Time(NOW_MS - 600_000)
    async with Teams(FileStore(home, clock=time), clock=time) as teams:
        await teams.create(name, description="Make the parser fast")
        team = teams.open(name)
        for member in ("alice", "bob", "carol"):
            await hire(team, member)
        time.on(60)
        ids = await add_tasks(team)
        time.on(60)
        await team.tasks.claim(ids[0], by="alice")
        time.on(240)
        await team.tasks.done(ids[0], by="alice")
        await team.tasks.claim(ids[1], by="alice")
        await team.mailbox.send("alice", "Please measure first.", sender=LEAD)
        time.on(30)
        await team.mailbox.send("bob", "The parser reads the file twice.", sender="alice")
        time.on(30)
        await team.mailbox.broadcast("We ship on Friday.", sender=LEAD)
        await ask(team, "bob")
        time.on(30)
        await team.approvals.ask_plan(PLAN, by="carol", approver="human", deadline_s=900)
    async with open_teams(at(home)) as teams:
        team = teams.open(name)
        await beat(
            team, "alice", "working", ms=NOW_MS, ago_s=190, tool="Bash", detail="pytest -q",
            usage=usage(12_400, 0.42), context=0.37, actions=["Read parser.py", "Bash pytest -q"],
        )  # fmt: skip
        await beat(team, "bob", "working", ms=NOW_MS, ago_s=30, usage=usage(800, 0.031))
        await beat(team, "carol", "idle", ms=NOW_MS, ago_s=7300, context=0.93)


async def add_tasks(team: Team) -> list[str]:
    """Six tasks, with a long chain and a short one."""
    subjects: Sequence[tuple[str, tuple[int, ...]]] = (
        ("Measure the parser", ()),
        ("Read the file once", (0,)),
        ("Cache the tokens", (1,)),
        ("Write the guide", ()),
        ("Release it", (2, 3)),
        ("Tell everybody", (4, 0)),
    )
    ids: list[str] = []
    for subject, after in subjects:
        task = await team.tasks.add(
            subject, by=LEAD, blocked_by=[ids[number] for number in after], description="As said."
        )
        ids.append(task.id)
    return ids
