"""An agent's policy as tables for people and JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bullpen.agents.permissions.rule_language.rule import tool_of
from bullpen.agents.system.vendors.acp_presets import GENERIC
from bullpen.agents.system.vendors.programs import OWN_DRIVERS, is_foreign
from bullpen.app.effective_rights import FOREIGN_TOOLS, Effective, EffectiveVerdict
from bullpen.doors.cli.output.page import Page
from bullpen.protocol.policy import Sandbox
from bullpen.team.requests.mode_rules import Kind
from bullpen.view.text import Cell

_STYLES = {"allow": "good", "ask": "attention", "deny": "bad"}
MODE_WORDS = {
    "default": "asks before it changes files or runs commands",
    "acceptEdits": "changes project files freely, asks before it runs commands",
    "bypassPermissions": "never asks",
    "plan": "reads only, until a plan is approved",
    "delegate": "only coordinates if it is the lead; a teammate works as in acceptEdits",
    "dontAsk": "denies what no rule allows, without asking",
}
"""What an agent does in each mode."""
_WHO = {
    "human": "a person",
    "lead": "the lead, or a person",
    "policy": "the policy file",
    "rule": "a rule",
    "auto": "approved automatically",
    "inbox": "the lead's program, by message",
}
_KINDS: tuple[tuple[Kind, str], ...] = (
    ("read", "read files"),
    ("write", "change files"),
    ("run", "run commands and programs"),
    ("team", "tasks, messages, teammates"),
)
_VERDICTS = {"allow": "allowed", "ask": "asks first", "deny": "denied"}


def effective_json(found: Effective) -> dict[str, Any]:
    """What an agent may do, as a JSON object."""
    policy = found.policy
    return {
        "agent": found.name,
        "team": found.team,
        "driver": found.driver,
        "readsUnasked": found.reads_unasked,
        "mode": found.rights.mode,
        "modeAtSpawn": found.agent.spec.start_mode,
        "modeBy": found.mode_by,
        "approver": found.approver,
        "answers": policy.answers,
        "deadlineS": policy.deadline_s,
        "planApprover": found.plan_approver,
        "planRule": policy.plan_rule,
        "afterPlan": policy.after_plan,
        "sandbox": None if policy.sandbox is None else policy.sandbox.raw,
        "cwd": found.rights.cwd,
        "directories": list(found.rights.directories),
        "tools": found.tools,
        "lacks": found.lacks,
        "rules": [
            {"effect": rule.effect, "rule": rule.text, "source": rule.source}
            for rule in found.rules
        ],
        "otherwise": {
            kind: {
                "inside": found.otherwise(kind, inside=True),
                "outside": found.otherwise(kind, inside=False),
            }
            for kind, _ in _KINDS
        },
        "hooks": sorted(found.agent.spec.hooks or {}),
        "afterEdit": dict(found.agent.spec.after_edit or {}),
    }


def verdict_json(found: Effective, verdict: EffectiveVerdict) -> dict[str, Any]:
    """What would come of a call, as a JSON object."""
    answer = verdict.answer
    return {
        "agent": found.name,
        "tool": verdict.call.tool,
        "input": dict(verdict.call.input),
        "effect": verdict.ruling.effect,
        "why": verdict.ruling.why,
        "rule": verdict.ruling.rule,
        "suggestions": list(verdict.ruling.suggestions),
        "approver": found.approver if verdict.ruling.effect == "ask" else None,
        "answer": None if answer is None else {"effect": answer.effect, "why": answer.why},
        "outcome": verdict.outcome,
    }


class PolicyViews:
    """Shows what agents may do on a page."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def effective(self, found: Effective) -> None:
        """The effective table of one agent."""
        if self._page.json:
            self._page.value("policy/1", effective_json(found))
            return
        page = self._page
        page.title(f"What {found.name} may do in team {found.team}")
        page.fields(list(_fields(found)))
        page.line()
        rules = list(found.rules)
        if rules:
            page.title("Rules, in the order they are checked:")
            page.table(
                ("effect", "rule", "from"),
                [(Cell(r.effect, _STYLES[r.effect]), r.text, r.source) for r in rules],
            )
        else:
            page.line("No rules.")
        page.line()
        page.title(f"When no rule matches (mode {found.rights.mode}):")
        page.table(("inside", "outside", "to"), [_otherwise(found, *row) for row in _KINDS])
        page.line()
        page.line(f"Try a call: bullpen policy check {found.name} Bash 'COMMAND'")

    def verdict(self, found: Effective, verdict: EffectiveVerdict) -> None:
        """What would come of a call."""
        if self._page.json:
            self._page.value("policy-check/1", verdict_json(found, verdict))
            return
        ruling, answer = verdict.ruling, verdict.answer
        said = f"{_VERDICTS[ruling.effect]}: {verdict.call}"
        self._page.line(Cell(said, _STYLES[ruling.effect]))
        rows: list[tuple[str, str | Cell]] = [("  why", ruling.why), ("  rule", ruling.rule or "")]
        if ruling.effect == "ask":
            rows.append(("  answers", _who_answers(found)))
        if answer is not None:
            text = f"{_VERDICTS[answer.effect]}: {answer.why}"
            rows.append(("  then", Cell(text, _STYLES[answer.effect])))
        self._page.fields(rows)
        if "PreToolUse" in (found.agent.spec.hooks or {}):
            self._page.line("Its hooks also decide before each call; they are not run here.")


