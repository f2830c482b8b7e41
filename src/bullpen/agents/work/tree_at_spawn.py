"""Plan an agent's worktree and its rights there at spawn, then create the worktree.

An agent in its own worktree is governed by the settings in its user's directory at the time of the
spawn, and by nothing that it writes itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.permissions.rule_language.paths import absolute, below, real_path
from bullpen.agents.permissions.rule_language.rule import PATH_TOOLS, rule_of
from bullpen.agents.system import processes
from bullpen.agents.system.environment import for_commands
from bullpen.agents.system.vendors.programs import COMMAND
from bullpen.errors import Refused, Unavailable, one_error
from bullpen.protocol.agent import (
    SETUP_S,
    AgentFacts,
    AgentSpec,
    DirtyStart,
    Workspace,
    WorkspaceKind,
)
from bullpen.protocol.clock import Clock
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.team.team import Team
from bullpen.workspace.git.ref_names import branch_of, component, folder_of
from bullpen.workspace.git.run_git import TREE_S
from bullpen.workspace.trees.tree import Prepared, plan, prepare

PROJECT = "project"
"""The option of an agent in its own worktree that names its user's directory."""

OF_ITS_TREE = "a tree of its own"
"""The source of the rule that asks before the user's worktree is changed."""

_LOOK_S = 60.0
_BEAT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRequest:
    """The worktree that is wanted for an agent of a team."""

    kind: WorkspaceKind
    team: str
    agent: str
    # The folder for worktrees; by default beside the repository.
    root: str | None = None
    # The branch or commit to start from; by default what is checked out.
    base: str | None = None
    # The source of a clone: the name of a remote, a URL or a path.
    remote: str | None = None
    setup: str | None = None
    setup_s: float = SETUP_S
    dirty: DirtyStart = "refuse"


def seconds_for(spec: AgentSpec) -> float:
    """How long creating the agent's worktree may take; 0 if it has none."""
    tree = spec.workspace
    return 0.0 if tree is None else TREE_S + tree.setup_s + _LOOK_S


async def made_ready(
    team: Team,
    name: str,
    agent: AgentFacts,
    *,
    owner: str,
    environ: Mapping[str, str],
    clock: Clock,
) -> Prepared | None:
    """Create the agent's worktree, or return the existing one; None if it has none.

    Its setup command gets the same environment as the agent's commands. A setup can take minutes;
    meanwhile heartbeats say that the agent is starting. Raises Refused or Unavailable.
    """
    spec, tree = agent.spec, agent.spec.workspace
    if tree is None:
        return None

    async def beat() -> None:
        while True:
            await anyio.sleep(_BEAT_S)
            detail = "preparing its worktree"
            with suppress(Unavailable):
                await team.agents.beat(processes.starting_beat(name, agent, detail, clock()))

    given = {each: environ[each] for each in spec.env if each in environ}
    commands = for_commands(given, spec)
    make = partial(prepare, tree, team=team.name, agent=name, owner=owner, environ=commands)
    try:
        with one_error(), anyio.fail_after(seconds_for(spec)):
            async with anyio.create_task_group() as group:
                group.start_soon(beat)
                ready = await to_thread.run_sync(make, abandon_on_cancel=True)
                group.cancel_scope.cancel()
    except TimeoutError:
        raise Unavailable(
            f"The worktree {tree.path} was not ready after {seconds_for(spec):.0f} s.",
            remedy="Check what git or the setup command waits for, then spawn the agent again.",
        ) from None
    return ready


def placed(spec: AgentSpec, request: WorkspaceRequest, *, elsewhere: bool = False) -> AgentSpec:
    """The spec of an agent in the worktree that is wanted for it. Nothing is created yet.

    Its rights move to that worktree. `elsewhere` says that another machine will create it. Raises
    Refused as `plan`, or if its policy allows writing in a directory that contains the user's own
    worktree (holds_project).
    """
    if elsewhere and request.kind == "shared":
        return spec
    tree = _planned(spec.cwd, request, elsewhere=elsewhere)
    spec = spec.evolve(workspace=tree.raw)
    return spec if tree.kind == "shared" else _moved(spec, tree)


