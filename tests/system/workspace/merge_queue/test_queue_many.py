"""Many branches over the same files: the target is green after each step, and nobody is lost."""

from __future__ import annotations

import random
from pathlib import Path

from bullpen.store.memory import MemoryStore
from bullpen.workspace.merge_queue.queue import Stepped
from support.git.repositories import git
from support.git.yard import GATE, TEST, Yard, fill, run, slots


class Witness:
    """Somebody who checks out the target elsewhere after each step, and runs the gate there."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._place = yard.project.parent / "witness"
        git(yard.project.parent, "clone", "--quiet", str(yard.project), str(self._place))
        self.targets: list[str] = []

    def __call__(self, stepped: Stepped) -> None:
        assert stepped.target == self._yard.target
        git(self._place, "fetch", "--quiet", "origin")
        before = git(self._place, "rev-parse", "HEAD")
        git(self._place, "checkout", "--quiet", "--detach", "origin/main")
        # It only ever moves forward.
        git(self._place, "merge-base", "--is-ancestor", before, "HEAD")
        assert run(self._place, "sh", "-c", GATE).returncode == 0
        self.targets.append(stepped.target)


def mended(tree: Path) -> None:
    """What an agent does that may only edit files: both sides stay, what is broken is mended."""
    for file in tree.glob("*.txt"):
        lines = file.read_text("utf-8").splitlines()
        kept = [line for line in lines if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
        file.write_text("".join(f"{line}\n" for line in kept).replace("BROKEN", "0"), "utf-8")


async def mend_all(yard: Yard) -> list[str]:
    """Everybody takes what came back, mends it, and hands it in again."""
    mended_ids = []
    for task in (await yard.team.tasks.list()).tasks:
        record = task.facts.merge
        if record is None or record.state != "returned":
            continue
        again, note = await yard.retake(record.by, task.id)
        assert note is not None
        await yard.finish(record.by, again, mended)
        mended_ids.append(task.id)
    return mended_ids


async def everything_is_kept(yard: Yard) -> None:
    """No branch was lost: every commit that was ever handed in is reachable from a ref."""
    kept = set(git(yard.project, "rev-list", "--all").splitlines())
    for task in (await yard.team.tasks.list()).tasks:
        handed_in = [s for s in (await yard.record(task.id)).steps if s.what == "queued"]
        assert handed_in
        assert {step.commit for step in handed_in} <= kept


async def all_merged(yard: Yard, witness: Witness) -> list[str]:
    """Let the queue work and the owners mend until everything is merged; why work came back."""
    queue = yard.queue()
    why: list[str] = []
    for _ in range(20):
        for stepped in await yard.drain(queue, witness):
            why += stepped.returned.values()
        if not await mend_all(yard):
            break
    records = [await yard.record(task.id) for task in (await yard.team.tasks.list()).tasks]
    assert {record.state for record in records} == {"merged"}
    # The order is recorded, and it is that on the target.
    landed = [record.landed for record in sorted(records, key=lambda record: record.order)]
    commits = git(yard.project, "rev-list", "--reverse", "main").splitlines()
    assert landed == [commit for commit in commits if commit in landed]
    assert len(set(landed)) == len(records)
    return why


async def test_r_8d_ten_branches_over_the_same_file(tmp_path: Path) -> None:
    yard = await Yard.make(tmp_path, MemoryStore(), files={"n.txt": slots(8), "test.sh": TEST})
    names = [f"agent{number}" for number in range(10)]
    await yard.join(*names)
    tasks = [await yard.take(name, f"Fill {name}") for name in names]
    for number, (name, task) in enumerate(zip(names, tasks, strict=True)):
        await yard.finish(name, task, fill("n.txt", number % 8, f"{name}=1"))
    why = await all_merged(yard, Witness(yard))
    assert why == ["conflict", "conflict"]
    found = yard.at_target("n.txt").splitlines()
    assert [f"{name}=1" for name in names if f"{name}=1" not in found] == []
    await everything_is_kept(yard)


async def test_twenty_branches_by_ten_agents_with_conflicts_and_one_that_breaks_the_tests(
    tmp_path: Path,
) -> None:
    chance = random.Random(7)
    files = {f"part{number}.txt": slots(6) for number in range(4)}
    yard = await Yard.make(tmp_path, MemoryStore(), files={**files, "test.sh": TEST})
    names = [f"agent{number}" for number in range(10)]
    await yard.join(*names)
    expected = []
    for batch in range(2):
        tasks = [await yard.take(name, f"Task {batch} of {name}") for name in names]
        for number, (name, task) in enumerate(zip(names, tasks, strict=True)):
            text = f"{name}{batch}={number}"
            if (batch, number) == (0, 5):
                await yard.finish(name, task, {"part5.txt": f"{text}\noops=BROKEN\n"})
                continue
            for part in chance.sample(range(4), 2):
                yard.edit(name, fill(f"part{part}.txt", chance.randrange(6), text))
            expected.append(text)
            await yard.finish(name, task)
    why = await all_merged(yard, Witness(yard))
    assert why.count("checks") == 1
    assert why.count("conflict") >= 5
    assert yard.at_target("part5.txt") == "agent50=5\noops=0"
    found = "".join(yard.at_target(name) for name in files)
    assert [text for text in expected if text not in found] == []
    await everything_is_kept(yard)
