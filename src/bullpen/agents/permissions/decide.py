"""Decide on a tool call: deny rules first, then plan mode, ask rules, allow rules, the mode."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bullpen.agents.contracts.call import Call, Rights, Ruling
from bullpen.agents.permissions.call_case import CallCase, bases_of, is_in, roots_of
from bullpen.agents.permissions.protected_files import names_it, protected
from bullpen.agents.permissions.reading.reading_line import (
    ReadingRights,
    filters_only,
    reads_only,
    takes_only,
)
from bullpen.agents.permissions.rule_language import paths, web_address
from bullpen.agents.permissions.rule_language.rule import Rule, about, listed, rule_of
from bullpen.agents.permissions.shell import match
from bullpen.agents.permissions.shell.parse import CommandLine, LinePart, Redirect
from bullpen.agents.permissions.suggest import choices
from bullpen.agents.permissions.touched_files import FILES_MAX, hides_below, touched_by
from bullpen.team.requests.mode_rules import Kind, effect_of_mode

_SHOWN_CHARS_MAX = 60

_PRIVATE = "only the team tools may change the files of a team"
_ASKED = {
    "read": "reaching the web",
    "write": "changing files",
    "run": "running commands",
    "team": "using this tool",
}


def decide(call: Call, rights: Rights) -> Ruling:
    """Decide on a call: allow, ask or deny."""
    ruling = _verdict(CallCase.of(call, rights))
    if ruling.effect != "ask":
        return ruling
    if rights.mode == "dontAsk":
        return Ruling("deny", f"{ruling.why}, and the mode dontAsk never asks", ruling.rule)
    case = CallCase.of(call, rights)
    files = _Files(rights, moved=case.line is not None and match.moves(case.line))
    offered = choices(call, rights, case.places, case.line, files=files, allows=_would_allow)
    return replace(ruling, choices=offered)


def hidden(path: str, rights: Rights) -> bool:
    """Whether a rule denies reading this file, which a search has found."""
    found = paths.place(path, rights.cwd, rights.user_home)
    bases = bases_of(rights)
    for rule in map(rule_of, rights.deny):
        if rule.tool not in ("Read", "Glob", "Grep"):
            continue
        # Rules of other tools without a specifier are about the tool, not about files.
        whole = rule.specifier is None and rule.tool == "Read"
        if whole or (rule.specifier and paths.forbids(rule.specifier, found, bases)):
            return True
    return False


def _verdict(case: CallCase) -> Ruling:
    for step in (_not_given, _denied, _planning, _remembering, _asked, _allowed, _reading):
        ruling = step(case)
        if ruling is not None:
            return ruling
    return _by_mode(case)


def _not_given(case: CallCase) -> Ruling | None:
    """Deny tools that are not in the agent's list, or not in this form."""
    if case.rights.tools is None:
        return None
    tool = case.call.tool
    given = [rule for rule in map(rule_of, case.rights.tools) if listed(rule, tool)]
    if not given:
        return Ruling("deny", f"{tool} is not in the agent's list of tools")
    strictly = replace(case, rights=replace(case.rights, commands=None))
    if any(rule.blanket for rule in given) or _covering(strictly, given) is not None:
        return None
    forms = ", ".join(rule.text for rule in given)
    return Ruling("deny", f"the agent's list of tools has only {forms}")


def _denied(case: CallCase) -> Ruling | None:
    places = case.places or ()
    teams = [each for each in places if paths.may_lie_in(each, case.rights.private)]
    if case.kind == "write" and teams and not _in_memory(case):
        return Ruling("deny", _PRIVATE)
    rules = [rule_of(text) for text in case.rights.deny]
    if case.line is not None:
        return _line_denied(case, case.line, rules)
    by = _forbidding(case, rules)
    return None if by is None else _deny_by(by)


def _forbidding(case: CallCase, rules: Iterable[Rule]) -> Rule | None:
    """The first rule that matches a call that is not a command."""
    bases = bases_of(case.rights)
    for rule in rules:
        own = about(rule, case.call.tool, strict=True)
        if not own and (case.places is None and rule.specifier is not None):
            continue
        if not (own or about(rule, case.like, strict=True)) or _of_another_skill(rule, case.call):
            continue
        if rule.specifier is None or rule.broken is not None:
            return rule
        if case.places is None:
            if web_address.forbids(rule.specifier, case.call.input.get("url")):
                return rule
        elif any(paths.forbids(rule.specifier, each, bases) for each in case.places):
            return rule
    return None


