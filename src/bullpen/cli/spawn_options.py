"""What an agent is made of, as options of the commands that start agents."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bullpen.cli.session import directory

if TYPE_CHECKING:
    from bullpen.agents.trees import WorkspaceWish
    from bullpen.protocol.agent import AgentFacts

WorkspaceKind = Literal["shared", "worktree", "clone"]
DirtyStart = Literal["refuse", "leave"]
Driver = Literal[
    "native",
    "scripted",
    "claude-code",
    "codex",
    "claude",
    "goose",
    "opencode",
    "gemini",
    "qwen",
    "vibe",
    "acp",
]
Model = Annotated[
    str | None, typer.Option(metavar="NAME", help="The model it thinks with.", show_default=False)
]
Script = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="What the scripted driver plays.", show_default=False),
]
Command = Annotated[
    str | None,
    typer.Option(
        "--command",
        metavar="WORDS",
        help="What starts the program of driver acp, or of another in its place.",
        show_default=False,
    ),
]
Wait = Annotated[
    float | None,
    typer.Option(
        metavar="S",
        min=0.1,
        help="It must be ready within so many seconds. [default: 30; other programs 120]",
        show_default=False,
    ),
]
Cwd = Annotated[str | None, typer.Option(metavar="DIR", help="Where it works. [default: here]")]
BudgetTokens = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Stop after so many tokens.", show_default=False),
]
BudgetUsd = Annotated[
    float | None,
    typer.Option(metavar="X", min=0.0001, help="Stop after so many dollars.", show_default=False),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOptions:
    """The options of `spawn` that say what is started."""

    driver: Annotated[Driver, typer.Option(help="Which program takes its turns.")] = "native"
    backend: Annotated[Literal["subprocess", "tmux"], typer.Option(help="Where it runs.")] = (
        "subprocess"
    )
    model: Model = None
    role: Annotated[
        str | None, typer.Option(metavar="NAME", help="The agent definition to make it from.")
    ] = None
    cwd: Cwd = None
    script: Script = None
    program: Command = None
    claim: Annotated[
        bool, typer.Option("--claim/--no-claim", help="Whether it takes ready tasks by itself.")
    ] = True
    turns: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="It ends after so many turns.")
    ] = None
    budget_tokens: BudgetTokens = None
    budget_usd: BudgetUsd = None
    budget_seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0.1, help="Stop after so many seconds.")
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A variable of yours that it gets. [repeatable]"),
    ] = None

    on: Annotated[
        str | None,
        typer.Option(
            metavar="LABELS",
            help="Any host with these runs it, such as os=linux,gpu. --cwd is a path there.",
            show_default=False,
        ),
    ] = None
    respawn: Annotated[
        bool, typer.Option("--respawn", help="With --on: start it elsewhere if its host is lost.")
    ] = False

    workspace: Annotated[
        WorkspaceKind | None,
        typer.Option(
            help="A git tree and branch of its own, a clone, or what is there for all.",
            show_default=False,
        ),
    ] = None
    workspace_root: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where its tree is made. [default: beside the repository]",
            show_default=False,
        ),
    ] = None
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BRANCH",
            help="What its branch begins with. [default: what is checked out]",
            show_default=False,
        ),
    ] = None
    remote: Annotated[
        str | None,
        typer.Option(metavar="NAME|URL", help="What its clone comes from.", show_default=False),
    ] = None
    setup: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="What makes a new tree ready for work.", show_default=False
        ),
    ] = None
    dirty: Annotated[
        DirtyStart,
        typer.Option(help="With changes of yours that its tree lacks: refuse, or leave them."),
    ] = "refuse"
    skill: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What it can do, for tasks that need it. [repeatable]"),
    ] = None

    def wish(
        self, team: str, name: str, parent: tuple[str, AgentFacts] | None
    ) -> WorkspaceWish | None:
        """The tree that it gets: what is asked for, else like that of the agent that asks."""
        from bullpen.agents.trees import WorkspaceWish, inherited

        if self.workspace is None:
            above = None if parent is None else parent[1].asked
            return None if above is None else inherited(above, None, team=team, agent=name)
        return WorkspaceWish(
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
        """The options that make sense only with a tree of its own."""
        named = {
            "--workspace-root": self.workspace_root,
            "--base": self.base,
            "--remote": self.remote,
            "--setup": self.setup,
        }
        return [option for option, value in named.items() if value is not None]

    def stated(self) -> dict[str, Any]:
        """The same in the words of whoever makes specs."""
        alone = self._for_its_own
        if alone and self.workspace in (None, "shared"):
            raise typer.BadParameter(
                f"{alone[0]} is for a tree of its own: add --workspace worktree."
            )
        if self.respawn and self.on is None:
            raise typer.BadParameter("--respawn is for agents that any host may run: add --on.")
        return {
            "on": labels_of(self.on),
            "respawn": self.respawn,
            "driver": self.driver,
            "backend": self.backend,
            "model": self.model,
            "role": self.role,
            "cwd": directory(self.cwd) if self.on is None else os.path.abspath(self.cwd or "."),
            "script": None if self.script is None else os.path.abspath(self.script),
            "command": words_of(self.program),
            "claims": self.claim,
            "turns_max": self.turns,
            "budget_tokens": self.budget_tokens,
            "budget_usd": self.budget_usd,
            "budget_wall_s": self.budget_seconds,
            "env": self.env or (),
            "skills": self.skill or (),
        }


def labels_of(text: str | None) -> dict[str, str] | None:
    """The labels that `--on` asks for; `any` asks for none."""
    if text is None:
        return None
    from bullpen.agents.hosts.records import wanted_labels

    return wanted_labels(text)


def words_of(command: str | None) -> list[str] | None:
    """The words of a command line, as a shell would part them; None if there is none."""
    if command is None:
        return None
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise typer.BadParameter(f"--command {command!r} is no command: {error}.") from None
    if not words:
        raise typer.BadParameter("--command names no program.")
    return words
