"""Keep agents in a shared checkout from writing each other's files or losing each other's edits.

The gate asks this module before a call that is otherwise allowed (R-8c).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.permissions.shell.git_effects import Shared, Touch
from bullpen.agents.permissions.shell.tree_effects import TreeReading, Write, read
from bullpen.agents.system import processes
from bullpen.errors import BullpenError, Refused, Unavailable
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.presence import Presence
from bullpen.protocol.team import TeamConfig
from bullpen.team.lookup import owner_of
from bullpen.workspace.git.ref_names import REFS, branch_of
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.shared.edits import KeptEdits, UncommittedEdit, alias_of, edits, keep, top_of
from bullpen.workspace.shared.ownership import Owner, Ownership, matching, now, state_of

_SHOWN_MAX = 5
_GLOBBED_MAX = 1_000
_FEW = 20
_IN_A_TURN = frozenset(["working", "waiting"])
_PATH_KEYS = ("file_path", "notebook_path", "path")

_CHANGE_NOTHING = frozenset(["Bash", "WebFetch", "WebSearch"])
"""Tools that count as running something but change no file: Bash without a command, for one."""

_INSTEAD = (
    "Name only your own files: `git restore YOUR_FILE`, `git add YOUR_FILE`,"
    " `git commit -- YOUR_FILE`. Or ask {whom} to commit first."
)


@dataclass(frozen=True, slots=True)
class Mates:
    """The agents in the same checkout, by name with their launches.

    `tasks` are those in progress with their owners; `busy` agents are in a turn; `trees` and
    `branches` belong to members with their own worktree.
    """

    me: str
    nonce: str
    living: Mapping[str, str]
    tasks: Mapping[str, str]
    busy: frozenset[str]
    trees: Mapping[str, str]
    branches: Mapping[str, str]

    def holds(self, owner: Owner) -> bool:
        """Whether an agent still owns what it wrote."""
        if owner.agent not in self.living:
            return False
        if owner.task is not None:
            return self.tasks.get(owner.task) == owner.agent
        return owner.agent in self.busy and self.living[owner.agent] == owner.nonce

    def is_others(self, owner: Owner | None) -> bool:
        """Whether an edit belongs to another agent that still runs."""
        return owner is not None and owner.agent != self.me and owner.agent in self.living

    def is_mine(self, owner: Owner | None) -> bool:
        """Whether an edit is only this agent's."""
        return owner is not None and owner.agent == self.me and not owner.upon


