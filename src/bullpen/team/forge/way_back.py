"""Rules for what a forge says about work: what is to be done about it now. Pure.

Everything is judged as one picture, however late or often parts of it came. What was acted on
before is in the record of the work, so that the same words never count twice; verdicts count for
the pushed commit only; and only the words of trusted people count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bullpen.protocol.forge import ForgeOutcome, ForgeSettings, ForgeWork
from bullpen.protocol.task import Task
from bullpen.team.forge import heard_words
from bullpen.team.forge.heard_words import Word
from bullpen.team.forge.outbox_rules import next_due
from bullpen.team.forge.shown import Comment, PullRequest, Review, Thread, Verdict
from bullpen.team.forge.work_rules import Heard, is_returnable, may_return, too_often, unheard
from bullpen.team.tasks.check_rules import is_done

FIRST_VERDICT_S = 120.0
"""How long CI has to say its first word about a pushed commit."""

PATIENCE_S = 3_600.0
"""How long other verdicts are waited for before those that failed go back alone."""

STALE_S = 600.0
"""How long the forge may show a commit that was pushed earlier as the head."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the forge shows of the work of a task. `pull` is None if it shows no such one."""

    pull: PullRequest | None
    # Whether its issue is open; None if it has none, or nobody looked.
    issue_open: bool | None = None
    verdicts: Sequence[Verdict] = ()
    reviews: Sequence[Review] = ()
    threads: Sequence[Thread] = ()
    comments: Sequence[Comment] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be done now, because of this."""

    why: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The work goes back to its owner with these words: `team.forge.give_back`."""

    heard: Heard


@dataclass(frozen=True, slots=True)
class AskPerson:
    """A person has to look: `team.forge.hold`."""

    why: str
    heard: Heard | None = None


@dataclass(frozen=True, slots=True)
class MergeNow:
    """The forge may merge this head: a write of kind `merge` with this key."""

    head: str


@dataclass(frozen=True, slots=True)
class Settle:
    """The work ended on the forge: `team.forge.settle`."""

    outcome: ForgeOutcome
    commit: str | None = None
    why: str | None = None


Next: TypeAlias = Wait | GiveBack | AskPerson | MergeNow | Settle
"""The one thing that is to be done about the work of a task now."""


def decide(task: Task, settings: ForgeSettings, seen: Seen, *, account: str, now_ms: int) -> Next:
    """Return what is to be done about the work of a task. `account` is that of the token."""
    work = task.facts.forge
    if work is None or work.outcome is not None:
        return Wait("it is over")
    ended = over(task, work, seen)
    if ended is not None:
        return ended
    pull = seen.pull
    if pull is None:
        return Wait("there is no pull request yet")
    if work.person is not None:
        return Wait("a person has to look")
    elsewhere = moved(work, settings, pull, now_ms)
    if elsewhere is not None:
        return elsewhere
    if not is_returnable(task):
        return Wait("its owner works on it")
    handed_in = task.facts.merge
    if handed_in is not None and work.attempt not in (None, handed_in.attempt):
        return Wait("its new work is not pushed yet")
    words = heard_words.words_of(
        work,
        settings,
        pull,
        verdicts=[each for each in seen.verdicts if each.commit == work.head],
        reviews=seen.reviews,
        threads=seen.threads,
        comments=seen.comments,
        account=account,
    )
    said = _said(task, work, settings, words, seen, now_ms)
    return said if said is not None else _merge(work, settings, seen, pull, words, now_ms)


def over(task: Task, work: ForgeWork, seen: Seen) -> Settle | None:
    """Return how the work ended, if it did."""
    pull, handed_in = seen.pull, task.facts.merge
    if pull is not None and pull.merged and pull.number == work.pull:
        return Settle("merged", pull.merge_commit)
    if is_done(task):
        return Settle("merged", None if handed_in is None else handed_in.landed)
    if seen.issue_open is False and work.issue is not None:
        return Settle("issue_closed", why=f"issue #{work.issue} was closed")
    if work.pull is None:
        return None
    if pull is None:
        return Settle("gone")
    if not pull.is_open and pull.number == work.pull:
        return Settle("pull_closed", why=f"pull request #{work.pull} was closed without a merge")
    return None


