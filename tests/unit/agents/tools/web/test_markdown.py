"""Pages as Markdown: what is kept, what is left out, and hostile pages."""

from __future__ import annotations

import pytest

from bullpen.agents.tools.web import markdown
from bullpen.agents.tools.web.markdown import markdown_of
from support.rows import each_row

BASE = "https://example.org/docs/"


def told(html: str, chars_max: int = 10_000) -> str:
    return markdown_of(html, BASE, chars_max).text


@each_row(
    ("html", "text"),
    [
        ("<h2>A <em>b</em></h2><p>c\n  d</p>", "## A b\n\nc d"),
        ("<p>a<br>b</p>c", "a\nb\n\nc"),
        ("a &lt;b&gt; &amp; &eacute; &#x41;", "a <b> & é A"),
        ("<a href='../x y'>the <b>link</b></a>", "[the link](https://example.org/x%20y)"),
        ("<a href='#top'>up</a> <a href='javascript:x()'>go</a> <a>no</a>", "up go no"),
        ("<a href='/x'><img src=a.png></a>", ""),
        ("<img src=a.png alt='A  cat'>", "![A cat](https://example.org/docs/a.png)"),
        ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "- a\n- b\n  - c\n- d"),
        ("<ol><li>a</li><li><p>b</p></li></ol><p>c", "1. a\n2. b\n\nc"),
        ("<pre>a\n  b &lt; c</pre>d", "```\na\n  b < c\n```\n\nd"),
        ("use <code>x  y</code>.", "use `x y`."),
        ("<blockquote><p>a<p>b</blockquote>c", "> a\n\n> b\n\nc"),
        (
            "<table><thead><tr><th>A<th>B</tr></thead><tbody><tr><td>1|2</td><td><p>3</td></tr>",
            "| A | B |\n| --- | --- |\n| 1\\|2 | 3 |",
        ),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("a<script>x<y</script><style>b</style><!-- c -->d<svg><text>e</text></svg>", "ad"),
        ("<nav>menu</nav><p>text</p><footer>foot</footer><aside>ad</aside>", "text"),
        ("</p></ul></table></pre></blockquote></a>x", "x"),
        ("a</nav>b", "ab"),
    ],
)
def test_a_page_becomes_readable(html: str, text: str) -> None:
    assert told(html) == text


@pytest.mark.parametrize(
    "hidden",
    [
        "<div hidden>evil</div>",
        "<span style='color:red; display : none'>evil</span>",
        "<div style='VISIBILITY:hidden'><div>a</div>evil</div>",
        "<section aria-hidden=true>evil</section>",
        "<template>evil</template>",
    ],
)
def test_text_that_people_do_not_see_is_left_out(hidden: str) -> None:
    assert told(f"<p>before</p>{hidden}<p>after</p>") == "before\n\nafter"


def test_the_main_content_is_enough_if_the_page_marks_it() -> None:
    long = "word " * 60
    page = f"<div>around</div><main><p>{long}</p></main><div>more</div>"
    assert told(page) == long.strip()
    assert "around" in told("<div>around</div><main><p>short</p></main>")


def test_a_page_that_is_all_navigation_is_not_empty() -> None:
    assert told("<nav><p>menu</p></nav>") == "menu"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<img alt=A src='http://['><p>Rest</p>", "![A]()\n\nRest"),
        ("<img alt=A src='a b.png'>", "![A](https://x.org/a%20b.png)"),
        (f"<p>&#{'9' * 5_000};</p>", f"&#{'9' * 5_000};"),
        ("<a href='JavaScript:x()'>A</a>", "A"),
        ("<table><tr><td>a<td>b</table><p>Rest</p>", "| a | b |\n| --- | --- |\nRest"),
        ("<table><tr><td>a<td>b", "| a | b |\n| --- | --- |"),
        ("<table><tr><td><h1>a</h1></td></tr></table><p>Rest</p>", "| a |\n| --- |\nRest"),
    ],
)
def test_what_a_page_does_wrong_loses_no_text(html: str, text: str) -> None:
    found = markdown_of(html, "https://x.org/", 10_000).text
    assert found.replace("\n\n", "\n") == text.replace("\n\n", "\n")


def test_the_title_is_known() -> None:
    page = markdown_of("<title>A\n &amp; B</title><p>x", BASE, 100)
    assert (page.title, page.text) == ("A & B", "x")


def test_a_long_page_is_cut() -> None:
    page = markdown_of("<p>word</p>" * 10_000, BASE, 500)
    assert page.cut and len(page.text) == 500
    assert not markdown_of("<p>word</p>", BASE, 500).cut


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 300_000,
        "<ul><li>" * 200_000 + "x",
        "<blockquote>" * 200_000 + "x",
        "<a href=x>" * 200_000 + "x" + "</a>" * 200_000,
        "<table><tr><td>" * 100_000,
        "<!" * 500_000,
        "<!--" * 300_000,
        "<" * 1_000_000,
        "</" * 500_000,
        "<a " + "b=c " * 300_000,
        "&" * 1_000_000,
        "<![CDATA[" * 100_000,
        "<?" * 500_000,
        "<pre>" * 200_000 + "x",
        "<a href='" + "../" * 100_000 + "'>x</a>",
    ],
    ids=lambda html: html[:12],
)
def test_no_page_takes_long(html: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped after a time, so only a single piece could take long."""
    monkeypatch.setattr(markdown, "PARSE_S", 0.3)
    markdown_of(html, BASE, 5_000)