def _of_another_skill(rule: Rule, call: Call) -> bool:
    """Whether a rule such as `Skill(deploy)` is about another skill than the call."""
    if call.tool != "Skill" or rule.specifier is None or rule.broken is not None:
        return False
    named = rule.specifier.removesuffix(":*").removesuffix(" *").strip()
    return named not in ("*", str(call.input.get("skill") or "").strip())


def _line_denied(case: CallCase, line: CommandLine, rules: list[Rule]) -> Ruling | None:
    found = match.forbidden(case.command, line, _of_bash(rules))
    if found is not None and found.certainty == "sure":
        return _deny_by(found.rule)
    opened = list(match.redirects(line))
    by = _for_redirections(line, rules)
    if by is not None:
        return _deny_by(by)
    if any(each.writes and _is_private(each.target.text, case.rights) for each in opened):
        return Ruling("deny", _PRIVATE)
    touched = touched_by(line, rules, case.rights, bases_of(case.rights))
    return _deny_by(touched.rule) if touched is not None and touched.certain else None


def _deny_by(rule: Rule) -> Ruling:
    return Ruling("deny", f"the rule {rule.text} denies it", rule.text)


def _of_bash(rules: Iterable[Rule]) -> list[Rule]:
    return [rule for rule in rules if about(rule, "Bash", strict=True)]


def _for_redirections(line: CommandLine, rules: list[Rule]) -> Rule | None:
    """The first rule that denies a whole tool, where a redirection does what the tool does."""
    tools = {"Write" if each.writes else "Read" for each in match.redirects(line)}
    for rule in rules:
        whole = rule.specifier is None or rule.broken is not None
        if whole and any(about(rule, tool, strict=True) for tool in tools):
            return rule
    return None


def _is_private(path: str, rights: Rights) -> bool:
    found = paths.place(path, rights.cwd, rights.user_home)
    return paths.may_lie_in(found, rights.private)


def _file_case(path: str, kind: Kind, rights: Rights) -> CallCase:
    """The file of a redirection, as if a tool opened it."""
    tool = "Write" if kind == "write" else "Read"
    return CallCase.of(Call(tool, {"file_path": path}, kind), replace(rights, tools=None))


def _planning(case: CallCase) -> Ruling | None:
    if case.rights.mode != "plan" or case.kind not in ("write", "run") or _only_reads(case):
        return None
    return Ruling("deny", "plan mode allows no changes and no commands until the plan is approved")


def _remembering(case: CallCase) -> Ruling | None:
    return Ruling("allow", "the file is in the agent's own memory") if _in_memory(case) else None


def _in_memory(case: CallCase) -> bool:
    """Whether a call is only about files in the agent's own memory."""
    if not case.places or case.kind not in ("read", "write"):
        return False
    return all(is_in(each, case.rights.memory) for each in case.places)


def _asked(case: CallCase) -> Ruling | None:
    rules = [rule_of(text) for text in case.rights.ask]
    if case.line is None:
        by = _forbidding(case, rules)
        return None if by is None else _ask_by(by)
    for given in (map(rule_of, case.rights.deny), rules):
        found = match.forbidden(case.command, case.line, _of_bash(given))
        if found is not None and found.certainty == "sure":
            return _ask_by(found.rule)
        if found is not None:
            return _ask_in_doubt(found.rule, case.line.opaque)
    by = _for_redirections(case.line, rules)
    if by is not None:
        return _ask_by(by)
    for lists in (case.rights.deny, case.rights.ask):
        of_list = [rule_of(text) for text in lists]
        touched = touched_by(case.line, of_list, case.rights, bases_of(case.rights))
        if touched is not None and touched.certain:
            return _ask_by(touched.rule)
        # Whoever has a worktree has a rule that asks about the user's: only denials ask in doubt.
        if touched is not None and lists is case.rights.deny:
            return _ask_in_doubt(touched.rule, touched.doubt)
    return None


