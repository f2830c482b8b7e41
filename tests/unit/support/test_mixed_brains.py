"""The models of the mixed team: what they answer to a program that throws an answer away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bullpen.runs.teamfile.read import read_team_file
from bullpen.testing.models import Call, Fault, ModelRequest, Reply, Result, Turn
from programs.mixed_brains import MixedBrains

EXAMPLE = Path(__file__).parents[3] / "examples/mixed-team/TEAM.toml"
TOOLS: dict[str, Mapping[str, Any]] = {
    name: {} for name in ("apply_patch", "bullpen__SendMessage", "bullpen__TaskUpdate")
}
CLAIMED = Turn("user", "</team-digest>You have claimed task: #5 Write the command")
MAIL = Turn("user", "lines.py is there: word2ofclaude")


class Codex:
    """A program that asks its model, and either takes the answer or throws it away."""

    def __init__(self) -> None:
        nobody = ("nobody", "nothing")
        file = read_team_file(EXAMPLE)
        self.brains = MixedBrains(file, Path("/p"), killed=nobody, denied=nobody, held=())
        self.turns: list[Turn] = [CLAIMED]

    def ask(self) -> Reply | Fault:
        asked = ModelRequest("responses", "m", "", tuple(self.turns), TOOLS, True, {}, {}, 0.0)
        return self.brains(asked)

    def take(self, answer: Reply | Fault) -> str:
        """Take an answer and do what it says; returns the tool it calls, or its words."""
        assert isinstance(answer, Reply)
        calls: tuple[Call, ...] = tuple(answer.calls)
        self.turns.append(Turn("assistant", answer.text, calls))
        for call in calls:
            self.turns.append(Turn("user", results=(Result(call.id, "done"),)))
        return calls[0].name if calls else answer.text

    def work(self) -> list[str]:
        """Take all answers until one calls no tool."""
        did = [self.take(self.ask())]
        while did[-1] in TOOLS:
            did.append(self.take(self.ask()))
        return did


WORK = ["apply_patch", "bullpen__SendMessage", "bullpen__TaskUpdate", "task 5 is done"]


def test_a_program_that_takes_every_answer_does_every_step_once() -> None:
    assert Codex().work() == WORK


def test_an_answer_that_a_program_threw_away_for_mail_is_given_again() -> None:
    for thrown in range(len(WORK)):
        codex = Codex()
        did = [codex.take(codex.ask()) for _ in range(thrown)]
        codex.ask()
        codex.turns.append(MAIL)
        assert did + codex.work() == WORK
        assert codex.brains.conversations["codex"].count("word2ofclaude") == 1


def test_a_new_turn_with_mail_is_only_noted_when_the_task_is_done() -> None:
    codex = Codex()
    codex.work()
    codex.turns.append(MAIL)
    assert codex.work() == ["Noted."]
