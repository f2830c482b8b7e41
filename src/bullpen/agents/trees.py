"""The trees that agents work in: decided on at spawn with what may be changed there, then made.

An agent in a tree of its own is governed by what the files in its user's directory said when it
was spawned, and by nothing that it writes itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.agents import processes
from bullpen.agents.drivers.programs import COMMAND
from bullpen.agents.environment import for_commands
from bullpen.agents.policy.paths import absolute, below, real_path
from bullpen.agents.policy.rules import PATH_TOOLS, rule_of
from bullpen.errors import Refused, Unavailable, one_error
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.protocol.presence import Presence
from bullpen.protocol.workspace import SETUP_S, DirtyStart, Workspace, WorkspaceKind
from bullpen.store.clock import Clock
from bullpen.team.team import Team
from bullpen.workspace.git import TREE_S
from bullpen.workspace.names import branch_of, component, folder_of
from bullpen.workspace.trees import Prepared, plan, prepare

PROJECT = "project"
"""The option of an agent in a tree of its own: the directory of its user's that it is for."""

OF_ITS_TREE = "a tree of its own"
"""Where the rule comes from that asks before the user's tree is changed."""

_LOOK_S = 60.0
_BEAT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceWish:
    """The tree that somebody wants for an agent of a team."""

    kind: WorkspaceKind
    team: str
    agent: str
    # Where trees are made; without it beside the repository.
    root: str | None = None
    # The branch or commit that it starts from; without it what is checked out.
    base: str | None = None
    # What a clone comes from: the name of a remote, a URL or a path.
    remote: str | None = None
    setup: str | None = None
    setup_s: float = SETUP_S
    dirty: DirtyStart = "refuse"


def seconds_for(spec: AgentSpec) -> float:
    """How long making the tree of an agent may take; 0 if nobody asked for one."""
    tree = spec.tree
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
    """Make the tree of an agent, or find it as it was left; None if nobody asked for one.

    What sets it up gets of the environment what the agent's commands get.

    Setting one up can take minutes: heartbeats say meanwhile that the agent is being started.

    Raises:
        Refused, Unavailable: it is not to be had; nothing that was there is changed.
    """
    spec, tree = agent.asked, agent.asked.tree
    if tree is None:
        return None

    async def beat() -> None:
        while True:
            await anyio.sleep(_BEAT_S)
            await team.agents.beat(_starting(name, agent, clock()))

    given = {each: environ[each] for each in spec.env if each in environ}
    commands = for_commands(given, spec.env_asked)
    make = partial(prepare, tree, team=team.name, agent=name, owner=owner, environ=commands)
    try:
        with one_error(), anyio.fail_after(seconds_for(spec)):
            async with anyio.create_task_group() as group:
                group.start_soon(beat)
                ready = await to_thread.run_sync(make, abandon_on_cancel=True)
                group.cancel_scope.cancel()
    except TimeoutError:
        raise Unavailable(
            f"The tree {tree.path} was not ready after {seconds_for(spec):.0f} s.",
            remedy="See what git or its set-up command waits for, then spawn it again.",
        ) from None
    return ready


def _starting(name: str, agent: AgentFacts, now_ms: int) -> Presence:
    """The heartbeat of an agent that is not started yet, from whoever is about to start it."""
    place = processes.this_process(agent.asked.backend, group=None)
    return Presence.new(
        agent=name,
        state="starting",
        since_ms=agent.since_ms,
        beat_ms=now_ms,
        detail="its tree is made ready",
        host=place.host,
        pid=place.pid,
        start=place.start,
        nonce=agent.nonce,
    )


