"""Markdown of agents as HTML: a few plain elements, and nothing that links, loads or runs."""

from __future__ import annotations

import random
from html.parser import HTMLParser

from bullpen.doors.web.markdown import RENDERED_MAX, rendered
from support.doors.web_stage import HOSTILE, PLAN
from support.rows import each_row

ALLOWED = {
    "p", "br", "strong", "em", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr",
    "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
LINKS = (
    "[go](javascript:alert(1))",
    "[go](https://evil.example)",
    "![look](https://evil.example/pixel.png)",
    "<https://evil.example>",
    "[go][1]\n\n[1]: https://evil.example",
    "https://evil.example",
    "<a href='https://evil.example'>go</a>",
    "<div style='position:fixed'>x</div>",
    "```html onclick=x\n<script>window.hacked = 1</script>\n```",
    '```"><script>window.hacked = 1</script>\nx\n```',
    "| a |\n| :-: |\n| <img src=x onerror=alert(1)> |",
)


class Elements(HTMLParser):
    """The elements of a text in HTML, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_plan_has_headings_below_those_of_the_page_lists_tables_and_code() -> None:
    found = str(rendered(PLAN))
    assert "<h3>Cache the tokens</h3>" in found
    assert "<li>Measure <code>lex()</code> with the <em>large</em> file.</li>" in found
    assert "<td><code>src/lex.py</code></td>" in found
    assert "<pre><code>pytest -q tests/lex\n</code></pre>" in found


@each_row("text", (*HOSTILE, *LINKS))
def test_nothing_in_it_links_loads_or_runs(text: str) -> None:
    found = Elements(str(rendered(f"{text}\n\n{text} and *more*\n\n5. {text}")))
    assert found.names <= ALLOWED
    assert found.attributes <= {"start"}


def test_no_mixture_of_marks_gets_out_of_it() -> None:
    chance = random.Random(20)
    pieces = (*HOSTILE, *LINKS, "# ", "> ", "- ", "1. ", "`", "```\n", "|", "*", "~~", "\n", " ")
    for _ in range(400):
        text = "".join(chance.choice(pieces) for _ in range(12))
        found = Elements(str(rendered(text)))
        assert found.names <= ALLOWED, text
        assert found.attributes <= {"start"}, text


def test_what_the_agent_wrote_stays_readable_where_it_is_not_rendered() -> None:
    assert "[go](https://evil.example)" in rendered("[go](https://evil.example)")
    assert "&lt;b&gt;" in rendered("<b>")
    assert "&amp;lt;" in rendered("&lt;")
    assert r"\u202e" in rendered("\u202eabc")


def test_a_very_long_text_is_shown_as_it_is() -> None:
    found = rendered("<b>" + "*a* " * RENDERED_MAX)
    assert found.startswith('<pre class="text">&lt;b&gt;*a* ')
