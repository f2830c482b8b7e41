"""Shows people what an agent may do now: tools, rules, and the verdict on a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bullpen.agents.contracts.call import Call, Rights, Ruling
from bullpen.agents.drivers.registry import reads_unasked, runs_unasked
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.policy_file import answer_of
from bullpen.agents.runner.gate import rights_around, surroundings
from bullpen.agents.system.folders import agent_folder
from bullpen.agents.system.vendors.programs import is_foreign
from bullpen.agents.tools.toolbox import TOOLS, lacking
from bullpen.app.app import App
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Approver, PlanApprover, Policy
from bullpen.protocol.request import Request
from bullpen.team.agents import rules as agent_rules
from bullpen.team.requests import always_rules
from bullpen.team.requests.mode_rules import (
    Effect,
    Kind,
    approver_of,
    effect_of_mode,
    plan_approver_of,
)
from bullpen.view.news import answered_by

_MAIN_FIELDS = {
    "Bash": "command",
    "Glob": "pattern",
    "Grep": "path",
    "NotebookEdit": "notebook_path",
    "WebFetch": "url",
    "WebSearch": "query",
}
_MCP = "mcp__"
_AT_SPAWN = "its spawn"

FOREIGN_TOOLS = ("Read", "Write", "Edit", "Bash")
"""The tools that stand for the own tools of other vendors' programs in decisions."""


async def effective_of(app: App, team_name: str, name: str) -> Effective:
    """Return what an agent may do now, and why. Raises NotFound."""
    team = app.teams.open(team_name)
    config = await team.agents.config()
    _, agent = agent_rules.agent_of(config, name)
    home = app.settings.home
    around = surroundings(
        agent_folder(home, config, name), {**app.files.environ, "BULLPEN_HOME": str(home)}
    )
    rights = rights_around(agent, around)
    may_spawn = agent_rules.may_spawn(config, name)
    requests = (await team.approvals.all()).values()
    mine = [each for each in requests if each.sender == name and each.answered_ms]
    answered = sorted(mine, key=lambda each: (each.answered_ms or 0, each.id))
    return Effective(team_name, name, agent, rights, name == LEAD, may_spawn, answered)


@dataclass(frozen=True, slots=True)
class StatedRule:
    """A rule of an agent: its effect, its text, and its source."""

    effect: Effect
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class EffectiveVerdict:
    """The verdict on a call. `answer` is what the policy file would answer if asked."""

    call: Call
    ruling: Ruling
    answer: Ruling | None = None

    @property
    def outcome(self) -> Effect:
        """Return the result, as far as code can tell."""
        return self.ruling.effect if self.answer is None else self.answer.effect


