"""A forge in memory, and a worker that can be killed between any two steps; no clock or network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bullpen.protocol.forge import ForgeWrite
from bullpen.protocol.task import Task
from bullpen.team.forge.bodies import Made, answer_body, pull_body, state_comment
from bullpen.team.forge.markers import Mark, find
from bullpen.team.forge.outbox_rules import Wish, next_due, only_looked_for
from bullpen.team.forge.shown import Comment, Person, PullRequest, Review, Thread, Verdict
from bullpen.team.forge.way_back import (
    AskPerson,
    GiveBack,
    GoOn,
    MergeNow,
    Seen,
    Settle,
    decide,
)
from bullpen.team.forge.wishes import wishes_of
from bullpen.team.team import Team

from .forge_teams import ACCOUNT, ANN, BOT, BRANCH, REPOSITORY, SETTINGS, forge_of, pull

KEY = b"key of this home"


class Killed(Exception):
    """The worker was killed."""


@dataclass
class SimulatedForge:
    """What is on the forge, and every picture of it that a client could still deliver."""

    head: str | None = None
    pulls: list[PullRequest] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    on_issue: list[Comment] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    issue_open: bool = True
    closings: int = 0
    pictures: list[Seen] = field(default_factory=list)
    numbers: int = 0
    # The words of trusted people and verdicts, by the token in their text.
    tokens: dict[str, str] = field(default_factory=dict)

    def number(self) -> str:
        self.numbers += 1
        return str(self.numbers)

    def token(self, cause: str) -> str:
        token = f"word-{len(self.tokens):04}-"
        self.tokens[token] = cause
        return token

    def say(self, body: str, author: Person = ANN) -> Comment:
        return Comment(self.number(), author, body, "", "2026-01-01T00:00:00Z")

    @property
    def pull(self) -> PullRequest | None:
        return self.pulls[-1] if self.pulls else None

    def change_pull(self, **changes: object) -> None:
        self.pulls[-1] = replace(self.pulls[-1], **changes)  # type: ignore[arg-type]

    def now(self) -> Seen:
        """The picture as it is, which is kept: it may be delivered again much later."""
        seen = Seen(
            self.pull, self.issue_open, tuple(self.verdicts), tuple(self.reviews),
            tuple(self.threads), tuple(self.comments),
        )  # fmt: skip
        self.pictures.append(seen)
        return seen


class Worker:
    """Carries a task to the forge and its words back. All that it knows is in the store."""

    def __init__(self, team: Team, forge: SimulatedForge, now_ms: int, fuel: int | None) -> None:
        self._team, self._forge, self._now_ms, self._fuel = team, forge, now_ms, fuel

    def _tick(self) -> None:
        if self._fuel is not None:
            self._fuel -= 1
            if self._fuel < 0:
                raise Killed

    async def look(self, seen: Seen) -> None:
        """Act on a picture, whatever its age, then write what is due."""
        task = await self._team.tasks.get("1")
        found = decide(task, SETTINGS, seen, account=ACCOUNT, now_ms=self._now_ms)
        self._tick()
        match found:
            case GiveBack(heard):
                await self._team.forge.give_back("1", heard)
            case AskPerson(why, heard):
                await self._team.forge.hold("1", why, heard)
            case GoOn():
                await self._team.forge.hold("1", None)
            case MergeNow(head):
                await self._team.forge.begin("1", [Wish("merge", head, head)])
            case Settle(outcome, commit, why):
                await self._team.forge.settle("1", outcome, commit=commit, why=why)
        self._tick()
        await self.write()

    async def write(self) -> None:
        """Make every write that is due."""
        for _ in range(100):
            task = await self._team.tasks.get("1")
            await self._team.forge.begin("1", wishes_of(task, SETTINGS, BRANCH))
            self._tick()
            task = await self._team.tasks.get("1")
            due = next_due(forge_of(task))
            if due is None:
                return
            there = self._made(task, due)
            self._tick()
            if there is None:
                await self._team.forge.drop("1", due.n)
                return
            await self._team.forge.finish("1", due.n, there=there)
            self._tick()
        raise AssertionError("the worker never ends")

    def _made(self, task: Task, write: ForgeWrite) -> str | None:
        """Make one write, unless it is there. Returns its id; None if it is not to be made."""
        forge, work = self._forge, forge_of(task)
        mark = Mark(REPOSITORY, "crew", "1", write.kind, write.n)
        match write.kind:
            case "push":
                ours = {None, *(each.target for each in work.writes if each.kind == "push")}
                if forge.head not in ours:
                    return None
                forge.head = write.target
                if forge.pull is not None and forge.pull.is_open:
                    forge.change_pull(head=write.target)
                return BRANCH
            case "pull":
                texts = [(ACCOUNT, each.body, each.number) for each in forge.pulls]
                known = find(texts, mark, KEY, account=ACCOUNT)
                if known is None and only_looked_for(work, write):
                    return None
                if known is None:
                    assert forge.head is not None
                    known = 12 + len(forge.pulls)
                    body = pull_body(task, Made(), mark, KEY)
                    forge.pulls.append(replace(pull(forge.head), number=known, body=body))
                return str(known)
            case "reply":
                place = next(n for n, one in enumerate(forge.threads) if one.id == write.target)
                held = forge.threads[place]
                body = answer_body(write.text, by="bob", mark=mark, key=KEY)
                there, comments = self._said(held.comments, body, mark)
                forge.threads[place] = replace(held, comments=tuple(comments))
                return there
            case "answer":
                body = answer_body(write.text, by="bob", mark=mark, key=KEY)
                there, forge.comments = self._said(forge.comments, body, mark)
                return there
            case "state":
                body = state_comment(task, mark, KEY)
                there, forge.on_issue = self._said(forge.on_issue, body, mark)
                return there
            case _:
                return self._ended(write)

    def _said(self, on: Sequence[Comment], body: str, mark: Mark) -> tuple[str, list[Comment]]:
        """Return the comment with this mark, and all of them: it is written if it is not there."""
        texts = [(each.author.login, each.body, each.id) for each in on]
        there = find(texts, mark, KEY, account=ACCOUNT)
        if there is not None:
            return there, list(on)
        said = self._forge.say(body, BOT)
        return said.id, [*on, said]

    def _ended(self, write: ForgeWrite) -> str | None:
        forge = self._forge
        match write.kind:
            case "resolve":
                forge.threads = [
                    replace(one, resolved=True) if one.id == write.target else one
                    for one in forge.threads
                ]
            case "merge":
                red = [each.name for each in forge.verdicts
                       if each.commit == forge.head and each.state == "failure"]  # fmt: skip
                shown = forge.pull
                if shown is None or shown.merged or not shown.is_open or red:
                    return None
                if shown.head != write.target:
                    return None
                forge.change_pull(merged=True, is_open=False, merge_commit="c" * 40)
            case "close":
                forge.closings += forge.issue_open
                forge.issue_open = False
            case "close_pull":
                if forge.pull is not None:
                    forge.change_pull(is_open=False)
            case _:
                forge.head = None
        return "done"
