"""Open the merge queue on this machine, with its worktree and its checks.

Checks run code that agents wrote, so they get no more than the commands of agents: only listed
variables, no model keys, and a sandbox if any member of the team has one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from anyio import to_thread

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system import processes
from bullpen.agents.system.environment import names_for
from bullpen.agents.system.folders import tree_owner
from bullpen.agents.system.secrets import Redactor
from bullpen.agents.work.checks import look
from bullpen.by_name import load
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.protocol.task import Check, Task
from bullpen.protocol.team import MergeSettings, TeamConfig
from bullpen.sandbox.network.host_rules import covers
from bullpen.team.lookup import owner_of
from bullpen.team.team import Team
from bullpen.workspace.git.ref_names import folder_of
from bullpen.workspace.git.repository import common_dir, main_top, repository_at
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.handover.reviewed_work import Span
from bullpen.workspace.merge_queue.lock import hold
from bullpen.workspace.merge_queue.prove import FORGE_BENCH, ForgeQueue
from bullpen.workspace.merge_queue.queue import BENCH, Queue, RunCheck, RunReview
from bullpen.workspace.merge_queue.test_tree import TestTree
from bullpen.workspace.merge_queue.tick import Boxes, no_boxes
from bullpen.workspace.trees.slots import Slot, take_slot

Q = TypeVar("Q", bound=Queue)

_GRACE_S = 1.0
_NOBODY = Task.new(id="0", subject="the gate", description="")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a check runs."""

    spec: AgentSpec
    env: Mapping[str, str]


async def open_queue(
    team: Team,
    settings: MergeSettings,
    *,
    home: Path,
    environ: Mapping[str, str],
    boxes: Boxes = no_boxes,
) -> Queue:
    """Open the merge queue of a team on this machine. Stops what a killed queue left running.

    `boxes` are ticked with the work of their tasks.

    Raises Refused if nothing can be merged there (no_repository), or Unavailable if a leftover
    process cannot be stopped.
    """
    return await _opened(Queue, team, settings, home=home, environ=environ, boxes=boxes)


async def open_forge_queue(
    team: Team, settings: MergeSettings, *, home: Path, environ: Mapping[str, str]
) -> ForgeQueue:
    """Open what tests the work that a forge merges. Raises as `open_queue`."""
    return await _opened(ForgeQueue, team, settings, home=home, environ=environ)


async def _opened(
    kind: type[Q],
    team: Team,
    settings: MergeSettings,
    *,
    home: Path,
    environ: Mapping[str, str],
    boxes: Boxes = no_boxes,
) -> Q:
    config = await team.agents.config()
    folder = await to_thread.run_sync(_folder, config, settings)
    await _end_leftovers(folder)
    return kind(
        team,
        settings,
        run=check_runner(team, home=home, environ=environ, mark=_mark(folder)),
        folder=folder,
        owner=tree_owner(home, config),
        boxes=boxes,
        review=_reviewer(team, settings, environ),
    )


def _reviewer(team: Team, settings: MergeSettings, environ: Mapping[str, str]) -> RunReview:
    """What has work reviewed for the gate."""

    async def review(
        task: Task, check: Check, base: str, tip: str, found: Sequence[Check]
    ) -> Check:
        # It starts agents, so it is above this module.
        of_task = load("bullpen.runs.review.of_task:TaskReview")(
            team,
            task,
            check,
            LEAD,
            environ,
            Redactor(environ).text,
            found=tuple(found),
            queued=True,
        )
        reviewed: Check = await of_task.run(Span(Path(settings.repository), base, tip))
        return reviewed

    return review


async def try_gate(
    team: Team, settings: MergeSettings, *, home: Path, environ: Mapping[str, str]
) -> Check | None:
    """Run the merge gate once on the target as it is; return the check that fails there, if any.

    It runs as in the merge queue, but in a worktree that is removed again. Cancelling ends it.

    Raises Refused or Unavailable if it cannot be run.
    """
    config = await team.agents.config()
    beside = await to_thread.run_sync(_folder, config, settings)
    folder = beside / f"+gate-{os.getpid()}"
    run = check_runner(team, home=home, environ=environ, mark=_mark(folder))
    queue = Queue(team, settings, run=run, folder=folder, owner=tree_owner(home, config))
    try:
        return await queue.bare()
    finally:
        with suppress(OSError):
            # The folders around it stay while they contain other worktrees.
            for each in (folder, beside, beside.parent):
                each.rmdir()


