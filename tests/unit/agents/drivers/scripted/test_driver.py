"""The scripted driver: which turn is played when, what its steps do, and where it goes on."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.drivers.scripted.driver import Scripted
from bullpen.errors import Unavailable, Unreadable
from bullpen.protocol.agent import Usage
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team
from bullpen.testing.driver_stage import until
from support.agents.scripted_stage import Play, send

# Which turn


async def test_turns_are_played_in_order_and_each_once(play: Play) -> None:
    stage = await play(
        '[[turns]]\nsteps = [{say = "one"}]\n[[turns]]\nsteps = [{say = "one"}]\n'
        '[[turns]]\nsteps = [{say = "two"}]'
    )
    assert [await stage.turn() for _ in range(4)] == ["one", "one", "two", ""]


async def test_a_turn_that_repeats_is_played_again_and_again(play: Play) -> None:
    stage = await play(
        '[[turns]]\nwhen = "start"\nsteps = [{say = "first"}]\n'
        '[[turns]]\nrepeat = true\nsteps = [{say = "again"}]'
    )
    assert [await stage.turn() for _ in range(3)] == ["first", "again", "again"]


async def test_start_is_the_very_first_turn_only(play: Play, team: Team) -> None:
    stage = await play('[[turns]]\nwhen = "start"\nrepeat = true\nsteps = [{say = "I begin"}]')
    assert [await stage.turn(), await stage.turn()] == ["I begin", ""]
    assert await (await stage.restarted()).turn() == ""


async def test_a_turn_for_mail_is_not_played_without_mail(play: Play, team: Team) -> None:
    stage = await play('[[turns]]\nwhen = "mail"\nsteps = [{say = "Mail!"}]')
    assert await stage.turn() == ""
    await send(team, "Hello.")
    assert await stage.turn() == "Mail!"


async def test_mail_is_matched_by_sender_and_words(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nwhen = "mail"\nfrom = "bob"\ncontains = "ready"\nrepeat = true\n'
        'steps = [{say = "{mail} yes"}]'
    )
    await send(team, "ready?")
    await send(team, "steady?", sender="bob")
    assert await stage.turn() == ""
    await send(team, "ready?", sender="bob")
    assert await stage.turn() == "ready? yes"


async def test_a_payload_is_matched_by_its_plain_words(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nwhen = "mail"\ncontains = "is assigned to you"\nsteps = [{say = "Mine."}]'
    )
    await team.tasks.add("Paint", by=LEAD, owner="ann")
    assert await stage.turn() == "Mine."


async def test_a_task_that_is_new_in_its_hands_is_matched_once(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nwhen = "task"\ntask = "Paint"\nrepeat = true\nsteps = [{say = "On {task}."}]'
    )
    await team.tasks.add("Sand the wall", by=LEAD)
    await team.tasks.add("Paint the wall", by=LEAD)
    await team.tasks.claim("1", by="ann")
    assert await stage.turn() == ""
    await team.tasks.done("1", by="ann")
    await team.tasks.claim("2", by="ann")
    assert await stage.turn() == "On 2."
    assert await stage.turn() == ""
    await team.tasks.release("2", by="ann")
    await team.tasks.claim("2", by="ann")
    assert await stage.turn() == "On 2."


async def test_a_turn_waits_until_a_task_of_its_own_can_begin(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nready = "Paint"\nsteps = [{say = "I can paint."}]\n'
        '[[turns]]\nwhen = "mail"\nrepeat = true\nsteps = [{say = "Noted."}]'
    )
    sand = await team.tasks.add("Sand the wall", by=LEAD, owner=LEAD)
    await team.tasks.add("Paint the fence", by=LEAD)
    await team.tasks.add("Paint", by=LEAD, owner="ann", blocked_by=[sand.id])
    assert await stage.turn() == "Noted."
    await team.tasks.claim(sand.id, by=LEAD)
    await team.tasks.done(sand.id, by=LEAD)
    # With mail in the same turn too: what can begin goes first.
    await send(team, "The wall is sanded.")
    assert await stage.turn() == "I can paint."


async def test_a_task_whose_turn_failed_is_still_new(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nwhen = "task"\nsteps = [{fail = "no"}]\n'
        '[[turns]]\nwhen = "task"\nsteps = [{say = "On it."}]'
    )
    await team.tasks.add("Paint", by=LEAD)
    await team.tasks.claim("1", by="ann")
    await stage.failed()
    assert await stage.turn() == "On it."


async def test_a_task_that_the_script_itself_claims_is_not_new(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nwhen = "start"\n'
        'steps = [{tool = "TaskUpdate", input = {taskId = "{task:Pa}", status = "in_progress"}}]\n'
        '[[turns]]\nwhen = "task"\nsteps = [{say = "New!"}]'
    )
    await team.tasks.add("Paint", by=LEAD)
    await stage.turn()
    assert (await team.tasks.get("1")).owner == "ann"
    assert await stage.turn() == ""


ANSWERS = """
[[turns]]
when = "start"
steps = [{tool = "TaskList"}, {tool = "TaskList"}]
[[turns]]
when = "mail"
repeat = true
steps = [{tool = "SendMessage", input = {to = "bob", summary = "s", message = "Got {mail}"}}]
"""


@pytest.mark.parametrize("moment", ["together", "one by one", "in the middle"])
async def test_each_message_is_answered_once_whenever_it_comes(
    play: Play, team: Team, moment: str
) -> None:
    stage = await play(ANSWERS)
    if moment != "in the middle":
        await stage.turn()
    given = await stage.desk.begin()
    for word in ("one", "two", "three"):
        await send(team, word)
        if moment == "one by one":
            await stage.turn()
    if moment == "in the middle":
        await stage.driver.turn(given, stage.desk)
    if moment == "together":
        await stage.turn()
    box = await team.mailbox.read("bob")
    assert [entry.message.text for entry in box.entries] == ["Got one", "Got two", "Got three"]
    assert len(stage.desk.saw) == 3


async def test_mail_that_the_first_turn_came_with_needs_no_other_answer(
    play: Play, team: Team
) -> None:
    stage = await play(ANSWERS)
    await send(team, "Build a house.")
    await stage.turn()
    assert (await team.mailbox.read("bob")).entries == ()
    assert len(stage.desk.saw) == 1


# Steps


async def test_texts_are_filled_in(play: Play, team: Team, tmp_path: Path) -> None:
    stage = await play(
        '[[turns]]\nsteps = [{say = "{agent} {team} {cwd} {task} {task:Sand} {{task}} ${HOME}"}]'
    )
    await team.tasks.add("Sand", by=LEAD)
    await team.tasks.add("Paint", by=LEAD)
    await team.tasks.claim("2", by="ann")
    assert await stage.turn() == f"ann alpha {tmp_path} 2 1 {{task}} ${{HOME}}"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("{task}", "'ann' has no task in progress."),
        ("{task:Paint}", "There is no task whose subject contains 'Paint'."),
        ("{mail}", "No message was answered in this turn."),
    ],
)
async def test_what_cannot_be_filled_in_fails_the_turn(play: Play, text: str, cause: str) -> None:
    stage = await play(f'[[turns]]\nsteps = [{{say = "before"}}, {{say = "{text}"}}]')
    failure = await stage.failed()
    assert (failure.message, failure.partial) == (cause, "before")


async def test_a_tool_that_fails_fails_the_turn_with_what_it_said(play: Play) -> None:
    stage = await play('[[turns]]\nsteps = [{tool = "TaskGet", input = {taskId = "7"}}]')
    failure = await stage.failed()
    assert failure.message.startswith("TaskGet failed: ")
    assert "7" in failure.message


async def test_a_tool_that_may_fail_does_not(play: Play) -> None:
    stage = await play(
        '[[turns]]\nsteps = [{tool = "TaskGet", input = {taskId = "7"}, may_fail = true}, '
        '{say = "On."}]'
    )
    assert await stage.turn() == "On."


async def test_usage_is_what_the_script_says(play: Play) -> None:
    stage = await play(
        "[[turns]]\nsteps = [{usage = {input_tokens = 1000, cost_usd = 0.25}}, "
        '{tool = "TaskList"}, {say = "Done."}]'
    )
    await stage.turn()
    total = Usage.new()
    for usage in stage.desk.usages:
        total = total.plus(usage)
    assert total == Usage.new(requests=2, input_tokens=1000, cost_usd=0.25)


async def test_waiting_for_mail_ends_when_it_comes(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nsteps = [{wait_mail = {from = "bob", contains = "go", seconds = 30}}, '
        '{say = "{mail}"}]'
    )
    said: list[str] = []

    async def run() -> None:
        said.append(await stage.turn())

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: bool(stage.desk.waiting_now))
        assert stage.desk.waits == ["mail from bob"]
        ids = [await send(team, "go"), await send(team, "stop", sender="bob")]
        await until(lambda: stage.desk.saw == ids)
        assert stage.desk.waiting_now and not said
        ids.append(await send(team, "go!", sender="bob"))
    assert said == ["go!"]
    assert stage.desk.saw == ids
    assert not stage.desk.waiting_now


async def test_mail_that_came_before_is_waited_for_no_more(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nwhen = "start"\nsteps = [{tool = "TaskList"}, {wait_mail = {seconds = 30}}, '
        '{say = "{mail}"}]'
    )
    given = await stage.desk.begin()
    await send(team, "Hello.")
    assert (await stage.driver.turn(given, stage.desk)).text == "Hello."


async def test_waiting_in_vain_fails_the_turn(play: Play) -> None:
    stage = await play(
        '[[turns]]\nsteps = [{wait_mail = {from = "bob", contains = "go", seconds = 0.1}}]'
    )
    assert (await stage.failed()).message == "No mail from bob with 'go' came within 0.1 seconds."


# A new process


async def test_a_new_process_goes_on_where_the_old_one_was(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nwhen = "start"\nsteps = [{say = "one"}]\n[[turns]]\nsteps = [{say = "two"}]\n'
        '[[turns]]\nwhen = "task"\nsteps = [{say = "new task"}]'
    )
    await team.tasks.add("Paint", by=LEAD)
    await team.tasks.claim("1", by="ann")
    assert await stage.turn() == "one"
    stage = await stage.restarted()
    assert await stage.turn() == "two"
    stage = await stage.restarted()
    assert await stage.turn() == ""


async def test_a_cancelled_turn_is_not_played_again(play: Play) -> None:
    stage = await play('[[turns]]\nsteps = [{hang = true}]\n[[turns]]\nsteps = [{say = "on"}]')
    with anyio.move_on_after(0.2):
        await stage.turn()
    assert await (await stage.restarted()).turn() == "on"


async def test_only_the_last_thousand_ids_are_kept(play: Play) -> None:
    stage = await play("")
    ids = [f"m{number}" for number in range(1_500)]
    await stage.driver.turn(TurnInput("x", tuple(ids)), stage.desk)
    again = (await stage.restarted()).driver
    assert [again.remembers(each) for each in (ids[499], ids[500], ids[-1])] == [False, True, True]


async def test_damaged_progress_is_an_error_and_no_new_beginning(play: Play) -> None:
    stage = await play('[[turns]]\nsteps = [{say = "one"}]')
    await stage.turn()
    path = anyio.Path(stage.desk.folder / "script.json")
    await path.write_text('{"turns": 1')
    with pytest.raises(Unreadable, match=r"script\.json"):
        await stage.restarted()


async def test_without_a_script_it_cannot_start(play: Play) -> None:
    stage = await play("")
    with pytest.raises(Unavailable, match="no script"):
        await Scripted(stage.desk.spec.evolve(script=None)).start(stage.desk)
    with pytest.raises(Unavailable, match=r"other\.toml"):
        await Scripted(stage.desk.spec.evolve(script="other.toml")).start(stage.desk)


async def test_a_script_ends_with_the_consent_to_a_shutdown(play: Play, team: Team) -> None:
    yes = '{type = "shutdown_response", request_id = "{request}", approve = true}'
    stage = await play(
        '[[turns]]\nwhen = "mail"\ncontains = "shut down"\n'
        f'steps = [{{tool = "SendMessage", input = {yes}}}, {{say = "One more thing."}}]'
    )
    await team.approvals.ask_shutdown("ann", by=LEAD)
    assert await stage.turn() == ""
    assert stage.desk.left == ["agreed to the shutdown that team-lead asked for"]


async def test_write_replaces_a_file_that_an_earlier_run_left(play: Play, team: Team) -> None:
    stage = await play(
        '[[turns]]\nsteps = [{tool = "Write", input = {file_path = "notes/{task}.md", '
        'content = "{subject} is done"}}]'
    )
    await team.tasks.add("Paint the wall", by=LEAD)
    await team.tasks.claim("1", by="ann")
    notes = anyio.Path(stage.desk.spec.cwd, "notes", "1.md")
    await notes.parent.mkdir()
    await notes.write_text("of another run", encoding="utf-8")
    await stage.turn()
    assert await notes.read_text(encoding="utf-8") == "Paint the wall is done"
