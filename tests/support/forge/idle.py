"""An idle team on a real client: every request is counted, and time is ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connect import connect
from bullpen.runs.forge.connection import Connection
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams
from bullpen.testing.forge.stage import ForgeStage, LineNote
from bullpen.workspace.git.ref_names import task_ref
from support.git.repositories import commit, git

INTERVAL_S = 60.0
WARM_TURNS = 16
"""After so many intervals nothing counts as new any more."""

IDLE_TURNS = 24


@dataclass
class IdleTeam:
    """A team whose pull requests wait for CI, and when its worker sent which request."""

    team: Team
    clone: Path
    now_s: float = 0.0
    sent: list[tuple[float, str]] = field(default_factory=list)
    worker: ForgeWorker | None = None

    async def turns(self, count: int, *, parts: int = 1) -> None:
        """Let the worker look, several times in an interval."""
        assert self.worker is not None
        for _ in range(count * parts):
            self.now_s += INTERVAL_S / parts
            await self.worker.step()
            assert self.worker.state().trouble is None

    def most_in_a_window(self, since_s: float) -> int:
        """How many requests there were at most in any time as long as an interval."""
        times = [at_s for at_s, _ in self.sent if at_s > since_s]
        return max((sum(at <= each < at + INTERVAL_S for each in times) for at in times), default=0)

    async def note(self, request: httpx2.Request) -> None:
        """Note a request of the client."""
        self.sent.append((self.now_s, f"{request.method} {request.url.path}"))

    async def hand_in(self, task_id: str) -> str:
        """Let ann hand in a commit of its own."""
        task = await self.team.tasks.claim(task_id, by="ann", also=True)
        base = git(self.clone, "rev-parse", "main")
        git(self.clone, "checkout", "--quiet", "--detach", "main")
        lines = "".join(f"{task_id} {number}\n" for number in range(9))
        made = commit(self.clone, {f"done-{task_id}.txt": lines})
        git(self.clone, "checkout", "--quiet", "main")
        ref = task_ref("alpha", task_id, task.facts.attempt)
        git(self.clone, "update-ref", ref, made)
        work = HandIn(made, base, ref)
        await self.team.tasks.done(task_id, by="ann", attempt=task.facts.attempt, work=work)
        return made


async def idle_team(
    stage: ForgeStage, folder: Path, kind: str, *, pulls: int, api: str | None = None
) -> IdleTeam:
    """Return a team with so many open pull requests, each with reviews, after it became idle."""
    clone = folder / "clone"
    git(folder, "clone", "--quiet", stage.clone_url, str(clone))
    git(clone, "config", "user.name", "u")
    git(clone, "config", "user.email", "u@example.invalid")
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    await team.roster.join("ann", by=LEAD)
    gate = MergeSettings.new(repository=str(clone), target="main")
    await team.merges.configure(gate, by=LEAD, voice="human")
    page = stage.clone_url.removesuffix(".git")
    said = {"repository": page, "kind": kind, "api": api, "poll_s": INTERVAL_S}
    await team.forge.configure(ForgeSettings.new(**said), by=LEAD, voice="human")
    environ = {FORGE_TOKEN: stage.token("team")}
    connected = partial(connect, team=team, home=folder / "home", environ=environ)
    found = IdleTeam(team, clone)

    async def counted(settings: ForgeSettings) -> Connection:
        connection = await connected(settings)
        client: Any = connection.client
        inner = client._connection if kind == "github" else client._requests
        inner._http.event_hooks = {"request": [found.note], "response": []}
        return connection

    found.worker = ForgeWorker(team, counted, clock=lambda: found.now_s)
    for number in range(pulls):
        await stage.issue(f"Build part {number}")
    await found.turns(2)
    heads = [await found.hand_in(task.id) for task in (await team.tasks.list()).tasks]
    await found.turns(2)
    for head in heads:
        await stage.verdict(head, "test", "pending")
    for work in [task.facts.forge for task in (await team.tasks.list()).tasks]:
        assert work is not None
        assert work.pull is not None
        for line in (1, 2):
            note = LineNote(f"done-{(work.branch or '').rpartition('-')[2]}.txt", line, "Why?")
            await stage.review(work.pull, "commented", role="stranger", notes=[note])
        await stage.comment(work.pull, "Nice.", role="stranger")
    # What a forge works out by itself, such as whether it can be merged, is known after that.
    await found.turns(3)
    await anyio.sleep(6 if kind == "gitea" else 0)
    await found.turns(WARM_TURNS)
    return found


async def check_idle(
    stage: ForgeStage, folder: Path, kind: str, *, pulls: int, api: str | None = None
) -> None:
    """Each window costs one request for each pull request, and what is said is heard all the same.

    In turns of whole intervals, and with several looks in each.
    """
    found = await idle_team(stage, folder, kind, pulls=pulls, api=api)
    begun = found.now_s
    await found.turns(IDLE_TURNS)
    await found.turns(IDLE_TURNS // 4, parts=4)
    most = found.most_in_a_window(begun)
    assert most <= pulls, [row for row in found.sent if row[0] > begun]
    # A whole round reaches everything: nothing starves.
    since = [what for at_s, what in found.sent if at_s > begun]
    assert len(since) >= IDLE_TURNS * pulls // 2
    task = (await found.team.tasks.list()).tasks[-1]
    work = task.facts.forge
    assert work is not None
    await stage.comment(work.pull or 0, "@bullpen please say why.")
    await stage.verdict(work.head or "", "test", "success")
    for _ in range(12):
        await found.turns(1)
        if (await found.team.tasks.get(task.id)).status == "pending":
            return
    raise AssertionError("what was said was not heard")
