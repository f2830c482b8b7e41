"""Turns of weak models that do the same again and again, on the real loop of the native driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.tools.shell import BashInput, CommandFailed
from bullpen.agents.tools.toolbox import toolbox
from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.testing.models import Call, ModelRequest, Reply
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace

MOST = 10
"""How many requests a loop may cost."""


def bash(command: str) -> Call:
    return Call("Bash", {"command": command})


async def run(given: BashInput, desk: Desk) -> str:
    """Run nothing: this tier starts no processes."""
    if "exit" in given.command:
        raise CommandFailed("Exit code 3\n1 failed in 0.12 s")
    return f"ran {given.command}"


def tools(desk: Desk) -> list[Tool[Desk]]:
    """All tools of an agent, with commands that are not run."""
    return [replace(tool, run=run) if tool.name == "Bash" else tool for tool in toolbox(desk)]


LOOPS: dict[str, Callable[[int], Call]] = {
    "a refused tool": lambda n: bash("rm -rf ."),
    "a wrong field": lambda n: Call("Read", {"path": "a.txt"}),
    "the same read": lambda n: Call("Read", {"file_path": "a.txt"}),
    "two calls in turn": lambda n: Call("Read", {"file_path": "ab"[n % 2] + ".txt"}),
    "two changes in turn": lambda n: Call(
        "Edit",
        {
            "file_path": "a.txt",
            "old_string": ["one", "two"][n % 2],
            "new_string": ["two", "one"][n % 2],
        },
    ),
    "growing input": lambda n: bash("rm -rf ." + " ." * n),
    "a growing field": lambda n: Call("Read", {"path" + "h" * n: "a.txt"}),
    "an unknown tool": lambda n: Call("Raed", {"file_path": "a.txt"}),
    "unknown tools": lambda n: Call("R" + "e" * n, {}),
    "a command that fails": lambda n: bash("pytest; exit 1"),
    "an edit that does not match": lambda n: Call(
        "Edit", {"file_path": "a.txt", "old_string": "three", "new_string": "four"}
    ),
    "a refused task": lambda n: Call("TaskUpdate", {"taskId": "99", "status": "completed"}),
    "a message to nobody": lambda n: Call(
        "SendMessage", {"to": "nobody", "summary": "hello", "message": "hello"}
    ),
}


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_model_in_a_loop_is_told_and_then_its_turn_is_ended(
    workplace: Workplace, loop: str
) -> None:
    for name in ("a.txt", "b.txt"):
        (workplace.folder / name).write_text("one\n")

    def rule(call: object) -> dict[str, object]:
        if "rm -rf" in str(call):
            raise Refused(f"You may not do this ({call}).", reason="denied", remedy="Ask.")
        return dict(call.input)  # type: ignore[attr-defined]

    workplace.desk.rule = rule

    def brain(request: ModelRequest) -> Reply:
        number = len(mock.requests) - 1
        if number > 2 * MOST:
            return Reply("Nobody stops me.")
        if loop == "two changes in turn" and not number:
            return Reply(calls=[Call("Read", {"file_path": "a.txt"})])
        return Reply(f"Step {number}.", [LOOPS[loop](number - (loop == "two changes in turn"))])

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tools) as native:
            with pytest.raises(TurnFailed) as ended:
                await workplace.turn(native)
    assert ended.value.failure == "repeats"
    assert "(repeats)" in str(ended.value)
    assert len(mock.requests) <= MOST
    told = [result.text for result in mock.requests[-1].results]
    assert any("Do something else, or end your turn" in text for text in told)
    assert ended.value.partial, "what it said before is kept"


async def test_a_model_that_waits_for_others_is_not_ended(workplace: Workplace) -> None:
    waits = [Call("TaskList", {}), Call("TeamStatus", {}), bash("sleep 0.01; exit 1")]
    steps = [Reply(calls=[waits[number % 3]]) for number in range(24)] + [Reply("Done.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tools) as native:
            assert await workplace.turn(native) == "Done."
    assert len(mock.requests) == 25


async def test_a_turn_with_too_many_requests_is_ended(workplace: Workplace) -> None:
    given = await workplace.desk.begin()
    workplace.desk.brake.turn_begins(12)

    def brain(request: ModelRequest) -> Reply:
        number = len(mock.requests)
        return Reply("Enough.", [bash(f"echo {number}")] if number < 20 else [])

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tools) as native:
            with pytest.raises(TurnFailed) as ended:
                await native.turn(given, workplace.desk)
    assert (len(mock.requests), ended.value.failure) == (12, "requests")


async def test_the_next_turn_starts_from_zero_with_a_conversation_that_is_in_order(
    workplace: Workplace,
) -> None:
    loops = [Call("Read", {"file_path": "a.txt"}) for _ in range(6)]
    steps = [Reply(calls=[each]) for each in loops] + [Reply("Now I stop.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tools) as native:
            with pytest.raises(TurnFailed):
                await workplace.turn(native)
            assert await workplace.turn(native, "Go on.") == "Now I stop."
    assert len(mock.requests) == 7


async def test_a_goal_that_is_reached_ends_the_turn_of_the_lead(workplace: Workplace) -> None:
    workplace.desk.agent = LEAD
    finish = Call("Finish", {"summary": "All done."})
    steps = [Reply("I finish.", [finish, finish])]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tools) as native:
            assert await workplace.turn(native) == "I finish."
    assert len(mock.requests) == 1
    events = await workplace.desk.team.events()
    assert [event.op for event in events].count("team.finish") == 1


async def test_a_refused_finish_names_its_field_and_ends_in_the_brake(workplace: Workplace) -> None:
    workplace.desk.agent = LEAD
    await workplace.desk.team.tasks.add("One", by=LEAD)
    given = {"summary": "s", "reason": "r"}

    def brain(request: ModelRequest) -> Reply:
        number = len(mock.requests)
        finish = Call("Finish", given if number == 1 else {"summary": "s"})
        return Reply("I finish.", [finish] if number < 20 else [])

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tools) as native:
            with pytest.raises(TurnFailed) as ended:
                await workplace.turn(native)
    texts = [result.text for result in mock.requests[-1].results]
    assert "did you mean override_reason?" in texts[0]
    assert "`override_reason`" in texts[1] and "open_tasks" in texts[1]
    assert (len(mock.requests), ended.value.failure) == (7, "repeats")