def _ask_in_doubt(rule: Rule, doubt: str | None) -> Ruling:
    doubt = doubt or "a part is known only when it runs"
    why = f"Bullpen cannot tell whether the rule {rule.text} matches: {doubt}"
    return Ruling("ask", why, rule.text)


def _ask_by(rule: Rule) -> Ruling:
    return Ruling("ask", f"the rule {rule.text} asks for approval", rule.text)


def _allowed(case: CallCase) -> Ruling | None:
    by = _covering(case, [rule_of(text) for text in case.rights.allow])
    return None if by is None else Ruling("allow", f"the rule {by.text} allows it", by.text)


def _reading(case: CallCase) -> Ruling | None:
    return Ruling("allow", "it only reads in the project") if _only_reads(case) else None


def _only_reads(case: CallCase) -> bool:
    """Whether a command shows no more than the Read tool may show unasked."""
    rights = _reading_rights(case.rights)
    if rights is None or case.line is None or not takes_only(case.call.input):
        return False
    return reads_only(case.command, case.line, rights)


def _reading_rights(rights: Rights) -> ReadingRights | None:
    if rights.commands is None:
        return None
    roots = roots_of(rights)

    def may_read(path: str) -> bool:
        case = _file_case(path, "read", replace(rights, readable=()))
        return case.inside and _verdict(case).effect == "allow"

    return ReadingRights(
        rights.cwd,
        rights.user_home,
        tuple(dict.fromkeys([*roots, *map(paths.real_path, roots)])),
        rights.commands,
        may_read,
        hides=lambda: hides_below(map(rule_of, (*rights.deny, *rights.ask)), bases_of(rights)),
    )


def _covering(case: CallCase, rules: list[Rule]) -> Rule | None:
    """A rule that allows a call, alone or together with others."""
    tool = case.call.tool
    rules = [rule for rule in rules if rule.broken is None and about(rule, tool, strict=False)]
    if case.line is not None:
        return _covering_line(case, case.line, rules)
    return next((rule for rule in rules if _permits(rule, case)), None)


def _permits(rule: Rule, case: CallCase) -> bool:
    places = case.places or ()
    if case.kind == "write":
        guarded = [each for each in places if protected(each, roots_of(case.rights))]
        if guarded and not names_it(rule):
            return False
    if rule.specifier is None:
        return True
    if case.call.tool == "WebFetch":
        return web_address.permits(rule.specifier, case.call.input.get("url"))
    if case.call.tool == "Skill":
        return not _of_another_skill(rule, case.call)
    bases = bases_of(case.rights)
    return bool(places) and all(paths.permits(rule.specifier, each, bases) for each in places)


def _covering_line(case: CallCase, line: CommandLine, rules: list[Rule]) -> Rule | None:
    wanted = case.command.strip()
    # A person read exactly this line, so it need not be understood.
    whole = (rule for rule in rules if rule.blanket or (rule.words and rule.words.line == wanted))
    covering = next(whole, None)
    if covering is not None:
        return covering
    if line.opaque is not None:
        return None
    harmless = _harmless_parts(case)
    files = _Files(case.rights, moved=match.moves(line))
    missing, used = match.uncovered(case.command, line, rules, stays=harmless, files=files)
    if missing or not used:
        return None
    if not all(_may_open(each, line, case.rights) for each in match.redirects(line)):
        return None
    return used[0]