async def remove_queue(config: TeamConfig) -> None:
    """Remove the merge queue's worktree of a deleted team. Raises Conflict if it is in use."""
    settings = config.facts.merge
    if settings is not None:
        await to_thread.run_sync(_remove, config, settings)


def _remove(config: TeamConfig, settings: MergeSettings) -> None:
    folder = _folder(config, settings)
    repository = Path(settings.repository)
    common = common_dir(repository)
    with hold(common, settings.target):
        for bench in (BENCH, FORGE_BENCH):
            TestTree(Git(repository), common, folder / bench, owner="").remove()
    with suppress(OSError):
        # The folder stays while it contains other worktrees.
        folder.rmdir()
        folder.parent.rmdir()


def check_runner(
    team: Team, *, home: Path, environ: Mapping[str, str], mark: str = "merge"
) -> RunCheck:
    """A function that runs the checks of a team's work in the worktree of its merge queue.

    Every process that it starts has a nonce that begins with `mark`.
    """
    nonce = f"{mark}-{os.getpid()}-{processes.start_of(os.getpid())}"
    slots: dict[Path, Slot] = {}

    async def run(where: Path, task: Task | None, check: Check) -> Check:
        config = await team.agents.config()
        asked = _asked_for(config, task)
        spec = AgentSpec.new(
            driver="none",
            backend="none",
            cwd=str(where),
            policy=_common_sandbox(config),
            env_asked=asked,
        )
        names = [name for name in names_for("none", asked) if name in environ]
        if where not in slots:
            slots[where] = await to_thread.run_sync(take_slot, f"merge {where}", where)
        env = {
            **{name: environ[name] for name in names},
            **slots[where].env(str(where)),
            "BULLPEN_HOME": str(home),
            NONCE: nonce,
        }
        redact = Redactor(env, asked).text
        found = await look(_Place(spec, env), task or _NOBODY, check, report=None, redact=redact)
        # Stop processes that left the group: the worktree is used for other work next.
        if await to_thread.run_sync(processes.carriers, nonce):
            await processes.end(None, None, None, nonce, 0)
        return found

    return run


def _asked_for(config: TeamConfig, task: Task | None) -> list[str]:
    """The variables that the owner of the work has for its commands."""
    owner = None if task is None else owner_of(task, config.name)
    member = None if owner is None else config.member(owner)
    agent = None if member is None else member.agent
    return [] if agent is None else list(agent.spec.env_asked)


def _common_sandbox(config: TeamConfig) -> dict[str, object] | None:
    """The sandbox for everyone's work: without any network that one of the agents lacks."""
    agents = [member.agent for member in config.roster if member.agent is not None]
    boxes = [box for agent in agents if (box := agent.spec.policy.sandbox) is not None]
    if not boxes:
        return None
    box = Sandbox.new(
        network=all(each.network for each in boxes),
        hosts=[
            host
            for host in dict.fromkeys(host for each in boxes for host in each.hosts)
            if all(covers(host, each) for each in boxes)
        ],
        read=list(dict.fromkeys(path for each in boxes for path in each.read)),
    )
    return Policy.new(sandbox=box.raw).raw


def _folder(config: TeamConfig, settings: MergeSettings) -> Path:
    """The folder of the team's worktrees: with those of its members, else beside the repository."""
    trees = [
        tree
        for member in config.roster
        if member.agent is not None and (tree := member.agent.spec.workspace) is not None
    ]
    paths = sorted(tree.path for tree in trees if tree.kind == "worktree")
    if paths:
        return Path(paths[0]).parent
    top = main_top(repository_at(Path(settings.repository)))
    return top.parent / folder_of(top.name, config.name)


def _mark(folder: Path) -> str:
    return f"merge-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


async def _end_leftovers(folder: Path) -> None:
    """Stop what an earlier queue started whose process has ended."""
    for nonce in set((await to_thread.run_sync(processes.marked)).values()):
        if not nonce.startswith(f"{_mark(folder)}-"):
            continue
        pid, _, start = nonce.removeprefix(f"{_mark(folder)}-").partition("-")
        if not (pid.isdecimal() and processes.is_alive(int(pid), start)):
            await processes.end(None, None, None, nonce, _GRACE_S)
