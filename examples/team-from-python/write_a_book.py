"""A whole team from Python: create it, add tasks, start agents, wait, read the reports."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

import bullpen

LEAD = "team-lead"
SCRIPT = Path(__file__).with_name("script.toml")


async def main(folder: Path) -> None:
    async with bullpen.open_app(home=folder / "home") as app:
        await app.teams.create("book", description="Write a book")
        team = app.teams.open("book")

        chapters = [
            await team.tasks.add(f"Write chapter {number}", by=LEAD) for number in (1, 2, 3)
        ]
        await team.tasks.add(
            "Proofread the book", by=LEAD, blocked_by=[task.id for task in chapters]
        )

        for name in ("ann", "ben"):
            request = bullpen.SpawnRequest(
                cwd=str(folder),
                driver="scripted",
                script=str(SCRIPT),
                mode="acceptEdits",
                prompt="Write the chapters.",
            )
            spec = await app.resolve(request)
            await app.supervisor("book").spawn(name, spec, by=LEAD)

        # Every change of the team wakes this loop; it never polls.
        reports: list[str] = []
        with anyio.fail_after(120):
            async for snapshot in team.snapshots():
                box = await team.mailbox.read(LEAD)
                texts = [entry.message.text for entry in box.entries]
                reports = [text for text in texts if "is written" in text]
                done = [task for task in snapshot.tasks if task.status == "completed"]
                if len(done) == len(reports) == 4:
                    break

        for name in ("ann", "ben"):
            await app.supervisor("book").stop(name, by=LEAD)
        print(f"{len(done)} tasks completed, {len(reports)} reports for the lead")


anyio.run(main, Path(sys.argv[1]))
