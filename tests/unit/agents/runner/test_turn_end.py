"""The end of a turn is carried out by the next process if its own could not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bullpen.agents.runner.turn_end import LastTurn, TurnEnd, last_turn
from bullpen.agents.system.transcript import Transcript
from bullpen.protocol.agent import AgentFacts, AgentSpec

BORN = 1_700_000_000_000
SPEC = AgentSpec.new(driver="told", backend="in-process", cwd="/")
TURN = {"kind": "turn", "number": 3, "text": "Go", "ids": ["m1"]}
END = {"kind": "end", "number": 3, "text": "Done.", "failure": None, "interrupted": None}


def facts(turn_ended: int) -> AgentFacts:
    return AgentFacts.new(
        spec=SPEC.raw, nonce="n", since_ms=0, began_ms=BORN, turn_ended=turn_ended
    )


def last(folder: Path, *written: dict[str, Any], turn_ended: int = 2, born: int = BORN) -> LastTurn:
    transcript = Transcript(folder)
    for row in ({"kind": "ready", "born": born}, *written):
        transcript.record(**row)
    transcript.close()
    return last_turn(folder, facts(turn_ended))


def test_an_end_that_the_team_does_not_know_is_pending(tmp_path: Path) -> None:
    found = last(tmp_path, TURN, {**END, "peers": "[to bob] Hello", "completed": "7"})
    assert found.pending == TurnEnd(
        3, "Done.", ids=("m1",), peers="[to bob] Hello", completed="7", late=True
    )
    assert not found.cut_off


def test_an_end_that_the_team_knows_is_not(tmp_path: Path) -> None:
    assert last(tmp_path, TURN, END, turn_ended=3) == LastTurn()


def test_a_turn_without_an_end_was_cut_off(tmp_path: Path) -> None:
    assert last(tmp_path, TURN) == LastTurn(cut_off=True)


def test_a_stopped_turn_was_cut_off_and_its_end_is_pending(tmp_path: Path) -> None:
    found = last(tmp_path, TURN, {**END, "interrupted": "stop"})
    assert found.cut_off
    assert found.pending is not None
    assert not found.pending.succeeded


def test_the_turn_after_the_end_counts(tmp_path: Path) -> None:
    assert last(tmp_path, TURN, END, {**TURN, "number": 4}) == LastTurn(cut_off=True)


def test_an_earlier_agent_with_the_same_name_does_not_count(tmp_path: Path) -> None:
    assert last(tmp_path, TURN, END, born=BORN - 1) == LastTurn()


def test_rows_that_do_not_belong_together_are_no_end(tmp_path: Path) -> None:
    assert last(tmp_path, TURN, {**END, "number": 2}).pending is None
    assert last(tmp_path, {"kind": "turn", "text": "Go"}, END).pending is None


def test_an_end_is_read_as_it_was_written(tmp_path: Path) -> None:
    end = TurnEnd(3, "So far.", ids=("m1",), failure="No model.", peers="[to bob] Hi", late=True)
    assert last(tmp_path, TURN, {"kind": "end", **end.row()}).pending == end


def test_who_was_interrupted_by_a_person_waits_for_words_after_a_restart(tmp_path: Path) -> None:
    order = {"kind": "order", "action": "cancel", "voice": "human"}
    end = {**END, "interrupted": "cancel"}
    assert last(tmp_path, TURN, order, end, turn_ended=3) == LastTurn(waits_for_words=True)
    later = {**TURN, "number": 4}
    assert not last(tmp_path, later, {**END, "number": 4}).waits_for_words
    assert not last(tmp_path, later, {**order, "voice": None}).waits_for_words