def moved(work: ForgeWork, settings: ForgeSettings, pull: PullRequest, now_ms: int) -> Next | None:
    """Return what is to be done if the branch is not as it was pushed."""
    if pull.number != work.pull:
        return Wait("another pull request was shown")
    if work.branch is not None and pull.branch != work.branch:
        return AskPerson("its branch has another name on the forge")
    if settings.target is not None and pull.base != settings.target:
        return AskPerson("its pull request goes to another branch")
    if pull.head == work.head:
        return None
    pushed = {each.target for each in work.writes if each.kind == "push"}
    if pull.head in pushed and now_ms - _pushed_ms(work) < STALE_S * 1000:
        return Wait("the forge does not show the pushed commit yet")
    return AskPerson("others pushed to its branch")


def _said(
    task: Task,
    work: ForgeWork,
    settings: ForgeSettings,
    words: Sequence[Word],
    seen: Seen,
    now_ms: int,
) -> Next | None:
    """Return what is to be done about words that were not acted on before, if there are any."""
    fresh = [word for word in words if word.asked.heard not in set(work.heard)]
    if not fresh:
        again = [word for word in words if word.asked.kind in ("verdict", "conflict")]
        if again:
            return AskPerson("its new work has the same commit, which CI or a conflict fails")
        return None
    if waits_for_ci(work, seen, now_ms):
        return Wait("CI is not done")
    heard = heard_words.told(fresh, head=work.head)
    fitting = unheard(work, heard)
    if not fitting:
        return Wait("it was acted on before")
    if not _is_own_head(work):
        return AskPerson("the forge asks for changes to what others pushed", heard)
    if not may_return(task, work, fitting, settings.rounds):
        return AskPerson(too_often(work), heard)
    return GiveBack(heard)


def _is_own_head(work: ForgeWork) -> bool:
    return any(each.kind == "push" and each.target == work.head for each in work.writes)


def waits_for_ci(work: ForgeWork, seen: Seen, now_ms: int) -> bool:
    """Return whether jobs of CI are still running, and it is worth waiting for them."""
    running = any(each.state == "pending" for each in _of_head(work, seen.verdicts))
    return running and now_ms - _pushed_ms(work) < PATIENCE_S * 1000


def awaits_verdict(work: ForgeWork, seen: Seen, now_ms: int) -> bool:
    """Return whether CI did not say its last word about the pushed commit, and may soon."""
    if not _of_head(work, seen.verdicts):
        return now_ms - _pushed_ms(work) < FIRST_VERDICT_S * 1000
    return waits_for_ci(work, seen, now_ms)


def _of_head(work: ForgeWork, verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [each for each in verdicts if each.commit == work.head]


def _pushed_ms(work: ForgeWork) -> int:
    times = [each.at_ms for each in work.writes if each.kind == "push" and each.state == "done"]
    return max(times, default=0)


def _merge(
    work: ForgeWork,
    settings: ForgeSettings,
    seen: Seen,
    pull: PullRequest,
    words: Sequence[Word],
    now_ms: int,
) -> Next:
    """Return whether the forge may merge now, and what is missing if not."""
    if settings.merge == "queue":
        return Wait("the merge queue merges it")
    due = next_due(work)
    if due is not None and due.kind != "merge":
        return Wait("something is still to be written")
    verdicts = _of_head(work, seen.verdicts)
    if any(each.state == "pending" for each in verdicts):
        return Wait("CI is not done")
    if not verdicts and now_ms - _pushed_ms(work) < FIRST_VERDICT_S * 1000:
        return Wait("CI did not begin yet")
    if any(word.asked.kind == "review" for word in words):
        return Wait("a reviewer has not approved the changes yet")
    if pull.draft:
        return Wait("its pull request is a draft")
    if pull.mergeable is None:
        return Wait("the forge does not know yet whether it can be merged")
    return MergeNow(pull.head)
