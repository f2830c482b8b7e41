"""Find what a spec asks for that its driver cannot enforce.

Bullpen cannot deny what another vendor's program does without asking, so such rules are refused by
name and never silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bullpen.agents.contracts.driver import Capabilities
from bullpen.agents.drivers.native.provider.options import NAMES, SMALL_MODEL, STRICT_MODEL
from bullpen.agents.hooks.commands import matches
from bullpen.agents.hooks.hook_set import HookSet
from bullpen.agents.permissions.rule_language.rule import READ_TOOLS, about, rule_of
from bullpen.agents.system.vendors.programs import OWN_DRIVERS
from bullpen.agents.tools.agent_memory import MEMORY
from bullpen.protocol.agent import AgentSpec

_ANY = ("", "*")
_READING = frozenset(
    """
    awk base64 basename cat cd cksum comm cut date df diff dirname du echo egrep env expr fgrep file
    find grep head hexdump id jq less ls md5sum more nl od paste printenv printf ps pwd readlink
    realpath rev rg sed seq sha256sum sort stat strings tac tail tr tree type uname uniq wc which
    whoami xxd yq zcat
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_GIT_READING = frozenset(
    """
    blame branch cat-file describe diff grep log ls-files ls-tree reflog rev-list rev-parse shortlog
    show status
    """.split()  # noqa: SIM905 - one name a line would fill the page
)

_OF_MODELS = ("effort", STRICT_MODEL, SMALL_MODEL, *NAMES)

Unkept = tuple[str, str]
"""A field, by its name in agent definitions, and why it cannot be enforced."""


def unkept(spec: AgentSpec, can: Capabilities) -> list[Unkept]:
    """Everything in a spec that a driver with these capabilities cannot enforce."""
    found: list[Unkept] = []
    if not can.asks_to_read:
        found += _reading(spec)
    if not can.asks_to_run:
        found += _running(spec)
    if spec.driver not in OWN_DRIVERS:
        asked = [name for name in (*_OF_MODELS, MEMORY) if spec.options.get(name) is not None]
        found += [(name, "only the driver native can set it") for name in asked]
        if spec.mcp_servers:
            found.append(("mcpServers", "only the driver native connects to them"))
    return found


def _reading(spec: AgentSpec) -> Iterator[Unkept]:
    why = "the program reads files without asking"
    # Only Read itself allows reading any file; other tools make no difference here.
    if spec.tools is not None and "Read" not in map(str.strip, spec.tools):
        yield "tools", f"{why}, so Read cannot be taken away"
    if taken := [name for name in spec.disallowed_tools or () if reads(name)]:
        yield "disallowedTools", f"{why}, so this cannot be enforced: {', '.join(taken)}"
    if rules := [rule for rule in (*spec.policy.deny, *spec.policy.ask) if reads(rule)]:
        yield "rules", f"{why}, so these cannot be enforced: {', '.join(rules)}"
    if hooks := list(dict.fromkeys(_hooks_on_reading(spec))):
        yield "hooks", f"{why}, so these would not be run: PreToolUse for {', '.join(hooks)}"


def _running(spec: AgentSpec) -> Iterator[Unkept]:
    why = "the program runs commands that only read without asking"
    if taken := [name for name in spec.disallowed_tools or () if runs_to_read(name)]:
        yield "disallowedTools", f"{why}, so this cannot be enforced: {', '.join(taken)}"
    if rules := [rule for rule in (*spec.policy.deny, *spec.policy.ask) if runs_to_read(rule)]:
        yield "rules", f"{why}, so these cannot be enforced: {', '.join(rules)}"


def runs_to_read(rule: str) -> bool:
    """Whether a rule or a tool name is about commands that may only read.

    What other commands do, they do by writing or by the network, and a program asks before both.
    """
    parsed = rule_of(rule)
    if not about(parsed, "Bash", strict=True):
        return False
    words = parsed.words.pattern if parsed.words is not None else ()
    if words[:1] == ("git",):
        named = [word for word in words[1:] if not word.startswith("-")]
        return not named or named[0] in _GIT_READING or "*" in named[0]
    return not words or words[0] in _READING or "*" in words[0]


def reads(rule: str) -> bool:
    """Whether a rule or a tool name is about reading."""
    return any(about(rule_of(rule), tool, strict=True) for tool in READ_TOOLS)


def _hooks_on_reading(spec: AgentSpec) -> Iterable[str]:
    """The matchers that name a reading tool. A matcher for all tools still sees what is asked."""
    for hook in HookSet.of(spec.hooks).hooks:
        named = hook.event == "PreToolUse" and hook.matcher not in _ANY
        if named and any(matches(hook, {"tool_name": tool}, None) for tool in READ_TOOLS):
            yield hook.matcher
