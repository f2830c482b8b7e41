"""The conversation of an ACP driver: opened, taken up again, in its mode and with its model."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.driver import TurnFailed, TurnInput
from bullpen.agents.drivers.acp import program_session
from bullpen.agents.drivers.acp.driver import make
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.testing.driver_stage import send

from .acp_stage import DEADLINE_S, desk_in, preset, started, take, told


async def test_neither_files_nor_terminals_are_offered(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset(""), desk):
        pass
    (hello,) = told(desk, "initialize")
    offered = hello["client_capabilities"]
    assert offered["fs"] == {"_meta": None, "readTextFile": False, "writeTextFile": False}
    assert offered["terminal"] is False


async def test_a_new_conversation_begins_with_who_the_program_is(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path, instructions="Paint in blue.")
    async with started(preset(""), desk) as driver:
        await take(driver, desk)
        await take(driver, desk)
    first, second = (row["text"] for row in told(desk, "prompt"))
    assert first.startswith("You are ann, a teammate in team alpha.")
    assert "Paint in blue." in first
    assert first.endswith("It is your turn.")
    assert second == "It is your turn."


async def test_a_program_that_never_answered_is_told_again_who_it_is(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("fails once"), desk) as driver:
        with pytest.raises(TurnFailed, match="No such model"):
            await take(driver, desk)
        assert await take(driver, desk) == "Again."
    for row in told(desk, "prompt"):
        assert row["text"].startswith("You are ann")


async def test_what_is_replayed_after_a_load_is_not_said_again(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset(""), desk) as driver:
        await take(driver, desk)
    desk.records.clear()
    async with started(preset(""), desk) as again:
        assert desk.saw == []
        assert await take(again, desk) == "Done."
    assert told(desk, "load") == [{"what": "load", "session": "s-1"}]
    assert [data["text"] for kind, data in desk.records if kind == "text"] == ["Done."]


async def test_the_mode_in_which_it_asks_is_set_after_every_load(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    for _ in range(2):
        async with started(preset(""), desk):
            pass
    assert [row["mode"] for row in told(desk, "mode")] == ["ask", "ask"]


async def test_a_program_that_leaves_its_mode_is_set_back(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("leaves its mode"), desk) as driver:
        assert await take(driver, desk) == "Done."
    assert [row["mode"] for row in told(desk, "mode")] == ["ask", "ask"]
    assert any(kind == "trouble" and "free" in data["text"] for kind, data in desk.records)


async def test_its_own_plan_mode_is_set_where_it_helps(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path, mode="plan")
    async with started(preset("", plan_mode="plan"), desk):
        pass
    assert [row["mode"] for row in told(desk, "mode")] == ["plan"]


async def test_a_conversation_that_is_gone_begins_anew_and_says_so(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    given = await desk.team.mailbox.send("ann", "The key is under the mat.", sender=LEAD)
    async with started(preset(""), desk) as driver:
        await take(driver, desk)
        assert driver.remembers(given.id)
    async with started(preset("forgot"), desk) as again:
        assert not again.remembers(given.id)
        await take(again, desk)
    text = told(desk, "prompt")[-1]["text"]
    assert text.startswith("You are ann")
    assert "could not be resumed" in text
    assert any(
        kind == "trouble" and "Could not load the conversation" in data["text"]
        for kind, data in desk.records
    )


async def test_what_it_remembers_is_read_from_a_whole_file_or_not_at_all(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    (desk.folder / "acp.json").write_text("{", "utf-8")
    async with started(preset(""), desk) as driver:
        assert await take(driver, desk) == "Done."
    assert any(kind == "trouble" and "acp.json" in data["text"] for kind, data in desk.records)


async def test_the_model_that_was_asked_for_is_set(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path, model="small")
    async with started(preset(""), desk) as driver:
        await take(driver, desk)
    assert [(row["option"], row["value"]) for row in told(desk, "option")] == [("model", "small")]


@pytest.mark.parametrize(
    ("part", "model", "words"),
    [
        ("", "huge", r"the model huge, but Tiny uses big and offers: big, small"),
        ("stubborn", "small", r"the model small, but Tiny still uses big"),
        ("no models", "small", r"the model small, but Tiny offers no choice"),
    ],
)
async def test_a_model_that_is_not_to_be_had_fails_the_start_with_both_names(
    tmp_path: Path, part: str, model: str, words: str
) -> None:
    """R-5.5: the model is checked against the program's own report."""
    desk = await desk_in(tmp_path, model=model)
    with pytest.raises(Unavailable, match=words):
        async with started(preset(part), desk):
            pass


