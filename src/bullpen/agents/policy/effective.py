"""What an agent may do now, put together for people to see: tools, rules, grants, one verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bullpen.agents.drivers.choice import reads_unasked
from bullpen.agents.drivers.programs import is_foreign
from bullpen.agents.policy.answers import answer_of
from bullpen.agents.policy.call import Call, Rights, Ruling
from bullpen.agents.policy.decide import decide
from bullpen.agents.tools.box import TOOLS, lacking
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.policy import Approver, PlanApprover, Policy
from bullpen.protocol.request import Request
from bullpen.team import request_rules
from bullpen.team.policy_rules import (
    Effect,
    Kind,
    approver_of,
    effect_of_mode,
    plan_approver_of,
)

_MAIN_FIELDS = {"Bash": "command", "Glob": "pattern", "Grep": "path"}
_MCP = "mcp__"
_AT_SPAWN = "its spawn"

FOREIGN_TOOLS = ("Read", "Write", "Edit", "Bash")
"""As which the tools are decided on that programs of others have themselves."""


@dataclass(frozen=True, slots=True)
class StatedRule:
    """A rule as it holds for an agent: what it does, its text, and where it comes from."""

    effect: Effect
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would come of a call. `answer` is what code would say where it has to be asked."""

    call: Call
    ruling: Ruling
    answer: Ruling | None = None

    @property
    def outcome(self) -> Effect:
        """How it would end, as far as code can tell."""
        return self.ruling.effect if self.answer is None else self.answer.effect


@dataclass(frozen=True, slots=True)
class Effective:
    """An agent with all that decides about its calls."""

    team: str
    name: str
    agent: AgentFacts
    rights: Rights
    is_lead: bool
    may_spawn: bool
    # Its own requests that were answered, oldest first.
    answered: Sequence[Request]

    @property
    def policy(self) -> Policy:
        """What it was spawned with."""
        return self.agent.asked.rights

    @property
    def approver(self) -> Approver:
        """Who answers when it asks."""
        return approver_of(self.policy, leads=self.is_lead)

    @property
    def plan_approver(self) -> PlanApprover:
        """Who answers its plans."""
        return plan_approver_of(self.policy, leads=self.is_lead)

    @property
    def driver(self) -> str:
        """The program that takes its turns."""
        return self.agent.asked.driver

    @property
    def reads_unasked(self) -> bool:
        """Whether its program asks nobody before it reads, so that nothing decides about that."""
        return reads_unasked(self.driver)

    def otherwise(self, kind: Kind, *, inside: bool) -> Effect:
        """What comes of a call that no rule is about."""
        if kind == "read" and self.reads_unasked:
            return "allow"
        return effect_of_mode(self.rights.mode, kind, inside=inside)

    @property
    def lacks(self) -> dict[str, str]:
        """The tools that it does not have, each with why."""
        lacks = lacking(
            self.agent.asked,
            mode=self.rights.mode,
            is_lead=self.is_lead,
            may_spawn=self.may_spawn,
        )
        return {name: why for name, why in lacks.items() if name in self._known}

    @property
    def _known(self) -> list[str]:
        """The tools that are known by name: of a program of others, as what its own count."""
        own = is_foreign(self.driver)
        return [
            tool.name
            for tool in TOOLS
            if not own or tool.kind == "team" or tool.name in FOREIGN_TOOLS
        ]

    @property
    def tools(self) -> list[str]:
        """The tools that it has; of some perhaps only a part: `Bash(git:*)`."""
        given = self.agent.asked.tools or ()
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
        """Its rules in the order in which they are looked at."""
        policy, sources = self.policy, self.policy.sources
        kinds: tuple[tuple[Effect, Sequence[str]], ...] = (
            ("deny", policy.deny),
            ("ask", policy.ask),
            ("allow", policy.allow),
        )
        for effect, rules in kinds:
            for rule in rules:
                yield StatedRule(effect, rule, sources.get(rule, _AT_SPAWN))
        for rule in self.agent.stands.allow:
            yield StatedRule("allow", rule, self.granted_by(rule))

    def granted_by(self, what: str) -> str:
        """Who allowed a rule or a directory for good, and in which request."""
        for request in reversed(self.answered):
            always = (request.answer or {}).get("always")
            if always and any(what in given for given in request_rules.granted(request)):
                return f"{request.answered_by}, for good ({request.id})"
        return "granted since its spawn"

    @property
    def mode_by(self) -> str | None:
        """Why its mode is another than at its spawn; None if it is not."""
        mode = self.agent.mode
        if mode == self.agent.asked.start_mode:
            return None
        if mode == "plan":
            return "it wants to plan first"
        plans = [each for each in self.answered if each.kind == "plan" and each.state == "approved"]
        return f"{plans[-1].answered_by} approved its plan ({plans[-1].id})" if plans else "changed"

    def verdict(self, tool: str, given: str | Mapping[str, Any]) -> Verdict:
        """What would come of a call, with a whole input or with what it is mainly about.

        Raises:
            Invalid: there is no such tool, or it is not known what the text would be.
        """
        call = _call(tool, given)
        if tool in (lacks := self.lacks):
            return Verdict(call, Ruling("deny", f"it does not have the tool: {lacks[tool]}"))
        if call.kind == "read" and self.reads_unasked:
            return Verdict(call, Ruling("allow", f"{self.driver} asks nobody before it reads"))
        ruling = decide(call, self.rights)
        if ruling.effect != "ask" or self.approver != "policy":
            return Verdict(call, ruling)
        return Verdict(call, ruling, answer_of(call, self.rights, self.policy.answers))


def effective(
    team: str,
    name: str,
    agent: AgentFacts,
    rights: Rights,
    *,
    is_lead: bool,
    depth_max: int,
    requests: Mapping[str, Request],
) -> Effective:
    """What an agent may do now, with every answer that it got."""
    mine = [each for each in requests.values() if each.sender == name and each.answered_ms]
    return Effective(
        team,
        name,
        agent,
        rights,
        is_lead,
        may_spawn=is_lead or agent.depth < depth_max,
        answered=sorted(mine, key=lambda each: (each.answered_ms or 0, each.id)),
    )


def _call(tool: str, given: str | Mapping[str, Any]) -> Call:
    known = {each.name: each for each in TOOLS}
    if tool not in known and not tool.startswith(_MCP):
        raise Invalid(
            f"There is no tool {tool!r}.",
            remedy=f"There are these tools: {', '.join(known)}; others are called {_MCP}...",
        )
    kind = known[tool].kind if tool in known else "run"
    call = Call(tool, {}, kind)
    if not isinstance(given, str):
        return replace(call, input=dict(given))
    fields = known[tool].input.model_fields if tool in known else {}
    field = _MAIN_FIELDS.get(tool) or ("file_path" if "file_path" in fields else None)
    if field is None:
        raise Invalid(
            f"It is not known what {given!r} would be to {tool}.",
            remedy="Give the whole input as JSON: --input '{...}'",
        )
    return replace(call, input={field: given})
