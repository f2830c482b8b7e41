"""When a command opens the team's screen, and when its run is a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.doors.cli.runs import run_to_end, watched
from bullpen.doors.cli.runs.run_to_end import RunCommands
from bullpen.doors.cli.session import Session
from bullpen.protocol.agent import Usage
from bullpen.runs.goal import Goal
from bullpen.runs.watch.outcome import Outcome
from bullpen.runs.watch.until import Until

DONE = Outcome(0, "done", "", "words", Usage.new(), {})


class AtTerminal(Session):
    """A session whose output goes to a terminal."""

    at_screen = True


@pytest.mark.parametrize(
    ("session", "typed", "plain", "opens"),
    [
        (AtTerminal(), True, False, True),
        (AtTerminal(), True, True, False),
        (AtTerminal(), False, False, False),
        (Session(json=True), True, False, False),
    ],
    ids=["at a terminal", "with --plain", "without a keyboard", "for programs"],
)
def test_a_screen_opens_only_for_a_person_who_wants_it(
    session: Session, typed: bool, plain: bool, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "is_terminal", lambda stream: typed)
    assert watched.opens_screen(session, plain=plain) is opens


@pytest.mark.parametrize(
    ("until", "plain", "talks"),
    [(None, False, True), (None, True, False), (Until("time", 1, "8h"), False, False)],
    ids=["at the screen", "with --plain", "with --until"],
)
def test_a_run_is_a_conversation_if_a_person_is_there_and_did_not_say_when_it_ends(
    until: Until | None, plain: bool, talks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    goals: list[Goal] = []

    def run_goal(goal: Goal, **_: Any) -> None:
        goals.append(goal)

    def at_once(session: Session, about: str, start: Any, **_: Any) -> Outcome:
        start(None)
        return DONE

    monkeypatch.setattr(run_to_end, "run_goal", run_goal)
    monkeypatch.setattr(run_to_end, "watched", at_once)
    monkeypatch.setattr(watched, "is_terminal", lambda stream: True)
    RunCommands(AtTerminal(), plain=plain).run(Goal("Count", SpawnRequest(cwd="/"), until=until))
    assert [goal.conversation for goal in goals] == [talks]
