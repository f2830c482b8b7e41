"""What a posted review says on a forge, and which of its comments stand on lines. Pure.

The words of the reviewer are quotations, as in everything else that Bullpen writes there. A forge
takes comments only on lines that its difference shows; all others are in the text of the review.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bullpen.protocol.record.review import VERDICTS, Comment, Verdict
from bullpen.protocol.task import Check
from bullpen.team.forge.bodies import bounded
from bullpen.team.forge.markers import Mark, find, marked
from bullpen.team.forge.outbox_rules import digest_of
from bullpen.team.forge.outside_words import inline, quoted
from bullpen.team.forge.shown import LineRemark, Review
from bullpen.team.tasks.reviews.verdict import TEXT_CHARS_MAX, Words

LINES_MAX = 30
"""How many comments stand on lines. Each notifies people."""

_TEAM = "review"
_NAME_MAX = 100
_PLACE_MAX = 300
_SAYS: Mapping[Verdict, str] = {
    "approve": "**It would approve this change.**",
    "change": "**It asks for changes.**",
    "veto": "**It objects: this must not be merged unless a person decides otherwise.**",
}
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class ReviewText:
    """A review as it is posted: its text, and its comments on lines."""

    body: str
    comments: tuple[LineRemark, ...]


@dataclass(frozen=True, slots=True)
class ReviewOf:
    """Which review it is: of the head of a pull request, by a reviewer that was asked something."""

    # HOST/OWNER/NAME
    repository: str
    number: int
    head: str
    check: Check

    def mark(self, verdict: Verdict | None) -> Mark:
        """Return the mark of this review. The verdict is in it, to be read again.

        Its comments on lines have the mark without a verdict.
        """
        check, n = self.check, 0 if verdict is None else 1 + VERDICTS.index(verdict)
        asked = digest_of(check.by, check.model, check.run, check.rubric)[:12]
        task = f"{self.number}.{self.head}.{asked}"
        return Mark(self.repository, _TEAM, task, "review", 1 + n)


def posted(
    reviews: Sequence[Review], which: ReviewOf, key: bytes, *, account: str
) -> tuple[Review, Verdict] | None:
    """Return the review that was posted before, with its verdict."""
    texts = [(each.author.login, each.body, each) for each in reviews]
    for verdict in VERDICTS:
        review = find(texts, which.mark(verdict), key, account=account)
        if review is not None:
            return review, verdict
    return None


def review_text(
    words: Words,
    which: ReviewOf,
    key: bytes,
    *,
    shown: Mapping[str, frozenset[int]],
    clean: Callable[[str], str],
) -> ReviewText:
    """Return what is posted. `shown` are the lines of the forge's difference, by file.

    `clean` removes secrets. It gets the words before anything in them is escaped.
    """
    mark = which.mark(words.verdict)
    on_lines: list[LineRemark] = []
    others: list[str] = []
    for comment in words.comments:
        text, at = clean(comment.text), placed(comment, shown)
        if at is None or len(on_lines) == LINES_MAX:
            others += [_other(comment, clean), quoted(text, TEXT_CHARS_MAX)]
        else:
            body = f"An agent that reviewed this says:\n\n{quoted(text, TEXT_CHARS_MAX)}"
            on_lines.append(LineRemark(*at, clean(marked(body, which.mark(None), key))))
    parts = [_says(which, clean), _SAYS[words.verdict]]
    if words.summary.strip():
        parts.append(quoted(clean(words.summary), TEXT_CHARS_MAX))
    if others:
        parts += ["### Comments", *others]
    return ReviewText(clean(bounded(parts, mark, key)), tuple(on_lines))


def _says(which: ReviewOf, clean: Callable[[str], str]) -> str:
    names = [which.check.by, which.check.model]
    who = " with ".join(inline(clean(name), _NAME_MAX) for name in names if name)
    return (
        f"An agent ({who}) reviewed commit {inline(which.head, 64)}. It read the change and ran"
        " nothing. Somebody had Bullpen ask for this. It is not the opinion of a person, and it is"
        " no approval."
    )


def _other(comment: Comment, clean: Callable[[str], str]) -> str:
    if comment.file is None:
        return "On the change:"
    line = "" if comment.line is None else f", line {comment.line}"
    return f"In {inline(clean(comment.file), _PLACE_MAX)}{line}:"


def placed(comment: Comment, shown: Mapping[str, frozenset[int]]) -> tuple[str, int] | None:
    """Return the file and the line of a comment, if the difference shows that line."""
    if comment.file is None or comment.line is None or comment.file.startswith("/"):
        return None
    path = "/".join(part for part in comment.file.split("/") if part not in {"", "."})
    return (path, comment.line) if comment.line in shown.get(path, ()) else None


def lines_shown(difference: str) -> Mapping[str, frozenset[int]]:
    """Return which lines of the new files a difference in git's form shows.

    Files whose names git writes in quotes are left out.
    """
    found: dict[str, set[int]] = {}
    path: str | None = None
    old = new = 0
    for line in difference.split("\n"):
        if old > 0 or new > 0:
            # Inside a hunk, whatever it looks like.
            old -= not line.startswith(("+", "\\"))
            new -= not line.startswith(("-", "\\"))
        elif line.startswith("+++ "):
            # Git adds a tab to a name with a space.
            name = line.removeprefix("+++ ").removesuffix("\t")
            path = name.removeprefix("b/") if name.startswith("b/") else None
        elif hunk := _HUNK.match(line):
            old, new = int(hunk[1] or 1), int(hunk[3] or 1)
            if path is not None:
                found.setdefault(path, set()).update(range(int(hunk[2]), int(hunk[2]) + new))
    return {name: frozenset(lines) for name, lines in found.items()}
