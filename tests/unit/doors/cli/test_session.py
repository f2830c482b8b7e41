"""How a command gets its answer."""

from __future__ import annotations

from pathlib import Path

from bullpen.doors.cli.session import Session
from bullpen.team.team import Teams


class Answer:
    """Something that takes long to show."""

    shown = 0

    def __repr__(self) -> str:
        self.shown += 1
        return "a long text"


def test_nobody_makes_a_text_of_a_large_answer(home: Path) -> None:
    answer = Answer()

    async def ask(_: Teams) -> Answer:
        return answer

    assert Session(home=str(home)).with_teams(ask) is answer
    assert answer.shown == 0
