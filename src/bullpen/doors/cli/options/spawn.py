"""Options for how an agent is started."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from bullpen.agents.backends.available import BACKENDS
from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.agents.drivers.registry import DRIVERS
from bullpen.agents.supervisor.machines.host_records import wanted_labels
from bullpen.agents.work.tree_at_spawn import WorkspaceRequest, inherited
from bullpen.doors.cli.options import limits
from bullpen.doors.cli.options.option import PLACE, PROGRAM, flag, option
from bullpen.doors.cli.options.part_names import part_named, part_names
from bullpen.doors.cli.options.policy import PolicyOptions
from bullpen.doors.cli.session import directory
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.team import IN_PROCESS

_OUTSIDE = tuple(name for name in BACKENDS if name != IN_PROCESS)
WorkspaceKind = Literal["shared", "worktree", "clone"]
DirtyStart = Literal["refuse", "leave"]
Driver = Annotated[
    str,
    option(
        "Agent program to run; see `bullpen drivers`",
        "DRIVER",
        panel=PROGRAM,
        complete=part_names("driver", DRIVERS),
    ),
]
TeamBackend = Annotated[
    str,
    option(
        "Where the agents run: in-process, subprocess, tmux or a package's backend",
        "BACKEND",
        panel=PLACE,
        complete=part_names("backend", BACKENDS),
    ),
]
Model = Annotated[str | None, option("Model to use", "NAME", panel=PROGRAM)]
ModelOption = Annotated[
    list[str] | None,
    option(
        "What is known of the model, such as context_window=32768 or input_price=0.5 (dollars for"
        " a million tokens) [repeatable]",
        "KEY=NUMBER",
        panel=PROGRAM,
    ),
]
SmallModel = Annotated[
    str | None, option("Model that writes summaries [default: its own]", "NAME", panel=PROGRAM)
]
Effort = Annotated[
    Literal["minimal", "low", "medium", "high", "xhigh", "max"] | None,
    option("How much the model thinks [default: as it likes]", panel=PROGRAM),
]
StrictModel = Annotated[
    bool,
    flag("Stop if the API answers with another model's name", "--strict-model", panel=PROGRAM),
]
Script = Annotated[str | None, option("Script for the scripted driver", "FILE", panel=PROGRAM)]
Command = Annotated[
    str | None,
    option(
        "Command that starts the program, for --driver acp or instead of the usual one",
        "WORDS",
        "--command",
        panel=PROGRAM,
    ),
]
Cwd = Annotated[
    str | None, option("Working directory [default: current directory]", "DIR", panel=PLACE)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOptions:
    """The options of `spawn` that say what is started."""

    driver: Driver = "native"
    backend: Annotated[
        str,
        option(
            "Where it runs: subprocess, tmux or a package's backend",
            "BACKEND",
            panel=PLACE,
            complete=part_names("backend", _OUTSIDE),
        ),
    ] = "subprocess"
    model: Model = None
    model_option: ModelOption = None
    small_model: SmallModel = None
    effort: Effort = None
    strict_model: StrictModel = False
    role: Annotated[str | None, option("Agent definition (role) to use", "NAME", panel=PROGRAM)] = (
        None
    )
    cwd: Cwd = None
    script: Script = None
    program: Command = None
    claim: Annotated[
        bool, flag("Claim ready tasks by itself", "--claim/--no-claim", panel=PROGRAM)
    ] = True
    turns: limits.Turns = None
    budget_tokens: limits.Tokens = None
    budget_usd: limits.Usd = None
    budget_seconds: limits.Seconds = None
    env: Annotated[
        list[str] | None,
        option("Pass this environment variable [repeatable]", "NAME", panel=PROGRAM),
    ] = None

    on: Annotated[
        str | None,
        option(
            "Run on any host with these labels, such as os=linux,gpu; --cwd is a path there",
            "LABELS",
            panel=PLACE,
        ),
    ] = None
    respawn: Annotated[
        bool,
        flag("With --on: restart it on another host if its host is lost", "--respawn", panel=PLACE),
    ] = False

    workspace: Annotated[
        WorkspaceKind | None, option("Own worktree, own clone, or the shared checkout", panel=PLACE)
    ] = None
    workspace_root: Annotated[
        str | None,
        option("Where to create its worktree [default: beside the repository]", "DIR", panel=PLACE),
    ] = None
    base: Annotated[
        str | None,
        option("Where its branch starts [default: the checked-out branch]", "BRANCH", panel=PLACE),
    ] = None
    remote: Annotated[str | None, option("What to clone", "NAME|URL", panel=PLACE)] = None
    setup: Annotated[
        str | None, option("Command that prepares a new worktree", "COMMAND", panel=PLACE)
    ] = None
    dirty: Annotated[
        DirtyStart,
        option("If you have uncommitted changes: refuse, or leave them out", panel=PLACE),
    ] = "refuse"
    skill: Annotated[
        list[str] | None,
        option("Skill it has, for tasks that need it [repeatable]", "NAME", panel=PROGRAM),
    ] = None

    def workspace_request(
        self, team: str, name: str, parent: tuple[str, AgentFacts] | None
    ) -> WorkspaceRequest | None:
        """The tree that it gets: what is asked for, else like that of the agent that asks."""
        if self.workspace is None:
            above = None if parent is None else parent[1].spec
            return None if above is None else inherited(above, None, team=team, agent=name)
        return WorkspaceRequest(
            kind=self.workspace,
            team=team,
            agent=name,
            root=None if self.workspace_root is None else os.path.abspath(self.workspace_root),
            base=self.base,
            remote=self.remote,
            setup=self.setup,
            dirty=self.dirty,
        )

    @property
    def _for_its_own(self) -> list[str]:
        """The options that need a worktree or clone."""
        named = {
            "--workspace-root": self.workspace_root,
            "--base": self.base,
            "--remote": self.remote,
            "--setup": self.setup,
        }
        return [option for option, value in named.items() if value is not None]

    def request(self, *, prompt: str | None, rights: PolicyOptions) -> SpawnRequest:
        """What to spawn by these options, but for its policy and the tree that it gets."""
        alone = self._for_its_own
        if alone and self.workspace in (None, "shared"):
            raise typer.BadParameter(f"{alone[0]} needs --workspace worktree.")
        if self.respawn and self.on is None:
            raise typer.BadParameter("--respawn needs --on.")
        return SpawnRequest(
            cwd=directory(self.cwd) if self.on is None else os.path.abspath(self.cwd or "."),
            driver=part_named("driver", self.driver, DRIVERS),
            backend=part_named("backend", self.backend, _OUTSIDE),
            role=self.role,
            model=self.model,
            prompt=prompt,
            script=None if self.script is None else os.path.abspath(self.script),
            command=words_of(self.program),
            mode=rights.mode,
            project_settings=not rights.no_project_settings,
            claims=self.claim,
            turns_max=self.turns,
            budget_tokens=self.budget_tokens,
            budget_usd=self.budget_usd,
            budget_wall_s=self.budget_seconds,
            env=self.env or (),
            on=None if self.on is None else wanted_labels(self.on),
            respawn=self.respawn,
            skills=self.skill or (),
            model_options=ModelOptions.parse(self.model_option or []).stated,
            small_model=self.small_model,
            effort=self.effort,
            strict_model=self.strict_model,
        )


def words_of(command: str | None) -> list[str] | None:
    """The words of a command line, as a shell would part them; None if there is none."""
    if command is None:
        return None
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise typer.BadParameter(f"--command {command!r} is not a command: {error}.") from None
    if not words:
        raise typer.BadParameter("--command is empty.")
    return words
