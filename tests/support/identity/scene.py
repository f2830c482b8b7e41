"""A fresh team for one row of the table: its members, and something of the owner to act on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.changes import Event
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.protocol.task import Check
from bullpen.protocol.team import Limits, Origin, TeamFacts
from bullpen.store.contract import Store
from bullpen.store.memory import MemoryStore
from bullpen.team.promises.rules import PromiseDraft
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams
from support.open_acts import open_to_agents

from .cast import CHILD, GUEST, OTHER_TEAM, OWNER, PARENT, RECEIVER, STRANGER, TEAM, TEAMMATE
from .cast import nonce_of as nonce_of

SPEC = AgentSpec.new(driver="scripted", backend="subprocess", cwd="/nowhere")
PLACE = ProcessRecord.new(backend="subprocess", host="here", pid=4711, start="47")
CHECK = Check.new(name="tests", kind="command", run="true")
STARTED_MS = 1_700_000_000_000

FACTS = TeamFacts.new(
    limits=Limits.new(depth=5).raw,
    origin=Origin.new(file="/team.toml", digest="d").raw,
    agents_may=["member.spawn"],
)


@dataclass
class Clock:
    """A clock that only a test moves."""

    now_ms: int = STARTED_MS
    step_ms: int = field(default=1)

    def __call__(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms


class RealClock(Clock):
    """The clock of this machine, for doors that look at it themselves."""

    def __call__(self) -> int:
        return now_ms()


@dataclass
class Scene:
    """A store with the team, as its operator sees it."""

    store: Store
    clock: Clock
    team_name: str = TEAM
    # Tasks of the owner: in progress, assigned, given up, in the merge queue; and a free one.
    owned: str = ""
    assigned: str = ""
    free: str = ""
    given_up: str = ""
    queued: str = ""
    on_forge: str = ""
    # Requests of the owner: to the lead, to a person, and one that was approved.
    asked: str = ""
    asked_person: str = ""
    approved: str = ""
    digest: str | None = None

    @property
    def teams(self) -> Teams:
        return Teams(self.store, clock=self.clock)

    @property
    def team(self) -> Team:
        return self.teams.open(self.team_name)

    async def log(self) -> list[Event]:
        """What was committed to the team so far."""
        return await self.store.events(self.team_name)


async def build(store: Store, clock: Clock, name: str = TEAM, *, lead_runs: bool = True) -> Scene:
    """Make the team. Nobody in it has sent a heartbeat."""
    scene = Scene(store, clock, name)
    await scene.teams.create(name, facts=FACTS, cwd="/nowhere")
    team = scene.team
    if lead_runs:
        await _spawn(team, LEAD, LEAD)
    for agent, parent in ((PARENT, LEAD), (OWNER, PARENT), (CHILD, OWNER), (TEAMMATE, LEAD)):
        await _spawn(team, agent, parent)
    for member in (GUEST, RECEIVER):
        await team.roster.join(member, by=LEAD)
    await open_to_agents(scene.teams.open(name))
    await _add_tasks(scene)
    await team.notes.write("goals", "Ship it.", over=0, by=LEAD)
    await _promise(scene)
    await _add_requests(scene)
    return scene


async def build_other(store: Store, clock: Clock, name: str = OTHER_TEAM) -> None:
    """Make another team with one agent."""
    teams = Teams(store, clock=clock)
    await teams.create(name, facts=FACTS)
    await _spawn(teams.open(name), STRANGER, LEAD)


async def fresh(store: Store, clock: Clock, *, lead_runs: bool = True) -> Scene:
    """Both teams in an empty store, as `build` and `build_other` make them, but faster."""
    if lead_runs not in _BUILT:
        source, ticking = MemoryStore(), Clock()
        scene = await build(source, ticking, lead_runs=lead_runs)
        await build_other(source, ticking)
        logs = {name: await source.events(name) for name in (TEAM, OTHER_TEAM)}
        _BUILT[lead_runs] = (scene, ticking.now_ms, logs)
    scene, clock.now_ms, logs = _BUILT[lead_runs]
    for name, events in logs.items():
        await store.restore(name, events)
    return replace(scene, store=store, clock=clock)


_BUILT: dict[bool, tuple[Scene, int, dict[str, list[Event]]]] = {}


async def _spawn(team: Team, name: str, parent: str) -> None:
    nonce, place = nonce_of(name), place_of(name)
    await team.agents.register(name, SPEC, by=parent, nonce=nonce)
    await team.agents.ready(name, nonce=nonce, place=place)


def place_of(name: str) -> ProcessRecord:
    """Where the agent of that name runs: in a process that is not there."""
    return PLACE.evolve(pid=4_100_000 + sum(name.encode()))


async def _promise(scene: Scene) -> None:
    """Let the owned task and the free one promise something, and the first rely on the second."""
    promises = scene.team.promises
    for task, by in ((scene.owned, OWNER), (scene.free, LEAD)):
        await promises.make(task, PromiseDraft("Only I edit it", "path", f"{by}.py"), by=by)
    await promises.rely(f"{scene.free}.1", scene.owned, by=OWNER)


async def _add_tasks(scene: Scene) -> None:
    tasks = scene.team.tasks
    subjects = ("owned", "assigned", "free", "given up", "queued")
    made = [await tasks.add(subject, by=LEAD) for subject in subjects]
    scene.owned, scene.assigned, scene.free, scene.given_up, scene.queued = (
        task.id for task in made
    )
    await tasks.claim(scene.queued, by=OWNER)
    await tasks.done(scene.queued, by=OWNER, work=HandIn("c" * 40, "b" * 40, "refs/x"))
    await tasks.claim(scene.owned, by=OWNER, lease_s=3600)
    await tasks.assign(scene.assigned, OWNER, by=LEAD)
    await tasks.give_up(scene.given_up, by=LEAD, reason="too hard")


async def _add_requests(scene: Scene) -> None:
    approvals = scene.team.approvals
    call = ("Bash", {"command": "ls"})
    scene.asked = (await approvals.ask_permission(*call, by=OWNER, deadline_s=3600)).id
    person = await approvals.ask_permission(*call, by=OWNER, approver="human", deadline_s=9000)
    scene.asked_person = person.id
    used = await approvals.ask_permission(*call, by=OWNER)
    await approvals.answer(used.id, approve=True, by=LEAD, voice="human")
    scene.approved, scene.digest = used.id, used.digest


def heartbeat(scene: Scene, name: str) -> Presence:
    """A heartbeat of a member."""
    now = scene.clock()
    return Presence.new(agent=name, since_ms=now, beat_ms=now, nonce=nonce_of(name))
