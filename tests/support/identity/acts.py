"""How each operation is performed: in whose name, and on what of the owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bullpen.protocol.agent import Spent
from bullpen.protocol.clock import iso
from bullpen.protocol.forge import ForgeAsked, ForgeSettings
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Control, ShutdownRequest
from bullpen.protocol.record.review import Review
from bullpen.protocol.task import Step
from bullpen.protocol.team import LeadLease, Limits, MergeSettings, Unattended
from bullpen.store.memory import MemoryStore
from bullpen.team.forge.choosing import IssueDraft
from bullpen.team.forge.nights.way_back import Fix
from bullpen.team.forge.outbox_rules import Wish
from bullpen.team.forge.work_rules import Heard
from bullpen.team.promises.rules import PromiseDraft
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams

from .cast import OWNER, RECEIVER, TEAMMATE, Actor, nonce_of
from .scene import CHECK, PLACE, SPEC, Scene, heartbeat

REVIEW = Review.new(
    check="review", asked="a", work="w", verdict="approve", by="codex", attempt=1, at_ms=1
)

SPENT = Spent.new(requests=1, input_tokens=9)

Prepare = Callable[[Scene, Actor], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Through:
    """A team as one identity reaches it through a door."""

    teams: Teams
    name: str

    @property
    def team(self) -> Team:
        return self.teams.open(self.name)


Perform = Callable[[Scene, Through, Actor], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Act:
    """One way to perform an operation. `quiet`: it commits nothing even when it is done."""

    run: Perform
    prepare: Prepare | None = None
    quiet: bool = False
    lead_runs: bool = True
    # Its preparation starts the actor's launch again.
    needs_launch: bool = False


def _stop(scene: Scene, sender: str) -> str:
    now = iso(scene.clock())
    return Control.new(action="stop", sender=sender, timestamp=now).text()


_FORGE = ForgeSettings.new(repository="https://forge.test/o/r", kind="gitea")
_NIGHTLY = _FORGE.evolve(merge="queue", pull_request="night")
_ISSUE = IssueDraft("forge.test/o/r", 7, "Fix it", "It is broken.", "ann", "")
_FIX = Fix("Answer it", "> Why?", (ForgeAsked.new(number=1, kind="comment", heard="c1"),), {})
_HEARD = Heard((ForgeAsked.new(number=1, kind="comment", heard="c1"),), "> Why?")


async def _on_forge(scene: Scene, who: Actor) -> object:
    (task,) = await scene.team.forge.take([_ISSUE])
    scene.on_forge = task.id
    await scene.team.tasks.claim(task.id, by=OWNER, also=True)
    await scene.team.tasks.done(task.id, by=OWNER, work=HandIn("e" * 40, "b" * 40, "refs/y"))
    return await scene.team.forge.begin(task.id, [Wish("pull", "pull")])


async def _held(scene: Scene, who: Actor) -> object:
    await _on_forge(scene, who)
    return await scene.team.forge.hold(scene.on_forge, "it moved")


async def _issue_closed(scene: Scene, who: Actor) -> object:
    await _on_forge(scene, who)
    return await scene.team.forge.settle(scene.on_forge, "issue_closed")


async def _landed(scene: Scene, who: Actor) -> object:
    await scene.team.forge.configure(_NIGHTLY, by=LEAD, voice="human")
    await scene.team.merges.about_to_land(
        {scene.queued: "d" * 40}, {scene.queued: 1}, {scene.queued: [_step(scene)]}
    )
    await scene.team.merges.landed({scene.queued: 1}, [_step(scene)], tell=False)
    return None


async def _night(scene: Scene, who: Actor) -> object:
    await _landed(scene, who)
    await scene.team.nights.gather()
    return await scene.team.nights.begin(1, [Wish("pull", "pull")])


async def _night_held(scene: Scene, who: Actor) -> object:
    await _night(scene, who)
    return await scene.team.nights.hold(1, "it moved")


async def _hear(scene: Scene, at: Through, who: Actor) -> object:
    now = iso(scene.clock())
    asked = ShutdownRequest.new(request_id="shutdown-1", sender=LEAD, timestamp=now)
    message = Message.new(sender=LEAD, text=asked.text(), timestamp=now, msg_id="m1", read=False)
    return await at.team.approvals.hear(message, to=who.name)


async def _later(scene: Scene, _: Actor) -> None:
    """Let the lease of the owned task and the deadline of the asked request pass."""
    scene.clock.now_ms += 7_200_000


async def _ended(scene: Scene, _: Actor) -> None:
    await scene.team.agents.end(OWNER, "stopped", by=LEAD, nonce=nonce_of(OWNER))


async def _about_to_start(scene: Scene, who: Actor) -> None:
    agents, nonce = scene.team.agents, who.nonce
    await agents.end(who.name, "stopped", by=LEAD, nonce=nonce)
    await agents.relaunch(who.name, by=LEAD, nonce=nonce)


async def _owner_starts(scene: Scene, _: Actor) -> None:
    agents, nonce = scene.team.agents, nonce_of(OWNER)
    await agents.end(OWNER, "stopped", by=LEAD, nonce=nonce)
    await agents.relaunch(OWNER, by=LEAD, nonce=nonce)


async def _mail(scene: Scene, who: Actor) -> None:
    sender = TEAMMATE if who.name == RECEIVER else RECEIVER
    await scene.team.mailbox.send(who.name, "Hello.", sender=sender, key="mail")


async def _mark(scene: Scene, at: Through, who: Actor) -> object:
    box = await scene.team.mailbox.read(who.name)
    return await at.team.mailbox.mark(who.name, [entry.id for entry in box.entries], "seen")


async def _finished(scene: Scene, _: Actor) -> None:
    await scene.team.agents.finish(by=LEAD, summary="Done.", override="Enough.")


async def _run_ended(scene: Scene, _: Actor) -> None:
    await scene.team.agents.end_run("done", None, by=LEAD)


async def _dependent(scene: Scene, _: Actor) -> None:
    await scene.team.tasks.depend(scene.free, scene.owned, by=LEAD)


async def _assigned(scene: Scene, who: Actor) -> None:
    await scene.team.tasks.assign(scene.free, who.name, by=LEAD)


async def _led(scene: Scene, _: Actor) -> None:
    await scene.team.agents.take_lead(_lease(scene), by=LEAD)


async def _merged(scene: Scene, _: Actor) -> None:
    await scene.team.merges.landed({scene.queued: 1}, [_step(scene)], tell=True)


def _lease(scene: Scene) -> LeadLease:
    return LeadLease.new(nonce="lease", until_ms=scene.clock() + 60_000)


def _step(scene: Scene) -> Step:
    return Step.new(at_ms=scene.clock(), what="tested", passed=True)


def _passed(scene: Scene) -> list[Any]:
    return [CHECK.evolve(passed=True, attempt=1, at_ms=scene.clock())]


def _draft(path: str) -> PromiseDraft:
    return PromiseDraft(f"Only I edit {path}", "path", path)


async def _checked(scene: Scene, _: Actor) -> None:
    await scene.team.tasks.restate(scene.owned, [CHECK], by=LEAD, voice="human")


ACTS: Mapping[str, Act] = {
    "teams.create": Act(lambda s, at, who: at.teams.create("gamma", by=who.name)),
    "teams.delete": Act(lambda s, at, who: at.teams.delete(at.name, by=who.name)),
    "teams.move": Act(
        lambda s, at, who: at.teams.move(at.name, MemoryStore(), to="elsewhere", by=who.name)
    ),
    "roster.join": Act(lambda s, at, who: at.team.roster.join("new", by=who.name)),
    "roster.remove": Act(lambda s, at, who: at.team.roster.remove(OWNER, by=who.name)),
    "mailbox.send": Act(
        lambda s, at, who: at.team.mailbox.send(RECEIVER, "Hello.", sender=who.name)
    ),
    "mailbox.send: an order to the owner": Act(
        lambda s, at, who: at.team.mailbox.send(OWNER, _stop(s, who.name), sender=who.name)
    ),
    "mailbox.broadcast": Act(lambda s, at, who: at.team.mailbox.broadcast("Hi.", sender=who.name)),
    "mailbox.broadcast: an order to all": Act(
        lambda s, at, who: at.team.mailbox.broadcast(_stop(s, who.name), sender=who.name)
    ),
    "mailbox.mark": Act(_mark, _mail),
    "tasks.add": Act(lambda s, at, who: at.team.tasks.add("New", by=who.name)),
    "tasks.add_many": Act(lambda s, at, who: at.team.tasks.add_many([Draft("New")], by=who.name)),
    "tasks.edit": Act(lambda s, at, who: at.team.tasks.edit(s.free, by=who.name, subject="Newer")),
    "notes.write": Act(lambda s, at, who: at.team.notes.write("plan", "Text", over=0, by=who.name)),
    "promises.make": Act(
        lambda s, at, who: at.team.promises.make(s.owned, _draft("c.py"), by=who.name)
    ),
    "promises.change": Act(
        lambda s, at, who: at.team.promises.change(f"{s.owned}.1", _draft("c.py"), by=who.name)
    ),
    "promises.withdraw": Act(
        lambda s, at, who: at.team.promises.withdraw(f"{s.owned}.1", by=who.name, reason="")
    ),
    "promises.rely": Act(
        lambda s, at, who: at.team.promises.rely(f"{s.free}.1", s.owned, by=who.name)
    ),
    "promises.drop": Act(
        lambda s, at, who: at.team.promises.drop(f"{s.free}.1", s.owned, by=who.name)
    ),
    "promises.judge": Act(
        lambda s, at, who: at.team.promises.judge(s.owned, {f"{s.owned}.1": "x"}, by=who.name)
    ),
    "tasks.claim": Act(lambda s, at, who: at.team.tasks.claim(s.free, by=who.name, also=True)),
    "tasks.claim_next": Act(lambda s, at, who: at.team.tasks.claim_next(by=who.name, also=True)),
    "tasks.done": Act(lambda s, at, who: at.team.tasks.done(s.owned, by=who.name, voice=who.voice)),
    "tasks.force": Act(
        lambda s, at, who: at.team.tasks.force(
            s.owned, by=who.name, voice=who.voice, reason="I looked."
        ),
        _checked,
    ),
    "tasks.release": Act(lambda s, at, who: at.team.tasks.release(s.owned, by=who.name)),
    "tasks.nudge": Act(
        lambda s, at, who: at.team.tasks.nudge(
            s.owned, by=who.name, attempt=1, times=0, why="idle", text="Go on."
        )
    ),
    "tasks.relieve": Act(
        lambda s, at, who: at.team.tasks.relieve(s.owned, by=who.name, reason="-")
    ),
    "tasks.give_up": Act(
        lambda s, at, who: at.team.tasks.give_up(s.owned, by=who.name, reason="-")
    ),
    "tasks.retry": Act(lambda s, at, who: at.team.tasks.retry(s.given_up, by=who.name)),
    "tasks.assign": Act(lambda s, at, who: at.team.tasks.assign(s.assigned, RECEIVER, by=who.name)),
    "tasks.depend": Act(lambda s, at, who: at.team.tasks.depend(s.free, s.owned, by=who.name)),
    "tasks.undepend": Act(
        lambda s, at, who: at.team.tasks.undepend(s.free, s.owned, by=who.name), _dependent
    ),
    "tasks.delete": Act(
        lambda s, at, who: at.team.tasks.delete(s.owned, by=who.name, voice=who.voice)
    ),
    "tasks.renew": Act(
        lambda s, at, who: at.team.tasks.renew(s.owned, by=who.name, attempt=1, lease_s=90)
    ),
    "tasks.rebudget": Act(
        lambda s, at, who: at.team.tasks.rebudget(s.owned, by=who.name, voice=who.voice, turns=3)
    ),
    "tasks.expire": Act(lambda s, at, who: at.team.tasks.expire(by=who.name), _later),
    "tasks.restate": Act(
        lambda s, at, who: at.team.tasks.restate(s.owned, [CHECK], by=who.name, voice=who.voice)
    ),
    "tasks.provable": Act(
        lambda s, at, who: at.team.tasks.provable(s.owned, by=who.name, voice=who.voice),
        quiet=True,
    ),
    "tasks.record_checks": Act(
        lambda s, at, who: at.team.tasks.record_checks(
            s.owned, _passed(s), by=who.name, voice=who.voice, attempt=1
        ),
        _checked,
    ),
    "reviews.record": Act(
        lambda s, at, who: at.team.reviews.record(s.owned, REVIEW, (), by=who.name, voice=who.voice)
    ),
    "approvals.ask_shutdown": Act(
        lambda s, at, who: at.team.approvals.ask_shutdown(RECEIVER, by=who.name)
    ),
    "approvals.ask_plan": Act(
        lambda s, at, who: at.team.approvals.ask_plan("# Plan", by=who.name, to=RECEIVER)
    ),
    "approvals.ask_permission": Act(
        lambda s, at, who: at.team.approvals.ask_permission("Bash", {}, by=who.name, to=RECEIVER)
    ),
    "approvals.ask_question": Act(
        lambda s, at, who: at.team.approvals.ask_question(
            [{"question": "Why?"}], by=who.name, to=RECEIVER
        )
    ),
    "approvals.answer": Act(
        lambda s, at, who: at.team.approvals.answer(
            s.asked, approve=True, by=who.name, voice=who.voice
        )
    ),
    "approvals.answer: what a person was asked": Act(
        lambda s, at, who: at.team.approvals.answer(
            s.asked_person, approve=True, by=who.name, voice=who.voice
        )
    ),
    "approvals.hear": Act(_hear, lead_runs=False),
    "approvals.redeem": Act(
        lambda s, at, who: at.team.approvals.redeem(s.approved, by=who.name, digest=s.digest)
    ),
    "approvals.withdraw": Act(
        lambda s, at, who: at.team.approvals.withdraw(s.asked, by=who.name, why="-")
    ),
    "approvals.expire": Act(lambda s, at, who: at.team.approvals.expire(), _later),
    "approvals.reschedule": Act(
        lambda s, at, who: at.team.approvals.reschedule({s.asked: 1}, by=who.name)
    ),
    "agents.register": Act(
        lambda s, at, who: at.team.agents.register("new", SPEC, by=who.name, nonce="n")
    ),
    "agents.register: in the place of a member": Act(
        lambda s, at, who: at.team.agents.register(
            RECEIVER, SPEC, by=who.name, nonce="n", in_place=True
        )
    ),
    "agents.relaunch": Act(
        lambda s, at, who: at.team.agents.relaunch(OWNER, by=who.name, nonce="n"), _ended
    ),
    "agents.withdraw": Act(
        lambda s, at, who: at.team.agents.withdraw(
            OWNER, by=who.name, nonce=nonce_of(OWNER), cause="-"
        )
    ),
    "agents.take_back": Act(
        lambda s, at, who: at.team.agents.take_back(
            OWNER, by=who.name, nonce=nonce_of(OWNER), instead="n-2"
        ),
        _owner_starts,
    ),
    "agents.waiting": Act(
        lambda s, at, who: at.team.agents.waiting(who.name, nonce=who.nonce),
        _about_to_start,
        quiet=True,
        needs_launch=True,
    ),
    "agents.placed": Act(
        lambda s, at, who: at.team.agents.placed(
            who.name, nonce=who.nonce, place=PLACE.evolve(pid=2)
        )
    ),
    "agents.ready": Act(
        lambda s, at, who: at.team.agents.ready(who.name, nonce=who.nonce, place=PLACE),
        _about_to_start,
        needs_launch=True,
    ),
    "agents.remind": Act(
        lambda s, at, who: at.team.agents.remind(
            who.name, [s.free], nonce=who.nonce, times=1, most=3
        ),
        _assigned,
    ),
    "agents.begin_turn": Act(
        lambda s, at, who: at.team.agents.begin_turn(who.name, nonce=who.nonce)
    ),
    "agents.spend": Act(
        lambda s, at, who: at.team.agents.spend(
            who.name, nonce=who.nonce, reports={1: SPENT}, task=None
        )
    ),
    "agents.end_turn": Act(
        lambda s, at, who: at.team.agents.end_turn(
            who.name, nonce=who.nonce, reports={1: SPENT}, idle=None
        )
    ),
    "agents.ending": Act(
        lambda s, at, who: at.team.agents.ending(
            OWNER, "stopped", by=who.name, nonce=nonce_of(OWNER), cause="-"
        )
    ),
    "agents.end": Act(
        lambda s, at, who: at.team.agents.end(OWNER, "stopped", by=who.name, nonce=nonce_of(OWNER))
    ),
    "agents.beat": Act(lambda s, at, who: at.team.agents.beat(heartbeat(s, who.name)), quiet=True),
    "agents.limit": Act(
        lambda s, at, who: at.team.agents.limit(by=who.name, voice=who.voice, turns=9)
    ),
    "agents.grant": Act(lambda s, at, who: at.team.agents.grant(by=who.name, turns=9)),
    "agents.rebudget": Act(
        lambda s, at, who: at.team.agents.rebudget(OWNER, by=who.name, voice=who.voice, turns=9)
    ),
    "modes.change": Act(
        lambda s, at, who: at.team.modes.change(OWNER, "plan", by=who.name, voice=who.voice)
    ),
    "agents.take_lead": Act(lambda s, at, who: at.team.agents.take_lead(_lease(s), by=who.name)),
    "agents.drop_lead": Act(
        lambda s, at, who: at.team.agents.drop_lead("lease", by=who.name), _led
    ),
    "agents.finish": Act(
        lambda s, at, who: at.team.agents.finish(by=who.name, summary="-", override="-")
    ),
    "agents.unfinish": Act(lambda s, at, who: at.team.agents.unfinish(by=who.name), _finished),
    "agents.converse": Act(lambda s, at, who: at.team.agents.converse(True, by=who.name)),
    "agents.begin_run": Act(lambda s, at, who: at.team.agents.begin_run(by=who.name), _run_ended),
    "agents.end_run": Act(lambda s, at, who: at.team.agents.end_run("done", None, by=who.name)),
    "merges.configure": Act(
        lambda s, at, who: at.team.merges.configure(
            MergeSettings.new(repository="/r", target="main"), by=who.name, voice=who.voice
        )
    ),
    "merges.note": Act(
        lambda s, at, who: at.team.merges.note({s.queued: [_step(s)]}, {s.queued: 1})
    ),
    "merges.about_to_land": Act(
        lambda s, at, who: at.team.merges.about_to_land(
            {s.queued: "d" * 40}, {s.queued: 1}, {s.queued: [_step(s)]}
        )
    ),
    "merges.landed": Act(
        lambda s, at, who: at.team.merges.landed({s.queued: 1}, [_step(s)], tell=False)
    ),
    "merges.told": Act(
        lambda s, at, who: at.team.merges.told([s.queued], _step(s), passed=True), _merged
    ),
    "merges.give_back": Act(
        lambda s, at, who: at.team.merges.give_back(s.queued, 1, "checks", "They fail.")
    ),
    "forge.configure": Act(
        lambda s, at, who: at.team.forge.configure(_FORGE, by=who.name, voice=who.voice)
    ),
    "forge.take": Act(lambda s, at, who: at.team.forge.take([_ISSUE])),
    "forge.begin": Act(
        lambda s, at, who: at.team.forge.begin(s.on_forge, [Wish("close", "merged")]), _on_forge
    ),
    "forge.finish": Act(
        lambda s, at, who: at.team.forge.finish(s.on_forge, 1, there="3"), _on_forge
    ),
    "forge.drop": Act(lambda s, at, who: at.team.forge.drop(s.on_forge, 1), _on_forge),
    "forge.label": Act(lambda s, at, who: at.team.forge.label(s.on_forge, "working"), _on_forge),
    "forge.give_back": Act(
        lambda s, at, who: at.team.forge.give_back(s.on_forge, _HEARD), _on_forge
    ),
    "forge.hold": Act(lambda s, at, who: at.team.forge.hold(s.on_forge, "it moved"), _on_forge),
    "forge.resume": Act(
        lambda s, at, who: at.team.forge.resume(s.on_forge, by=who.name, voice=who.voice),
        _held,
    ),
    "forge.reopen": Act(lambda s, at, who: at.team.forge.reopen(s.on_forge), _issue_closed),
    "forge.settle": Act(
        lambda s, at, who: at.team.forge.settle(s.on_forge, "issue_closed"), _on_forge
    ),
    "nights.gather": Act(lambda s, at, who: at.team.nights.gather(), _landed),
    "nights.begin": Act(lambda s, at, who: at.team.nights.begin(1, [Wish("push", "push")]), _night),
    "nights.finish": Act(lambda s, at, who: at.team.nights.finish(1, 1, there="3"), _night),
    "nights.drop": Act(lambda s, at, who: at.team.nights.drop(1, 1), _night),
    "nights.join": Act(lambda s, at, who: at.team.nights.join(1, "e" * 40), _night),
    "nights.ask": Act(lambda s, at, who: at.team.nights.ask(1, [_FIX], head=None), _night),
    "nights.hold": Act(lambda s, at, who: at.team.nights.hold(1, "it moved"), _night),
    "nights.resume": Act(
        lambda s, at, who: at.team.nights.resume(1, by=who.name, voice=who.voice), _night_held
    ),
    "nights.settle": Act(lambda s, at, who: at.team.nights.settle(1, "pull_closed"), _night),
    "origins.complete": Act(lambda s, at, who: at.team.origins.complete(by=who.name)),
    "origins.rebudget": Act(
        lambda s, at, who: at.team.origins.rebudget(Limits.new(turns=9), by=who.name)
    ),
    "origins.work_by": Act(
        lambda s, at, who: at.team.origins.work_by(Unattended.new(nudges=3), by=who.name)
    ),
    "origins.hush": Act(lambda s, at, who: at.team.origins.hush(s.clock(), by=who.name)),
    "plans.enter": Act(lambda s, at, who: at.team.plans.enter(who.name, nonce=who.nonce)),
    "plans.settle": Act(
        lambda s, at, who: at.team.plans.settle(who.name, nonce=who.nonce), quiet=True
    ),
}
"""Every operation, some in several ways: `part.method: what is special`."""