def placed(spec: AgentSpec, wish: WorkspaceWish, *, elsewhere: bool = False) -> AgentSpec:
    """The spec of an agent in the tree that is wanted for it. Nothing is made yet.

    What it may change moves to that tree. `elsewhere` says that another machine will make it.

    Raises:
        Refused: it cannot be had, by the names that `plan` gives; or its policy opens a directory
            that holds the user's own tree (holds_project).
    """
    if elsewhere and wish.kind == "shared":
        return spec
    tree = _planned(spec.cwd, wish, elsewhere=elsewhere)
    spec = spec.evolve(workspace=tree.raw)
    return spec if tree.kind == "shared" else _moved(spec, tree)


def _planned(cwd: str, wish: WorkspaceWish, *, elsewhere: bool) -> Workspace:
    words = {"setup": wish.setup, "setup_s": wish.setup_s, "dirty": wish.dirty}
    try:
        return plan(
            wish.kind,
            Path(cwd),
            team=wish.team,
            agent=wish.agent,
            root=None if wish.root is None else Path(wish.root),
            base=wish.base,
            remote=wish.remote,
            setup=wish.setup,
            setup_s=wish.setup_s,
            dirty=wish.dirty,
            elsewhere=elsewhere,
        )
    except (Refused, Unavailable) as error:
        # What is there, on that machine, is not what is here.
        reason = error.reason if isinstance(error, Refused) else None
        if not elsewhere or (reason != "no_repository" and os.path.isdir(cwd)):
            raise
    if wish.kind == "clone" and wish.remote is not None:
        # Whatever lies there on that machine: this is where the clone goes.
        above = wish.root or os.path.dirname(cwd.rstrip("/"))
        name = os.path.basename(cwd.rstrip("/"))
        return Workspace.new(
            kind="clone",
            repository=wish.remote,
            path=os.path.join(above, folder_of(name, wish.team), component(wish.agent)),
            branch=branch_of(wish.team, wish.agent),
            base=wish.base,
            **words,
        )
    raise Refused(
        f"A {wish.kind} of {cwd} on another machine cannot be planned: there is no repository at"
        " that path here.",
        reason="no_repository_here",
        remedy="Ask for a clone and say of what (a URL that the machine can reach), or have the"
        " repository at the same path on both machines.",
    )


def _moved(spec: AgentSpec, tree: Workspace) -> AgentSpec:
    """The spec in a tree of its own, with its rights there and no longer in the user's tree."""
    top = _above(real_path(spec.cwd), tree.inside)
    move = Move(top, tree.path)
    policy = spec.rights
    _refuse_around(top, spec.cwd, [*policy.directories, *_writable(policy)])
    policy = move.policy(policy, spec.cwd)
    if not below(tree.path, top):
        guard = guard_of(top)
        policy = policy.evolve(
            ask=[*policy.ask, guard], sources={**policy.sources, guard: OF_ITS_TREE}
        )
    options = {**spec.options, PROJECT: spec.cwd}
    command = options.get(COMMAND)
    if isinstance(command, list) and command and "/" in str(command[0]):
        # What is started is the user's file, not what the agent makes of its copy.
        options[COMMAND] = [os.path.join(spec.cwd, command[0]), *command[1:]]
    return spec.evolve(
        cwd=os.path.join(tree.path, tree.inside) if tree.inside else tree.path,
        policy=policy.raw,
        options=options,
    )


def guard_of(top: str) -> str:
    """The rule that asks before anything in the user's tree is changed."""
    return f"Edit(/{_escaped(top)}/**)"


def inherited(
    parent: AgentSpec, kind: WorkspaceKind | None, *, team: str, agent: str
) -> WorkspaceWish | None:
    """The tree of a teammate that an agent spawns: of the kind that it asks for, else of its own.

    Set up like its own, and beside it. None if nothing was asked for and it has none.
    """
    tree = parent.tree
    kind = kind or (None if tree is None else tree.kind)
    if kind is None:
        return None
    wish = WorkspaceWish(kind=kind, team=team, agent=agent)
    if tree is None or tree.kind == "shared" or kind == "shared":
        return wish
    return replace(
        wish,
        # The path of a tree is its root, the folder of the repository and its team, and the agent.
        root=str(Path(tree.path).parents[2]),
        remote=tree.repository if kind == tree.kind == "clone" else None,
        setup=tree.setup,
        setup_s=tree.setup_s,
        dirty=tree.dirty,
    )