def _fields(found: Effective) -> Iterator[tuple[str, str | Cell]]:
    policy, rights, stands = found.policy, found.rights, found.agent.standing
    yield "mode", Cell(f"{rights.mode} ({MODE_WORDS[rights.mode]})", "strong")
    if found.driver not in OWN_DRIVERS:
        yield "driver", f"{found.driver}: {_enforced(found)}"
    if found.mode_by is not None:
        yield "at spawn", f"{found.agent.spec.start_mode}; since then: {found.mode_by}"
    yield "answers", _who_answers(found)
    yield "plans", _who_plans(found)
    if stands.plan is not None:
        yield (
            "its plan",
            Cell(f"waiting: bullpen requests {stands.plan.request_id}", "attention"),
        )
    yield "sandbox", _sandbox(policy.sandbox)
    yield "works in", rights.cwd
    for directory in rights.directories:
        granted = f" ({found.granted_by(directory)})" if directory in stands.directories else ""
        yield "also inside", f"{directory}{granted}"
    yield "hooks", ", ".join(sorted(found.agent.spec.hooks or {}))
    for pattern, commands in (found.agent.spec.after_edit or {}).items():
        yield "after edit", f"{pattern}: {'; '.join(commands)}"
    yield "tools", _tools(found)
    by_reason: dict[str, list[str]] = {}
    for name, why in found.lacks.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        yield "not", f"{', '.join(names)} ({why})"


def _enforced(found: Effective) -> str:
    """How far the rest of the page holds for a program that has tools of its own."""
    if found.driver == GENERIC.name:
        return "this applies only if the program asks, which is untested"
    if found.runs_unasked:
        return (
            "it asks before it changes files or runs commands that change something; it reads"
            " without asking, also with commands"
        )
    if found.reads_unasked:
        return "it asks before it changes files or runs commands; it reads without asking"
    return "it asks before it reads, changes or runs anything"


def _tools(found: Effective) -> str:
    own = [name for name in found.tools if tool_of(name) in FOREIGN_TOOLS]
    if not is_foreign(found.driver):
        return ", ".join(found.tools) or "none"
    team = ", ".join(name for name in found.tools if name not in own)
    return f"its own, treated as {', '.join(own) or 'none'}; {team}"


def _who_answers(found: Effective) -> str:
    policy = found.policy
    if found.approver == "policy":
        return (
            f"the policy file {policy.answers}" if policy.answers else "nobody; requests are denied"
        )
    return f"{_WHO[found.approver]}; denied after {policy.deadline_s:g} s without an answer"


def _who_plans(found: Effective) -> str:
    policy = found.policy
    who = _WHO[found.plan_approver]
    if found.plan_approver == "rule":
        who = f"the command {policy.plan_rule}" if policy.plan_rule else "nobody; plans are denied"
    start = found.agent.spec.start_mode
    return f"{who}; then at most mode {policy.after_plan if start == 'plan' else start}"


def _sandbox(sandbox: Sandbox | None) -> str:
    if sandbox is None:
        return "none: its commands can reach what you can reach"
    network = "every public host" if sandbox.network else "no host"
    if sandbox.hosts:
        also_any = ["every public host"] if sandbox.network else []
        network = ", ".join([*also_any, *sandbox.hosts])
    also = ", ".join(
        [*(f"{d} (read)" for d in sandbox.read), *(f"{d} (write)" for d in sandbox.write)]
    )
    return f"runs in a sandbox that reaches {network}" + (f"; also {also}" if also else "")


def _otherwise(found: Effective, kind: Kind, said: str) -> tuple[str | Cell, ...]:
    effects = [found.otherwise(kind, inside=inside) for inside in (True, False)]
    return (*(Cell(effect, _STYLES[effect]) for effect in effects), said)
