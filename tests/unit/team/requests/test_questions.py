"""Questions to a person: stored, answered once in words or by number, and only by a person."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.errors import Invalid, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams

COLOUR = {
    "question": "Which colour?",
    "options": [{"label": "Red", "description": "as before"}, {"label": "Blue"}],
}


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    await team.roster.join("ann", by=LEAD)
    return team


async def asked(team: Team, *questions: dict[str, Any]) -> Request:
    return await team.approvals.ask_question(list(questions or [COLOUR]), by="ann")


async def answered(team: Team, request: Request, words: str | None, **how: Any) -> str:
    done = await team.approvals.answer(
        request.id, approve=True, by=LEAD, voice="human", feedback=words, **how
    )
    return str((done.answer or {})["feedback"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [("2", "Blue"), (" green ", "green"), ("1 or 2", "1 or 2"), ("Red", "Red")],
)
async def test_an_answer_is_an_option_by_number_or_words(
    team: Team, words: str, expected: str
) -> None:
    assert await answered(team, await asked(team), words) == expected


async def test_several_options_are_chosen_only_where_that_is_asked(team: Team) -> None:
    several = await asked(team, {**COLOUR, "multiSelect": True})
    assert await answered(team, several, "1, 2") == "Red, Blue"
    one = await asked(team)
    with pytest.raises(Invalid, match="Only one"):
        await answered(team, one, "1,2")
    assert (await team.approvals.get(one.id)).state == "pending"


@pytest.mark.parametrize("words", [None, "", "  ", "0", "3"])
async def test_what_is_no_answer_is_refused_and_the_question_stays_open(
    team: Team, words: str | None
) -> None:
    request = await asked(team)
    with pytest.raises(Invalid):
        await answered(team, request, words)
    assert (await team.approvals.get(request.id)).state == "pending"


async def test_only_a_person_answers_and_only_once(team: Team) -> None:
    request = await asked(team)
    for by in (LEAD, "ann"):
        with pytest.raises(Refused) as error:
            await team.approvals.answer(
                request.id, approve=True, by=by, voice="agent", feedback="Red"
            )
        assert error.value.reason == "not_approver"
    await answered(team, request, "Red")
    with pytest.raises(Refused) as error:
        await answered(team, request, "Blue")
    assert error.value.reason == "already_answered"


async def test_a_question_is_no_call_that_could_be_permitted(team: Team) -> None:
    request = await asked(team)
    extras: tuple[dict[str, Any], ...] = (
        {"always": True},
        {"updated_input": {}},
        {"permission_mode": "default"},
    )
    for how in extras:
        with pytest.raises(Invalid):
            await answered(team, request, "Red", **how)
    await answered(team, request, "Red")
    with pytest.raises(Refused) as error:
        await team.approvals.redeem(request.id, by="ann", digest=request.digest)
    assert error.value.reason == "not_approved"


async def test_nobody_gets_mail_for_a_question_or_its_answer(team: Team) -> None:
    await answered(team, await asked(team), "Red")
    for name in (LEAD, "ann"):
        assert (await team.mailbox.read(name)).entries == ()


@pytest.mark.parametrize(
    "questions",
    [[], [{"question": " "}], [{"question": "?"}] * 5, [{**COLOUR, "options": [{}] * 9}]],
)
async def test_questions_that_nobody_could_answer_are_refused(
    team: Team, questions: list[dict[str, Any]]
) -> None:
    with pytest.raises(Invalid):
        await team.approvals.ask_question(questions, by="ann")
