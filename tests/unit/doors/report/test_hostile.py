"""Whatever teammates write is text on the page: nothing of it is markup, in HTML or Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bullpen.doors.report.markdown import BYTES_MAX, markdown_page
from bullpen.doors.report.page import SAID_MAX, html_page
from bullpen.doors.report.run_facts import run_of
from bullpen.protocol.changes import DeleteTask, Event, MarkMail, PutMember, PutTeam, RemoveMember
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Member
from support.doors.small_log import (
    ANN,
    BEGAN_MS,
    MERGE,
    Log,
    agent,
    letter,
    request,
    small_log,
    task,
)
from support.rows import each_row

CORPUS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></head><body>",
    "<!-- --><![CDATA[ ]]>",
    "&lt;b&gt; &amp; &#60;i&#62;",
    "javascript:alert(1)",
    "| a | b |\n| --- | --- |\n| c | d |",
    "```\ncode\n``` `x` ``y``",
    "[click](https://evil.example) ![x](https://evil.example/p.png) <https://evil.example>",
    "@everyone @octocat/team a@b.c #12 GH-7 owner/repo#3 https://evil.example www.evil.example",
    "# Heading\n- list\n1. one\n> quote\n===\n---\n\tcode",
    "0)",
    "*bold* _it_ ~~gone~~ $x^2$ \\| \\` \\\\",
    "\x1b[2J\x07\x00 \u202e gnirts \u2028 \x9b31m",
    "\n\n\n",
)
TAGS = frozenset({
    "html", "head", "meta", "title", "style", "body", "header", "p", "h1", "h2", "h3", "div",
    "dl", "dt", "dd", "ul", "ol", "li", "nav", "a", "main", "section", "figure", "figcaption",
    "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre", "article", "b",
    "time", "span", "footer", "svg", "g", "path", "rect", "text",
})  # fmt: skip
ATTRIBUTES = frozenset({
    "lang", "charset", "http-equiv", "content", "name", "id", "class", "href", "tabindex",
    "role", "aria-label", "scope", "datetime", "xmlns", "viewbox", "width", "height", "x", "y",
    "d", "rx", "text-anchor",
})  # fmt: skip


class Seen(HTMLParser):
    """What a browser would find on a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.comments = 0
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open, "everything that was opened is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag != "meta":
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        self.comments += 1

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def is_only_ours(page: str) -> Seen:
    """Fail if there is any markup on a page that we do not write."""
    seen = Seen(page)
    assert seen.tags <= TAGS
    assert seen.attributes <= ATTRIBUTES
    assert all(link.startswith("#") for link in seen.links)
    assert not seen.comments
    assert page.count("<style>") == 1
    return seen


def hostile_log(text: str) -> list[Event]:
    """A run in which everybody says, does and is called that."""
    log = Log()
    fields = {"name": "night", "description": text, "createdAt": BEGAN_MS}
    log.add(0, LEAD, "team.create", PutTeam(fields), PutMember(Member.new(name=LEAD)))
    name = text or "x"
    facts: dict[str, Any] = {"phase": "ended", "end": "failed", "cause": text}
    log.add(1, name, "agent.spawn", agent(name, driver=name, model=name))
    log.add(2, name, "agent.ready", agent(name, driver=name, model=name))
    log.add(3, name, "agent.turn", agent(name, driver=name, model=name))
    check = {"name": text, "kind": "command", "passed": False}
    more: dict[str, Any] = {"checks": [check], "report": text, "released": text, "tried": [text]}
    log.add(4, name, "task.add", task(name, text, "in_progress", text, **more))
    log.add(4, name, "task.add", task("2", text, "pending", after=[name], given_up=text))
    merge = MERGE.evolve(state="merged", landed=text, by=text).raw
    log.add(5, name, "merge.land", task("3", text, "completed", text, merge=merge))
    log.add(6, name, "mail.send", letter("m1", name, name, text), letter("m2", name, LEAD, text))
    # Only what is not looked into may hold half a character.
    subject = {"toolName": text, "input": {"command": f"{text}\ud800"}, "plan": text}
    answer: dict[str, Any] = {"state": "denied", "answered_by": text, "answer": {"feedback": text}}
    log.add(7, name, "request.answer", request("r1", "permission", name, 7, subject=subject))
    plan = request("r2", "plan", name, 7, subject=subject, **answer)
    log.add(8, name, "request.answer", plan)
    log.add(9, name, "agent.end", agent(name, driver=name, model=name, **facts))
    return log.events


