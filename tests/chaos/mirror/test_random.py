"""Two homes of one team, and changes at all three places at once: in the end they are one."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bullpen.errors import BullpenError
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team
from support.fleet.homes import TEAM, Home, Program, assert_same, delivered, new_team, settle

pytestmark = pytest.mark.no_loss

NAMES = (LEAD, "ann", "bob")


class Chaos:
    """Somebody who does anything at any place."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.sent = 0

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def pick(self, homes: list[Home]) -> Home:
        return self._random.choice(homes)

    async def act_there(self, team: Team) -> None:
        """One operation where the team lives; the rules may refuse it."""
        random_, who = self._random, self._random.choice(NAMES)
        tasks = [task.id for task in (await team.tasks.list()).tasks]
        task_id = random_.choice(tasks) if tasks else "1"
        acts: list[Callable[[], Awaitable[object]]] = [
            lambda: team.tasks.add(f"There {self.sent}", by=who),
            lambda: team.tasks.claim(task_id, by=who, also=True),
            lambda: team.tasks.done(task_id, by=who),
            lambda: team.tasks.release(task_id, by=who),
            lambda: team.tasks.edit(task_id, by=who, description=f"There {self.sent}"),
            lambda: team.tasks.depend(task_id, random_.choice(tasks or ["1"]), by=who),
            lambda: team.tasks.delete(task_id, by=who),
            lambda: self._read_there(team, who),
        ]
        if self.chance(0.5):
            self.sent += 1
            to = random_.choice([name for name in NAMES if name != who])
            await team.mailbox.send(to, f"There {self.sent}", sender=who)
            return
        try:
            await random_.choice(acts)()
        except BullpenError:
            return

    async def _read_there(self, team: Team, who: str) -> None:
        unread = (await team.mailbox.read(who)).unread
        await team.mailbox.mark(who, [entry.id for entry in unread[:3]], "seen")

    def act_in(self, program: Program) -> None:
        """One thing that a program does to the files of a home."""
        random_, who = self._random, self._random.choice(NAMES)
        tasks = sorted(path.stem for path in program.tasks.glob("*.json"))
        task_id = random_.choice(tasks) if tasks else program.create("First")
        match random_.choice("mmmmmcctwdrkx"):
            case "m":
                self.sent += 1
                to = random_.choice([name for name in NAMES if name != who])
                program.send(who, to, f"Here {self.sent}")
            case "c":
                program.update(task_id, owner=who, status="in_progress")
            case "t":
                program.create(f"Here {self.sent}")
            case "w":
                program.update(task_id, description=f"Here {self.sent}")
            case "d":
                program.update(task_id, status="completed")
            case "r":
                program.drain(who)
            case "k":
                program.mark_read(who)
            case _:
                program.edit_row(who, isActive=self.chance(0.5))


@pytest.mark.parametrize(("kind", "changes"), [("memory", 1000), ("files", 250)])
async def test_two_homes_and_the_team_end_up_the_same(
    kind: str, changes: int, tmp_path: Path
) -> None:
    far: Store = MemoryStore() if kind == "memory" else FileStore(tmp_path / "far", fsync=False)
    await end_up_the_same(far, tmp_path, changes)
    await far.aclose()


async def end_up_the_same(far: Store, tmp_path: Path, changes: int) -> None:
    """Change a team at three places at once, let the mirrors come to rest, and compare."""
    team = await new_team(far)
    homes = [Home(tmp_path / name, far) for name in ("one", "two")]
    await settle(*homes)
    chaos = Chaos(seed=6)
    for _ in range(changes):
        place = chaos.pick([*homes, homes[0]])
        if chaos.chance(1 / 3):
            await chaos.act_there(team)
        else:
            # What is taken out of an inbox before anybody looked was never seen by anybody.
            await place.store.events(TEAM, limit=1)
            chaos.act_in(place.program)
        if chaos.chance(0.2):
            await chaos.pick(homes).mirror.step()
        if chaos.chance(0.01):
            homes[0] = homes[0].again()
    await settle(*homes)
    for home in homes:
        await assert_same(home)
    assert sum([len(await delivered(far, name)) for name in NAMES]) == chaos.sent
    for home in homes:
        await home.aclose()