async def test_a_program_that_used_another_model_has_failed_for_good(tmp_path: Path) -> None:
    """R-5.5: and on the first turn, against what it says that it used."""
    desk = await desk_in(tmp_path, model="small")
    async with started(preset("other model"), desk) as driver:
        with pytest.raises(TurnFailed, match=r"small, but Tiny used tiny-large-20260101") as caught:
            await take(driver, desk)
    assert caught.value.for_good


async def test_a_program_that_tells_how_full_its_context_is_is_heard(tmp_path: Path) -> None:
    """R-6.1: a window of nothing says nothing."""
    desk = await desk_in(tmp_path)
    async with started(preset("tells its context"), desk) as driver:
        await take(driver, desk)
    assert desk.contexts == [(50_000, 200_000)]


@pytest.mark.parametrize(
    ("part", "asked"),
    [("tells that it grows", [0, 0, 1]), ("tells its context", [0, 1, 2]), ("says", [0, 1, 2])],
    ids=["it grew", "it shrank", "nobody knows"],
)
async def test_a_conversation_that_may_have_been_lost_is_told_the_whole_briefing(
    tmp_path: Path, part: str, asked: list[int]
) -> None:
    """R-1.1: what changed is enough only for a program that has the rest for certain."""
    desk = await desk_in(tmp_path)
    asks = []
    async with started(preset(part), desk) as driver:
        for number in range(3):
            if number == 2:
                await driver._session.program.end(0.0)  # type: ignore[union-attr]
            with anyio.fail_after(DEADLINE_S):
                await driver.turn(TurnInput(f"Turn {number}.", whole=number == 0), desk)
            asks.append(desk.briefings)
    assert asks == asked
    prompts = [row["text"] for row in told(desk, "prompt")]
    state = await desk.briefing()
    assert [text.count(state) for text in prompts[-3:]] == [0, asked[1], 1]
    assert all(f"Turn {number}." in text for number, text in enumerate(prompts[-3:]))


def test_a_program_that_nobody_named_needs_its_command() -> None:
    spec = AgentSpec.new(driver="acp", backend="in-process", cwd="/")
    with pytest.raises(Invalid, match="'acp' needs a command"):
        make(spec)
    made = make(spec.evolve(options={"command": ["my-agent", "--acp"]}))
    assert (made.name, made.capabilities.permissions) == ("acp", True)


@pytest.mark.parametrize(("part", "prompts"), [("steered late", 1), ("never steered", 2)])
async def test_mail_that_a_program_takes_late_into_its_turn_is_not_given_again(
    part: str, prompts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that was stopped; what it never answers, it is told in another prompt."""
    monkeypatch.setattr(program_session, "ANSWER_S", 0.2)
    desk = await desk_in(tmp_path)
    async with started(preset(part, steering="steering"), desk) as driver:
        given = await desk.begin()
        late = await send(desk.team, "Use the blue one.")
        with anyio.fail_after(DEADLINE_S):
            await driver.turn(given, desk)
    texts = [row["text"] for row in told(desk, "prompt")]
    assert ["Use the blue one." in text for text in texts] == [False, True][:prompts]
    assert len(told(desk, "steering")) == 1
    assert desk.saw == [late]
