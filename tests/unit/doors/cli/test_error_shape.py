"""The shape of every error: what failed and why in one line, what to do in another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import bullpen
from bullpen import errors
from bullpen.doors.cli.main import report

SOURCE = Path(bullpen.__file__).parent
KINDS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.BullpenError)
}
WITH_OWN_REMEDY = {"Unreadable"}
"""The class has a remedy for whoever gives none."""

_NEXT_SENTENCE = re.compile(r"[.!?]\s+[A-Z]")
_VAGUE = re.compile(r"(This|It|That|These|They|There)\b(?! (is|are|was|were) no\b)")


@dataclass(frozen=True)
class Site:
    """A place in the source where an error is made."""

    where: str
    kind: str
    message: str | None
    remedy: str | None
    has_remedy: bool

    def __str__(self) -> str:
        return f"{self.where}: {self.message} / {self.remedy}"


def _literal(node: ast.expr | None) -> str | None:
    """The text of a literal, with `x` for what is put into it; None if it is made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values
        )
    return None


def _sites() -> Iterator[Site]:
    makes_one = re.compile(rf"\b({'|'.join(KINDS)})\(")
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        text = path.read_text(encoding="utf-8")
        if where.startswith("testing/") or not makes_one.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id in KINDS and node.args:
                given = {word.arg: word.value for word in node.keywords}
                message = None if node.func.id in WITH_OWN_REMEDY else _literal(node.args[0])
                yield Site(
                    f"{where}:{node.lineno}",
                    node.func.id,
                    message,
                    _literal(given.get("remedy")),
                    "remedy" in given,
                )


@cache
def all_sites() -> list[Site]:
    return list(_sites())


def test_there_are_errors_to_look_at() -> None:
    assert len(all_sites()) > 500
    assert sum(site.message is not None for site in all_sites()) > 400


def test_every_error_says_what_failed_in_one_line() -> None:
    # What checks found, or others changed in a note, is quoted under the sentence line by line.
    quoting = ("agents/work/proving.py", "agents/tools/planning/note_tools.py")
    wrong = [
        str(site)
        for site in all_sites()
        if site.message is not None
        and (not site.message.strip() or "\n" in site.message)
        and not site.where.startswith(quoting)
    ]
    assert wrong == []


def test_every_error_has_one_remedy() -> None:
    wrong = [
        str(site)
        for site in all_sites()
        if not site.has_remedy and site.kind not in WITH_OWN_REMEDY
    ]
    assert wrong == []
    assert [
        str(site) for site in all_sites() if site.remedy is not None and not site.remedy.strip()
    ] == []


def test_a_message_and_a_remedy_have_two_sentences_at_most() -> None:
    long = [
        str(site)
        for site in all_sites()
        for text in (site.message, site.remedy)
        if text is not None and len(_NEXT_SENTENCE.findall(text)) > 1
    ]
    assert long == []


def test_a_message_names_what_failed() -> None:
    vague = [
        str(site) for site in all_sites() if site.message is not None and _VAGUE.match(site.message)
    ]
    assert vague == []


def test_every_error_is_shown_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for site in all_sites():
        if site.message is None:
            continue
        report(errors.BullpenError(site.message, remedy=site.remedy or ""), [])
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].startswith("error: "), site
        assert [line[:6] for line in lines[1:]] == (["hint: "] if site.remedy else []), site
