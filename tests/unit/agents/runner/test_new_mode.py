"""A mode that is changed while an agent works: its next call is judged by it, and it is told."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import ModeSetRequest
from support.agents.asking_turns import asking, the_request
from support.agents.planners import Planner, hire, submitted, wrote
from support.crews import Crew, eventually


class Writer:
    """A model that writes, waits until its mode is changed, and writes again."""

    def __init__(self, until: str) -> None:
        self.until = until
        self.began = anyio.Event()
        self.results: list[tuple[str, bool]] = []
        self.mail: list[str] = []

    async def __call__(self, given: TurnInput, desk: Desk) -> str:
        await self._write(desk)
        self.began.set()
        await eventually(lambda: desk.mode == self.until)
        mail = await desk.take_mail()
        self.mail.append("" if mail is None else mail.text)
        await self._write(desk)
        return "done"

    async def _write(self, desk: Desk) -> None:
        given = {"file_path": f"file-{len(self.results)}", "content": "x"}
        self.results.append(await call(toolbox(desk), "Write", given, desk))


async def test_a_narrower_mode_stops_the_next_call_of_the_same_turn(
    crew: Crew, tmp_path: Path
) -> None:
    model = Writer(until="plan")
    await crew.hire("ann", model, mode="acceptEdits", prompt="Go")
    await model.began.wait()
    await crew.team.modes.change("ann", "plan", by=LEAD)
    await eventually(lambda: len(model.results) == 2)
    assert [failed for _, failed in model.results] == [False, True]
    assert (tmp_path / "agents" / "file-0").exists()
    assert not (tmp_path / "agents" / "file-1").exists()
    (told,) = model.mail
    assert "Your permission mode is now plan." in told
    assert "ExitPlanMode" in told and "teammate-message" not in told


async def test_a_wider_mode_counts_from_the_next_call_on(crew: Crew, tmp_path: Path) -> None:
    model = Writer(until="acceptEdits")
    ann = await crew.hire("ann", model, mode="dontAsk", prompt="Go")
    await model.began.wait()
    await crew.team.modes.change("ann", "acceptEdits", by=LEAD)
    await eventually(lambda: bool(ann.told("end")))
    assert [failed for _, failed in model.results] == [True, False]
    assert (tmp_path / "agents" / "file-1").exists()
    (row,) = ann.told("mode")
    assert (row["before"], row["mode"]) == ("dontAsk", "acceptEdits")


async def test_a_new_mode_costs_an_idle_agent_no_turn_and_is_told_in_the_next(crew: Crew) -> None:
    ann = await crew.hire("ann", mode="default")
    await crew.team.modes.change("ann", "acceptEdits", by=LEAD)
    await eventually(lambda: ann.desk.mode == "acceptEdits")
    assert ann.turns == []
    await crew.team.mailbox.send("ann", "Go on", sender=LEAD)
    await eventually(lambda: len(ann.turns) == 1)
    assert "Your permission mode is now acceptEdits." in ann.turns[0]
    await crew.team.mailbox.send("ann", "And again", sender=LEAD)
    await eventually(lambda: len(ann.turns) == 2)
    assert "permission mode" not in ann.turns[1]


async def test_who_waits_for_its_plan_goes_on_when_its_mode_is_changed(
    crew: Crew, tmp_path: Path
) -> None:
    model = Planner("# Plan")
    await hire(crew, model)
    await submitted(crew.team)
    assert not wrote(tmp_path)
    await crew.team.modes.change("alice", "acceptEdits", by=LEAD)
    await eventually(lambda: wrote(tmp_path))
    assert any("You no longer plan: start the work." in text for text in model.told)


async def test_a_lead_is_told_to_only_lead_while_it_works_and_back(crew: Crew) -> None:
    lead = await crew.hire(LEAD, mode="bypassPermissions")
    touch = Call("Bash", {"command": "true"}, "run")
    await lead.desk.permit(touch)
    await crew.team.modes.change(LEAD, "delegate", by=LEAD)
    with pytest.raises(Refused) as error:
        await lead.desk.permit(touch)
    assert "you only lead" in error.value.message
    await eventually(lambda: lead.desk.mode == "delegate")
    assert "Bash" not in {tool.name for tool in toolbox(lead.desk)}
    assert "You only lead" in " ".join(lead.desk.planning.news)
    await crew.team.modes.change(LEAD, "bypassPermissions", by=LEAD)
    await lead.desk.permit(touch)
    await eventually(lambda: lead.desk.mode == "bypassPermissions")
    assert "Bash" in {tool.name for tool in toolbox(lead.desk)}


async def read_by(crew: Crew, name: str) -> None:
    """Wait until an agent has seen all its mail."""

    async def is_read() -> bool:
        return not (await crew.team.mailbox.read(name)).unread

    await eventually(is_read)


async def test_an_agent_obeys_the_message_of_a_lead_that_only_writes_messages(crew: Crew) -> None:
    """The lead may be another program: it knows the protocol and not our store."""
    ann = await crew.hire("ann", mode="dontAsk")
    order = ModeSetRequest.new(mode="plan", sender=LEAD)
    await crew.team.mailbox.send("ann", order.text(), sender=LEAD)
    await eventually(lambda: ann.desk.mode == "plan")
    _, agent = await crew.team.agents.get("ann")
    assert (agent.mode, agent.standing.mode_by) == ("plan", LEAD)


async def test_the_message_about_an_earlier_change_does_not_undo_a_later_one(crew: Crew) -> None:
    """Both are in the inbox when the agent reads the first."""
    release = anyio.Event()

    async def works(given: TurnInput, desk: Desk) -> str:
        await release.wait()
        return "done"

    ann = await crew.hire("ann", works, mode="acceptEdits", prompt="Go")
    await crew.team.modes.change("ann", "default", by=LEAD)
    await crew.team.modes.change("ann", "plan", by=LEAD)
    release.set()
    await read_by(crew, "ann")
    assert (await crew.team.agents.get("ann"))[1].mode == ann.desk.mode == "plan"


@pytest.mark.parametrize("mode", ["root", "acceptEdits", "bypassPermissions"])
async def test_a_message_gives_no_mode_that_its_sender_may_not_give(crew: Crew, mode: str) -> None:
    ann = await crew.hire("ann", mode="default")
    order = ModeSetRequest.new(mode=mode, sender=LEAD)
    # Words of a person are no proof either: any program can write them into a file.
    await crew.team.mailbox.send("ann", order.text(), sender=LEAD, voice="human")
    await read_by(crew, "ann")
    assert (await crew.team.agents.get("ann"))[1].mode == ann.desk.mode == "default"
    assert "Ignored a mode from team-lead" in str(ann.told("trouble"))


@pytest.mark.parametrize("sender", [LEAD, "bob"])
async def test_a_message_alone_widens_no_mode(crew: Crew, sender: str) -> None:
    """Whoever can write the message could otherwise give rights that are nobody's to give."""
    ann = await crew.hire("ann", mode="dontAsk")
    await crew.team.roster.join("bob", by=LEAD)
    order = ModeSetRequest.new(mode="bypassPermissions", sender=sender)
    if sender == LEAD:
        await crew.team.mailbox.send("ann", order.text(), sender=sender)

        async def is_read() -> bool:
            return not (await crew.team.mailbox.read("ann")).unread

        await eventually(is_read)
    else:
        with pytest.raises(Refused) as error:
            await crew.team.mailbox.send("ann", order.text(), sender=sender)
        assert error.value.reason == "not_lead"
    assert (await crew.team.agents.get("ann"))[1].mode == ann.desk.mode == "dontAsk"


