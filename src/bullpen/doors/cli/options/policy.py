"""Options for what an agent may do."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import typer

from bullpen.doors.cli.options.option import PERMISSIONS, flag, option
from bullpen.doors.cli.output.page import is_terminal
from bullpen.errors import Invalid
from bullpen.protocol.policy import Policy
from bullpen.sandbox.network.host_rules import host_rule

ModeName = Literal["default", "acceptEdits", "bypassPermissions", "plan", "delegate", "dontAsk"]
"""The permission modes."""

CAN_ASK = (None, "default", "acceptEdits", "plan", "delegate")
"""The modes in which a call may need approval; None means `default`."""

_HERE = "the command line"


_option = partial(option, panel=PERMISSIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """The options of `spawn` and `run` that say what agents may do."""

    mode: Annotated[
        ModeName | None, _option("What it may do without approval [default: default, which asks]")
    ] = None
    allow: Annotated[
        list[str] | None,
        _option("Allow without approval, such as Bash(git:*) [repeatable]", "RULE"),
    ] = None
    deny: Annotated[
        list[str] | None, _option("Deny in every mode, such as Read(.env) [repeatable]", "RULE")
    ] = None
    ask: Annotated[list[str] | None, _option("Always require approval [repeatable]", "RULE")] = None
    dir: Annotated[
        list[str] | None,
        _option("Treat this directory as part of the project [repeatable]", "DIR"),
    ] = None
    approver: Annotated[
        Literal["human", "lead", "policy"] | None,
        _option("Who answers its requests [default: human at a terminal, else policy]"),
    ] = None
    answers: Annotated[
        str | None, _option("Policy file (TOML) that answers for --approver policy", "FILE")
    ] = None
    deadline: Annotated[
        float | None,
        _option("Deny requests not answered within S seconds [default: 600]", "S", min=0.1),
    ] = None
    plan_approver: Annotated[
        Literal["human", "lead", "rule", "auto"] | None,
        _option("Who answers its plans [default: lead; a person for the lead's plans]"),
    ] = None
    plan_rule: Annotated[
        str | None, _option("Command that reads a plan and approves it by exit code 0", "COMMAND")
    ] = None
    after_plan: Annotated[
        ModeName | None, _option("The widest mode after a plan [default: acceptEdits]")
    ] = None
    sandbox: Annotated[
        bool | None, _option("Run the agent in a sandbox", None, "--sandbox/--no-sandbox")
    ] = None
    network: Annotated[
        bool, flag("Allow every public host in the sandbox", "--network", panel=PERMISSIONS)
    ] = False
    allow_host: Annotated[
        list[str] | None,
        _option("Allow this host in the sandbox [repeatable]", "HOST[:PORT]"),
    ] = None
    no_project_settings: Annotated[
        bool,
        flag(
            "Ignore the project's own settings and hooks",
            "--no-project-settings",
            panel=PERMISSIONS,
        ),
    ] = False

    @property
    def attended(self) -> bool:
        """Whether somebody can answer requests."""
        named = self.approver is not None or self.answers is not None
        return named or (is_terminal(sys.stdin) and is_terminal(sys.stderr))

    def stated(self) -> dict[str, Any]:
        """The stored form of the policy, with only what was chosen here."""
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
            "sandbox": self._sandbox() if self.sandbox else None,
            "sources": dict.fromkeys(rules, _HERE),
        }
        stated = {key: value for key, value in said.items() if value}
        # --no-sandbox differs from not choosing.
        return {**stated, "sandbox": None} if self.sandbox is False else stated

    def warning(self, *, where: str) -> str | None:
        """The warning for starting agents where nobody can answer; None if there is none."""
        if self.attended or self.allow or self.mode not in CAN_ASK:
            return None
        return (
            f"there is no terminal, so requests of {where} are denied."
            " Allow calls with --allow RULE, --answers FILE or --mode,"
            " or let people answer with --approver human"
        )

    def _sandbox(self) -> dict[str, Any]:
        hosts = list(dict.fromkeys(self.allow_host or ()))
        for host in hosts:
            host_rule(host)
        return {"network": self.network, **({"hosts": hosts} if hosts else {})}

    def _check(self) -> None:
        if self.answers is not None and self.approver not in (None, "policy"):
            raise typer.BadParameter(
                f"--answers works only with --approver policy, not {self.approver}."
            )
        if self.plan_rule is not None and self.plan_approver not in (None, "rule"):
            raise typer.BadParameter(
                f"--plan-rule works only with --plan-approver rule, not {self.plan_approver}."
            )
        if self.plan_approver == "rule" and self.plan_rule is None:
            raise typer.BadParameter("--plan-approver rule needs --plan-rule COMMAND.")
        if (self.network or self.allow_host) and not self.sandbox:
            option = "--network" if self.network else "--allow-host"
            raise typer.BadParameter(f"{option} needs --sandbox.")
        if self.after_plan == "plan":
            raise typer.BadParameter("--after-plan cannot be plan.")


def policy_of(stated: dict[str, Any]) -> Policy | None:
    """The policy that options state; None if they state nothing."""
    return Policy.parse(stated) if stated else None


def _directory(path: str) -> str:
    found = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(found):
        raise Invalid(f"{path!r} is not a directory.", remedy="Check --dir.")
    return found


def _file(path: str) -> str:
    found = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(found):
        raise Invalid(f"No file {path!r}.", remedy="Check --answers.")
    return found
