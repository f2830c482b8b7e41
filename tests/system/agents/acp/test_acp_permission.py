"""What a driven program asks, and what it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.contracts.call import Call
from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_stage import until

from .acp_stage import desk_in, preset, started, take, told, until_told


async def test_what_could_only_be_allowed_for_always_is_not_allowed(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("only always"), desk) as driver:
        await take(driver, desk)
    assert [str(call) for call in desk.wanted] == ["Bash touch made"]
    assert told(desk, "answer") == [{"what": "answer", "option": None}]


async def test_a_call_is_allowed_once_and_never_for_always(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("two paths"), desk) as driver:
        await take(driver, desk)
    assert [(call.tool, call.kind, dict(call.input)) for call in desk.wanted] == [
        ("Edit", "write", {"file_path": "one.txt"}),
        ("Edit", "write", {"file_path": "two.txt"}),
    ]
    assert told(desk, "answer") == [{"what": "answer", "option": "allow_once"}]
    assert (tmp_path / "two.txt").exists()


async def test_of_two_paths_one_that_is_denied_denies_the_call(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)

    def deny_the_second(call: Call) -> Mapping[str, Any]:
        if call.input["file_path"] == "two.txt":
            raise Refused("Not the second.", reason="denied")
        return call.input

    desk.rule = deny_the_second
    async with started(preset("two paths"), desk) as driver:
        await take(driver, desk)
    assert told(desk, "answer")[0] == {"what": "answer", "option": "reject_once"}
    assert not (tmp_path / "one.txt").exists()
    assert "Not the second." in told(desk, "prompt")[1]["text"]


async def test_a_question_that_only_names_a_call_is_about_what_was_told_of_it(
    tmp_path: Path,
) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("by id"), desk) as driver:
        await take(driver, desk)
    (call,) = desk.wanted
    assert (call.tool, call.kind, call.input) == ("Bash", "run", {"command": "touch made"})


async def test_the_reason_of_a_refusal_is_told_where_the_turn_ends_with_it(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    desk.rule = denied
    async with started(preset("stops at a no"), desk) as driver:
        assert await take(driver, desk) == "Again."
    _, second = told(desk, "prompt")
    assert "You may not." in second["text"]
    assert "touch made" in second["text"]


async def test_a_program_that_insists_is_not_prompted_for_ever(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    desk.rule = denied
    async with started(preset("insists"), desk) as driver:
        text = await take(driver, desk)
    assert len(told(desk, "answer")) == len(desk.wanted) == 6
    assert "You may not." in text


async def test_a_changed_call_is_refused_and_the_model_told_what_is_allowed(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    desk.rule = lambda _: {"command": "touch other"}
    async with started(preset("stops at a no"), desk) as driver:
        await take(driver, desk)
    assert told(desk, "answer") == [{"what": "answer", "option": "reject_once"}]
    assert '{"command": "touch other"}' in told(desk, "prompt")[1]["text"]


async def test_a_turn_that_waits_for_an_answer_can_be_cancelled(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    slow = SlowDesk(desk.team, "ann", desk.folder, desk.spec, env=desk.env)
    async with started(preset("asks"), slow) as driver:
        async with anyio.create_task_group() as group:
            group.start_soon(driver.turn, await slow.begin(), slow)
            await until(lambda: bool(slow.wanted))
            group.cancel_scope.cancel()
        assert (await until_told(desk, "answer"))["option"] is None
        assert told(desk, "cancel")
    assert not (tmp_path / "made").exists()


async def test_a_plan_goes_to_whoever_approves_it_and_is_not_approved_here(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path, mode="plan")
    async with started(preset("plans"), desk) as driver:
        await take(driver, desk)
    assert desk.plans[0] == "1. Paint.\n2. Let it dry."
    assert {row["option"] for row in told(desk, "answer")} == {"reject_once"}
    assert "The plan is submitted." in told(desk, "prompt")[1]["text"]


async def test_what_it_asks_of_its_client_beside_the_protocol_is_answered(tmp_path: Path) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("extension", steering="drain"), desk) as driver:
        given = await desk.begin()
        late = await desk.team.mailbox.send("ann", "Use the blue one.", sender=LEAD)
        with anyio.fail_after(60):
            await driver.turn(given, desk)
    assert told(desk, "unknown") == [{"what": "unknown", "code": -32601}]
    (drained,) = told(desk, "drained")
    assert "Use the blue one." in drained["messages"][0]
    assert desk.saw == [late.id]


def denied(call: Call) -> Mapping[str, Any]:
    raise Refused("You may not.", reason="denied")


class SlowDesk(RecordingDesk):
    """A desk at which nobody ever answers."""

    async def permit(self, call: Call) -> Mapping[str, Any]:
        self.wanted.append(call)
        await anyio.sleep_forever()
        return call.input


async def test_a_command_with_the_id_of_a_team_tool_is_asked_for_as_a_command(
    tmp_path: Path,
) -> None:
    desk = await desk_in(tmp_path)
    async with started(preset("reuses an id"), desk) as driver:
        await take(driver, desk)
    assert [(call.tool, dict(call.input)) for call in desk.wanted] == [
        ("Bash", {"command": "touch made"})
    ]