def _planned(cwd: str, request: WorkspaceRequest, *, elsewhere: bool) -> Workspace:
    words: dict[str, Any] = {
        "setup": request.setup,
        "setup_s": request.setup_s,
        "dirty": request.dirty,
    }
    try:
        return plan(
            request.kind,
            Path(cwd),
            team=request.team,
            agent=request.agent,
            root=None if request.root is None else Path(request.root),
            base=request.base,
            remote=request.remote,
            **words,
            elsewhere=elsewhere,
        )
    except (Refused, Unavailable) as error:
        # The files on that machine are not the files here.
        reason = error.reason if isinstance(error, Refused) else None
        if not elsewhere or (reason != "no_repository" and os.path.isdir(cwd)):
            raise
    if request.kind == "clone" and request.remote is not None:
        # The clone goes here, whatever exists at that path on that machine.
        above = request.root or os.path.dirname(cwd.rstrip("/"))
        name = os.path.basename(cwd.rstrip("/"))
        return Workspace.new(
            kind="clone",
            repository=request.remote,
            path=os.path.join(above, folder_of(name, request.team), component(request.agent)),
            branch=branch_of(request.team, request.agent),
            base=request.base,
            **words,
        )
    raise Refused(
        f"Cannot plan a {request.kind} of {cwd} on another machine: there is no repository at that"
        " path here.",
        reason="no_repository_here",
        remedy="Ask for a clone of a URL that the machine can reach, or put the repository at the"
        " same path on both machines.",
    )


def _moved(spec: AgentSpec, tree: Workspace) -> AgentSpec:
    """The spec in its own worktree, with its rights there and not in the user's worktree."""
    top = _above(real_path(spec.cwd), tree.inside)
    move = Move(top, tree.path)
    policy = spec.policy
    writable = [] if policy.sandbox is None else policy.sandbox.write
    _refuse_around(top, spec.cwd, [*policy.directories, *writable])
    policy = move.policy(policy, spec.cwd)
    if not below(tree.path, top):
        guard = guard_of(top)
        policy = policy.evolve(
            ask=[*policy.ask, guard], sources={**policy.sources, guard: OF_ITS_TREE}
        )
    options = {**spec.options, PROJECT: spec.cwd}
    command = options.get(COMMAND)
    if isinstance(command, list) and command and "/" in str(command[0]):
        # Run the user's file, not the agent's copy of it.
        options[COMMAND] = [os.path.join(spec.cwd, command[0]), *command[1:]]
    return spec.evolve(
        cwd=os.path.join(tree.path, tree.inside) if tree.inside else tree.path,
        policy=policy.raw,
        options=options,
    )


def guard_of(top: str) -> str:
    """The rule that asks before anything in the user's worktree is changed."""
    return f"Edit(/{_escaped(top)}/**)"


def inherited(
    parent: AgentSpec, kind: WorkspaceKind | None, *, team: str, agent: str
) -> WorkspaceRequest | None:
    """The worktree of a teammate that an agent spawns: of the kind it asks for, else of its own.

    It is set up like the agent's own and is put beside it. None if neither exists.
    """
    tree = parent.workspace
    kind = kind or (None if tree is None else tree.kind)
    if kind is None:
        return None
    request = WorkspaceRequest(kind=kind, team=team, agent=agent)
    if tree is None or tree.kind == "shared" or kind == "shared":
        return request
    return replace(
        request,
        # The path of a worktree is: root, folder of the repository and its team, agent.
        root=str(Path(tree.path).parents[2]),
        remote=tree.repository if kind == tree.kind == "clone" else None,
        setup=tree.setup,
        setup_s=tree.setup_s,
        dirty=tree.dirty,
    )


def isolated(
    workspace: WorkspaceRequest | None,
    asked: WorkspaceKind | None,
    *,
    team: str,
    agent: str,
    dirty: DirtyStart = "refuse",
) -> WorkspaceRequest | None:
    """The worktree for a role with `isolation`; None if it has its own or another was asked for."""
    if asked is not None or (workspace is not None and workspace.kind != "shared"):
        return None
    return WorkspaceRequest(kind="worktree", team=team, agent=agent, dirty=dirty)


def beside(
    cwd: str, request: WorkspaceRequest, parent: tuple[str, AgentFacts]
) -> tuple[str, WorkspaceRequest, tuple[str, AgentFacts]]:
    """The directory, request and parent of a teammate that gets its own worktree like its parent.

    The teammate's worktree comes from the user's repository, from the same base, with no more
    rights than the parent would have there. What the parent wrote in its own worktree does not
    count.
    """
    name, agent = parent
    spec, tree = agent.spec, agent.spec.own_tree
    move = _homeward(spec)
    if tree is None or move is None or request.kind == "shared":
        return cwd, request, parent
    base = request.base or tree.base
    return move.path(cwd, spec.cwd), replace(request, base=base), (name, _at_home(agent, move))


