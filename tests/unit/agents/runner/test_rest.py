"""The lead is told that a teammate is idle once its hooks let it rest, and not before."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.errors import Unavailable
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, payload_of
from bullpen.team.team import Team
from support.crews import Crew, Hired, eventually


async def notices(team: Team) -> list[IdleNotification]:
    entries = (await team.mailbox.read(LEAD)).entries
    told = (payload_of(entry.message.text) for entry in entries)
    return [payload for payload in told if isinstance(payload, IdleNotification)]


class Counted:
    """A model that says which turn it is."""

    def __init__(self) -> None:
        self.turns = 0

    async def __call__(self, given: TurnInput, desk: Desk) -> str:
        self.turns += 1
        return f"Turn {self.turns}."


class Gate:
    """Hooks that answer one after the other, then let the agent rest."""

    def __init__(self, crew: Crew, *answers: str | BaseException | None) -> None:
        self._team = crew.team
        self._answers = list(answers)
        self.asked: list[str] = []
        # What the lead had been told when the hooks were asked.
        self.before: list[list[str | None]] = []

    async def turn_over(self, text: str, *, waiting: bool) -> str | None:
        self.asked.append(text)
        self.before.append([notice.result for notice in await notices(self._team)])
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer


async def hired(crew: Crew, monkeypatch: pytest.MonkeyPatch, gate: Any, turn: Any = None) -> Hired:
    alice = await crew.hire("alice", turn or Counted())
    monkeypatch.setattr(alice.desk.hooks, "turn_over", gate.turn_over)
    await crew.team.mailbox.send("alice", "Go", sender=LEAD)
    return alice


async def test_a_teammate_that_has_to_go_on_is_not_called_idle(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(crew, "Write the tests.", "And the page.")
    alice = await hired(crew, monkeypatch, gate)

    async def told() -> bool:
        return bool(await notices(crew.team))

    await eventually(told)
    assert [notice.result for notice in await notices(crew.team)] == ["Turn 3."]
    assert gate.asked == ["Turn 1.", "Turn 2.", "Turn 3."]
    assert gate.before == [[], [], []]
    assert "Write the tests." in alice.turns[1] and "And the page." in alice.turns[2]


async def test_the_hooks_are_asked_again_if_the_store_was_away(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Unavailable("The store is away.", remedy="Wait.")
    gate = Gate(crew, away, "Go on.")
    await hired(crew, monkeypatch, gate)

    async def told() -> bool:
        return bool(await notices(crew.team))

    await eventually(told)
    assert gate.asked == ["Turn 1.", "Turn 1.", "Turn 2."]
    assert [notice.result for notice in await notices(crew.team)] == ["Turn 2."]


async def test_the_hooks_are_asked_once_if_the_end_of_the_turn_is_stored_later(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(crew)
    away = [Unavailable("The store is away.", remedy="Wait.")]
    ends = type(crew.team.agents).end_turn

    async def end_turn(agents: Any, *args: Any, **fields: Any) -> Any:
        if away:
            raise away.pop()
        return await ends(agents, *args, **fields)

    monkeypatch.setattr(type(crew.team.agents), "end_turn", end_turn)
    await hired(crew, monkeypatch, gate)

    async def told() -> bool:
        return bool(await notices(crew.team))

    await eventually(told)
    assert gate.asked == ["Turn 1."]


async def test_what_a_held_teammate_wrote_to_others_is_told_with_its_report(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def turn(given: TurnInput, desk: Desk) -> str:
        if "Go on." not in given.text:
            assert isinstance(desk, RunnerDesk)
            desk.wrote_to["bob"] = "a secret"
        return "Done."

    gate = Gate(crew, "Go on.")
    await hired(crew, monkeypatch, gate, turn)

    async def told() -> bool:
        return bool(await notices(crew.team))

    await eventually(told)
    assert [notice.summary for notice in await notices(crew.team)] == ["[to bob] a secret"]


async def test_a_teammate_that_is_stopped_while_its_hook_runs_still_reports(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        asked = 0

        async def turn_over(self, text: str, *, waiting: bool) -> str | None:
            self.asked += 1
            await anyio.sleep(60)
            return "Never."

    gate = Slow()
    alice = await hired(crew, monkeypatch, gate)
    await eventually(lambda: gate.asked == 1)
    assert await notices(crew.team) == []
    alice.runner.stop("stopped", "enough")
    await eventually(lambda: alice.ended is not None)
    assert [notice.result for notice in await notices(crew.team)] == ["Turn 1."]
    assert gate.asked == 1
