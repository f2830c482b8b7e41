"""Rules for whom a ready task is meant, by its words and those of all members. Pure.

A task is meant for a member if it addresses it by name, or if its words match the name, role and
prompt of that member distinctly better than those of others. Words that all members share say
nothing. Every text is read only up to a length, so a long one costs no more than a short one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bullpen.protocol.task import Task
from bullpen.protocol.team import Member

SUBJECT_CHARS = 200
DESCRIPTION_CHARS = 600
"""How much of a task's description is read."""

LENS_CHARS = 240
"""How much of a member's prompt and instructions is read: their beginning says what it is for."""

_CLEAR = 3
"""The least that a clear match is worth: one word of the subject."""

# What a word is worth, by where it was found: in a name or role, or only in a prompt; in the
# subject of the task, or only in its description. A prompt mentions many things, so a word from it
# counts only in the subject by itself.
_WORTH = {("role", True): 4, ("role", False): 2, ("prompt", True): 3, ("prompt", False): 1}

_SHORT_FORMS = {
    "auth": "authentication",
    "db": "database",
    "doc": "documentation",
    "infra": "infrastructure",
    "ops": "operations",
    "perf": "performance",
    "sec": "security",
}

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_NAME = re.compile(r"[\w.-]*\w")
_HEAD = re.compile(r"\s*[@(\[]*\s*([\w.-]*\w)\s*[\])]*\s*(?:[:,>–—]|-\s)")
_ASIDE = re.compile(r"[\[(]\s*@?([\w.-]*\w)\s*[\])]")
_AT = re.compile(r"(?<!\w)@([\w.-]*\w)")
_ASSIGNED = re.compile(r"\b(?:owner|assignee|assigned?\s+to)\s*:?\s*@?([\w.-]*\w)", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?;\n。！？]+")


@lru_cache(maxsize=8192)
def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text, each once: in small letters, without a plural s.

    Languages without spaces are read as pairs of characters.
    """
    found: dict[str, None] = {}
    for run in _WORD.findall(text.casefold()):
        for piece in _CJK.findall(run):
            found |= dict.fromkeys(piece[n : n + 2] for n in range(max(1, len(piece) - 1)))
        for word in _CJK.sub(" ", run).split():
            plain = word[:-1] if len(word) > 3 and word.endswith("s") else word
            if len(plain) > 1:
                found[_SHORT_FORMS.get(plain, plain)] = None
    return tuple(found)


# Words of a role that say nothing about what it is for.
_NO_ROLE = frozenset(_words("agent assistant bot general lead member purpose teammate worker"))

# Words that are in prompts for any purpose.
_NO_LENS = frozenset(
    _words(
        "about above across after again against agent alone also always another answer anything "
        "are because been before begin being best both build call change check claim code "
        "complete could create does done down each else end ensure every everything file find "
        "finish first fix for from good great have help here how implement into issue just keep "
        "know lead line list look main make many member message module more most much must need "
        "never new next nothing now once one only open other over part please problem project "
        "prompt read ready report result same send short should show simple some start stop "
        "such sure task team teammate tell than that the their them then there these they thing "
        "this those three through time tool try turn two under update use using very wait want "
        "well were what when where which while who whole will with without word work would "
        "write you your yourself"
    )
)

# Before a name, these say that it is only mentioned.
_MENTIONED_AFTER = frozenset(
    _words("ask asked by from inform like notify see than thank to told tell via with")
)
# Before a word, these say that it is a thing and not a person: "the cache" is no mention of cache.
_ARTICLES = frozenset(_words("an our the their this your"))
# After a name, these say so.
_MENTIONED_BEFORE = frozenset(
    _words("asked found knows made reported said says suggested told wrote")
)


@dataclass(frozen=True, slots=True)
class MeantFor:
    """The members that a task is meant for, and why, in words for people."""

    names: frozenset[str]
    why: str


class Lenses:
    """What each of some members is for, to compare tasks with."""

    def __init__(self, members: Sequence[Member], tasks: Iterable[Task] = ()) -> None:
        """`tasks` are the open ones: a word of a prompt that most of them have says nothing."""
        self._names = {member.name.casefold(): member.name for member in members}
        self._members = len(members)
        # Where each word was found, and whose it is, by the first letters of the word.
        self._words: dict[str, dict[str, tuple[str, set[str]]]] = {}
        if self._members > 1:
            for member in members:
                self._take(member)
            subjects = [_words(task.subject[:SUBJECT_CHARS]) for task in tasks]
            self._common = _common(subjects)

    def _take(self, member: Member) -> None:
        agent = member.agent
        role = None if agent is None else agent.spec.role
        strong = _words(f"{member.name} {role or ''} {member.agent_type or ''}")
        texts = (
            () if agent is None else (agent.spec.prompt or member.prompt, agent.spec.instructions)
        )
        weak = [word for text in texts if text for word in self._own_words(text, member.name)]
        for word in strong:
            if word not in _NO_ROLE and not word.isdigit():
                self._add(word, "role", member.name)
        for word in weak:
            if (len(word) > 3 or not word.isascii()) and word not in _NO_LENS:
                self._add(word, "prompt", member.name)

    def _own_words(self, text: str, name: str) -> Iterator[str]:
        """The words at the beginning of a prompt, without sentences about other members."""
        for sentence in _SENTENCE.split(text[:LENS_CHARS]):
            named = {self._names.get(word.casefold()) for word in _NAME.findall(sentence)}
            if not named - {None, name}:
                yield from _words(sentence)

    def _add(self, word: str, where: str, name: str) -> None:
        row = self._words.setdefault(word[:4], {})
        found, names = row.get(word, (where, set()))
        if found == where:
            row[word] = (where, {*names, name})
        elif where == "role":
            # What a name or a role says counts for more than a mention in a prompt.
            row[word] = (where, {name})

    def meant_for(self, task: Task) -> MeantFor | None:
        """Return whom a task is clearly meant for; None if for nobody in particular."""
        if self._members < 2:
            return None
        subject, text = task.subject[:SUBJECT_CHARS], task.description[:DESCRIPTION_CHARS]
        addressed = self._addressed(subject, text)
        if addressed:
            return self._unless_all(addressed, "it addresses " + " and ".join(sorted(addressed)))
        points, matched = self._points(subject, text)
        best = max(points.values(), default=0)
        if best < _CLEAR:
            return None
        names = frozenset(name for name, score in points.items() if 2 * score > best)
        said = ", ".join(sorted({word for name in names for word in matched[name]}))
        return self._unless_all(names, f"its words match: {said}")

    def _unless_all(self, names: frozenset[str], why: str) -> MeantFor | None:
        return MeantFor(names, why) if len(names) < self._members else None

    def _addressed(self, subject: str, text: str) -> frozenset[str]:
        head = _HEAD.match(subject)
        found = [head[1]] if head else []
        found += [*_ASIDE.findall(subject), *_ASSIGNED.findall(f"{subject}\n{text}")]
        found += [each[1] for each in _AT.finditer(subject) if not _mentions(subject, each)]
        names = (self._names.get(each.casefold()) for each in found)
        return frozenset(name for name in names if name is not None)

    def _points(self, subject: str, text: str) -> tuple[Counter[str], dict[str, set[str]]]:
        """Return what each member's matches are worth, and the words that matched."""
        points: Counter[str] = Counter()
        matched: dict[str, set[str]] = {}
        seen: set[str] = set()
        for in_subject, words in (
            (True, self._without_mentions(subject)),
            (False, self._without_mentions(text)),
        ):
            for word in words:
                for lens, (where, names) in self._matching(word):
                    says_nothing = where == "prompt" and word in self._common
                    if lens in seen or says_nothing or len(names) == self._members:
                        continue
                    seen.add(lens)
                    for name in names:
                        points[name] += _WORTH[where, in_subject]
                        matched.setdefault(name, set()).add(word)
        return points, matched

    def _matching(self, word: str) -> list[tuple[str, tuple[str, set[str]]]]:
        row = self._words.get(word[:4])
        if row is None:
            return []
        return [(lens, found) for lens, found in row.items() if _same(word, lens)]

    def _without_mentions(self, text: str) -> list[str]:
        """The words of a text, without names of members that it only mentions."""
        named = [m for m in _NAME.finditer(text) if m[0].casefold() in self._names]
        if not named:
            return list(_words(text))
        kept, at = [], 0
        for match in named:
            if _mentions(text, match):
                kept.append(text[at : match.start()])
                at = match.end()
        return list(_words(" ".join([*kept, text[at:]])))