def beside(
    cwd: str, wish: WorkspaceWish, parent: tuple[str, AgentFacts]
) -> tuple[str, WorkspaceWish, tuple[str, AgentFacts]]:
    """What a child of an agent in a tree of its own is made of, when it gets another such tree.

    That is of its user's repository, from the same base, and with no more rights than its parent
    would have there. What the parent has written in its own tree governs nobody.
    """
    name, agent = parent
    spec, tree = agent.asked, agent.asked.own_tree
    move = _homeward(spec)
    if tree is None or move is None or wish.kind == "shared":
        return cwd, wish, parent
    base = wish.base or tree.base
    return move.path(cwd, spec.cwd), replace(wish, base=base), (name, _at_home(agent, move))


def _homeward(spec: AgentSpec) -> Move | None:
    """From the tree of an agent to its user's, if that is here."""
    tree, project = spec.own_tree, spec.options.get(PROJECT)
    if tree is None or not isinstance(project, str) or not os.path.isdir(project):
        return None
    return Move(real_path(tree.path), _above(real_path(project), tree.inside))


def _at_home(agent: AgentFacts, move: Move) -> AgentFacts:
    """An agent as if it worked in its user's directory."""
    spec, stands = agent.asked, agent.stands
    policy = move.policy(spec.rights, spec.cwd)
    policy = policy.evolve(ask=[rule for rule in policy.ask if rule != guard_of(move.to)])
    there = spec.evolve(cwd=move.path(spec.cwd, "/"), policy=policy.raw)
    stands = stands.evolve(
        allow=[move.rule(rule, spec.cwd) for rule in stands.allow],
        directories=[move.path(path, spec.cwd) for path in stands.directories],
    )
    return agent.evolve(spec=there.raw, standing=None if agent.standing is None else stands.raw)


@dataclass(frozen=True, slots=True)
class Move:
    """From one directory to another with all that is below it. Both are real paths."""

    source: str
    to: str

    def path(self, path: str, cwd: str) -> str:
        """Where a path leads afterwards, from the root; unchanged if it is not in there."""
        named = absolute(path, cwd, os.path.expanduser("~"))
        real = real_path(named)
        return self.to + real[len(self.source) :] if below(real, self.source) else named

    def rule(self, text: str, cwd: str) -> str:
        """A rule about the same files afterwards. One about files below `cwd` moves by itself."""
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
        """A policy about the same files afterwards. What is forbidden stays so where it was."""
        moved = {
            name: list(dict.fromkeys(self._rules(getattr(policy, name), cwd, keep=keep)))
            for name, keep in (("allow", False), ("deny", True), ("ask", True))
        }
        sources = dict(policy.sources)
        for text, source in policy.sources.items():
            sources.setdefault(self.rule(text, cwd), source)
        closed = policy.closed_in
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


def _writable(policy: Policy) -> Sequence[str]:
    closed = policy.closed_in
    return () if closed is None else closed.write


def _refuse_around(top: str, cwd: str, directories: Iterable[str]) -> None:
    home = os.path.expanduser("~")
    for each in directories:
        if top != (real := real_path(absolute(each, cwd, home))) and below(top, real):
            raise Refused(
                f"The directory {each} of its policy holds {top}, the user's own tree, which an"
                " agent in a tree of its own must not change.",
                reason="holds_project",
                remedy="Take the directory out of its policy, name what is needed of it, or let"
                " it work in the shared tree.",
            )


def _above(path: str, inside: str) -> str:
    """The directory that holds another at a relative path."""
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    return str(Path(path, *[".."] * len(parts)).resolve()) if parts else path


def _escaped(path: str) -> str:
    """A path as a pattern that means just it."""
    return re.sub(r"([*?\[\\])", r"\\\1", path.rstrip("/"))