@dataclass(frozen=True, slots=True)
class _Files:
    """What is known about the paths in the words of a command. Relative ones move with a cd."""

    rights: Rights
    moved: bool

    def inside(self, text: str, *, glob: bool) -> bool:
        """Whether a path is certainly in the agent's directories."""
        if self.moved and not text.startswith("/"):
            return not glob and ".." not in text.split("/") and not text.startswith("~")
        return all(self._case(each, "read").inside for each in self._paths(text, glob=glob))

    def writable(self, text: str, *, glob: bool) -> bool:
        """Whether it is inside, no guarded file, and no rule denies writing it."""
        if self.moved and not text.startswith("/"):
            return False
        return all(self._may_change(each) for each in self._paths(text, glob=glob))

    def exists(self, text: str) -> bool:
        """Whether there is something at this path."""
        return self.moved or os.path.lexists(os.path.join(self.rights.cwd, text))

    def _case(self, path: str, kind: Kind) -> CallCase:
        return _file_case(path, kind, replace(self.rights, readable=()))

    def _may_change(self, path: str) -> bool:
        case = self._case(path, "write")
        if not case.inside or any(
            protected(each, roots_of(self.rights)) for each in case.places or ()
        ):
            return False
        # The rules that deny were asked about every word of the line.
        return not _is_private(path, self.rights)

    def _paths(self, text: str, *, glob: bool) -> list[str]:
        """The path, or what a pattern matches; one that leads outside if that is unknown."""
        if not glob:
            return [text]
        if any(sign in text for sign in "$`{}<>()~") or ".." in text.split("/"):
            return ["/"]
        start = paths.absolute(text, self.rights.cwd, self.rights.user_home)
        found = paths.globbed(start)
        return found if found is not None and len(found) <= FILES_MAX else ["/"]


def _harmless_parts(case: CallCase) -> list[LinePart]:
    """The parts that only change to an inner directory, open files, or read their input."""
    found: list[LinePart] = []
    moved = False
    given = replace(case.rights, readable=())
    reading = _reading_rights(case.rights)
    for part in case.line.parts if case.line is not None else ():
        to = match.goes_to(part)
        filters = reading is not None and filters_only(case.command, part, reading)
        if filters or (not part.words and not part.assigns):
            found.append(part)
        elif to is not None:
            if to.startswith("/") or not moved:
                inside = CallCase.of(Call("Grep", {"path": to}, "read"), given).inside
                found += [part] if inside else []
            moved = True
    return found


def _may_open(each: Redirect, line: CommandLine, rights: Rights) -> bool:
    """Whether the file of a redirection may be opened without asking."""
    if not each.target.literal:
        return False
    if match.moves(line) and not each.target.text.startswith("/"):
        return False
    kind: Kind = "write" if each.writes else "read"
    case = _file_case(each.target.text, kind, rights)
    # The rules that deny and ask were asked about the whole line.
    ruling = _planning(case) or _allowed(case) or _by_mode(case)
    return ruling.effect == "allow"


def _by_mode(case: CallCase) -> Ruling:
    mode, inside = case.rights.mode, case.inside
    effect = effect_of_mode(mode, case.kind, inside=inside)
    if effect == "allow":
        guarded = case.kind == "write" and mode != "bypassPermissions"
        if guarded and any(protected(each, roots_of(case.rights)) for each in case.places or ()):
            return Ruling("ask", "the file is guarded: other programs run or obey it")
        return Ruling("allow", f"the mode {mode} allows it")
    if not inside and case.places is not None:
        sure = all(each.sure for each in case.places or ())
        where = "the file is outside the project" if sure else "the real path is unknown"
        return Ruling(effect, where)
    if effect == "deny":
        why = _gap(case) or "no rule allows it"
        return Ruling("deny", f"{why}, and the mode {mode} allows nothing else")
    doing = "reading what it names no file for" if case.like == "Read" else _ASKED[case.kind]
    why = f"the mode {mode} asks before {doing}"
    gap = _gap(case)
    return Ruling("ask", why if gap is None else f"{gap}, and {why}")


def _gap(case: CallCase) -> str | None:
    """What the allow rules for commands do not cover here, if there are such rules."""
    rules = [rule for rule in map(rule_of, case.rights.allow) if rule.tool == "Bash"]
    if case.line is None or not rules:
        return None
    if case.line.opaque is not None:
        return f"Bullpen cannot tell what the command runs ({case.line.opaque})"
    harmless = _harmless_parts(case)
    files = _Files(case.rights, moved=match.moves(case.line))
    missing, _ = match.uncovered(case.command, case.line, rules, stays=harmless, files=files)
    if not missing:
        return "no rule allows a file that the command opens"
    shown = " ".join(word.text[:_SHOWN_CHARS_MAX] for word in missing[0].words[:_SHOWN_CHARS_MAX])
    return f"no rule allows {textwrap.shorten(shown, _SHOWN_CHARS_MAX, placeholder=' …')!r}"


def _would_allow(call: Call, rights: Rights) -> bool:
    return _verdict(CallCase.of(call, rights)).effect == "allow"
