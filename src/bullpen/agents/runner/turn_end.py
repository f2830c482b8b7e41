"""The end of a turn: a record that is carried out until every part of it is stored.

It is in the transcript before it is in the team's record, so the next process carries out what a
killed one could not. Every part of it may be carried out twice; the second time changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast, get_args

from bullpen.agents.runner.control import Interruption
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.system.transcript import NAME as TRANSCRIPT
from bullpen.agents.system.transcript import own_rows
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.clock import iso
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification

_RESULT_CHARACTERS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended, and what the team has to be told."""

    number: int
    text: str
    # The mail that started it.
    ids: tuple[str, ...] = ()
    failure: str | None = None
    interrupted: Interruption | None = None
    # What it wrote to other members.
    peers: str | None = None
    # The task that it completed last.
    completed: str | None = None
    # Whether it was carried out by a later process than the one that had the turn.
    late: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether its requests succeeded, so that its mail was seen."""
        return self.failure is None and self.interrupted is None

    def row(self) -> dict[str, Any]:
        """What the transcript says of it; its mail is in the row of its start."""
        row = {"number": self.number, "text": self.text, "failure": self.failure}
        row["interrupted"] = self.interrupted
        more = {"peers": self.peers, "completed": self.completed}
        return row | {name: value for name, value in more.items() if value is not None}

    @classmethod
    def of(cls, begun: Mapping[str, Any], ended: Mapping[str, Any]) -> Self | None:
        """The end that two rows of a transcript tell of; None if they do not belong together."""
        number, text, ids = ended.get("number"), ended.get("text"), begun.get("ids")
        if not isinstance(number, int) or number != begun.get("number"):
            return None
        if not isinstance(text, str) or not isinstance(ids, list):
            return None
        why = ended.get("interrupted")
        return cls(
            number,
            text,
            ids=tuple(each for each in ids if isinstance(each, str)),
            failure=_words(ended.get("failure")),
            interrupted=cast("Interruption", why) if why in get_args(Interruption) else None,
            peers=_words(ended.get("peers")),
            completed=_words(ended.get("completed")),
            late=True,
        )


def _words(value: Any) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class LastTurn:
    """What a transcript says of an agent's last turn, and of what came after it."""

    # It has no end, or was interrupted.
    cut_off: bool = False
    # Its end, if the team's record does not have it.
    pending: TurnEnd | None = None
    # A person has interrupted the agent.
    waits_for_words: bool = False


def last_turn(folder: Path, facts: AgentFacts) -> LastTurn:
    """The last turn of an agent before its process was restarted, from its transcript."""
    begun, ended, waits = None, None, False
    written = own_rows(
        folder / TRANSCRIPT,
        born_ms=facts.began_ms,
        kinds=("turn", "end", "order"),
        until=lambda row: row["kind"] == "turn",
    )
    for row in written:
        if row["kind"] == "order":
            waits = waits or (row.get("action") == "cancel" and row.get("voice") == "human")
        elif row["kind"] == "turn":
            begun, ended, waits = row, None, False
        else:
            ended = row
    if begun is None:
        return LastTurn(waits_for_words=waits)
    cut_off = ended is None or ended.get("interrupted") in ("stop", "limit")
    end = None if ended is None else TurnEnd.of(begun, ended)
    pending = end is not None and end.number > facts.turn_ended
    return LastTurn(cut_off, end if pending else None, waits)


def written_to_peers(wrote_to: Mapping[str, str]) -> str | None:
    """What an agent wrote to members other than the lead, for the lead to know."""
    return "; ".join(f"[to {to}] {what}" for to, what in wrote_to.items() if to != LEAD) or None


class Resting:
    """Whether an agent may rest after a turn. Its hooks are asked once, before the lead is told.

    A teammate that has to go on is not idle: the lead hears of it after the turn that it may rest
    after. If it ends instead, its report is told all the same.
    """

    def __init__(self, desk: RunnerDesk) -> None:
        self._desk = desk
        self._asked = 0
        self._refused: str | None = None
        # What it wrote to others in turns that the lead was not told about.
        self._untold: str | None = None

    async def ask(self, end: TurnEnd) -> None:
        """Ask the hooks, unless the turn failed or its process is gone.

        Raises Unavailable if the store could not be used; then ask again later.
        """
        desk = self._desk
        if not end.succeeded or end.late or end.number == self._asked:
            return
        waits = bool(desk.planning.waits_for or desk.wrote_to or desk.timers)
        why = await desk.control.interruptible(
            lambda: desk.hooks.turn_over(end.text, waiting=waits)
        )
        self._asked, self._refused = end.number, why
        self._untold = None if why is None else end.peers

    def refused(self, end: TurnEnd) -> str | None:
        """Why it has to go on after this turn; None if it may rest."""
        return self._refused if end.number == self._asked else None

    def peers_with(self, written: str | None) -> str | None:
        """What the lead has to be told of messages to others: these, and those of held turns."""
        return "; ".join(words for words in (self._untold, written) if words) or None


async def idle_notice(desk: RunnerDesk, end: TurnEnd, *, now_ms: int) -> IdleNotification:
    """How the turn ended, the last words, a completed task, and which members it wrote to."""
    more = any(entry.state == "stored" for entry in await desk.unread())
    reason = "failed" if end.failure is not None else None if more else "available"
    return IdleNotification.new(
        sender=desk.agent,
        timestamp=iso(now_ms),
        idle_reason=reason,
        summary=end.peers,
        result=_bounded(desk, end.text) or None,
        failure_reason=end.failure,
        completed_task_id=end.completed,
        completed_status=None if end.completed is None else "resolved",
    )


async def withdraw_asked(desk: RunnerDesk, end: TurnEnd) -> None:
    """Withdraw what an interrupted turn asked for: its calls will not be made.

    An agent that was stopped may be started again and make the same call: its requests stay.
    """
    if end.interrupted not in ("cancel", "pause", "task"):
        return
    approvals = desk.team.approvals
    for request in (await approvals.all()).values():
        asked = request.kind in ("permission", "question") and request.state == "pending"
        if asked and request.sender == desk.agent:
            await approvals.withdraw(
                request.id, by=desk.agent, why="The turn that asked for it was interrupted."
            )


def _bounded(desk: RunnerDesk, text: str) -> str:
    if len(text) <= _RESULT_CHARACTERS_MAX:
        return text
    path = desk.folder / "final.txt"
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise Unavailable(
            f"The report cannot be saved in {path}: {error.strerror}.",
            remedy="Check the folder and the free disk space.",
        ) from error
    left_out = len(text) - _RESULT_CHARACTERS_MAX
    return f"{text[:_RESULT_CHARACTERS_MAX]}\n[{left_out} more characters: {path}]"