def _mentions(text: str, name: re.Match[str]) -> bool:
    """Return whether a name is only mentioned, such as in "the bug that alice found"."""
    after = text[name.end() : name.end() + 40]
    if after[:2].casefold() in ("'s", "’s"):
        return True
    before = _WORD.findall(text[max(0, name.start() - 40) : name.start()])
    if before and _is_in(before[-1], _ARTICLES):
        return False
    follows = _WORD.match(after.lstrip()) if after[:1].isspace() else None
    return (bool(before) and _is_in(before[-1], _MENTIONED_AFTER)) or (
        follows is not None and _is_in(follows[0], _MENTIONED_BEFORE)
    )


def _is_in(word: str, words: frozenset[str]) -> bool:
    return not words.isdisjoint(_words(word))


def _same(one: str, other: str) -> bool:
    """Return whether two words have the same stem: test and testing, secure and security."""
    if one == other:
        return True
    short = min(len(one), len(other))
    if short < 4 or not (one.isalpha() and other.isalpha()):
        return False
    shared = 4
    while shared < short and one[shared] == other[shared]:
        shared += 1
    return 4 * shared >= 3 * short and shared >= 4


def _common(subjects: Sequence[tuple[str, ...]]) -> frozenset[str]:
    """Return the words that are in most of several subjects."""
    counts = Counter(word for words in subjects for word in words)
    return frozenset(
        word for word, times in counts.items() if times > 1 and 2 * times > len(subjects)
    )


def lenses(members: Iterable[Member], tasks: Mapping[str, Task]) -> Lenses:
    """Return what the members that the runner hands tasks to are for: living, and not the lead."""
    takers = [
        member
        for member in members
        if not member.is_lead
        and member.agent is not None
        and member.agent.phase != "ended"
        and member.agent.spec.claims
    ]
    return Lenses(takers, [task for task in tasks.values() if task.status != "completed"])
