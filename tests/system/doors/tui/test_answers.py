"""Answering where one is: by a key, with a reason, by number or in words, always as it was seen."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from textual.pilot import Pilot
from textual.widgets import TextArea

from bullpen.app.stores import open_teams
from bullpen.doors.tui.prompt import ask_bar, prompt_line
from bullpen.doors.tui.prompt.prompt_line import PromptLine
from bullpen.protocol.clock import now_ms
from bullpen.team.team import Team
from support.doors.tui_screens import (
    SETTLED_S,
    answered,
    enter,
    opened,
    quick_keys,
    ready,
    text_of,
    told,
    until,
    until_told,
)
from support.doors.tui_teams import ask, at, beat, hire

PLAN = "# Go\n\nslowly and **carefully**\n"
LONG = "\n".join(f"echo step {number}" for number in range(60))


@pytest.fixture
async def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Team, None]:
    """A team with two members, as they are right now."""
    quick_keys(monkeypatch)
    async with open_teams(at(tmp_path)) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        for name in ("alice", "bob"):
            await hire(team, name)
            await beat(team, name, "working", ms=now_ms())
        yield team


async def seen(pilot: Pilot[None], shown: str) -> None:
    """Wait for a request on the bar, and let it settle."""
    await ready(pilot)
    await until(pilot, shown)
    await anyio.sleep(2 * SETTLED_S)


def line(pilot: Pilot[None]) -> str:
    """What is in the input line."""
    return pilot.app.screen.query_one(PromptLine).text


async def test_one_key_allows_exactly_what_is_shown(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "alice wants to run: git push origin main")
        assert "1 waiting for you" in text_of(pilot)
        await pilot.press("a")
        found = await answered(pilot, team, request)
        assert (found.state, found.voice) == ("approved", "human")
        await until_told(pilot, "Allowed alice")
        await until(pilot, lambda: "wants to run" not in text_of(pilot))
        _, agent = await team.agents.get("alice")
        assert agent.standing.allow == []


async def test_always_adds_the_rule_that_is_shown(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "Always would allow: Bash(git push:*)")
        await pilot.press("A")
        await answered(pilot, team, request)
        _, agent = await team.agents.get("alice")
        assert agent.standing.allow == ["Bash(git push:*)"]


async def test_always_offers_its_choices_from_narrow_to_wide(tmp_path: Path, team: Team) -> None:
    def choice(name: str, covers: str, rule: str) -> dict[str, object]:
        row = {"toolName": "Bash", "ruleContent": rule}
        added = {"type": "addRules", "rules": [row], "behavior": "allow", "destination": "session"}
        return {"name": name, "covers": covers, "suggestions": [added]}

    request = await team.approvals.ask_permission(
        "Bash", {"command": "make deploy ENV=staging"}, by="bob", approver="human",
        deadline_s=600,
        choices=(
            choice("exact", "exactly this command line", "make deploy ENV=staging"),
            choice("program", "make with these arguments", "make deploy:*"),
        ),
    )  # fmt: skip
    async with opened(tmp_path, frozen=False, size=(120, 40)) as pilot:
        await seen(pilot, "bob wants to run: make deploy ENV=staging")
        await pilot.press("A")
        await until(pilot, "1 exactly this command line: Bash(make deploy ENV=staging)")
        assert "2 make with these arguments: Bash(make deploy:*)" in text_of(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: "exactly this" not in text_of(pilot))
        await pilot.press("A")
        await until(pilot, "exactly this command line")
        await pilot.press("2")
        await answered(pilot, team, request)
        _, agent = await team.agents.get("bob")
        assert agent.standing.allow == ["Bash(make deploy:*)"]


async def test_a_word_that_begins_with_such_a_key_is_text(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_line, "HOLD_S", 30.0)
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "alice wants to run")
        for text in ("all of you", "deny it", "A word"):
            await pilot.press(*text)
            assert line(pilot) == text
            await pilot.press("ctrl+c")
            assert line(pilot) == ""
        assert (await team.approvals.get(request.id)).state == "pending"
        # Enter waits for no second key.
        await pilot.press("a", "enter")
        assert (await answered(pilot, team, request)).state == "approved"


async def test_deny_takes_a_reason_in_place(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "git push")
        await pilot.press("d")
        await until(pilot, "deny alice, reason")
        await pilot.press(*"not now", "enter")
        found = await answered(pilot, team, request)
        assert found.state == "denied"
        mail = await team.mailbox.read("alice", history=True)
        assert any("not now" in entry.message.text for entry in mail.entries)
        await until_told(pilot, "Denied alice")


async def test_escape_answers_nothing(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "git push")
        await pilot.press("d")
        await until(pilot, "deny alice, reason")
        await pilot.press(*"no", "escape")
        await until(pilot, lambda: "reason" not in text_of(pilot))
        await pilot.press("e")
        await until(pilot, "Cancel")
        await pilot.press("escape")
        await until(pilot, lambda: "Cancel" not in text_of(pilot))
        assert (await team.approvals.get(request.id)).state == "pending"


async def test_an_edit_that_is_no_input_is_refused_and_can_be_mended(
    tmp_path: Path, team: Team
) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "git push")
        await pilot.press("e")
        await until(pilot, '"command"')
        pilot.app.screen.query_one(TextArea).text = "{not json"
        await pilot.press("ctrl+s")
        await until(pilot, "The input is not JSON")
        assert (await team.approvals.get(request.id)).state == "pending"
        area = pilot.app.screen.query_one(TextArea)
        assert area.text == "{not json"
        area.text = json.dumps({"command": "git push --dry-run"})
        await pilot.press("ctrl+s")
        found = await answered(pilot, team, request)
        assert (found.answer or {})["updatedInput"] == {"command": "git push --dry-run"}


async def test_what_appears_by_itself_is_not_answered_at_once(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ask(team, "alice", "echo one")
    second = await ask(team, "bob", "echo two")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "1 of 2  alice wants to run: echo one")
        monkeypatch.setattr(ask_bar, "SETTLE_S", 60.0)
        # Going there counts as having seen it.
        await pilot.press("n")
        await until(pilot, "2 of 2  bob wants to run: echo two")
        await pilot.press("n")
        await until(pilot, "1 of 2  alice wants to run: echo one")
        await pilot.press("a")
        await answered(pilot, team, first)
        await until(pilot, "bob wants to run: echo two")
        await pilot.press("a")
        await until_told(pilot, "only just appeared")
        assert line(pilot) == ""
        assert (await team.approvals.get(second.id)).state == "pending"
        monkeypatch.setattr(ask_bar, "SETTLE_S", 0.0)
        await pilot.press("a")
        assert (await answered(pilot, team, second)).state == "approved"


async def test_nobody_approves_what_is_not_on_the_screen(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await ask(team, "alice", LONG)
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "more lines: v shows all, a shows all of it first")
        assert "echo step 59" not in text_of(pilot)
        await pilot.press("a")
        await until(pilot, "a allow")
        monkeypatch.setattr(ask_bar, "SETTLE_S", 60.0)
        await pilot.press("a")
        await until_told(pilot, "only just opened")
        await pilot.press("end")
        await until(pilot, "echo step 59")
        assert (await team.approvals.get(request.id)).state == "pending"
        monkeypatch.setattr(ask_bar, "SETTLE_S", 0.0)
        await pilot.press("a")
        assert (await answered(pilot, team, request)).state == "approved"


async def test_a_long_request_that_was_viewed_is_answered_on_the_bar(
    tmp_path: Path, team: Team
) -> None:
    request = await ask(team, "alice", LONG)
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "v shows all")
        await pilot.press("v")
        await until(pilot, "echo step 9")
        await pilot.press("escape")
        await until(pilot, "v shows all")
        assert "a shows all of it first" not in text_of(pilot)
        await pilot.press("a")
        assert (await answered(pilot, team, request)).state == "approved"


async def test_a_plan_is_rendered_and_approved_with_words(tmp_path: Path, team: Team) -> None:
    await hire(team, "carol", mode="plan")
    request = await team.approvals.ask_plan(PLAN, by="carol", approver="human")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "carol asks you to approve its plan")
        await pilot.press("v")
        await until(pilot, "slowly and carefully")
        await pilot.press("r")
        await until(pilot, "slowly and **carefully**")
        await pilot.press("escape")
        await seen(pilot, "[w]ith words")
        await pilot.press("w")
        await until(pilot, "approve the plan of carol, words:")
        await pilot.press(*"mind the tests", "enter")
        found = await answered(pilot, team, request)
        assert found.state == "approved"
        assert (found.answer or {})["feedback"] == "mind the tests"


async def test_a_plan_is_rejected_with_a_reason(tmp_path: Path, team: Team) -> None:
    await hire(team, "carol", mode="plan")
    request = await team.approvals.ask_plan(PLAN, by="carol", approver="human")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "carol asks you to approve its plan")
        await pilot.press("d")
        await until(pilot, "reject the plan of carol, reason")
        assert "Enter denies, Esc goes back." in text_of(pilot)
        await pilot.press(*"too slow", "enter")
        found = await answered(pilot, team, request)
        assert found.state == "denied"
        assert (found.answer or {})["feedback"] == "too slow"
        await until_told(pilot, "Rejected the plan of carol")


async def test_a_question_is_answered_by_number(tmp_path: Path, team: Team) -> None:
    colour = {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}
    request = await team.approvals.ask_question([colour], by="alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "2. Blue")
        assert "[1-2] answer" in text_of(pilot)
        await pilot.press("2")
        found = await answered(pilot, team, request)
        assert found.state == "approved" and (found.answer or {})["feedback"] == "Blue"


async def test_typed_words_answer_the_question_that_the_line_names(
    tmp_path: Path, team: Team
) -> None:
    request = await team.approvals.ask_question([{"question": "Which colour?"}], by="alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "answer alice:")
        await enter(pilot, "@bob wait")
        await until_told(pilot, "To bob")
        assert (await team.approvals.get(request.id)).state == "pending"
        await enter(pilot, "Green, as agreed")
        found = await answered(pilot, team, request)
        assert (found.answer or {})["feedback"] == "Green, as agreed"


async def test_a_question_does_not_take_over_a_text_that_is_being_typed(
    tmp_path: Path, team: Team
) -> None:
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await pilot.press(*"hello")
        await team.approvals.ask_question([{"question": "Which colour?"}], by="alice")
        await until(pilot, "Which colour?")
        assert "you → alice:" in text_of(pilot)
        await pilot.press("enter")
        await until(pilot, "answer alice:")
        mail = await team.mailbox.read("alice", history=True)
        assert [entry.message.text for entry in mail.entries][-1:] == ["hello"]


async def test_what_the_lead_should_answer_waits_for_nobody_here_until_its_member_is_chosen(
    tmp_path: Path, team: Team
) -> None:
    await team.approvals.ask_permission(
        "Bash", {"command": "make"}, by="bob", approver="lead", deadline_s=600
    )
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "asks: Bash")
        assert "waiting for you" not in text_of(pilot)
        assert "wants to run" not in text_of(pilot)
        await pilot.press("shift+down")
        await until(pilot, "bob wants to run:")


async def test_an_answer_from_elsewhere_takes_the_request_off_the_bar(
    tmp_path: Path, team: Team
) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "git push")
        await pilot.press("d")
        await until(pilot, "deny alice, reason")
        await team.approvals.answer(request.id, approve=False, by="team-lead", voice="human")
        await until(pilot, lambda: "git push" not in text_of(pilot))
        assert "deny alice" not in text_of(pilot)
        assert "bug" not in told(pilot)


async def test_a_text_beside_a_request_says_that_it_is_text(tmp_path: Path, team: Team) -> None:
    request = await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "alice wants to run")
        await pilot.press("x")
        await until_told(pilot, "This is text to alice. Ctrl-C empties it, then a allows.")
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "This is text" not in told(pilot))
        await pilot.press("y", "enter")
        await until_told(pilot, "Sent as text to alice; the request still waits: a / d.")
        assert (await team.approvals.get(request.id)).state == "pending"
        await pilot.press("a")
        assert (await answered(pilot, team, request)).state == "approved"


async def test_a_command_and_a_single_key_are_no_text(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_line, "HOLD_S", 30.0)
    await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "alice wants to run")
        for key in ("a", "/", "@"):
            await pilot.press(key)
            await pilot.pause(0.1)
            assert "This is text" not in told(pilot), key
            await pilot.press("ctrl+c")


async def test_the_request_of_the_chosen_member_comes_first(tmp_path: Path, team: Team) -> None:
    first = await ask(team, "alice", "sleep 600")
    second = await ask(team, "bob", "make")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "1 of 2  alice wants to run: sleep 600")
        await pilot.press("shift+down")
        await seen(pilot, "1 of 2  bob wants to run: make")
        await pilot.press("a")
        assert (await answered(pilot, team, second)).state == "approved"
        assert (await team.approvals.get(first.id)).state == "pending"


async def test_a_request_stays_under_the_keys_when_another_one_comes(
    tmp_path: Path, team: Team
) -> None:
    await ask(team, "bob", "make")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "bob wants to run: make")
        # alice is chosen, but a key may be on its way to what bob asks.
        await ask(team, "alice", "sleep 600")
        await until(pilot, "2 of 2  bob wants to run: make")


async def test_how_long_is_left_to_answer_is_shown_from_the_start(
    tmp_path: Path, team: Team
) -> None:
    await ask(team, "alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "10m left to answer")
        bar = pilot.app.screen.query_one(ask_bar.AskBar)
        bar.age(now_ms() + 500_000)
        assert "1m 3" in str(bar.content) and "left to answer" in str(bar.content)


async def test_the_card_of_a_question_names_each_way_to_answer_once(
    tmp_path: Path, team: Team
) -> None:
    await team.approvals.ask_question([{"question": "Which colour?"}], by="alice")
    async with opened(tmp_path, frozen=False) as pilot:
        await seen(pilot, "or type the answer")
        assert "[w]ords" not in text_of(pilot)
        await pilot.press("escape")
        await until(pilot, "[w]ords")
        assert "or type the answer" not in text_of(pilot)
