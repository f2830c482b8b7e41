"""What came of a tool call, in a few words: `12 passed`, `3 lines`, `exit code 1`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bullpen.agents.system.transcript import left_out_lines
from bullpen.protocol import json_text
from bullpen.view.text import one_line, shortened

_LAST_LINES = 60
_WORDS_MAX = 100
_COMMANDS = frozenset({"Bash", "BashOutput", "shell", "exec_command", "run_shell_command"})
_QUESTIONS = frozenset({"AskUserQuestion"})
_LINES_COUNT = frozenset({"Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch"})
_NOTHING = re.compile(r"^\(?no (?:output|new output|matches|files)\b.*$", re.IGNORECASE)
_ENDED = re.compile(
    r"^(Exit code -?\d+|Killed by signal \d+|The command timed out[^.]*)", re.MULTILINE
)

_ANSWERED = re.compile(r"\AA person answered: ")

_ORDER = ("failed", "errors", "passed", "skipped")
_PYTEST = re.compile(
    r"^=* ?((?:\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)"
    r"(?:, )?)+) in [\d.:]+ ?s",
    re.MULTILINE,
)
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|ignored)\b")
_CARGO = re.compile(r"^test result: \w+\. (.*)$", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in [\d.]+s$", re.MULTILINE)
_UNITTEST_BAD = re.compile(r"^FAILED \((.*)\)$", re.MULTILINE)
_NODE = re.compile(r"^(?:# |ℹ )(pass|fail|skipped) (\d+)$", re.MULTILINE)
_JEST = re.compile(r"^ *Tests:? +(.*?\d+ (?:passed|failed).*)$", re.MULTILINE)
_MOCHA = re.compile(r"^ *(\d+) (passing|failing|pending)\b", re.MULTILINE)
_GO_TEST = re.compile(r"^\s*--- (PASS|FAIL|SKIP): ", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^(ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\)|\[)", re.MULTILINE)
_ANSI = re.compile(r"\x1b\[[\d;]*[A-Za-z]")


def output_of(text: str) -> str:
    """The output of a call as a person reads it: some programs report it as JSON."""
    if not text.startswith("{"):
        return text
    try:
        found = json_text.loads(text.encode())
    except ValueError:
        return text
    if not isinstance(found, dict):
        return text
    parts = [found.get(key) for key in ("stdout", "stderr")]
    if any(isinstance(part, str) for part in parts):
        return "\n".join(part for part in parts if isinstance(part, str) and part)
    content = found.get("file")
    if isinstance(content, dict) and isinstance(content.get("content"), str):
        return str(content["content"])
    return text


def call_outcome(name: str, output: str, *, failed: bool) -> str:
    """What came of a call, in a few words; "" if there is nothing to add."""
    if name in _QUESTIONS and not failed:
        return first_words(_ANSWERED.sub("you answered: ", output))
    if name in _COMMANDS:
        tests = summary_of_tests(output)
        if tests:
            return tests
        if failed:
            ended = _ENDED.search(output)
            return one_line(ended[1]).lower() if ended else first_words(output) or "failed"
        return _lines(output)
    if failed:
        return first_words(output) or "failed"
    return _lines(output) if name in _LINES_COUNT else ""


def first_words(text: str) -> str:
    """The first line of a text, cut if it is long."""
    return shortened(one_line(text.strip().split("\n")[0]), _WORDS_MAX)


def summary_of_tests(output: str) -> str:
    """What a test run says at its end: `1 failed, 11 passed`; "" if it is none."""
    lines = _ANSI.sub("", output).rstrip().split("\n")
    text = "\n".join(lines[-_LAST_LINES:])
    for count in (_pytest, _cargo, _unittest, _node, _jest, _mocha, _go):
        found = count(text)
        if any(found.get(word) for word in ("passed", "failed", "errors")):
            return _said(found)
    return _go_packages(text)


def _lines(output: str) -> str:
    text = output.strip("\n")
    if not text.strip() or _NOTHING.match(text):
        return "no output"
    count = text.count("\n") + 1 + left_out_lines(text)
    return f"{count} lines" if count != 1 else "1 line"


def _said(found: Mapping[str, int]) -> str:
    words = [(found[word], word) for word in _ORDER if found.get(word)]
    return ", ".join(
        f"{count} {'error' if word == 'errors' and count == 1 else word}" for count, word in words
    )


def _sum(counts: Iterable[tuple[Any, str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for count, word in counts:
        word = {"error": "errors", "ignored": "skipped"}.get(word, word)
        found[word] = found.get(word, 0) + int(count)
    return found


def _pytest(text: str) -> dict[str, int]:
    summaries = _PYTEST.findall(text)
    return _sum(_COUNT.findall(summaries[-1])) if summaries else {}


def _cargo(text: str) -> dict[str, int]:
    # One line for each program of tests.
    return _sum(each for line in _CARGO.findall(text) for each in _COUNT.findall(line))


def _unittest(text: str) -> dict[str, int]:
    ran = _UNITTEST.search(text)
    if ran is None:
        return {}
    told = _UNITTEST_BAD.search(text)
    bad = dict(re.findall(r"(failures|errors|skipped)=(\d+)", told[1])) if told else {}
    failed, errors = int(bad.get("failures", 0)), int(bad.get("errors", 0))
    return {"passed": int(ran[1]) - failed - errors, "failed": failed, "errors": errors}


def _node(text: str) -> dict[str, int]:
    words = {"pass": "passed", "fail": "failed", "skipped": "skipped"}
    return _sum((count, words[word]) for word, count in _NODE.findall(text))


def _jest(text: str) -> dict[str, int]:
    summaries = _JEST.findall(text)
    return _sum(_COUNT.findall(summaries[-1])) if summaries else {}


def _mocha(text: str) -> dict[str, int]:
    words = {"passing": "passed", "failing": "failed", "pending": "skipped"}
    return _sum((count, words[word]) for count, word in _MOCHA.findall(text))


def _go(text: str) -> dict[str, int]:
    words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
    found = _sum((1, words[word]) for word in _GO_TEST.findall(text))
    # Without -v only failures are listed.
    return found if found.get("passed") or found.get("failed") else {}


def _go_packages(text: str) -> str:
    found = _GO_PACKAGE.findall(text)
    if not found:
        return ""
    failed, passed = found.count("FAIL"), found.count("ok")
    several = "packages" if len(found) != 1 else "package"
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{passed} passed"] if passed else []
    return f"{several} {', '.join(parts)}"
