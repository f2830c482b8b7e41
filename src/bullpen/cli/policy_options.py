"""What an agent may do, as options of the commands that start agents."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from bullpen.cli.session import is_terminal
from bullpen.errors import Invalid

ModeName = Literal["default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk"]
"""The modes, written out: the records that know them are too heavy for a help text."""

CAN_ASK = (None, "default", "acceptEdits", "plan", "delegate")
"""The modes in which something may have to be asked for; none given is `default`."""

_HERE = "the command line"


def _option(text: str, metavar: str | None = None) -> Any:
    return typer.Option(metavar=metavar, help=text, show_default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """The options of `spawn` and `run` that say what agents may do."""

    mode: Annotated[
        ModeName | None, _option("What it may do unasked. [default: default, which asks]")
    ] = None
    allow: Annotated[
        list[str] | None, _option("Allowed unasked, as Bash(git:*). [repeatable]", "RULE")
    ] = None
    deny: Annotated[
        list[str] | None, _option("Denied in every mode, as Read(.env). [repeatable]", "RULE")
    ] = None
    ask: Annotated[list[str] | None, _option("Always asked for. [repeatable]", "RULE")] = None
    dir: Annotated[
        list[str] | None,
        _option("A directory that counts as inside the project. [repeatable]", "DIR"),
    ] = None
    approver: Annotated[
        Literal["human", "lead", "policy"] | None,
        _option("Who answers what it asks. [default: human at a terminal, else policy]"),
    ] = None
    answers: Annotated[
        str | None, _option("The rules that answer for --approver policy, in TOML.", "FILE")
    ] = None
    deadline: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=0.1,
            help="What is not answered after so many seconds is denied. [default: 600]",
            show_default=False,
        ),
    ] = None
    plan_approver: Annotated[
        Literal["human", "lead", "rule", "auto"] | None,
        _option("Who answers its plans. [default: lead; of the lead's, a person]"),
    ] = None
    plan_rule: Annotated[
        str | None, _option("Reads a plan and approves it with exit 0.", "COMMAND")
    ] = None
    after_plan: Annotated[
        ModeName | None, _option("The widest mode after a plan. [default: acceptEdits]")
    ] = None
    sandbox: Annotated[
        bool | None,
        typer.Option(
            "--sandbox/--no-sandbox",
            help="Whether its commands run closed in.",
            show_default=False,
        ),
    ] = None
    network: Annotated[
        bool, typer.Option("--network", help="Its sandbox has the network.", show_default=False)
    ] = False
    no_project_settings: Annotated[
        bool,
        typer.Option(
            "--no-project-settings",
            help="Leave out the rules and hooks of the project's files.",
            show_default=False,
        ),
    ] = False

    @property
    def attended(self) -> bool:
        """Whether somebody is taken to be there who answers."""
        named = self.approver is not None or self.answers is not None
        return named or (is_terminal(sys.stdin) and is_terminal(sys.stderr))

    def stated(self) -> dict[str, Any]:
        """The policy as it is stored, with what was said here and nothing else."""
        self._check()
        rules = [*(self.allow or ()), *(self.deny or ()), *(self.ask or ())]
        said = {
            "allow": self.allow,
            "deny": self.deny,
            "ask": self.ask,
            "directories": [_directory(path) for path in self.dir or ()],
            "approver": self.approver or ("policy" if self.answers else None),
            "answers": None if self.answers is None else _file(self.answers),
            "deadlineS": self.deadline,
            "planApprover": self.plan_approver or ("rule" if self.plan_rule else None),
            "planRule": self.plan_rule,
            "afterPlan": self.after_plan,
            "sandbox": {"network": self.network} if self.sandbox else None,
            "sources": dict.fromkeys(rules, _HERE),
        }
        stated = {key: value for key, value in said.items() if value}
        # Said to be without one is something else than nothing said.
        return {**stated, "sandbox": None} if self.sandbox is False else stated

    def warning(self, *, where: str) -> str | None:
        """What somebody must know who starts agents where nobody can be asked."""
        if self.attended or self.allow or self.mode not in CAN_ASK:
            return None
        return (
            f"there is no terminal, so what {where} would have to ask for is denied."
            " Allow it with --allow RULE, --answers FILE or --mode,"
            " or let people answer: --approver human"
        )

    def _check(self) -> None:
        if self.answers is not None and self.approver not in (None, "policy"):
            raise typer.BadParameter(f"--answers is for --approver policy, not {self.approver}.")
        if self.plan_rule is not None and self.plan_approver not in (None, "rule"):
            raise typer.BadParameter(
                f"--plan-rule is for --plan-approver rule, not {self.plan_approver}."
            )
        if self.plan_approver == "rule" and self.plan_rule is None:
            raise typer.BadParameter("--plan-approver rule needs --plan-rule COMMAND.")
        if self.network and not self.sandbox:
            raise typer.BadParameter("--network is of a sandbox: say --sandbox too.")
        if self.after_plan == "plan":
            raise typer.BadParameter("a plan leads out of plan mode: choose another --after-plan.")


def _directory(path: str) -> str:
    found = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(found):
        raise Invalid(f"{path!r} is no directory.", remedy="Check --dir.")
    return found


def _file(path: str) -> str:
    found = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(found):
        raise Invalid(f"There is no file {path!r}.", remedy="Check --answers.")
    return found