class SharedTree:
    """What one agent may do in a checkout that it shares with others of its team.

    While it is alone there it may do everything; what it writes is still noted, because others may
    come.
    """

    def __init__(self, desk: Desk) -> None:
        self._team = desk.team
        self._agent = desk.agent
        self._folder = desk.folder.parent
        self._record = desk.record
        self._new_turn = False
        self._trees: dict[str, bool] = {}

    def turn_over(self) -> None:
        """End a turn: from now on it owns only what it wrote for a task."""
        self._new_turn = True

    async def check(self, call: Call, agent: AgentFacts, *, claim: bool) -> None:
        """Refuse a call that would write others' files or remove their edits.

        With `claim`, the call is about to be made: the agent owns what it writes, and if the effect
        is unknown, the edits of others are saved first. Raises Refused (path_owned, others_edits,
        too_big), or Unavailable if git fails or the owners cannot be read.
        """
        if call.kind not in ("write", "run"):
            return
        top = await to_thread.run_sync(_shared_top, agent)
        if top is None or not await to_thread.run_sync(self._is_tree, top):
            return
        config = await self._team.agents.config()
        living = await to_thread.run_sync(_in_tree, config, top)
        cwd = agent.spec.cwd
        if not set(living) - {self._agent}:
            written = await to_thread.run_sync(_writes, call, cwd) if claim else []
            if written:
                mates = await self._mates(config, living, agent)
                with suppress(BullpenError):
                    await to_thread.run_sync(
                        lambda: self._write(self._tree(top, mates), written, claim=True)
                    )
            return
        mates = await self._mates(config, living, agent)
        try:
            kept = await to_thread.run_sync(self._check, call, cwd, top, mates, claim)
        except Refused as error:
            self._record("denied", tool=call.tool, detail=call.detail, why=error.message)
            raise
        if kept is not None:
            self._record("kept", ref=kept.ref, paths=list(kept.paths), before=call.detail)

    async def _mates(
        self, config: TeamConfig, living: Mapping[str, str], agent: AgentFacts
    ) -> Mates:
        """The agents in the same checkout, and what they are doing."""
        tasks = (await self._team.tasks.list()).tasks
        beats: Mapping[str, Presence] | None = None
        with suppress(Unavailable):
            beats = await self._team.agents.presence()
        return Mates(
            me=self._agent,
            nonce=agent.nonce,
            living=living,
            tasks={
                task.id: owner
                for task in tasks
                if task.status == "in_progress" and (owner := owner_of(task, config.name))
            },
            busy=frozenset(
                name
                for name, nonce in living.items()
                if name == self._agent
                # Whoever may be in a turn is treated as if it were.
                or beats is None
                or ((beat := beats.get(name)) and beat.nonce == nonce and beat.state in _IN_A_TURN)
            ),
            trees=_trees(config, self._agent),
            branches=_branches(config, self._agent),
        )

    def _is_tree(self, top: str) -> bool:
        """Whether git considers a directory the top of a checkout. The answer is kept."""
        if top not in self._trees:
            ran = Git(Path(top)).run("rev-parse", "--is-inside-work-tree")
            self._trees[top] = ran.out.strip() == "true"
        return self._trees[top]

    def _tree(self, top: str, mates: Mates) -> _Tree:
        owners = Ownership(self._folder, top)
        if self._new_turn:
            self._new_turn = False
            owners.forget_turns(self._agent)
        return _Tree(top, mates, owners)

    def _check(self, call: Call, cwd: str, top: str, mates: Mates, claim: bool) -> KeptEdits | None:
        tree = self._tree(top, mates)
        command = call.input.get("command")
        if call.kind == "write":
            self._write(tree, _named(call, cwd), claim)
        elif call.tool == "Bash" and isinstance(command, str):
            return self._run(tree, read(command, cwd, _Looks()), cwd, command, claim)
        elif call.tool not in _CHANGE_NOTHING:
            anything = TreeReading(unknown=f"{call.tool} can do anything")
            return self._run(tree, anything, cwd, str(call), claim)
        return None

    def _write(self, tree: _Tree, paths: Sequence[str], claim: bool) -> None:
        inside = [path for path in map(tree.inside, paths) if path is not None]
        if not inside:
            return
        taken = tree.owners.claim(
            inside,
            tree.as_owner(),
            holds=tree.mates.holds,
            changed=tree.changed,
            keep=claim,
        )
        if taken is not None:
            task = f" (task #{taken.owner.task})" if taken.owner.task is not None else ""
            whom = taken.owner.agent
            raise Refused(
                f"{whom} is working on {taken.path}{task}, in the same checkout as you.",
                reason="path_owned",
                remedy=f"Ask {whom}, or work on another file.",
            )

    def _run(
        self, tree: _Tree, found: TreeReading, cwd: str, command: str, claim: bool
    ) -> KeptEdits | None:
        to_keep: dict[str, UncommittedEdit] = {}
        for effect in found.effects:
            if isinstance(effect, Shared):
                tree.refuse_common(effect)
            else:
                to_keep |= tree.left_alone(effect)
        paths = [path for write in found.writes for path in _written(write, cwd)]
        self._write(tree, paths, claim)
        if not claim:
            return None
        why = found.unknown
        if why is not None:
            to_keep = tree.not_mine()
        if not to_keep:
            return None
        return self._keep(
            tree, to_keep, command, why or "the owner of the edits that it removes is unknown"
        )

    def _keep(
        self, tree: _Tree, found: Mapping[str, UncommittedEdit], command: str, why: str
    ) -> KeptEdits | None:
        """Save edits before a command runs, once for each state that they are in."""
        head = Git(Path(tree.top)).run("rev-parse", "--verify", "--quiet", "HEAD").out.strip()
        state = state_of(tree.top, list(found.values()), head)
        if tree.owners.kept_at(state) is not None:
            return None
        short = " ".join(command.split())[:100]
        kept = keep(
            tree.top,
            sorted(found),
            team=self._team.name,
            why=f"Before {self._agent} ran: {short}\n\n{why}",
        )
        if kept is not None:
            tree.owners.note_kept(state, kept.ref)
        return kept