@pytest.mark.parametrize(("asked", "given"), [("plan", "plan"), ("bypassPermissions", "default")])
async def test_a_guest_obeys_the_lead_of_another_program_but_gets_no_more_than_it_came_with(
    crew: Crew, asked: str, given: str
) -> None:
    """That lead writes the message and nothing else."""
    guest = {"guest": True}
    ann = await crew.hire("ann", mode="default", options=guest, policy=asking(approver="inbox"))
    assert ann.desk.spec.is_guest
    order = ModeSetRequest.new(mode=asked, sender=LEAD)
    await crew.team.mailbox.send("ann", order.text(), sender=LEAD)

    async def is_read() -> bool:
        return not (await crew.team.mailbox.read("ann")).unread

    await eventually(is_read)
    assert (await crew.team.agents.get("ann"))[1].mode == ann.desk.mode == given


async def test_a_request_that_waits_is_still_to_be_answered(crew: Crew) -> None:
    """A wider mode is about the calls to come; whoever was asked still answers this one."""

    async def asks(given: TurnInput, desk: Desk) -> str:
        file = {"file_path": "mark", "content": "x"}
        text, _ = await call(toolbox(desk), "Write", file, desk)
        return text

    ann = await crew.hire("ann", asks, mode="default", prompt="Go")
    request = await the_request(crew.team)
    await crew.team.modes.change("ann", "bypassPermissions", by=LEAD)
    await eventually(lambda: ann.desk.mode == "bypassPermissions")
    assert (await crew.team.approvals.get(request.id)).state == "pending"
    await crew.team.approvals.answer(request.id, approve=True, by=LEAD, voice="human")
    await eventually(lambda: bool(ann.told("end")))
