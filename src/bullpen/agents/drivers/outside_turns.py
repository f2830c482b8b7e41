"""Count how often a program goes on working after its turn, and give up when it does not stop."""

from __future__ import annotations

from bullpen.agents.contracts.driver import TurnFailed

TURNS_MAX = 3
"""After so many turns in a row that were followed by work without a turn, the agent fails."""

_STOPPED = (
    "You went on working after your last turn had ended. That work was stopped, with every command"
    " that was still running. Work only in your turns: use no goals, schedules or wake-ups, and"
    " leave no command running."
)


class OutsideTurns:
    """The turns in a row after which a program went on working."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._count = 0

    def none(self) -> None:
        """Note that the program did nothing since its last turn."""
        self._count = 0

    def another(self) -> None:
        """Note that it worked and was stopped. Raises TurnFailed if that happens too often."""
        self._count += 1
        if self._count >= TURNS_MAX:
            raise TurnFailed(
                f"{self._title} went on working after each of its last {self._count} turns and had"
                " to be stopped.",
                remedy="Turn off goals, schedules and background work in its settings, then spawn"
                " the agent again.",
                for_good=True,
            )

    def notice(self) -> list[str]:
        """What to tell the model in the next turn."""
        return [_STOPPED] if self._count else []
