"""R-7.2 in a real runner: the runtime looks for the evidence, and what it finds decides."""

from __future__ import annotations

from pathlib import Path

from bullpen.protocol.names import LEAD
from support.agents.completing import at_work, command, complete
from support.crews import Crew


async def test_nothing_is_run_for_somebody_who_cannot_complete_the_task(crew: Crew) -> None:
    await crew.team.tasks.add("One", by=LEAD, checks=[command("touch ran")])
    await at_work(crew)
    bob = await crew.hire("bob")
    text, failed = await complete(bob)
    assert failed
    assert "not_owner" in text
    assert not (Path(bob.desk.spec.cwd) / "ran").exists()