class _Tree:
    """A checkout with its uncommitted edits and their owners."""

    def __init__(self, top: str, mates: Mates, owners: Ownership) -> None:
        self.top = top
        self.mates = mates
        self.owners = owners
        self._edits: dict[bool, list[UncommittedEdit]] = {}

    def as_owner(self) -> Owner:
        """The calling agent as an owner, with its task."""
        mine = sorted(task for task, who in self.mates.tasks.items() if who == self.mates.me)
        return Owner(self.mates.me, mine[0] if mine else None, self.mates.nonce, now())

    def inside(self, path: str) -> str | None:
        """A path relative to the checkout; None if it is outside."""
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        rel = os.path.relpath(real, self.top)
        if rel == "..":
            return None
        return None if rel.startswith("../") else "" if rel == "." else rel

    def edits(self, *, ignored: bool = False) -> list[UncommittedEdit]:
        """The uncommitted edits, read once."""
        if ignored not in self._edits:
            self._edits[ignored] = edits(self.top, ignored=ignored)
        return self._edits[ignored]

    def changed(self, paths: Sequence[str]) -> set[str]:
        """Which of these paths have uncommitted changes."""
        few = len(paths) <= _FEW
        found = edits(self.top, ignored=True, only=paths) if few else self.edits(ignored=True)
        return {edit.path for edit in found} & set(paths)

    def not_mine(self) -> dict[str, UncommittedEdit]:
        """All uncommitted edits that this agent did not make itself."""
        rows = self.owners.rows()
        theirs = {path for path, row in rows.items() if not self.mates.is_mine(row)}
        return {
            edit.path: edit
            for edit in self.edits(ignored=bool(theirs))
            if edit.path in theirs or (edit.path not in rows and "ignored" not in edit.kinds)
        }

    def left_alone(self, effect: Touch) -> dict[str, UncommittedEdit]:
        """Refuse an effect on others' edits; returns the edits whose owner is unknown."""
        wanted = self._wanted(effect)
        if wanted is not None and not wanted:
            return {}
        found = {
            edit.path: edit
            for edit in self.edits(ignored="ignored" in effect.kinds)
            if edit.kinds & effect.kinds
        }
        rows = self.owners.rows()
        touched = list(matching(found, wanted))
        theirs = {path: rows[path] for path in touched if self.mates.is_others(rows.get(path))}
        if effect.destroys:
            theirs |= {
                path: rows[path]
                for path in matching(rows, wanted)
                if self.mates.is_others(rows[path]) and self.mates.holds(rows[path])
            }
        if theirs:
            raise _takes(effect, theirs)
        if not effect.destroys:
            return {}
        return {path: found[path] for path in touched if not self.mates.is_mine(rows.get(path))}

    def _wanted(self, effect: Touch) -> list[str] | None:
        """The paths of a command in the checkout; None for all of them. Raises Refused."""
        where = effect.where
        if where is not None:
            top = top_of(where)
            whose = self.mates.trees.get(top or "")
            if whose is not None and effect.destroys:
                raise _not_yours(effect.command, f"{top} is the worktree of {whose}", whose)
            if top != self.top:
                return []
        if effect.paths is None or where is None:
            return None
        if any(path.startswith(":") for path in effect.paths):
            return None
        named = (self.inside(os.path.normpath(os.path.join(where, each))) for each in effect.paths)
        return [each for each in named if each is not None]

    def refuse_common(self, effect: Shared) -> None:
        """Refuse to remove what others have in the shared repository."""
        if effect.where is not None and not self._is_ours(effect.where):
            return
        if effect.what == "objects":
            why = "it removes what others may need to recover their work"
            raise _not_yours(effect.command, why, "the lead")
        if effect.what == "stashes":
            if Git(Path(self.top)).run("rev-parse", "--verify", "--quiet", "refs/stash").ok:
                why = "the owners of its stashes are unknown"
                raise _not_yours(effect.command, why, "the lead")
            return
        for name in effect.names:
            whose = self._whose(effect, name)
            if whose is not None:
                raise _not_yours(effect.command, f"{name} is {whose}'s", whose)

    def _is_ours(self, where: str) -> bool:
        top = top_of(where)
        return top is not None and (top == self.top or _common(top) == _common(self.top))

    def _whose(self, effect: Shared, name: str) -> str | None:
        if effect.what == "worktree":
            return self.mates.trees.get(os.path.realpath(os.path.join(effect.where or "", name)))
        if name.startswith(f"{REFS}/"):
            return "the team"
        return self.mates.branches.get(name)


