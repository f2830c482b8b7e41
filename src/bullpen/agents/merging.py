"""What the merge queue needs of a machine: running checks in its tree, and where that tree is.

Checks run what agents wrote, so they get no more than the commands of agents do: variables by a
list of names, no key of a model, and the sandbox if one of the team has one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from bullpen.agents import processes
from bullpen.agents.backends.base import NONCE
from bullpen.agents.checking import look
from bullpen.agents.environment import names_for
from bullpen.agents.launching import tree_owner
from bullpen.agents.secrets import Redactor
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.merge import MergeSettings
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import owner_of
from bullpen.team.team import Team
from bullpen.workspace.git import Git
from bullpen.workspace.names import folder_of
from bullpen.workspace.queue.bench import Bench
from bullpen.workspace.queue.holding import hold
from bullpen.workspace.queue.running import BENCH, Queue, RunCheck
from bullpen.workspace.repository import common_dir, main_top, repository_at
from bullpen.workspace.surroundings import Slot, take_slot

_GRACE_S = 1.0
_NOBODY = Task.new(id="0", subject="the gate", description="")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a check is made."""

    spec: AgentSpec
    env: Mapping[str, str]


async def open_queue(
    team: Team, settings: MergeSettings, *, home: Path, environ: Mapping[str, str]
) -> Queue:
    """The merge queue of a team on this machine. What a killed one left running is ended.

    Raises:
        Refused: there is no repository (no_repository), or it is none that work can go to.
        Unavailable: what is left running does not end.
    """
    config = await team.agents.config()
    folder = await to_thread.run_sync(_folder, config, settings)
    await _end_leftovers(folder)
    return Queue(
        team,
        settings,
        run=check_runner(team, home=home, environ=environ, mark=_mark(folder)),
        folder=folder,
        owner=tree_owner(home, config),
    )


async def remove_queue(config: TeamConfig) -> None:
    """Remove the tree that the work of a deleted team was tested in; nobody has anything there.

    Raises:
        Conflict: a queue is at work in it.
        Refused, Unavailable: it cannot be got at.
    """
    row = config.facts.merge
    if row is not None:
        await to_thread.run_sync(_remove, config, MergeSettings.parse(row))


def _remove(config: TeamConfig, settings: MergeSettings) -> None:
    folder = _folder(config, settings)
    repository = Path(settings.repository)
    common = common_dir(repository)
    with hold(common, settings.target):
        Bench(Git(repository), common, folder / BENCH, owner="").remove()
    with suppress(OSError):
        # As long as others have trees there, it stays.
        folder.rmdir()
        folder.parent.rmdir()


def check_runner(
    team: Team, *, home: Path, environ: Mapping[str, str], mark: str = "merge"
) -> RunCheck:
    """What runs the checks of a team's work in the tree of its queue.

    Everything that it starts carries a nonce that begins with `mark`.
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
            policy=_closed_in(config),
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
        # What left the group of the command would go on in a tree that is to be another's.
        if await to_thread.run_sync(processes.carriers, nonce):
            await processes.end(None, None, None, nonce, 0)
        return found

    return run


def _asked_for(config: TeamConfig, task: Task | None) -> list[str]:
    """The variables that the agent has for its commands whose work is looked at."""
    owner = None if task is None else owner_of(task, config.name)
    member = None if owner is None else config.member(owner)
    agent = None if member is None else member.agent
    return [] if agent is None else list(agent.asked.env_asked)


def _closed_in(config: TeamConfig) -> dict[str, object] | None:
    """The sandbox that holds for the work of all: as tight as that of any of them."""
    agents = [member.agent for member in config.roster if member.agent is not None]
    boxes = [box for agent in agents if (box := agent.asked.rights.closed_in) is not None]
    if not boxes:
        return None
    box = Sandbox.new(
        network=all(each.network for each in boxes),
        read=_all_of(each.read for each in boxes),
    )
    return Policy.new(sandbox=box.raw).raw


def _all_of(lists: Iterable[list[str]]) -> list[str]:
    return list(dict.fromkeys(path for each in lists for path in each))


def _folder(config: TeamConfig, settings: MergeSettings) -> Path:
    """Where the trees of the team are: beside those of its members, else beside the repository."""
    trees = [
        tree
        for member in config.roster
        if member.agent is not None and (tree := member.agent.asked.tree) is not None
    ]
    paths = sorted(tree.path for tree in trees if tree.kind == "worktree")
    if paths:
        return Path(paths[0]).parent
    top = main_top(repository_at(Path(settings.repository)))
    return top.parent / folder_of(top.name, config.name)


def _mark(folder: Path) -> str:
    return f"merge-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


async def _end_leftovers(folder: Path) -> None:
    """End what a queue started whose process is gone."""
    for nonce in set((await to_thread.run_sync(processes.marked)).values()):
        if not nonce.startswith(f"{_mark(folder)}-"):
            continue
        pid, _, start = nonce.removeprefix(f"{_mark(folder)}-").partition("-")
        if not (pid.isdecimal() and processes.is_alive(int(pid), start)):
            await processes.end(None, None, None, nonce, _GRACE_S)
