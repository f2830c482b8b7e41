"""Delivery to agents in processes of their own: what is sent is seen once, whatever dies."""

from __future__ import annotations

import os
import signal

import pytest

from bullpen.agents.system.transcript import rows
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, payload_of
from support.crews import eventually
from support.offices import OUTSIDE, TEAM, Place

DIES_THEN_SAYS = """
[[agents.alice.turns]]
when = "mail"
contains = "the message"
repeat = true
steps = [{{ {death} }}, {{say = "I saw it: {{mail}}"}}]
"""


async def reports(place: Place) -> list[str]:
    """The final texts that reached the lead."""
    box = await place.team.mailbox.read(LEAD)
    payloads = (payload_of(entry.message.text) for entry in box.entries)
    return [p.result for p in payloads if isinstance(p, IdleNotification) and p.result]


async def test_mail_is_injected_again_after_kill_9_between_injected_and_seen(place: Place) -> None:
    """R-2.1b: kill the recipient between injection and the answer: it is injected again."""
    script = place.folder / "script.toml"
    script.write_text(DIES_THEN_SAYS.format(death="kill = 9"), "utf-8")
    await place.spawn("alice", script=str(script))
    nonce = await place.nonce("alice")
    sent = await place.team.mailbox.send("alice", "the message", sender=LEAD)

    async def died() -> bool:
        return await place.supervisor.tend(by=LEAD) == ["alice"]

    await eventually(died, within_s=30)

    async def state() -> str:
        box = await place.team.mailbox.read("alice", history=True)
        return next(entry.state for entry in box.entries if entry.id == sent.id)

    assert await state() == "injected"
    script.write_text(DIES_THEN_SAYS.format(death="sleep = 0.01"), "utf-8")
    (again,) = await place.supervisor.resume(by=LEAD)
    assert again.name == "alice"
    assert await place.nonce("alice") != nonce

    async def seen() -> bool:
        return await state() == "seen"

    await eventually(seen, within_s=30)

    async def reported() -> bool:
        return await reports(place) == ["I saw it: the message"]

    await eventually(reported, within_s=30)
    transcript = rows(await place.supervisor.transcript("alice"))
    injected = [row for row in transcript if row["kind"] == "mail" and sent.id in row["ids"]]
    assert len(injected) == 2


@pytest.mark.parametrize("backend", OUTSIDE)
async def test_a_message_to_an_agent_in_a_long_turn_is_in_its_very_next_request(
    place: Place, backend: str
) -> None:
    """R-2.2: normal mail is in context at the next tool boundary."""
    await place.spawn(
        "alice",
        """
        [[agents.alice.turns]]
        when = "start"
        steps = [
         {tool = "Bash", input = {command = "touch started; until [ -e go ]; do sleep 0.1; done"}},
          {say = "after the tool"},
        ]
        """,
        backend=backend,
        prompt="Begin",
    )
    await eventually((place.project / "started").exists, within_s=30)
    sent = await place.team.mailbox.send("alice", "Use the other one", sender=LEAD)
    (place.project / "go").touch()

    async def reported() -> bool:
        return await reports(place) == ["after the tool"]

    await eventually(reported, within_s=30)
    kinds = [
        (row["kind"], row.get("ids") == [sent.id])
        for row in rows(await place.supervisor.transcript("alice"))
        if row["kind"] in ("mail", "result", "text", "turn")
    ]
    assert kinds == [
        ("mail", False),
        ("turn", False),
        ("result", False),
        ("mail", True),
        ("text", False),
    ]


@pytest.mark.parametrize("backend", OUTSIDE)
async def test_stop_ends_a_command_that_would_take_for_ever(place: Place, backend: str) -> None:
    """R-2.2: teammate in a long shell command: `stop` ends its process group."""
    await place.spawn(
        "alice",
        """
        [[agents.alice.turns]]
        when = "start"
        steps = [{tool = "Bash", input = {command = "echo $$ > pid; sleep 9999 & sleep 9999"}}]
        """,
        backend=backend,
        prompt="Begin",
    )
    await eventually(lambda: bool((place.project / "pid").exists()), within_s=30)
    await eventually(lambda: (place.project / "pid").read_text() != "")
    shell = int((place.project / "pid").read_text())
    os.kill(shell, 0)
    stopped = await place.supervisor.stop("alice", by=LEAD)
    assert stopped.was_alive
    assert place.processes() == []
    with pytest.raises(ProcessLookupError):
        os.kill(shell, 0)
    assert place.panes() == []


async def test_an_agent_whose_history_holds_a_message_is_not_given_it_twice(place: Place) -> None:
    """Killed after the answer and before the record of it: the driver remembers."""
    script = """
    [[agents.alice.turns]]
    when = "mail"
    contains = "the message"
    repeat = true
    steps = [{say = "seen"}, {tool = "Bash", input = {command = "echo x >> saw; sleep 9999"}}]
    """
    await place.spawn("alice", script)
    await place.team.mailbox.send("alice", "the message", sender=LEAD)
    await eventually((place.project / "saw").exists, within_s=30)
    agent = (await place.team.agents.get("alice"))[1]
    assert agent.process is not None
    assert agent.process.pid is not None
    os.kill(agent.process.pid, signal.SIGKILL)
    # As if it had been killed between the two: the store does not know that it was seen.
    inbox = place.home / "teams" / TEAM / "inboxes" / "alice.json"
    inbox.write_text(inbox.read_text().replace('"read": true', '"read": false'))

    async def lost() -> bool:
        return await place.supervisor.tend(by=LEAD) == ["alice"]

    await eventually(lost, within_s=30)
    await place.supervisor.resume(by=LEAD)
    box = await place.team.mailbox.read("alice", history=True)
    assert [entry.state for entry in box.entries] == ["seen"]
    assert (place.project / "saw").read_text() == "x\n"
