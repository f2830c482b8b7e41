"""The verdict on a tool call: deny first, then plan mode, ask, allow, and at last the mode."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bullpen.agents.policy import lines
from bullpen.agents.policy.call import Call, Rights, Ruling
from bullpen.agents.policy.paths import (
    NOWHERE,
    Bases,
    Place,
    absolute,
    forbids,
    glob_paths,
    globbed,
    lies_in,
    may_lie_in,
    permits,
    place,
)
from bullpen.agents.policy.protected import names_it, protected
from bullpen.agents.policy.rules import PATH_TOOLS, Rule, about, rule_of
from bullpen.agents.policy.shell import Line, Part, Redirect, split
from bullpen.agents.policy.suggest import suggestions
from bullpen.protocol.agent import AgentFacts
from bullpen.team.policy_rules import Kind, effect_of_mode

_TOUCHED_MAX = 5_000
_SHOWN_CHARS_MAX = 60

_ASKED = {
    "read": "files outside the project are read",
    "write": "files are changed",
    "run": "anything is run",
    "team": "this is done",
}


def rights_of(
    agent: AgentFacts,
    *,
    user_home: str,
    readable: tuple[str, ...] = (),
    private: tuple[str, ...] = (),
) -> Rights:
    """The rights of an agent as it stands now: what it was spawned with, and what was added."""
    spec, stands = agent.asked, agent.stands
    given = spec.rights
    return Rights(
        mode=agent.mode,
        cwd=spec.cwd,
        user_home=user_home,
        allow=(*given.allow, *stands.allow),
        deny=(*given.deny, *(spec.disallowed_tools or ())),
        ask=tuple(given.ask),
        directories=(*given.directories, *stands.directories),
        readable=readable,
        private=private,
        tools=None if spec.tools is None else tuple(spec.tools),
    )


def decide(call: Call, rights: Rights) -> Ruling:
    """What is to be done with a call."""
    ruling = _verdict(_Case.of(call, rights))
    if ruling.effect != "ask":
        return ruling
    if rights.mode == "dontAsk":
        return Ruling("deny", f"{ruling.why}, and the mode dontAsk asks nobody", ruling.rule)
    return replace(ruling, suggestions=_effective(call, rights))


def hidden(path: str, rights: Rights) -> bool:
    """Whether a rule denies reading this file. The path is one that a search has found."""
    found = place(path, rights.cwd, rights.user_home)
    bases = _bases(rights)
    for rule in map(rule_of, rights.deny):
        if rule.tool not in ("Read", "Glob", "Grep"):
            continue
        # Without a specifier the others are about the tool, not about files.
        if rule.tool == "Read" if rule.specifier is None else forbids(rule.specifier, found, bases):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Case:
    """A call with all that is known of it. `places` is None if it is about no file."""

    call: Call
    rights: Rights
    kind: Kind
    places: tuple[Place, ...] | None = None
    line: Line | None = None

    @classmethod
    def of(cls, call: Call, rights: Rights) -> _Case:
        kind: Kind = "run" if call.tool.startswith("mcp__") else call.kind
        line = split(_command(call)) if call.tool == "Bash" else None
        return cls(call, rights, kind, _places(call, kind, rights), line)

    @property
    def command(self) -> str:
        return _command(self.call)

    @property
    def inside(self) -> bool:
        roots = _roots(self.rights)
        if self.kind == "read":
            roots = (*roots, *self.rights.readable)
        return self.places is None or all(lies_in(each, roots) for each in self.places)


def _command(call: Call) -> str:
    command = call.input.get("command")
    return command if isinstance(command, str) else ""


def _places(call: Call, kind: Kind, rights: Rights) -> tuple[Place, ...] | None:
    if call.tool not in PATH_TOOLS and kind != "write":
        return None
    named = _named(call)
    if named is None:
        return (NOWHERE,)
    found = tuple(place(each, rights.cwd, rights.user_home) for each in named)
    # Not looked up again: what will be opened is this, wherever links may lead by now.
    return found if call.real is None else (*found, Place((call.real,), (call.real,)))


def _named(call: Call) -> Iterable[str] | None:
    """The paths that a call names; None if it cannot be told which they are."""
    given = call.input
    if call.tool == "Glob":
        pattern, path = given.get("pattern"), given.get("path")
        if not isinstance(pattern, str) or not isinstance(path, str | None):
            return None
        return glob_paths(pattern, path)
    if call.tool in ("Grep", "LS"):
        path = given.get("path") or "."
        return [path] if isinstance(path, str) else None
    for key in ("file_path", "notebook_path", "path"):
        if key in given:
            return [given[key]] if isinstance(given[key], str) else None
    return None


def _bases(rights: Rights) -> Bases:
    return Bases(rights.cwd, rights.user_home, _roots(rights)[1:])


def _verdict(case: _Case) -> Ruling:
    for step in (_not_given, _denied, _planning, _asked, _allowed):
        ruling = step(case)
        if ruling is not None:
            return ruling
    return _by_mode(case)


def _not_given(case: _Case) -> Ruling | None:
    """The tools that it was given, some of them only in part."""
    if case.rights.tools is None:
        return None
    tool = case.call.tool
    given = [rule for rule in map(rule_of, case.rights.tools) if _is_for(rule, tool)]
    if not given:
        return Ruling("deny", f"the tool {tool} was not given to it")
    if any(rule.blanket for rule in given):
        return None
    if _covering(case, given) is not None:
        return None
    forms = ", ".join(rule.text for rule in given)
    return Ruling("deny", f"of {tool} it was given only {forms}")


def _is_for(rule: Rule, tool: str) -> bool:
    return rule.tool == tool or (tool.startswith("mcp__") and about(rule, tool, strict=False))


def _denied(case: _Case) -> Ruling | None:
    places = case.places or ()
    if case.kind == "write" and any(may_lie_in(each, case.rights.private) for each in places):
        return _private()
    rules = [rule_of(text) for text in case.rights.deny]
    if case.line is not None:
        return _line_denied(case, case.line, rules)
    by = _forbidding(case, rules)
    return None if by is None else Ruling("deny", f"the rule {by.text} denies it", by.text)


def _private() -> Ruling:
    return Ruling("deny", "the files of the teams are changed only by the tools for that")


def _forbidding(case: _Case, rules: Iterable[Rule]) -> Rule | None:
    """The first rule that is about a call that is no command."""
    bases = _bases(case.rights)
    for rule in rules:
        if not about(rule, case.call.tool, strict=True):
            continue
        if rule.specifier is None or rule.broken is not None or case.places is None:
            return rule
        if any(forbids(rule.specifier, each, bases) for each in case.places):
            return rule
    return None


def _line_denied(case: _Case, line: Line, rules: list[Rule]) -> Ruling | None:
    found = lines.forbidden(case.command, line, _of_bash(rules))
    if found is not None and found.certainty == "sure":
        return Ruling("deny", f"the rule {found.rule.text} denies it", found.rule.text)
    for target, kind in _opened(line):
        ruling = _denied(_file_case(target, kind, case.rights))
        if ruling is not None:
            return ruling
    of_files = [rule for rule in rules if rule.tool in PATH_TOOLS and rule.specifier is not None]
    bases = _bases(case.rights)
    for count, each in enumerate(_touched(line, case.rights) if of_files else ()):
        if count == _TOUCHED_MAX:
            return Ruling("deny", f"it names more files than are looked at for {of_files[0].text}")
        for rule in of_files:
            if forbids(rule.specifier or "", each, bases):
                return Ruling("deny", f"the rule {rule.text} denies it", rule.text)
    return None


def _of_bash(rules: Iterable[Rule]) -> list[Rule]:
    return [rule for rule in rules if about(rule, "Bash", strict=True)]


def _opened(line: Line) -> Iterator[tuple[str, Kind]]:
    for each in lines.redirects(line):
        yield each.target.text, "write" if each.writes else "read"


def _file_case(path: str, kind: Kind, rights: Rights) -> _Case:
    """The file that a redirection opens, as if a tool did it."""
    tool = "Write" if kind == "write" else "Read"
    return _Case.of(Call(tool, {"file_path": path}, kind), replace(rights, tools=None))


def _touched(line: Line, rights: Rights) -> Iterator[Place]:
    """Where the words of a line could lead, also past the directories that it goes to."""
    bases = [rights.cwd]
    bases += [os.path.join(rights.cwd, to) for to in map(lines.goes_to, line.parts) if to]
    for text in dict.fromkeys(lines.path_texts(line, rights.user_home)):
        for base in bases:
            yield place(text, base, rights.user_home)
            if any(char in text for char in "*?["):
                for each in globbed(absolute(text, base, rights.user_home)):
                    yield place(each, base, rights.user_home)


def _planning(case: _Case) -> Ruling | None:
    if case.rights.mode != "plan" or case.kind not in ("write", "run"):
        return None
    return Ruling("deny", "in plan mode nothing is changed or run before the plan is approved")


def _asked(case: _Case) -> Ruling | None:
    rules = [rule_of(text) for text in case.rights.ask]
    if case.line is None:
        by = _forbidding(case, rules)
        return None if by is None else _ask_by(by)
    denying = _of_bash(map(rule_of, case.rights.deny))
    for each in (*denying, *_of_bash(rules)):
        found = lines.forbidden(case.command, case.line, [each])
        if found is None:
            continue
        if found.certainty == "sure":
            return _ask_by(each)
        doubt = case.line.opaque or "part of it is known only when it runs"
        why = f"it cannot be told whether the rule {each.text} is about it: {doubt}"
        return Ruling("ask", why, each.text)
    for target, kind in _opened(case.line):
        by = _forbidding(_file_case(target, kind, case.rights), rules)
        if by is not None:
            return _ask_by(by)
    return None


def _ask_by(rule: Rule) -> Ruling:
    return Ruling("ask", f"the rule {rule.text} asks before it", rule.text)


def _allowed(case: _Case) -> Ruling | None:
    by = _covering(case, [rule_of(text) for text in case.rights.allow])
    return None if by is None else Ruling("allow", f"the rule {by.text} allows it", by.text)


def _covering(case: _Case, rules: list[Rule]) -> Rule | None:
    """A rule that permits a call, alone or together with others."""
    tool = case.call.tool
    rules = [rule for rule in rules if rule.broken is None and about(rule, tool, strict=False)]
    if case.line is not None:
        return _covering_line(case, case.line, rules)
    return next((rule for rule in rules if _permits(rule, case)), None)


def _permits(rule: Rule, case: _Case) -> bool:
    places = case.places or ()
    if case.kind == "write":
        guarded = [each for each in places if protected(each, _roots(case.rights))]
        if guarded and not names_it(rule):
            return False
    if rule.specifier is None:
        return True
    bases = _bases(case.rights)
    return bool(places) and all(permits(rule.specifier, each, bases) for each in places)


def _roots(rights: Rights) -> tuple[str, ...]:
    """The directories that it works in, its own first."""
    given = (rights.cwd, *rights.directories)
    return tuple(absolute(each, rights.cwd, rights.user_home) for each in given)


def _covering_line(case: _Case, line: Line, rules: list[Rule]) -> Rule | None:
    blanket = next((rule for rule in rules if rule.blanket), None)
    if blanket is not None:
        return blanket
    if line.opaque is not None:
        return None
    harmless = [part for part in line.parts if _is_harmless(part, line, case.rights)]
    missing, used = lines.uncovered(case.command, line, rules, stays=harmless)
    if missing or not used:
        return None
    whole = any(rule.words is not None and rule.words.line is not None for rule in used)
    if not whole and not all(_may_open(each, line, case.rights) for each in lines.redirects(line)):
        return None
    return used[0]


def _is_harmless(part: Part, line: Line, rights: Rights) -> bool:
    """Whether a part only goes to a directory inside, or only opens files."""
    if not part.words:
        return not part.assigns
    to = lines.goes_to(part)
    if to is None:
        return False
    first = next(each for each in line.parts if lines.goes_to(each) is not None)
    if part is not first and not to.startswith("/"):
        return False
    return _Case.of(Call("Grep", {"path": to}, "read"), replace(rights, readable=())).inside


def _may_open(each: Redirect, line: Line, rights: Rights) -> bool:
    """Whether the file of a redirection may be opened without asking."""
    if not each.target.literal:
        return False
    if lines.moves(line) and not each.target.text.startswith("/"):
        return False
    kind: Kind = "write" if each.writes else "read"
    return _verdict(_file_case(each.target.text, kind, rights)).effect == "allow"


def _by_mode(case: _Case) -> Ruling:
    mode, inside = case.rights.mode, case.inside
    effect = effect_of_mode(mode, case.kind, inside=inside)
    if effect == "allow":
        guarded = case.kind == "write" and mode != "bypassPermissions"
        if guarded and any(protected(each, _roots(case.rights)) for each in case.places or ()):
            return Ruling("ask", "what is written there is run later by other programs")
        return Ruling("allow", f"the mode {mode} allows it")
    if not inside:
        sure = all(each.sure for each in case.places or ())
        where = "it lies outside the project" if sure else "it cannot be told where it really lies"
        return Ruling(effect, where)
    if effect == "deny":
        why = _gap(case) or "no rule allows it"
        return Ruling("deny", f"{why}, and the mode {mode} allows nothing else")
    why = f"the mode {mode} asks before {_ASKED[case.kind]}"
    gap = _gap(case)
    return Ruling("ask", why if gap is None else f"{gap}, and {why}")


def _gap(case: _Case) -> str | None:
    """What the rules that allow commands did not allow here, if there are any."""
    rules = [rule for rule in map(rule_of, case.rights.allow) if rule.tool == "Bash"]
    if case.line is None or not rules:
        return None
    if case.line.opaque is not None:
        return f"it cannot be read for sure ({case.line.opaque})"
    harmless = [part for part in case.line.parts if _is_harmless(part, case.line, case.rights)]
    missing, _ = lines.uncovered(case.command, case.line, rules, stays=harmless)
    if not missing:
        return "no rule allows a file that it opens"
    shown = " ".join(word.text for word in missing[0].words)
    return f"no rule allows {textwrap.shorten(shown, _SHOWN_CHARS_MAX, placeholder=' …')!r}"


def _effective(call: Call, rights: Rights) -> tuple[dict[str, object], ...]:
    """What an "always" would add, if that is enough for this call to be allowed."""
    case = _Case.of(call, rights)
    return suggestions(case.call, case.rights, case.places, case.line, allows=_would_allow)


def _would_allow(call: Call, rights: Rights) -> bool:
    return _verdict(_Case.of(call, rights)).effect == "allow"
