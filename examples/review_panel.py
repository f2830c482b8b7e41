"""Three reviewers report to the lead; every report surely arrives, and one task waits for all."""

from __future__ import annotations

import tempfile

import anyio

import bullpen

REVIEWERS = ("security", "speed", "style")


async def main() -> None:
    teams = bullpen.open_teams(home=tempfile.mkdtemp())
    await teams.create("panel", description="Review of the parser")
    team = teams.open("panel")
    reviews = []
    for name in REVIEWERS:
        await team.roster.join(name, by="team-lead")
        task = await team.tasks.add(f"Review for {name}", by="team-lead", owner=name)
        reviews.append(task.id)
    verdict = await team.tasks.add("Write the verdict", by="team-lead", blocked_by=reviews)

    async def review(name: str) -> None:
        task = await team.tasks.claim_next(by=name)
        assert task is not None
        await team.mailbox.send("team-lead", f"{name}: looks good", sender=name, key="report")
        await team.tasks.done(task.id, by=name)

    async with anyio.create_task_group() as group:
        for name in REVIEWERS:
            group.start_soon(review, name)

    box = await team.mailbox.read("team-lead")
    reports = [entry.message.text for entry in box.entries if "looks good" in entry.message.text]
    assert len(reports) == len(REVIEWERS)
    ready = await team.tasks.ready()
    assert [task.id for task in ready] == [verdict.id]
    print(*sorted(reports), sep="\n")
    await teams.aclose()


anyio.run(main)
