"""Notices to the person at a terminal: each once, in the ways that they chose, and harmless."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest

from bullpen.doors.actions import notices
from bullpen.doors.actions.notices import ScreenNotifier, desktop_words
from bullpen.doors.cli.runs import notified as notified_run
from bullpen.doors.cli.session import Session
from bullpen.errors import StartFailed
from bullpen.protocol.agent import Usage
from bullpen.protocol.request import Request
from bullpen.runs.watch.outcome import Outcome, Progress

HOSTILE = "\x1b]0;owned\x07<b>x</b> & `rm -rf ~` $(id) \n--replace-id=1 \u202e"


class Desktop:
    """Takes down what is rung and shown."""

    def __init__(self) -> None:
        self.rung = 0
        self.shown: list[list[str]] = []

    def ring(self) -> None:
        self.rung += 1

    def start(self, words: Sequence[str]) -> Any:
        self.shown.append(list(words))
        return self

    def poll(self) -> int | None:
        return None

    def wait(self, timeout: float | None = None) -> int:
        return 0

    def notifier(self, *ways: str) -> ScreenNotifier:
        return ScreenNotifier(
            ways, ring=self.ring, start=self.start, words=lambda title, text: [title, text]
        )


def request(name: str, **fields: Any) -> Request:
    asked = {
        "kind": "permission",
        "sender": "alice",
        "to": "team-lead",
        "approver": "human",
        "state": "pending",
        "created_ms": 1,
        "deadline_ms": 2,
        "subject": {"tool_name": "Bash", "description": "Bash make deploy"},
    }
    return Request.new(id=name, **{**asked, **fields})


@pytest.mark.parametrize(
    ("ways", "rung", "shown"),
    [(("off",), 0, 0), (("bell",), 1, 0), (("desktop",), 0, 1), (("bell", "desktop"), 1, 1)],
)
def test_a_person_is_notified_in_the_ways_they_chose(
    ways: tuple[str, ...], rung: int, shown: int
) -> None:
    desktop = Desktop()
    notifier = desktop.notifier(*ways)
    notifier.show("Bullpen: shop is done", "All tests pass.")
    assert (desktop.rung, len(desktop.shown)) == (rung, shown)
    assert notifier.is_on == bool(rung + shown)


def test_what_waits_is_told_once_and_again_when_something_new_waits() -> None:
    desktop = Desktop()
    notifier = desktop.notifier("desktop")
    first, second, third = (("shop", request(name)) for name in ("a", "b", "c"))
    notifier.waiting([first])
    notifier.waiting([first])
    ((title, text),) = desktop.shown
    assert title == "Bullpen: shop needs you"
    assert text.startswith("alice waits for you: ")
    notifier.waiting([first, second, third])
    assert desktop.shown[1][1].endswith("(and 1 more)")
    notifier.waiting([])
    notifier.waiting([first])
    assert len(desktop.shown) == 3


def test_what_others_answer_notifies_nobody() -> None:
    desktop = Desktop()
    desktop.notifier("bell").waiting([("shop", request("a", approver="lead"))])
    assert desktop.rung == 0


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_words_of_agents_are_words_of_a_command_and_nothing_else(platform: str) -> None:
    words = desktop_words("Bullpen: shop needs you", HOSTILE, platform, lambda name: f"/bin/{name}")
    assert words is not None
    *options, title, text = words
    assert title == "Bullpen: shop needs you"
    assert text.isprintable()
    assert not any("rm -rf" in option for option in options)
    if platform == "linux":
        assert options == ["/bin/notify-send", "--app-name=Bullpen", "--"]
        assert "&lt;b&gt;x&lt;/b&gt; &amp;" in text
    else:
        script = [word for word in options[1:] if word != "-e"]
        assert script == [
            "on run argv",
            "display notification (item 2 of argv) with title (item 1 of argv)",
            "end run",
        ]


def test_without_the_program_of_the_desktop_a_person_is_told() -> None:
    assert desktop_words("", "", "linux", lambda _: None) is None
    desktop = Desktop()
    silent = ScreenNotifier(
        ["desktop"], ring=desktop.ring, start=desktop.start, words=lambda title, text: None
    )
    assert "notify-send" in str(silent.problem)
    silent.show("Bullpen", "x")
    assert desktop.shown == []


def test_a_program_that_cannot_be_started_ends_no_run() -> None:
    def fails(_: Sequence[str]) -> Any:
        raise FileNotFoundError

    desktop = Desktop()
    ScreenNotifier(["desktop"], ring=desktop.ring, start=fails, words=lambda *_: ["x"]).show(
        "x", "y"
    )


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Desktop:
    """A person at a terminal who wants the bell and the desktop."""
    desktop = Desktop()
    monkeypatch.setenv("BULLPEN_NOTIFY", "bell,desktop")
    monkeypatch.setattr(notified_run, "is_terminal", lambda _: True)
    monkeypatch.setattr(notices, "_ring", desktop.ring)
    monkeypatch.setattr(notices, "_started", desktop.start)
    monkeypatch.setattr(notices, "desktop_words", lambda title, text: [title, text])
    return desktop


def _outcome(status: Any, summary: str) -> Outcome:
    return Outcome(0, status, summary, "shop", Usage.new(), {})


def _run(start: Callable[[Any], Awaitable[Outcome]], session: Session) -> list[Progress]:
    seen: list[Progress] = []
    run = notified_run.notified(session, start)

    async def body() -> None:
        await run(seen.append)

    anyio.run(body)
    return seen


class Snapshot:
    """What waits in a team."""

    pending = (request("a"),)


def test_a_run_notifies_of_what_waits_and_of_its_end(at_terminal: Desktop) -> None:
    progress = Progress("shop", Snapshot(), [])  # type: ignore[arg-type]

    async def start(watch: Any) -> Outcome:
        watch(progress)
        watch(progress)
        return _outcome("done", "All tests pass.")

    assert _run(start, Session()) == [progress, progress]
    assert [title for title, _ in at_terminal.shown] == [
        "Bullpen: shop needs you",
        "Bullpen: shop is done",
    ]
    assert at_terminal.shown[1][1] == "All tests pass."
    assert at_terminal.rung == 2


def test_a_run_that_cannot_start_notifies_too(at_terminal: Desktop) -> None:
    async def start(_: Any) -> Outcome:
        raise StartFailed("'lead' could not be started: no key.", screen="", remedy="Set a key.")

    with pytest.raises(StartFailed):
        _run(start, Session())
    assert at_terminal.shown == [
        ["Bullpen: the run failed", "'lead' could not be started: no key."]
    ]


@pytest.mark.parametrize("case", ["json", "no terminal", "off"])
def test_nobody_is_notified_where_nobody_is_or_wants_it(
    at_terminal: Desktop, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    if case == "no terminal":
        monkeypatch.setattr(notified_run, "is_terminal", lambda _: False)
    if case == "off":
        monkeypatch.setenv("BULLPEN_NOTIFY", "off")

    async def start(_: Any) -> Outcome:
        return _outcome("failed", "")

    assert notified_run.notified(Session(json=case == "json"), start) is start
    assert at_terminal.shown == []
