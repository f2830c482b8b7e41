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
from bullpen.protocol.team import MergeSettings
from bullpen.team.forge import heard_words
from bullpen.team.forge.heard_words import Word
from bullpen.team.forge.outbox_rules import next_due
from bullpen.team.forge.shown import Comment, PullRequest, Review, Thread, Verdict
from bullpen.team.forge.work_rules import (
    CI_NOT_DONE,
    CI_SILENT,
    NOT_OURS,
    NOT_TESTED,
    OF_CI,
    Heard,
    is_returnable,
    may_return,
    too_often,
    unheard,
)
from bullpen.team.tasks.check_rules import landing
from bullpen.team.tasks.merge_rules import must_pass, proven_on

FIRST_VERDICT_S = 120.0
"""How long CI has to say its first word about a pushed commit."""

SILENCE_S = 600.0
"""How long it has if a verdict is needed; then a person is asked."""

PATIENCE_S = 3_600.0
"""How long a running job is waited for: then what failed goes back alone, or a person is asked."""

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
    # The commit of the branch that it goes to, as far as it was read.
    target: str | None = None
    # Whether CI said something about other work, and which jobs did about other pull requests.
    ci: bool = False
    jobs: frozenset[str] = frozenset()


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
class GoOn:
    """CI has spoken, so no person has to look because of it: `team.forge.hold` without a reason."""


@dataclass(frozen=True, slots=True)
class Prove:
    """Our own checks have to pass on this commit of the target with the work, before its merge."""

    onto: str


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


Next: TypeAlias = Wait | GiveBack | AskPerson | GoOn | Prove | MergeNow | Settle
"""The one thing that is to be done about the work of a task now."""


def decide(
    task: Task,
    settings: ForgeSettings,
    seen: Seen,
    *,
    account: str,
    now_ms: int,
    merge: MergeSettings | None = None,
) -> Next:
    """Return what is to be done about the work of a task. `account` is that of the token.

    `merge` has the merge gate. Work that it applies to is merged only if `seen` has a target.
    """
    work = task.facts.forge
    if work is None or work.outcome is not None:
        return Wait("it is over")
    ended = over(task, work, seen)
    if ended is not None:
        return ended
    if landing(task) == "unchanged":
        return Wait("a person has to look: it was completed without a change")
    pull = seen.pull
    if pull is None:
        return Wait("there is no pull request yet")
    if work.person is not None:
        spoke = work.person in OF_CI and has_spoken(work, seen, merge, now_ms)
        return GoOn() if spoke else Wait("a person has to look")
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
    if said is not None:
        return said
    return _unready(work, settings, seen, pull, words) or _by_verdicts(
        task, work, seen, pull, merge, now_ms
    )


def over(task: Task, work: ForgeWork, seen: Seen) -> Settle | None:
    """Return how the work ended, if it did."""
    pull, handed_in = seen.pull, task.facts.merge
    if pull is not None and pull.merged and pull.number == work.pull:
        return Settle("merged", pull.merge_commit)
    if landing(task) in ("changed", "vouched"):
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


def has_spoken(work: ForgeWork, seen: Seen, merge: MergeSettings | None, now_ms: int) -> bool:
    """Return whether CI has said about the pushed commit what a person was asked for."""
    verdicts = _of_head(work, seen.verdicts)
    if any(each.state == "pending" for each in verdicts):
        return False
    failed = any(each.state == "failure" for each in verdicts)
    return failed or awaited(work, seen, merge, now_ms) is None


def _unready(
    work: ForgeWork,
    settings: ForgeSettings,
    seen: Seen,
    pull: PullRequest,
    words: Sequence[Word],
) -> Wait | None:
    """Return what is missing besides verdicts before the forge may merge; None if nothing is."""
    if settings.merge == "queue":
        return Wait("the merge queue merges it")
    due = next_due(work)
    if due is not None and due.kind != "merge":
        return Wait("something is still to be written")
    if any(word.asked.kind == "review" for word in words):
        return Wait("a reviewer has not approved the changes yet")
    if pull.draft:
        return Wait("its pull request is a draft")
    return None


def _by_verdicts(
    task: Task,
    work: ForgeWork,
    seen: Seen,
    pull: PullRequest,
    merge: MergeSettings | None,
    now_ms: int,
) -> Next:
    """Return whether the forge may merge, by what CI and our own checks say."""
    missing = awaited(work, seen, merge, now_ms)
    if missing is not None:
        return missing
    if pull.mergeable is None:
        return Wait("the forge does not know yet whether it can be merged")
    record = task.facts.merge
    if not must_pass(task, merge):
        return MergeNow(pull.head)
    if record is None or record.commit != pull.head:
        return AskPerson(NOT_OURS)
    if seen.target is not None and proven_on(task, merge) != seen.target:
        return Prove(seen.target)
    return MergeNow(pull.head)


def awaited(
    work: ForgeWork, seen: Seen, merge: MergeSettings | None, now_ms: int
) -> Wait | AskPerson | None:
    """Return what CI has still to say before the forge may merge; None if nothing is missing.

    Silence is no consent: without a merge gate a job has to pass, and CI that speaks about other
    work has to speak about this one. What the forge requires, the forge knows.
    """
    states = {each.name: each.state for each in _of_head(work, seen.verdicts)}
    waited_s = (now_ms - _pushed_ms(work)) / 1000
    begins = Wait("CI did not begin yet")
    if "pending" in states.values():
        return Wait("CI is not done") if waited_s < PATIENCE_S else AskPerson(CI_NOT_DONE)
    has_gate = merge is not None and bool(merge.gate)
    if "success" not in states.values() and not has_gate:
        return begins if waited_s < SILENCE_S else AskPerson(NOT_TESTED)
    if not states and waited_s < (SILENCE_S if seen.ci else FIRST_VERDICT_S):
        return begins
    if not states and seen.ci:
        return AskPerson(CI_SILENT)
    if seen.jobs - set(states) and waited_s < SILENCE_S:
        # A job may begin late. It may also have nothing to do with what was changed here.
        return begins
    return None
