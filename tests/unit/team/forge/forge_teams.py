"""A team in memory whose issues and pull requests are on a forge, and what that forge shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bullpen.protocol.forge import ForgeSettings, ForgeWork
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Merge, Task
from bullpen.store.memory import MemoryStore
from bullpen.team.forge.choosing import IssueDraft, draft_of
from bullpen.team.forge.outbox_rules import Wish, push_of
from bullpen.team.forge.shown import (
    Comment,
    Issue,
    Person,
    PullRequest,
    Review,
    ReviewState,
    Thread,
    Verdict,
    VerdictState,
)
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams

NOW_MS = 1_794_696_431_000
LATER_MS = NOW_MS + 200_000
REPOSITORY = "forge.test/o/r"
BRANCH = "bullpen/crew/task-1"
ACCOUNT = "crew-bot"
SETTINGS = ForgeSettings.new(repository=f"https://{REPOSITORY}", kind="gitea")
ANN = Person("ann", trusted=True)
EVE = Person("eve", trusted=False)
BOT = Person(ACCOUNT, trusted=True)
HEAD, NEXT = "a" * 40, "b" * 40


def issue(number: int, title: str = "Fix it", body: str = "", **more: Any) -> Issue:
    said = {"author": ANN, "is_open": True, "url": "", "updated": "", **more}
    return Issue(number, title, body, **said)


def draft(number: int, *waits_for: int) -> IssueDraft:
    return draft_of(issue(number), REPOSITORY, waits_for=waits_for)


def comment(name: str, body: str, author: Person = ANN) -> Comment:
    return Comment(name, author, body, "", "2026-01-01T00:00:00Z")


def review(name: str, state: ReviewState, body: str = "", author: Person = ANN) -> Review:
    return Review(name, author, state, body, HEAD, "", f"2026-01-01T00:00:{int(name):02}Z")


def thread(name: str, *comments: Comment, resolved: bool = False) -> Thread:
    return Thread(name, "src/a.py", 3, resolved, comments)


def verdict(name: str, state: VerdictState, commit: str = HEAD, tail: str | None = None) -> Verdict:
    return Verdict(name, state, commit, "", "step", tail)


def pull(head: str = HEAD, **more: Any) -> PullRequest:
    said: dict[str, Any] = {
        "title": "", "body": "", "author": BOT, "url": "", "branch": BRANCH, "base": "main",
        "is_open": True, "merged": False, "mergeable": True, **more,
    }  # fmt: skip
    return PullRequest(number=12, head=head, **said)


def handed_in(commit: str = HEAD, **work: Any) -> Task:
    """A task whose work is pushed and has a pull request."""
    merge = Merge.new(
        state="queued", order=1, commit=commit, base="0" * 40, ref="refs/x", by="bob", attempt=1,
        at_ms=NOW_MS,
    )  # fmt: skip
    task = Task.new(id="1", subject="Fix it", description="", status="completed", owner="bob")
    known = ForgeWork.new(repository=REPOSITORY, issue=7)
    task = task.with_facts(attempt=1, merge=merge, forge=known)
    said = {"pull": 12, "branch": BRANCH, "head": commit, "attempt": 1, **work}
    push = {
        "kind": "push", "key": f"1:1:{commit}", "n": 1, "state": "done", "target": commit,
        "atMs": NOW_MS,
    }  # fmt: skip
    made = known.evolve(next=2, writes=[push], **said)
    return task.with_facts(forge=made)


async def team_on_forge(*, clock: Any = None, **settings: Any) -> Team:
    teams = Teams(MemoryStore(), **({} if clock is None else {"clock": clock}))
    await teams.create("crew")
    team = teams.open("crew")
    for name in ("bob", "kim"):
        await team.roster.join(name, by=LEAD)
    await team.forge.configure(SETTINGS.evolve(**settings), by=LEAD, voice="human")
    return team


async def hand_in(team: Team, task_id: str, commit: str, *, report: str | None = None) -> Task:
    """Bob completes a task with a commit."""
    task = await team.tasks.get(task_id)
    if task.status == "pending":
        await team.tasks.claim(task_id, by="bob", also=True)
    work = HandIn(commit, "0" * 40, "refs/x")
    return (await team.tasks.done(task_id, by="bob", report=report, work=work)).task


async def push(team: Team, task_id: str) -> Task:
    """The worker pushes what was handed in, and opens the pull request."""
    task = await team.tasks.get(task_id)
    merge = task.facts.merge
    assert merge is not None
    work = task.facts.forge or ForgeWork.new(repository=REPOSITORY)
    wish = push_of(work, merge.attempt, merge.commit)
    (write,) = await team.forge.begin(task_id, [wish])
    await team.forge.finish(task_id, write.n, there=BRANCH)
    (write,) = await team.forge.begin(task_id, [Wish("pull", "1", BRANCH)])
    return await team.forge.finish(task_id, write.n, there="12")


async def mail_of(team: Team, name: str) -> Sequence[str]:
    return [entry.message.text for entry in (await team.mailbox.read(name)).entries]


def forge_of(task: Task) -> ForgeWork:
    assert task.facts.forge is not None
    return task.facts.forge
