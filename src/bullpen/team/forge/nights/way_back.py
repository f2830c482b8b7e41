"""Rules for what a forge says about the work of a night: who does what about it. Pure.

The work is on the target here, so it does not go back: what is asked for becomes tasks. Each goes
to the owner of the work that it is about, if that can be told, and otherwise to whoever is free.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bullpen.protocol.forge import ForgeAsked, ForgeNight, ForgeSettings
from bullpen.protocol.task import Check, Task
from bullpen.team.forge import heard_words, way_back
from bullpen.team.forge.heard_words import Word
from bullpen.team.forge.nights.rules import (
    TOO_MANY_WRITES,
    as_task,
    ticked_off,
    tip_of,
    waiting,
)
from bullpen.team.forge.outbox_rules import digest_of, is_full, next_due
from bullpen.team.forge.outside_words import one_line
from bullpen.team.forge.way_back import AskPerson, Seen, Settle, Wait

_WORD = re.compile(r"[\w./+-]{3,200}")
_TASK = re.compile(r"\btask #?(\d{1,9})\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w/])#(\d{1,9})\b")
_SUBJECT_MAX = 120


@dataclass(frozen=True, slots=True)
class Fix:
    """A task to be made of what a forge asks for. `of` is the task whose work it is about."""

    subject: str
    description: str
    asked: Sequence[ForgeAsked]
    # The digest of the job that each of these is about, by its words.
    jobs: Mapping[str, str]
    of: str | None = None
    owner: str | None = None
    checks: Sequence[Check] = ()


@dataclass(frozen=True, slots=True)
class AskFixes:
    """Tasks are made of what is asked for: `team.nights.ask`."""

    fixes: Sequence[Fix]
    # The commit that it is about.
    head: str | None


NightNext: TypeAlias = Wait | AskFixes | AskPerson | Settle
"""The one thing that is to be done about a night now."""


def decide(
    night: ForgeNight,
    tasks: Mapping[str, Task],
    settings: ForgeSettings,
    seen: Seen,
    *,
    files: Mapping[str, Collection[str]],
    account: str,
    now_ms: int,
) -> NightNext:
    """Return what is to be done about a night. `files` are those that each task changed."""
    work = night.work
    if work.outcome is not None:
        return Wait("it is over")
    ended = way_back.over(as_task(night), work, seen)
    if ended is not None:
        return ended
    pull = seen.pull
    if pull is None:
        return Wait("there is no pull request yet")
    if work.person is not None:
        return Wait("a person has to look")
    elsewhere = way_back.moved(work, settings, pull, now_ms)
    if isinstance(elsewhere, Wait | AskPerson):
        return elsewhere
    words = _words(night, tasks, settings, seen, account)
    known = set(work.heard)
    fresh = [word for word in words if word.asked.heard not in known]
    if fresh and way_back.waits_for_ci(work, seen, now_ms):
        return Wait("CI is not done")
    if fresh and is_full(work):
        return AskPerson(TOO_MANY_WRITES)
    if fresh:
        return AskFixes(fixes_for(night, fresh, tasks, files), work.head)
    if any(word.job is not None for word in words) and tip_of(night, tasks) == work.head:
        return AskPerson("CI still fails, and whoever was asked changed nothing")
    if pull.mergeable is False and not pull.draft:
        return AskPerson(f"it conflicts with {pull.base}: merge {pull.base} into it by hand")
    return Wait("a person merges it")


def _words(
    night: ForgeNight,
    tasks: Mapping[str, Task],
    settings: ForgeSettings,
    seen: Seen,
    account: str,
) -> list[Word]:
    """Return what counts. A job whose failure somebody works on is not asked for again."""
    work, pull = night.work, seen.pull
    if pull is None:
        return []
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
    to_push = {task.id for task in waiting(tasks.values(), [night])}
    at_work = {
        fix.job
        for fix in night.fixes
        if fix.job is not None
        and (fix.task in to_push or not ticked_off(night, tasks, [fix.asked.heard]))
    }
    return [word for word in words if word.job is None or job_digest(word.job) not in at_work]


def job_digest(name: str) -> str:
    """Return by what a job of CI is known again."""
    return digest_of("job", name)


def waits_for_verdicts(night: ForgeNight, seen: Seen, now_ms: int) -> bool:
    """Return whether a run goes on for this night: CI may still say something about its head."""
    work = night.work
    if work.outcome is not None or work.person is not None:
        return False
    if next_due(work) is not None:
        return True
    return work.pull is not None and way_back.awaits_verdict(work, seen, now_ms)


def fixes_for(
    night: ForgeNight,
    words: Sequence[Word],
    tasks: Mapping[str, Task],
    files: Mapping[str, Collection[str]],
) -> list[Fix]:
    """Return the tasks to make: one for all words about the work of the same task."""
    groups: dict[str | None, list[Word]] = {}
    for word in words:
        groups.setdefault(concerned(night, word, tasks, files), []).append(word)
    return [_fix(night, said, tasks.get(of or "")) for of, said in groups.items()]


def concerned(
    night: ForgeNight, word: Word, tasks: Mapping[str, Task], files: Mapping[str, Collection[str]]
) -> str | None:
    """Return the task whose work some words are about; None if that cannot be told.

    Of a thread on a line, that is the last task that changed the file. Otherwise it is the only
    one that the words name: by its number, its issue or its files.
    """
    mine = [id_ for id_ in night.tasks if id_ in tasks]
    if word.path is not None:
        changed = [id_ for id_ in mine if word.path in files.get(id_, ())]
        return changed[-1] if changed else None
    named = {id_ for id_ in _TASK.findall(word.said) if id_ in set(mine)}
    numbers = {int(number) for number in _NUMBER.findall(word.said)}
    named |= {
        id_
        for id_ in mine
        if (work := tasks[id_].facts.forge) is not None and work.issue in numbers
    }
    if not named:
        said = _WORD.findall(word.said)
        named = {id_ for id_ in mine if any(_is_named(path, said) for path in files.get(id_, ()))}
    return named.pop() if len(named) == 1 else None


def _is_named(path: str, said: Sequence[str]) -> bool:
    """Return whether a file is among words, whole or with folders before it."""
    return any(word.strip("./") == path or word.endswith(f"/{path}") for word in said)


def _fix(night: ForgeNight, words: Sequence[Word], of: Task | None) -> Fix:
    heard = heard_words.told(words, head=night.work.head)
    kinds = {word.asked.kind for word in words}
    what = "CI fails with" if kinds == {"verdict"} else "The review asks about"
    whose = f"night {night.n}" if of is None else one_line(of.subject, _SUBJECT_MAX)
    about = (
        "It cannot be told whose work that is."
        if of is None
        else f"It is about the work of task #{of.id}, which is merged here already."
    )
    said = (
        f"The forge says something about pull request #{night.work.pull}, which has the work of "
        f"night {night.n}. {about} Change what is needed and complete this task; if nothing is, "
        "say so in the report. Begin a line of your report with [1], [2] and so on to answer that "
        f"number.\n\n{heard.text}"
    )
    merge = None if of is None else of.facts.merge
    return Fix(
        f"{what}: {whose}",
        said,
        heard.asked,
        {word.asked.heard: job_digest(word.job) for word in words if word.job is not None},
        of=None if of is None else of.id,
        owner=None if merge is None else merge.by,
        checks=() if of is None else [check.stated for check in of.facts.checks],
    )