@dataclass(frozen=True, slots=True)
class Effective:
    """An agent, and everything that decides about its calls."""

    team: str
    name: str
    agent: AgentFacts
    rights: Rights
    is_lead: bool
    may_spawn: bool
    # Its answered requests, oldest first.
    answered: Sequence[Request]

    @property
    def policy(self) -> Policy:
        """Return the policy it was spawned with."""
        return self.agent.spec.policy

    @property
    def approver(self) -> Approver:
        """Return who answers its requests."""
        return approver_of(self.policy, leads=self.is_lead)

    @property
    def plan_approver(self) -> PlanApprover:
        """Return who answers its plans."""
        return plan_approver_of(self.policy, leads=self.is_lead)

    @property
    def driver(self) -> str:
        """Return its driver."""
        return self.agent.spec.driver

    @property
    def reads_unasked(self) -> bool:
        """Return whether its program reads without asking, so that nothing decides about reads."""
        return reads_unasked(self.driver)

    @property
    def runs_unasked(self) -> bool:
        """Return whether its program runs commands that only read without asking."""
        return runs_unasked(self.driver)

    def otherwise(self, kind: Kind, *, inside: bool) -> Effect:
        """Return the effect on a call that no rule matches."""
        if kind == "read" and self.reads_unasked:
            return "allow"
        return effect_of_mode(self.rights.mode, kind, inside=inside)

    @property
    def lacks(self) -> dict[str, str]:
        """Return the tools that it does not have, each with the reason."""
        lacks = lacking(
            self.agent.spec,
            mode=self.rights.mode,
            is_lead=self.is_lead,
            may_spawn=self.may_spawn,
        )
        return {name: why for name, why in lacks.items() if name in self._known}

    @property
    def _known(self) -> list[str]:
        """Return the names of the known tools; for other vendors' programs, those that count."""
        own = is_foreign(self.driver)
        return [
            tool.name
            for tool in TOOLS
            if not own or tool.kind == "team" or tool.name in FOREIGN_TOOLS
        ]

    @property
    def tools(self) -> list[str]:
        """Return the tools that it has; of some perhaps only a part, such as `Bash(git:*)`."""
        given = self.agent.spec.tools or ()
        parts = {tool.name: [t for t in given if t.startswith(f"{tool.name}(")] for tool in TOOLS}
        lacks, known = self.lacks, self._known
        return [
            name
            for tool in TOOLS
            if tool.name in known and tool.name not in lacks
            for name in (parts[tool.name] or [tool.name])
        ]

    @property
    def rules(self) -> Iterator[StatedRule]:
        """Yield its rules in the order in which they are checked."""
        policy, sources = self.policy, self.policy.sources
        kinds: tuple[tuple[Effect, Sequence[str]], ...] = (
            ("deny", policy.deny),
            ("ask", policy.ask),
            ("allow", policy.allow),
        )
        for effect, rules in kinds:
            for rule in rules:
                yield StatedRule(effect, rule, sources.get(rule, _AT_SPAWN))
        for rule in self.agent.standing.allow:
            yield StatedRule("allow", rule, self.granted_by(rule))

    def granted_by(self, what: str) -> str:
        """Return who granted a rule or a directory with "always", and in which request."""
        for request in reversed(self.answered):
            always = (request.answer or {}).get("always")
            if always and any(what in given for given in always_rules.granted(request)):
                return f"{answered_by(request)}, for good ({request.id})"
        return "granted since its spawn"

    @property
    def mode_by(self) -> str | None:
        """Return why its mode differs from the one at spawn; None if it does not."""
        mode = self.agent.mode
        if mode == self.agent.spec.start_mode:
            return None
        if self.agent.standing.mode_by is not None:
            return f"{self.agent.standing.mode_by} changed it"
        if mode == "plan":
            return "it wants to plan first"
        plans = [each for each in self.answered if each.kind == "plan" and each.state == "approved"]
        return f"{plans[-1].answered_by} approved its plan ({plans[-1].id})" if plans else "changed"

    def verdict(self, tool: str, given: str | Mapping[str, Any]) -> EffectiveVerdict:
        """Return the verdict on a call, given its whole input or only its main value.

        Raises:
            Invalid: there is no such tool, or it has no main value.
        """
        call = _call(tool, given)
        if tool in (lacks := self.lacks):
            return EffectiveVerdict(
                call, Ruling("deny", f"it does not have the tool: {lacks[tool]}")
            )
        if call.kind == "read" and self.reads_unasked:
            return EffectiveVerdict(
                call, Ruling("allow", f"{self.driver} asks nobody before it reads")
            )
        ruling = decide(call, self.rights)
        if ruling.effect != "ask" or self.approver != "policy":
            return EffectiveVerdict(call, ruling)
        return EffectiveVerdict(call, ruling, answer_of(call, self.rights, self.policy.answers))


def _call(tool: str, given: str | Mapping[str, Any]) -> Call:
    known = {each.name: each for each in TOOLS}
    if tool not in known and not tool.startswith(_MCP):
        raise Invalid(
            f"There is no tool {tool!r}.",
            remedy=f"Choose one of: {', '.join(known)}, or an MCP tool ({_MCP}...).",
        )
    kind = known[tool].kind if tool in known else "run"
    call = Call(tool, {}, kind)
    if not isinstance(given, str):
        return replace(call, input=dict(given))
    fields = known[tool].input.model_fields if tool in known else {}
    field = _MAIN_FIELDS.get(tool) or ("file_path" if "file_path" in fields else None)
    if field is None:
        raise Invalid(
            f"{tool} has no single main value, so {given!r} could mean anything.",
            remedy="Pass the whole input as JSON: --input '{...}'",
        )
    return replace(call, input={field: given})
