"""Reads what a forge shows, within a budget, and does in the team's records what follows from it.

It writes nothing to the forge: a merge is only recorded as due.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from bullpen.errors import NotFound, Refused
from bullpen.protocol.clock import now_ms
from bullpen.protocol.forge import ForgeNight, ForgeSettings, ForgeWork
from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connection import Connection
from bullpen.runs.forge.contract import TryLater
from bullpen.runs.forge.landing.proofs import Proofs
from bullpen.runs.forge.landing.queue_landing import landed_by_queue
from bullpen.runs.forge.looking.issue_looks import IssueLooks
from bullpen.runs.forge.looking.poll_wheel import OF_ONE, RESERVE, Look, LookKind, PollWheel, Round
from bullpen.runs.forge.looking.request_budget import OutOfRequests
from bullpen.runs.forge.looking.seen_ci import SeenCi
from bullpen.team.forge import way_back
from bullpen.team.forge.nights import way_back as nights
from bullpen.team.forge.nights.rules import as_task, is_of_night, night_id
from bullpen.team.forge.nights.way_back import AskFixes
from bullpen.team.forge.operations import OnForge
from bullpen.team.forge.outbox_rules import Wish, write_of
from bullpen.team.forge.shown import Comment, PullRequest, Review, Thread, Verdict
from bullpen.team.forge.way_back import AskPerson, GiveBack, GoOn, MergeNow, Prove, Seen, Settle
from bullpen.team.tasks.merge_rules import must_pass
from bullpen.team.team import Team

_LOOK_S = 120.0
_SAID: tuple[LookKind, ...] = ("threads", "reviews", "comments")
"""What changes only together with the time of the last change of a pull request."""

_WHOLE_TURNS = 30
"""After how many intervals what was said is read again although nothing seems to be new."""


SAME_SECOND_S = 2.0
"""For how long something may be said without another time of the last change."""

_PATIENT_TURNS = 10
"""For how many intervals what was said waits for more that is being said."""


@dataclass(slots=True)
class _Shown:
    """What was read about one pull request, and for which head each part was read."""

    pull: PullRequest | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    heads: dict[LookKind, str | None] = field(default_factory=dict)
    # For each part: what the forge said of the last change when it was read, and when that was.
    stamps: dict[LookKind, tuple[str, float]] = field(default_factory=dict)
    # When the time of the last change was first seen.
    updated_s: float = math.inf
    # Since when its words wait to be heard together.
    unheard_s: float | None = None
    is_gone: bool = False

    def is_read(self, kind: LookKind) -> bool:
        """Return whether a part was read after the last change. Forges tell it to the second."""
        updated = "" if self.pull is None else self.pull.updated
        stamp, read_s = self.stamps.get(kind, ("", -math.inf))
        return stamp == updated and (updated == "" or read_s - self.updated_s >= SAME_SECOND_S)


class Looks:
    """What is known of a forge, and when to look again."""

    def __init__(
        self,
        team: Team,
        settings: ForgeSettings,
        connection: Connection,
        *,
        clock: Callable[[], float],
        tell: Callable[[str], None],
        returned: Callable[[], None] | None = None,
        proofs: Proofs | None = None,
    ) -> None:
        self._proofs = proofs or Proofs()
        self._merge: MergeSettings | None = None
        self.wheel = PollWheel(settings.poll_s)
        # This worker knows nothing yet.
        self.wheel.hint_all()
        self._team = team
        # Somebody may let a pull request go to another branch.
        self._settings = settings.evolve(target=connection.target)
        self._connection = connection
        self._client = connection.client
        self._clock = clock
        self._tell = tell
        self._returned = returned
        self._shown: dict[int, _Shown] = {}
        # Whether the forge was waited for, and until when it allows few requests.
        self._waited = False
        self._low_until_s: float | None = None
        self._issues = IssueLooks(
            team,
            settings,
            connection,
            clock=clock,
            tell=tell,
            returned=returned,
            interval_s=self.wheel.interval_s,
        )
        # Whether the last look kept words back until all that was said is read.
        self.holds_back = False
        self._ci = SeenCi(connection.client)
        # The files that the work of tasks changed, by its commit.
        self._changed: dict[tuple[str, str], frozenset[str]] = {}

    async def look(self) -> None:
        """Take the looks that are due, then do what follows for every task.

        Raises:
            TryLater: the forge cannot be used now.
        """
        self.holds_back = False
        self._merge = await self._team.merges.settings()
        tasks = _on_forge(await self._team.forge.now())
        left, now, numbers = self._left(), self._clock(), _open_pulls(tasks)
        for number in numbers:
            if number not in self._shown:
                # It is new, or this worker is: much may have happened.
                self._shown[number] = _Shown()
                self.wheel.stir(number, now)
        if await self._take_all(self.wheel.due(numbers, now, left=left), tasks):
            on = await self._team.forge.now()
            for task in on.tasks:
                await self._judge(task)
            for night in on.nights:
                await self._judge_night(night, on.every)

    async def _take_all(self, due: Round, tasks: Iterable[Task]) -> bool:
        """Take the looks of a round, as far as requests allow; return whether any was done."""
        done = False
        budget, used = self._client.budget, self._client.budget.used
        for look in due.wanted:
            if due.limit is not None and budget.used - used >= due.limit:
                return done
            budget.forget()
            await self._take_one(look, tasks)
            done = True
        most = due.most
        if due.limit is not None:
            most = min(most, due.limit - (budget.used - used))
        with budget.limited(most):
            for look in due.rest:
                if budget.left is not None and budget.left <= 0:
                    break
                if self._is_unchanged(look):
                    self.wheel.taken(look, self._clock())
                    continue
                if not self.wheel.goes_on_with(look):
                    budget.forget()
                try:
                    await self._take_one(look, tasks)
                except OutOfRequests:
                    self.wheel.unfinished(look)
                    break
                done = True
        return done

    async def _take_one(self, look: Look, tasks: Iterable[Task]) -> None:
        try:
            with anyio.fail_after(_LOOK_S), self._client.budget.one_read():
                await self._take(look, tasks)
        except OutOfRequests:
            raise
        except TryLater:
            # Whoever waited as long as the forge said finds what it said before out of date.
            self._waited = True
            self.wheel.taken(look, self._clock())
            raise
        except BaseException:
            self.wheel.taken(look, self._clock())
            raise
        self.wheel.taken(look, self._clock())

    def _is_unchanged(self, look: Look) -> bool:
        """Return whether the list of pull requests says that nothing was said there since.

        It does not say that a thread was resolved, so that everything is read now and then.
        """
        shown = self._shown.get(look.number)
        if look.kind not in _SAID or shown is None or shown.pull is None:
            return False
        now = self._clock()
        _, read_s = shown.stamps.get(look.kind, ("", -math.inf))
        is_old = now - read_s >= _WHOLE_TURNS * self.wheel.interval_s
        is_same = shown.pull.updated != "" and shown.is_read(look.kind)
        return is_same and not is_old and not self.wheel.is_hot(look.number, now)

    def _left(self) -> int | None:
        """Return how many requests the forge still allows; None if that is not known any more."""
        now, found = self._clock(), self._client.allowance()
        if self._waited or found.left is None or found.left > RESERVE:
            self._waited, self._low_until_s = False, None
            return None if found.left is not None and found.left <= RESERVE else found.left
        if self._low_until_s is None:
            wait_s = self.wheel.interval_s if found.resets_s is None else found.resets_s
            self._low_until_s = now + wait_s
        if now < self._low_until_s:
            return found.left
        self._low_until_s = None
        return None

    async def take_issues(self) -> None:
        """Make tasks of the issues that fit and have none."""
        await self._issues.take()

    async def _take(self, look: Look, tasks: Iterable[Task]) -> None:
        if look.kind == "issues":
            await self._issues.take()
        elif look.kind == "pulls":
            await self._read_pulls(tasks)
        else:
            await self._read_part(look.kind, look.number, tasks)

    async def _read_pulls(self, tasks: Iterable[Task]) -> None:
        found = {pull.number: pull for pull in await self._client.open_pulls()}
        for number in _open_pulls(tasks):
            shown = self._shown.setdefault(number, _Shown())
            before = shown.pull
            seen_s = self._clock()
            pull = found.get(number)
            if pull is None or (pull.mergeable is None and not _same(before, pull)):
                self._client.budget.lift()
                await self._read_pull(number, shown)
            else:
                mergeable = pull.mergeable
                if mergeable is None and before is not None:
                    mergeable = before.mergeable
                shown.pull = replace(pull, mergeable=mergeable)
            if shown.pull is not None and (before is None or before.updated != shown.pull.updated):
                shown.updated_s = seen_s
            is_new = before is not None and pull is not None and before.updated != pull.updated
            if is_new or (before is not None and not _same(before, shown.pull)):
                self.wheel.stir(number, self._clock())

    async def _read_pull(self, number: int, shown: _Shown) -> None:
        try:
            shown.pull = await self._client.pull(number)
        except NotFound:
            shown.pull, shown.is_gone = None, True

    async def _read_part(self, kind: LookKind, number: int, tasks: Iterable[Task]) -> None:
        found = (work for work in _works(tasks) if work.pull == number and work.night is None)
        head = next((work.head for work in found), None)
        shown = self._shown.setdefault(number, _Shown())
        # As it was before the read: what is said during it is read again.
        stamp, begun_s = "" if shown.pull is None else shown.pull.updated, self._clock()
        before = (shown.verdicts, shown.reviews, shown.threads, shown.comments)
        try:
            if kind == "verdicts":
                shown.verdicts = [] if head is None else await self._client.verdicts(head)
                self._ci.heard(shown.verdicts)
            elif kind == "reviews":
                shown.reviews = await self._client.reviews(number)
            elif kind == "threads":
                shown.threads = await self._client.threads(number)
            elif kind == "comments":
                shown.comments = await self._client.comments(number)
        except NotFound:
            # The list of pull requests tells what became of it.
            return
        after = (shown.verdicts, shown.reviews, shown.threads, shown.comments)
        is_first = kind not in shown.heads
        shown.heads[kind] = head
        shown.stamps[kind] = stamp, begun_s
        if after != before and not is_first:
            self.wheel.stir(number, self._clock())

    async def _judge(self, task: Task) -> None:
        """Do in the team's records what follows from what the forge shows of a task."""
        work = task.facts.forge
        if work is None or work.outcome is not None or landed_by_queue(task, self._settings):
            return
        if is_of_night(task, self._settings):
            return
        found = self._decided(task)
        if isinstance(found, MergeNow):
            found = await self._sure(task, found)
        if isinstance(found, Settle):
            if found.outcome == "merged":
                # Tasks that wait for this one begin from the target here.
                await self._bring_target()
            why = found.why
            await self._team.forge.settle(task.id, found.outcome, commit=found.commit, why=why)
        elif isinstance(found, GiveBack):
            # The owner begins from the newest target.
            await self._bring_target()
            await self._team.forge.give_back(task.id, found.heard)
            if self._returned is not None:
                self._returned()
        elif isinstance(found, AskPerson):
            await self._team.forge.hold(task.id, found.why, found.heard)
            self._tell(f"task #{task.id} needs you: {found.why}")
        elif isinstance(found, GoOn):
            await self._team.forge.hold(task.id, None)
        elif isinstance(found, Prove):
            await self._bring_target()
            self._proofs.before_merge(task.id, found.onto, self._clock())
        elif isinstance(found, MergeNow):
            await self._team.forge.begin(task.id, [Wish("merge", found.head, found.head)])

    def _decided(self, task: Task, target: str | None = None) -> way_back.Next | None:
        """Return what is to be done; None as long as too little was read to say so.

        `target` is the commit of the branch that it goes to, if it was just read.
        """
        work = task.facts.forge
        if work is None:
            return None
        shown = self._shown.get(work.pull or 0)
        if work.pull is not None and (shown is None or (shown.pull is None and not shown.is_gone)):
            return None
        is_open = None if work.issue is None else work.issue not in self._issues.closed
        seen = Seen(None, is_open)
        if shown is not None:
            said = (shown.verdicts, shown.reviews, shown.threads, shown.comments)
            seen = Seen(shown.pull, is_open, *said, target, *self._ci.known())
        found = way_back.decide(
            task,
            self._settings,
            seen,
            account=self._connection.login,
            now_ms=now_ms(),
            merge=self._merge,
        )
        parts = {} if shown is None else shown.heads
        if isinstance(found, MergeNow) and any(parts.get(kind) != work.head for kind in OF_ONE):
            return None
        if isinstance(found, GiveBack) and shown is not None and not self._is_heard_out(shown):
            self.holds_back = True
            return None
        return found

    def _is_heard_out(self, shown: _Shown) -> bool:
        """Return whether all that was said up to now was read: it goes back as one round of work.

        A budget can put one part of it off. Who never stops talking is not waited for forever.
        """
        now = self._clock()
        if all(map(shown.is_read, _SAID)):
            shown.unheard_s = None
            return True
        if shown.unheard_s is None:
            shown.unheard_s = now
        return now - shown.unheard_s >= _PATIENT_TURNS * self.wheel.interval_s

    async def _sure(self, task: Task, found: MergeNow) -> way_back.Next | None:
        """Read everything once more before a merge, unless it is on its way already."""
        work = task.facts.forge
        if work is None or work.pull is None:
            return None
        before = write_of(work, "merge", found.head)
        if before is not None and before.state != "dropped":
            return None
        if must_pass(task, self._merge) and not self._proofs.may_merge(task, self._clock()):
            return None
        with anyio.fail_after(_LOOK_S):
            for kind in OF_ONE:
                await self._read_part(kind, work.pull, [task])
            await self._read_pull(work.pull, self._shown[work.pull])
            if not must_pass(task, self._merge):
                return self._decided(task)
            target = await self._ci.target(self._connection.target)
        return None if target is None else self._decided(task, target)

    async def _judge_night(self, night: ForgeNight, tasks: Mapping[str, Task]) -> None:
        """Do in the team's records what follows from what the forge shows of a night."""
        seen = self._seen_of(night)
        if night.work.outcome is not None or seen is None:
            return
        files = {id_: await self._files(tasks[id_]) for id_ in night.tasks if id_ in tasks}
        found = nights.decide(
            night,
            tasks,
            self._settings,
            seen,
            files=files,
            account=self._connection.login,
            now_ms=now_ms(),
        )
        name = night_id(night)
        if isinstance(found, AskFixes) and not self._is_heard_out(
            self._shown[night.work.pull or 0]
        ):
            # `waits_for` keeps the run from ending with it.
            self.holds_back = True
            return
        if isinstance(found, AskPerson) and seen.pull and seen.pull.mergeable is False:
            # Our queue and the forge both went on: what git can merge needs no person.
            joined = await self._bring_target()
            if joined is not None and joined != night.work.head:
                if joined != night.joined:
                    await self._team.nights.join(night.n, joined)
                return
        if isinstance(found, Settle):
            await self._bring_target()
            await self._team.nights.settle(night.n, found.outcome, commit=found.commit)
            self._tell(f"{name} ended on the forge: {found.outcome.replace('_', ' ')}")
        elif isinstance(found, AskFixes):
            made = await self._team.nights.ask(night.n, found.fixes, head=found.head)
            for task in made:
                to = f" for {task.owner}" if task.owner else ""
                self._tell(f"{name}: the forge asks for task #{task.id}{to}: {task.subject}")
            if made and self._returned is not None:
                self._returned()
        elif isinstance(found, AskPerson):
            await self._team.nights.hold(night.n, found.why)
            self._tell(f"{name} needs you: {found.why}")

    def _seen_of(self, night: ForgeNight) -> Seen | None:
        """Return what the forge shows of a night; None as long as too little was read."""
        shown = self._shown.get(night.work.pull or 0)
        if shown is None or (shown.pull is None and not shown.is_gone):
            return None
        return Seen(shown.pull, None, shown.verdicts, shown.reviews, shown.threads, shown.comments)

    def waits_for(self, found: Iterable[ForgeNight]) -> bool:
        """Return whether there may soon be something to do about one of these nights.

        CI may say something, or what people said was not read yet.
        """
        for night in found:
            seen = self._seen_of(night) or Seen(None)
            if nights.waits_for_verdicts(night, seen, now_ms()):
                return True
            work = night.work
            is_open = work.outcome is None and work.person is None
            shown = self._shown.get(work.pull or 0) if is_open else None
            if shown is not None and not shown.is_gone and not self._is_heard_out(shown):
                return True
        return False

    async def _files(self, task: Task) -> frozenset[str]:
        """Return the files that the work of a task changed."""
        record = task.facts.merge
        key = task.id, "" if record is None else record.commit
        if key not in self._changed:
            look = partial(self._connection.files_of, task)
            self._changed[key] = await self._connection.blocking(look)
        return self._changed[key]

    async def _bring_target(self) -> str | None:
        """Move the target here to where the forge's is. What is in the way is told, and stays.

        Returns the commit here that has what is there too, of a team whose nights need it.
        """
        joined: str | None = None
        try:
            if self._settings.pull_request == "night":
                joined, why = await self._connection.blocking(self._connection.join_target)
            else:
                why = await self._connection.blocking(self._connection.bring_target)
        except Refused as refused:
            why = refused.message
        if why is not None:
            self._tell(f"your {self._connection.target} stays where it is: {why}")
        return joined


def _works(tasks: Iterable[Task]) -> list[ForgeWork]:
    return [work for task in tasks if (work := task.facts.forge) is not None]


def _on_forge(on: OnForge) -> list[Task]:
    """Return what has work on the forge: tasks, and the open nights in the form of tasks."""
    return [*on.tasks, *(as_task(night) for night in on.nights if night.work.outcome is None)]


def _open_pulls(tasks: Iterable[Task]) -> list[int]:
    """Return the pull requests of work that has not ended on the forge."""
    return [
        work.pull
        for work in _works(tasks)
        if work.pull is not None and work.outcome is None and work.night is None
    ]


def _same(before: PullRequest | None, after: PullRequest | None) -> bool:
    """Return whether nothing about a pull request has changed that matters."""
    if before is None or after is None:
        return before is after
    return (before.head, before.is_open, before.merged) == (after.head, after.is_open, after.merged)