@each_row("text", CORPUS)
def test_hostile_text_is_text_on_the_page(text: str) -> None:
    page = html_page(run_of(hostile_log(text), now_ms=BEGAN_MS))
    page.encode("utf-8")
    seen = is_only_ours(page)
    word = max(re.findall(r"[\w<>()=|@#.:/]+", text), key=len, default="")
    assert any(word in each for each in seen.texts), "it is shown as it was written"


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    page = html_page(run_of(small_log(), now_ms=BEGAN_MS))
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    seen = is_only_ours(page)
    assert "script" not in seen.tags and "style" not in seen.attributes
    assert "url(" not in page and "@import" not in page


MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
FOREIGN = frozenset({
    "html_block", "html_inline", "link_open", "image", "code_inline", "fence", "code_block",
    "em_open", "s_open", "ordered_list_open", "hr",
})  # fmt: skip


def is_plain(page: str) -> None:
    """Fail if anything in the Markdown is markup that we do not write."""
    heads = re.findall(r"^(\|.*\|)\n\|[ |-]+\|$", page, re.MULTILINE)
    tokens = MARKDOWN.parse(page)
    inner = [child for token in tokens for child in token.children or []]
    found = {token.type for token in (*tokens, *inner)}
    assert not found & FOREIGN
    assert sum(token.type == "table_open" for token in tokens) == len(heads)
    # No name, issue or address that a site would make a link of.
    bare = re.sub(r"&#\d+;", "\0", page)
    assert not re.search(r"@\w|(?<!^)#\w|\bGH-\d|://|\bwww\.", bare)


@each_row("text", CORPUS)
def test_hostile_text_is_text_in_markdown(text: str) -> None:
    page = markdown_page(run_of(hostile_log(text), now_ms=BEGAN_MS))
    page.encode("utf-8")
    is_plain(page)


def test_markdown_fits_a_comment_and_says_what_was_left_out() -> None:
    log = Log()
    log.events = small_log()
    for number in range(3000):
        log.add(70, "ann", "mail.send", letter(f"x{number}", "ann", "ben", "@ben | " * 300))
    page = markdown_page(run_of(log.events, now_ms=BEGAN_MS))
    assert len(page.encode()) <= BYTES_MAX
    assert "are not shown here" in page
    assert "Write the parser" in page
    is_plain(page)
    whole = html_page(run_of(log.events, now_ms=BEGAN_MS))
    assert f"These are the first {SAID_MAX} of 3003 messages" in whole


WORDS = st.one_of(st.sampled_from(CORPUS), st.text(max_size=12))
NAMES = st.sampled_from(["ann", "ben", "<b>", "a|b", "@x"])
IDS = st.sampled_from(["1", "2", "<i>"])


@st.composite
def changes(draw: st.DrawFn) -> Any:
    """One change of a team, with anything in it."""
    name, text, task_id = draw(NAMES), draw(WORDS), draw(IDS)
    kind = draw(st.integers(0, 7))
    if kind == 0:
        status = draw(st.sampled_from(["pending", "in_progress", "completed"]))
        facts = {"given_up": draw(st.none() | WORDS), "attempt": draw(st.integers(0, 3))}
        return task(task_id, text, status, draw(st.none() | NAMES), after=[draw(IDS)], **facts)
    if kind == 1:
        return DeleteTask(task_id)
    if kind == 2:
        phase = draw(st.sampled_from(["starting", "running", "ended"]))
        end = draw(st.sampled_from(["failed", "lost", "stopped"])) if phase == "ended" else None
        return agent(name, **ANN, phase=phase, end=end, cause=text)
    if kind == 3:
        return RemoveMember(name)
    if kind == 4:
        return PutTeam({"description": text})
    if kind == 5:
        return letter(draw(IDS), name, draw(NAMES), text)
    if kind == 6:
        state = draw(st.sampled_from(["pending", "approved", "denied", "expired"]))
        asked = draw(st.sampled_from(["plan", "permission", "shutdown"]))
        return request(task_id, asked, name, 1, state=state, subject={"plan": text, "input": text})
    return MarkMail(name, (draw(IDS),), draw(st.sampled_from(["injected", "seen", "archived"])))


OPS = st.sampled_from(["agent.turn", "agent.idle", "agent.end", "agent.ready", "task.add", "x"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(OPS, NAMES, st.lists(changes(), max_size=3)), max_size=12))
def test_a_report_of_any_log_is_made_and_has_only_our_markup(
    happened: list[tuple[str, str, list[Any]]],
) -> None:
    log = Log()
    fields = {"name": "night", "createdAt": BEGAN_MS}
    log.add(0, LEAD, "team.create", PutTeam(fields), PutMember(Member.new(name=LEAD)))
    for number, (op, actor, made) in enumerate(happened):
        log.add(number, actor, op, *made)
    run = run_of(log.events, now_ms=BEGAN_MS + 5_000)
    is_only_ours(html_page(run))
    is_plain(markdown_page(run))