def _homeward(spec: AgentSpec) -> Move | None:
    """The move from the agent's worktree to its user's, if that is on this machine."""
    tree, project = spec.own_tree, spec.options.get(PROJECT)
    if tree is None or not isinstance(project, str) or not os.path.isdir(project):
        return None
    return Move(real_path(tree.path), _above(real_path(project), tree.inside))


def _at_home(agent: AgentFacts, move: Move) -> AgentFacts:
    """The agent as if it worked in its user's directory."""
    spec, standing = agent.spec, agent.standing
    policy = move.policy(spec.policy, spec.cwd)
    policy = policy.evolve(ask=[rule for rule in policy.ask if rule != guard_of(move.to)])
    there = spec.evolve(cwd=move.path(spec.cwd, "/"), policy=policy.raw)
    standing = standing.evolve(
        allow=[move.rule(rule, spec.cwd) for rule in standing.allow],
        directories=[move.path(path, spec.cwd) for path in standing.directories],
    )
    return agent.evolve(spec=there, standing=standing if agent.has("standing") else None)


@dataclass(frozen=True, slots=True)
class Move:
    """A move of paths from one directory to another. Both are real paths."""

    source: str
    to: str

    def path(self, path: str, cwd: str) -> str:
        """The absolute path after the move; unchanged if it is not in the moved directory."""
        named = absolute(path, cwd, os.path.expanduser("~"))
        real = real_path(named)
        return self.to + real[len(self.source) :] if below(real, self.source) else named

    def rule(self, text: str, cwd: str) -> str:
        """The rule for the same files after the move. Rules relative to `cwd` need no change."""
        rule = rule_of(text)
        specifier = rule.specifier or ""
        if rule.tool not in PATH_TOOLS or not specifier.startswith(("//", "~", "..")):
            return text
        pattern = specifier[1:] if specifier.startswith("//") else ""
        if not pattern:
            pattern = absolute(specifier, _escaped(cwd), _escaped(os.path.expanduser("~")))
        for root in (_escaped(self.source), self.source):
            if below(pattern, root):
                return f"{rule.tool}(/{_escaped(self.to)}{pattern[len(root) :]})"
        return f"{rule.tool}(/{pattern})"

    def policy(self, policy: Policy, cwd: str) -> Policy:
        """The policy for the same files after the move. Denials also stay for the old place."""
        moved = {
            name: list(dict.fromkeys(self._rules(getattr(policy, name), cwd, keep=keep)))
            for name, keep in (("allow", False), ("deny", True), ("ask", True))
        }
        sources = dict(policy.sources)
        for text, source in policy.sources.items():
            sources.setdefault(self.rule(text, cwd), source)
        closed = policy.sandbox
        return policy.evolve(
            **moved,
            directories=[self.path(each, cwd) for each in policy.directories],
            sandbox=None if closed is None else self._sandbox(closed, cwd).raw,
            sources=sources,
        )

    def _rules(self, rules: Iterable[str], cwd: str, *, keep: bool) -> Iterable[str]:
        for text in rules:
            moved = self.rule(text, cwd)
            if keep and moved != text:
                yield text
            yield moved

    def _sandbox(self, closed: Sandbox, cwd: str) -> Sandbox:
        return closed.evolve(
            read=[self.path(each, cwd) for each in closed.read],
            write=[self.path(each, cwd) for each in closed.write],
        )


def _refuse_around(top: str, cwd: str, directories: Iterable[str]) -> None:
    home = os.path.expanduser("~")
    for each in directories:
        if top != (real := real_path(absolute(each, cwd, home))) and below(top, real):
            raise Refused(
                f"The directory {each} in the agent's policy contains {top}, your own worktree,"
                " which an agent in its own worktree must not change.",
                reason="holds_project",
                remedy="Remove the directory from the policy, name only the part that is needed, or"
                " use the shared workspace.",
            )


def _above(path: str, inside: str) -> str:
    """The directory above another one, for a relative path."""
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    return str(Path(path, *[".."] * len(parts)).resolve()) if parts else path


def _escaped(path: str) -> str:
    """A path as a pattern that matches only this path."""
    return re.sub(r"([*?\[\\])", r"\\\1", path.rstrip("/"))
