"""Two members build features that do not fit: with promises nothing broken is merged.

The merge gate passes everything here, as a gate does whose tests do not know the new features.
Whether the target works is said by the project's suite, which runs after the merges. A sample of
the pairs runs every time; BULLPEN_TEST_ALL_PAIRS=1 runs them all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.work.proving import Proving
from bullpen.agents.work.tree_of_task import TreeWork
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.store.memory import MemoryStore
from support.git.yard import Yard

from .pairs import CONFLICTS, HARMLESS, SAMPLE, Found, Pair

_ALL = os.environ.get("BULLPEN_TEST_ALL_PAIRS") == "1"


def _some(pairs: list[Pair]) -> list[Any]:
    return [pytest.param(each, id=each.name) for each in (pairs if _ALL else pairs[:SAMPLE])]


@dataclass(frozen=True, slots=True)
class _Place:
    spec: AgentSpec
    env: dict[str, str]


@dataclass
class _Run:
    """What happened with a pair: which conflicts were found when, and what is on the target."""

    yard: Yard
    found: list[Found] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)

    async def finish(self, name: str, task: Task, files: dict[str, str]) -> None:
        """Hand in work as an agent's runner does. It is refused or goes to the merge queue."""
        self.yard.edit(name, files)
        tree = self.yard.trees[name]
        spec = AgentSpec.new(driver="none", backend="none", cwd=tree.path, workspace=tree.raw)
        place = _Place(spec, dict(os.environ))
        proving = Proving(
            self.yard.team, name, place, _no_hook, str, lambda _: None,
            TreeWork(self.yard.team, name, spec),
        )  # fmt: skip
        try:
            await proving.complete(task.id, attempt=task.facts.attempt)
        except Refused as refused:
            assert refused.reason in ("promise_broken", "promised_path"), refused
            self.found.append("hand-in")

    async def drain(self) -> None:
        """Let the merge queue work until it is empty or only waits."""
        queue = self.yard.queue()
        for _ in range(10):
            stepped = await queue.step()
            if stepped is None or (stepped.held and not stepped.merged and not stepped.returned):
                return
            self.merged += stepped.merged
            self.found += ["queue"] * len(stepped.returned)
            assert set(stepped.returned.values()) <= {"promise"}
        raise AssertionError("the queue has no end")

    def suite(self, code: str) -> bool:
        """Whether the project's own suite passes on the target."""
        words = [sys.executable, "-B", "-c", code]
        env = {**os.environ, "PYTHONPATH": str(self.yard.project)}
        ran = subprocess.run(words, cwd=self.yard.project, env=env, capture_output=True, timeout=60)
        return ran.returncode == 0


async def _no_hook(_: Task) -> str | None:
    return None


async def _play(pair: Pair, folder: Path, *, promises: bool) -> _Run:
    yard = await Yard.make(folder, MemoryStore(), files=dict(pair.base), gate="true", retries=0)
    await yard.join("ann", "bob")
    tasks = {name: await yard.take(name, f"{name}'s feature") for name in ("ann", "bob")}
    run = _Run(yard)
    if promises:
        made = await yard.team.promises.make(tasks["ann"].id, pair.promise, by="ann")
        if pair.counter is not None:
            try:
                await yard.team.promises.make(tasks["bob"].id, pair.counter, by="bob")
            except Refused as refused:
                assert refused.reason == "promise_conflict"
                assert "ann" in refused.message
                run.found.append("at once")
        if pair.relies:
            await yard.team.promises.rely(made.id, tasks["bob"].id, by="bob")
    if "at once" not in run.found:
        for name in ("bob", "ann") if pair.bob_first else ("ann", "bob"):
            # Files that exist are edited in place, the others are new.
            await run.finish(name, tasks[name], dict(getattr(pair, name)))
            if pair.apart:
                await run.drain()
        await run.drain()
    return run


@pytest.mark.parametrize("pair", _some(CONFLICTS))
async def test_a_conflict_is_found_before_anything_broken_is_merged(
    pair: Pair, tmp_path: Path
) -> None:
    run = await _play(pair, tmp_path, promises=True)
    assert run.found == [pair.found]
    assert len(run.merged) <= 1
    if set(run.merged) == {"1"}:
        # What was merged is what fits: ann's feature, as she promised it.
        alone = pair.suite.replace(", bob_use", "").replace("; bob_use.use()", "")
        assert run.suite(alone)


@pytest.mark.parametrize("pair", _some(CONFLICTS))
async def test_without_promises_the_same_features_break_the_target(
    pair: Pair, tmp_path: Path
) -> None:
    run = await _play(pair, tmp_path, promises=False)
    assert (run.found, sorted(run.merged)) == ([], ["1", "2"])
    assert not run.suite(pair.suite)


@pytest.mark.parametrize("pair", _some(HARMLESS))
async def test_features_that_fit_are_merged_and_nobody_is_disturbed(
    pair: Pair, tmp_path: Path
) -> None:
    run = await _play(pair, tmp_path, promises=True)
    assert (run.found, sorted(run.merged)) == ([], ["1", "2"])
    assert run.suite(pair.suite)
    for name in ("ann", "bob", LEAD):
        assert not (await run.yard.team.mailbox.read(name)).entries


def test_there_are_thirty_pairs_of_each_kind() -> None:
    assert (len(CONFLICTS), len(HARMLESS)) == (30, 30)
    assert {each.found for each in CONFLICTS[:SAMPLE]} == {"at once", "hand-in", "queue"}
