"""What the racing processes do."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from bullpen.errors import Refused
from bullpen.team.team import Team
from support.store.race import Diary


async def join(team: Team, number: int, diary: Diary, extra: None) -> None:
    member = await team.roster.join(f"member-{number}", by="team-lead")
    diary.note(joined=member.name, color=member.color)


async def send(team: Team, number: int, diary: Diary, count: int) -> None:
    for index in range(count):
        text = f"{number}-{index} ".ljust(1024, "x")
        sent = await team.mailbox.send("team-lead", text, sender=f"member-{number}")
        diary.note(sent=sent.id)


async def work(team: Team, number: int, diary: Diary, extra: None) -> None:
    """Claim at random until everything is done, and finish what was claimed."""
    me, chance = f"member-{number}", random.Random(number)
    while True:
        open_tasks = [t for t in (await team.tasks.list()).tasks if t.status != "completed"]
        if not open_tasks:
            return
        for task in chance.sample(open_tasks, min(4, len(open_tasks))):
            try:
                await team.tasks.claim(task.id, by=me)
            except Refused as refused:
                diary.note(refused=refused.reason, task=task.id)
                continue
            diary.note(claimed=task.id)
            await team.tasks.done(task.id, by=me)
            diary.note(done=task.id)
        claimed = await team.tasks.claim_next(by=me)
        if claimed:
            diary.note(claimed=claimed.id)
            await team.tasks.done(claimed.id, by=me)
            diary.note(done=claimed.id)


async def add_edges(team: Team, number: int, diary: Diary, count: int) -> None:
    chance = random.Random(number)
    for _ in range(count):
        one, other = chance.sample(range(1, 31), 2)
        try:
            await team.tasks.depend(str(one), str(other), by=f"member-{number}")
            diary.note(added=[one, other])
        except Refused as refused:
            diary.note(refused=refused.reason)


def read_in_a_loop(inbox: Path, report: Path, stop: Path) -> None:
    """A reader without a lock, as other programs are: every look must find a whole file."""
    looks = torn = most = 0
    while not stop.exists():
        try:
            rows = json.loads(inbox.read_bytes())
            looks += 1
            if len(rows) < most:
                torn += 1
            most = max(most, len(rows))
        except FileNotFoundError:
            time.sleep(0.001)
        except ValueError:
            looks += 1
            torn += 1
    report.write_text(json.dumps({"looks": looks, "torn": torn}), encoding="utf-8")
