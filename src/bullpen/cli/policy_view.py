"""What an agent may do, as people read it and as the JSON objects programs read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bullpen.agents.drivers.acp.presets import GENERIC
from bullpen.agents.drivers.programs import is_foreign
from bullpen.agents.policy.effective import FOREIGN_TOOLS, Effective, Verdict
from bullpen.agents.policy.rules import tool_of
from bullpen.cli.render import Page
from bullpen.protocol.policy import Sandbox
from bullpen.team.policy_rules import Kind
from bullpen.view.text import Cell

_STYLES = {"allow": "good", "ask": "attention", "deny": "bad"}
_MODES = {
    "default": "asks before it changes or runs anything",
    "acceptEdits": "changes files inside unasked, asks before it runs anything",
    "bypassPermissions": "asks for nothing",
    "plan": "only looks, until a plan is approved",
    "delegate": "a lead only leads; a teammate works as in acceptEdits",
    "dontAsk": "what no rule allows is denied, not asked for",
}
_WHO = {
    "human": "a person",
    "lead": "the lead, or a person",
    "policy": "the policy file",
    "rule": "a rule",
    "auto": "code, which approves at once",
    "inbox": "the lead's own program, by message",
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
        "modeAtSpawn": found.agent.asked.start_mode,
        "modeBy": found.mode_by,
        "approver": found.approver,
        "answers": policy.answers,
        "deadlineS": policy.deadline_s,
        "planApprover": found.plan_approver,
        "planRule": policy.plan_rule,
        "afterPlan": policy.after_plan,
        "sandbox": None if policy.closed_in is None else policy.closed_in.raw,
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
        "hooks": sorted(found.agent.asked.hooks or {}),
    }


def verdict_json(found: Effective, verdict: Verdict) -> dict[str, Any]:
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
            self._page.value(effective_json(found))
            return
        page = self._page
        page.title(f"What {found.name} may do in team {found.team}")
        page.fields(list(_fields(found)))
        page.line()
        rules = list(found.rules)
        if rules:
            page.title("Rules, in the order in which they are looked at:")
            page.table(
                ("effect", "rule", "from"),
                [(Cell(r.effect, _STYLES[r.effect]), r.text, r.source) for r in rules],
            )
        else:
            page.line("No rules.")
        page.line()
        page.title(f"Where no rule says anything (mode {found.rights.mode}):")
        page.table(("inside", "outside", "to"), [_otherwise(found, *row) for row in _KINDS])
        page.line()
        page.line(f"Try a call: bullpen policy check {found.name} Bash 'COMMAND'")

    def verdict(self, found: Effective, verdict: Verdict) -> None:
        """What would come of a call."""
        if self._page.json:
            self._page.value(verdict_json(found, verdict))
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
        if "PreToolUse" in (found.agent.asked.hooks or {}):
            self._page.line("Its hooks are asked too before each call; they are not run here.")


def _fields(found: Effective) -> Iterator[tuple[str, str | Cell]]:
    policy, rights, stands = found.policy, found.rights, found.agent.stands
    yield "mode", Cell(f"{rights.mode} ({_MODES[rights.mode]})", "strong")
    if is_foreign(found.driver):
        yield "driver", f"{found.driver}: {_enforced(found)}"
    if found.mode_by is not None:
        yield "at its spawn", f"{found.agent.asked.start_mode}; since then: {found.mode_by}"
    yield "answers", _who_answers(found)
    yield "plans", _who_plans(found)
    if stands.submitted is not None:
        yield (
            "its plan",
            Cell(f"waits: bullpen requests {stands.submitted.request_id}", "attention"),
        )
    yield "sandbox", _sandbox(policy.closed_in)
    yield "works in", rights.cwd
    for directory in rights.directories:
        granted = f" ({found.granted_by(directory)})" if directory in stands.directories else ""
        yield "also inside", f"{directory}{granted}"
    yield "hooks", ", ".join(sorted(found.agent.asked.hooks or {}))
    yield "tools", _tools(found)
    by_reason: dict[str, list[str]] = {}
    for name, why in found.lacks.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        yield "not", f"{', '.join(names)} ({why})"


def _enforced(found: Effective) -> str:
    """How far the rest of the page holds for a program that has tools of its own."""
    if found.driver == GENERIC.name:
        return "all of this holds as far as the program asks, which nobody has observed"
    if found.reads_unasked:
        return "it asks before it changes or runs anything; it reads unasked"
    return "it asks before it reads, changes or runs anything"


def _tools(found: Effective) -> str:
    own = [name for name in found.tools if tool_of(name) in FOREIGN_TOOLS]
    if not is_foreign(found.driver):
        return ", ".join(found.tools) or "none"
    team = ", ".join(name for name in found.tools if name not in own)
    return f"its own, decided on as {', '.join(own) or 'none'}; {team}"


def _who_answers(found: Effective) -> str:
    policy = found.policy
    if found.approver == "policy":
        return f"the policy file {policy.answers}" if policy.answers else "nobody: it is denied"
    return f"{_WHO[found.approver]}; denied after {policy.deadline_s:g} s without an answer"


def _who_plans(found: Effective) -> str:
    policy = found.policy
    who = _WHO[found.plan_approver]
    if found.plan_approver == "rule":
        who = f"the command {policy.plan_rule}" if policy.plan_rule else "nobody: none is approved"
    start = found.agent.asked.start_mode
    return f"{who}; then at most mode {policy.after_plan if start == 'plan' else start}"


def _sandbox(sandbox: Sandbox | None) -> str:
    if sandbox is None:
        return "none: its commands see what you see"
    network = "with the network" if sandbox.network else "without the network"
    also = ", ".join(
        [*(f"{d} (read)" for d in sandbox.read), *(f"{d} (write)" for d in sandbox.write)]
    )
    return f"its commands are closed in, {network}" + (f"; also {also}" if also else "")


def _otherwise(found: Effective, kind: Kind, said: str) -> tuple[str | Cell, ...]:
    effects = [found.otherwise(kind, inside=inside) for inside in (True, False)]
    return (*(Cell(effect, _STYLES[effect]) for effect in effects), said)
