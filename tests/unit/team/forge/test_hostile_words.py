"""Every hostile text in every place where a forge or a model is shown it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from bullpen.protocol.forge import WriteKind
from bullpen.protocol.task import Check, Forced, Task
from bullpen.team.forge.bodies import (
    BODY_MAX,
    TITLE_MAX,
    Made,
    answer_body,
    branch_name,
    pull_body,
    pull_title,
    state_comment,
)
from bullpen.team.forge.choosing import draft_of
from bullpen.team.forge.heard_words import told, words_of
from bullpen.team.forge.markers import Mark, has_mark, marker
from bullpen.team.forge.shown import Person, PullRequest, Thread, Verdict
from support.rows import each_row

from .forge_teams import (
    ACCOUNT,
    HEAD,
    REPOSITORY,
    SETTINGS,
    comment,
    forge_of,
    handed_in,
    issue,
    pull,
    review,
)
from .hostile_words import HOSTILE, Rendered, acted_on, unseen_in

KEY = b"key of this home"
# A copy of a marker that we wrote elsewhere.
REAL = marker(Mark(REPOSITORY, "crew", "1", "pull", 1), KEY)
TEXTS = {name: text.replace("<!-- bullpen:crew/1/pull/1:MAC -->", REAL)
         for name, text in HOSTILE.items()}  # fmt: skip


def mark(kind: WriteKind) -> Mark:
    return Mark(REPOSITORY, "crew", "1", kind, 9)


def subject(text: str) -> str:
    return pull_body(handed_in().evolve(subject=text), Made(), mark("pull"), KEY)


def report(text: str) -> str:
    return pull_body(handed_in().with_facts(report=text), Made(), mark("pull"), KEY)


def check_name(text: str) -> str:
    return _checked(Check.new(name=text, kind="report"))


def check_command(text: str) -> str:
    return _checked(Check.new(name="tests", kind="command", run=text))


def check_path(text: str) -> str:
    return _checked(Check.new(name="file", kind="file", path=text))


def _checked(check: Check) -> str:
    return pull_body(handed_in().with_facts(checks=[check.raw]), Made(), mark("pull"), KEY)


def forced_by(text: str) -> str:
    word = Forced.new(by=text, reason="", at_ms=1)
    return _forced(word)


def forced_because(text: str) -> str:
    return _forced(Forced.new(by="ann", reason=text, at_ms=1))


def _forced(word: Forced) -> str:
    check = Check.new(name="tests", kind="command", run="true")
    task = handed_in().with_facts(checks=[check.raw], forced=word.raw)
    return pull_body(task, Made(), mark("pull"), KEY)


def agent_names(text: str) -> str:
    return pull_body(handed_in(), Made((text, text + "2"), 1.5, 10), mark("pull"), KEY)


def task_id(text: str) -> str:
    # The store takes no halves of characters.
    whole = text.encode(errors="replace").decode()
    return pull_body(handed_in().evolve(id=whole or "1"), Made(), mark("pull"), KEY)


def team_name(text: str) -> str:
    return pull_body(handed_in(), Made(), replace(mark("pull"), team=text), KEY)


def answer(text: str) -> str:
    return answer_body(text, by="bob", mark=mark("reply"), key=KEY)


def answering_agent(text: str) -> str:
    return answer_body("Done.", by=text, mark=mark("reply"), key=KEY)


def reason_for_a_person(text: str) -> str:
    return state_comment(handed_in(person=text or "-"), mark("state"), KEY)


def reason_to_give_up(text: str) -> str:
    return state_comment(handed_in().with_facts(given_up=text), mark("state"), KEY)


def landed_commit(text: str) -> str:
    task = handed_in(outcome="merged")
    merge = task.facts.merge
    assert merge is not None
    done = task.with_facts(merge=merge.evolve(state="merged", landed=text))
    return state_comment(done, mark("state"), KEY)


BODIES: list[Callable[[str], str]] = [
    subject, report, check_name, check_command, check_path, forced_by, forced_because, agent_names,
    task_id, team_name, answer, answering_agent, reason_for_a_person, reason_to_give_up,
    landed_commit,
]  # fmt: skip
HEADINGS = ["Checks", "Report", "Made by"]


@each_row("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("place", BODIES, ids=lambda place: place.__name__)
def test_a_forge_acts_on_nothing_in_what_others_wrote(
    place: Callable[[str], str], text: str
) -> None:
    body = place(text)
    kind: WriteKind = "reply" if "answer" in place.__name__ else "pull"
    kind = "state" if body.startswith(("A person", "The task was", "The work is m")) else kind
    own = replace(mark(kind), team=text if place is team_name else "crew")
    # Our mark is the only HTML in it, and the last line.
    assert has_mark(body, own, KEY)
    assert body.count("<!--") == 1
    assert body.count("<") == 1 or place in (check_command, check_path)
    shown = Rendered(body)
    assert shown.html == 1
    assert shown.foreign == set()
    assert [heading for heading in shown.headings if heading not in HEADINGS] == []
    ours = body.removesuffix(marker(own, KEY)).replace("Closes #7", "", 1)
    ours = re.sub(r"\APull request: #12$", "", ours.replace("Pull request: #12", "", 1))
    assert acted_on(ours) == []
    seen = shown.shown.replace("Closes #7", "", 1).replace("Pull request: #12", "", 1)
    assert acted_on(seen) == []
    assert len(body.encode()) <= BODY_MAX


@each_row("text", TEXTS.values(), ids=TEXTS)
def test_a_title_is_one_short_line_that_orders_nothing(text: str) -> None:
    title = pull_title(handed_in().evolve(subject=text))
    assert 0 < len(title) <= TITLE_MAX
    assert title.isprintable() or "\u200b" in title
    assert "\n" not in title
    assert acted_on(title) == []
    assert not re.match(r"\W*(?:wip|draft)\b", title, re.IGNORECASE)


@each_row("text", [*TEXTS.values(), "..", "a..b", "x.lock", "-x", "a b", "@{", "/"])
def test_a_branch_is_a_safe_ref_whatever_its_ids_are(text: str) -> None:
    name = branch_name(text, text)
    assert re.fullmatch(r"bullpen/[A-Za-z0-9_-]{1,64}/task-[A-Za-z0-9_-]{1,64}", name)
    assert "--" not in name.partition("/")[2][:1]
    assert branch_name(text, text) != branch_name(text + "x", text)


@each_row("text", TEXTS.values(), ids=TEXTS)
def test_a_model_reads_no_line_of_others_as_one_of_ours(text: str) -> None:
    made = draft_of(issue(7, text, text, author=Person(text, trusted=True)), REPOSITORY)
    first, empty, notice, blank, *words = re.split(r"\r\n|[\r\n]", made.description)
    assert first.startswith(f"Issue #7 of {REPOSITORY}, by ")
    assert notice.startswith("The lines that begin with > are the words of ")
    assert (empty, blank) == ("", "")
    assert [word for word in words if not word.startswith(">")] == []
    assert unseen_in(made.description + made.subject) == []
    assert len(made.description) < 40_000
    assert "\n" not in made.subject
    assert made.subject.strip()


def as_verdict(text: str) -> str:
    return _heard(verdicts=[Verdict(text, "failure", HEAD, "", text, text)])


def as_review(text: str) -> str:
    author = Person(text, trusted=True)
    return _heard(reviews=[review("1", "changes_requested", text, author)])


def as_thread(text: str) -> str:
    author = Person(text, trusted=True)
    return _heard(threads=[Thread("1", text, 3, False, (comment("1", text, author),))])


def as_comment(text: str) -> str:
    author = Person(text, trusted=True)
    return _heard(comments=[comment("1", f"@bullpen\n{text}", author)])


def as_target_branch(text: str) -> str:
    return _heard(shown=pull(mergeable=False, base=text))


def _heard(shown: PullRequest | None = None, **said: list[object]) -> str:
    given: dict[str, list[object]] = {
        "verdicts": [], "reviews": [], "threads": [], "comments": [], **said
    }  # fmt: skip
    work = forge_of(handed_in())
    words = words_of(work, SETTINGS, shown or pull(), account=ACCOUNT, **given)  # type: ignore[arg-type]
    assert len(words) == 1
    return told(words, head=HEAD).text


@each_row("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(
    "place", [as_verdict, as_review, as_thread, as_comment, as_target_branch],
    ids=lambda place: place.__name__,
)  # fmt: skip
def test_an_owner_reads_no_line_of_others_as_one_of_ours(
    place: Callable[[str], str], text: str
) -> None:
    said = place(text)
    header, blank, *lines = re.split(r"\r\n|[\r\n]", said)
    assert header.startswith("What follows is from the forge.")
    assert blank == ""
    ours = [line for line in lines if not line.startswith(">")]
    # One line with the number, and one with the author of a comment in a thread.
    assert len(ours) <= 2
    assert ours[0].startswith("[1] ")
    assert all(len(line) < 600 for line in ours)
    assert unseen_in(said) == []
    assert len(said) < 12_000


def test_the_patterns_find_what_the_hostile_words_try() -> None:
    harmless = {"empty", "spaces", "emphasis", "list", "table", "headings", "rule", "front",
                "script", "image with handler", "details", "open comment", "quote", "draft",
                "one huge line of marks", "huge and wide", "fake frame", "comment",
                "real marker"}  # fmt: skip
    for name, text in TEXTS.items():
        if name not in harmless:
            assert acted_on(text), name
    everything = Rendered("\n\n".join(TEXTS[name] for name in sorted(harmless)))
    assert everything.html > 1
    assert {"hr", "s_open", "code_inline"} <= everything.foreign
    assert len(TEXTS) >= 28


def test_an_escaped_quotation_shows_what_was_written() -> None:
    for name in ("emphasis", "table", "list", "script", "link", "entities"):
        task: Task = handed_in().with_facts(report=TEXTS[name])
        shown = Rendered(pull_body(task, Made(), mark("pull"), KEY)).shown.replace("\u200b", "")
        for line in TEXTS[name].split("\n"):
            assert line.strip() in shown