class _Looks:
    """What reading a command line needs to know of this machine."""

    def alias(self, where: str, name: str) -> str | None:
        """The meaning of a name in git's settings."""
        return alias_of(where, name) if os.path.isdir(where) else None

    def is_path(self, where: str, text: str) -> bool:
        """Whether such a file, or files with such names, exist."""
        path = os.path.join(where, text)
        return os.path.lexists(path) or bool(glob.glob(path))


def _shared_top(agent: AgentFacts) -> str | None:
    """The top of the checkout of an agent without its own worktree; None if there is none."""
    return top_of(agent.spec.cwd) if agent.spec.own_tree is None else None


def _in_tree(config: TeamConfig, top: str) -> dict[str, str]:
    """The agents on this machine that work in a checkout, each with its launch."""
    found: dict[str, str] = {}
    for member in config.roster:
        agent = member.agent
        if agent is None or agent.phase == "ended" or processes.is_elsewhere(agent.process):
            continue
        if _shared_top(agent) == top:
            found[member.name] = agent.nonce
    return found


def _trees(config: TeamConfig, me: str) -> dict[str, str]:
    """The worktrees of other members, by path."""
    return {
        os.path.realpath(path): member.name
        for member in config.roster
        if member.name != me
        and member.agent is not None
        and (path := member.agent.spec.worktree_path) is not None
    }


def _branches(config: TeamConfig, me: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for member in config.roster:
        if member.name == me or member.agent is None:
            continue
        tree = member.agent.spec.workspace
        for branch in (branch_of(config.name, member.name), tree.branch if tree else None):
            if branch is not None:
                found[f"refs/heads/{branch}"] = member.name
    return found


def _named(call: Call, cwd: str) -> list[str]:
    """The real paths that a call of a file tool names."""
    if call.real is not None:
        return [call.real]
    named = [call.input[key] for key in _PATH_KEYS if isinstance(call.input.get(key), str)]
    return [os.path.realpath(os.path.join(cwd, os.path.expanduser(each))) for each in named]


def _writes(call: Call, cwd: str) -> list[str]:
    """The files that a call is known to write."""
    command = call.input.get("command")
    if call.kind == "write":
        return _named(call, cwd)
    if call.tool != "Bash" or not isinstance(command, str):
        return []
    found = read(command, cwd, _Looks())
    return [path for each in found.writes for path in _written(each, cwd)]


def _written(write: Write, cwd: str) -> Iterator[str]:
    """The files that a command names, in every directory that it may run in."""
    for where in write.wheres:
        base = os.path.join(where or cwd, os.path.expanduser(write.text))
        found = [base]
        if any(char in write.text for char in "*?["):
            found += glob.glob(base)[:_GLOBBED_MAX]
        for path in found:
            if write.names and os.path.isdir(path):
                yield from (os.path.join(path, name) for name in write.names)
            else:
                yield path.rstrip("/") or "/"


def _common(top: str) -> str:
    return Git(Path(top)).run("rev-parse", "--path-format=absolute", "--git-common-dir").out.strip()


def _takes(effect: Touch, theirs: Mapping[str, Owner]) -> Refused:
    names = sorted({owner.agent for owner in theirs.values()})
    paths = [f"{path} ({theirs[path].agent})" for path in sorted(theirs)]
    more = f" and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    whom = ", ".join(names)
    what = "remove" if effect.destroys else "include"
    return Refused(
        f"`{effect.command}` would {what} uncommitted edits of {whom} in the checkout that you"
        f" share: {', '.join(paths[:_SHOWN_MAX])}{more}.",
        reason="others_edits",
        remedy=_INSTEAD.format(whom=whom),
    )


def _not_yours(command: str, why: str, whom: str) -> Refused:
    return Refused(
        f"You may not run `{command}` in a shared checkout: {why}.",
        reason="others_edits",
        remedy=f"Do not change it, or ask {whom}.",
    )
