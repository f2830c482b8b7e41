"""The rules that an "always" answer adds: no more than a person reads in them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bullpen.agents.contracts.call import AlwaysChoice, Call, Rights
from bullpen.agents.permissions.protected_files import protected
from bullpen.agents.permissions.rule_language.paths import (
    RealPath,
    absolute,
    below,
    lies_in,
    real_path,
)
from bullpen.agents.permissions.rule_language.rule import EXACTLY, rule_of
from bullpen.agents.permissions.rule_language.web_address import rule_for
from bullpen.agents.permissions.shell import match
from bullpen.agents.permissions.shell.harmless.judge import Files
from bullpen.agents.permissions.shell.parse import CommandLine, LinePart, prefix

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./,:=+@%-]{1,200}")
_PLAIN_PATH = re.compile(r"[^*?\[\]\\()!~\s\0]+")
_RULES_MAX = 5
_LINE_CHARS_MAX = 2_000

# Programs that can run or remove anything.
_NEVER = frozenset(
    """
    ash awk bash bun busybox chmod chown chroot command csh dash dd deno doas docker env eval exec
    expect find fish gawk gdb ionice kill ksh lua mawk mksh mv nc ncat nice node nodejs nohup
    nsenter osascript parallel perl php podman pkexec python rm rmdir ruby runuser scp script sed
    setsid sh shred socat ssh stdbuf strace su sudo systemd-run tclsh tee time timeout truncate
    unlink unshare vi vim watch xargs zsh
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_VERSIONED = re.compile(r"(.*?)[0-9.]+")

# Programs with subcommands.
_WITH_SUBCOMMANDS = frozenset(
    """
    apt bun bundle cargo composer conda dotnet gem gh git go gradle helm hg just kubectl make mvn
    npm pip pipx pnpm poetry rustup svn systemctl terraform uv yarn
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_TWO_LEVELS = frozenset([("npm", "run"), ("pnpm", "run"), ("yarn", "run"), ("uv", "run")])


def choices(
    call: Call,
    rights: Rights,
    places: Sequence[RealPath] | None,
    line: CommandLine | None,
    *,
    files: Files,
    allows: Callable[[Call, Rights], bool],
) -> tuple[AlwaysChoice, ...]:
    """What "always" could add so that this call needs no approval again, from narrow to wide."""
    if line is not None:
        found = _for_line(call, rights, line, files)
    else:
        rows = _for_other(call, rights, places)
        covers = "calls like this one"
        found = [AlwaysChoice("rule", covers, tuple(rows), plain=True)] if rows else []
    helpful = [each for each in found if allows(call, _with(rights, each.suggestions))]
    if helpful and not any(each.plain for each in helpful):
        # Without a rule for the program, a plain "always" is the narrowest.
        helpful[0] = replace(helpful[0], plain=True)
    return tuple(helpful)


def _for_other(
    call: Call, rights: Rights, places: Sequence[RealPath] | None
) -> list[dict[str, Any]]:
    if places:
        return _for_file(call, rights, places)
    if call.tool == "WebFetch":
        host = rule_for(call.input.get("url"))
        return [] if host is None else [_rules([{"toolName": call.tool, "ruleContent": host}])]
    if call.tool.startswith("mcp__") or call.tool == "WebSearch":
        return [_rules([{"toolName": call.tool}])]
    return []


def _rules(rules: list[dict[str, str]]) -> dict[str, Any]:
    return {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}


def _with(rights: Rights, found: Sequence[dict[str, Any]]) -> Rights:
    """The rights with these rules added."""
    allow, directories = list(rights.allow), list(rights.directories)
    for row in found:
        for rule in row.get("rules", ()):
            content = rule.get("ruleContent")
            allow.append(f"{rule['toolName']}({content})" if content else rule["toolName"])
        directories += row.get("directories", ())
    return replace(rights, allow=tuple(allow), directories=tuple(directories))


def _for_line(call: Call, rights: Rights, line: CommandLine, files: Files) -> list[AlwaysChoice]:
    command = str(call.input.get("command")).strip()
    made: list[AlwaysChoice] = []
    if _can_be_read(command):
        made.append(_bash("line", "exactly this command line", [_whole(command)]))
    if line.opaque is not None:
        return made
    rules = map(rule_of, rights.allow)
    known = [rule for rule in rules if rule.tool == "Bash" and rule.broken is None]
    stays = [part for part in line.parts if match.goes_to(part) is not None or not part.words]
    missing, _ = match.uncovered(command, line, known, stays=stays, files=files)
    parts = list(dict.fromkeys(map(_exact_words, missing)))
    if None not in parts and 0 < len(parts) <= _RULES_MAX:
        covers = f"{_named(parts)}, also inside a longer command (a && b)"
        made.append(_bash("arguments", covers, [each for each in parts if each]))
    programs = list(dict.fromkeys(map(_content, missing)))
    if None not in programs and 0 < len(programs) <= _RULES_MAX:
        named = [each.removesuffix(":*") for each in programs if each]
        covers = f"{_named(named)} with any harmless arguments"
        rows = [each for each in programs if each]
        if parts == programs:
            made[-1] = replace(made[-1], plain=True)
        else:
            made.append(replace(_bash("program", covers, rows), plain=True))
    return made


def _bash(name: str, covers: str, contents: Sequence[str]) -> AlwaysChoice:
    rows = _rules([{"toolName": "Bash", "ruleContent": each} for each in contents])
    return AlwaysChoice(name, covers, (rows,))


def _can_be_read(command: str) -> bool:
    """Whether a person sees the whole line as it is."""
    plain = command.replace("\n", " ").replace("\t", " ")
    return bool(plain) and len(plain) <= _LINE_CHARS_MAX and plain.isprintable()


def _whole(command: str) -> str:
    """The specifier for a whole line. With shell characters, a line stands for itself."""
    itself = rule_of(f"Bash({command})").words
    return command if itself is not None and itself.line == command else f"{EXACTLY}{command}"


def _exact_words(part: LinePart) -> str | None:
    """The specifier for a part with exactly its words."""
    words = prefix(part)
    if part.assigns or not words or len(words) != len(part.words):
        return None
    text = shlex.join(words)
    found = rule_of(f"Bash({text})")
    exact = found.words is not None and found.words.pattern == words and not found.words.open_end
    return text if exact and "*" not in text else None


def _named(contents: Sequence[str | None]) -> str:
    return " and ".join(f"`{each}`" for each in contents)


def _content(part: LinePart) -> str | None:
    """The rule for one part: its program, with the subcommand if it has one."""
    words = prefix(part)
    if not words or part.assigns:
        return None
    name = os.path.basename(words[0])
    versioned = _VERSIONED.fullmatch(name)
    if name in _NEVER or (versioned is not None and versioned.group(1) in _NEVER):
        return None
    if not _PLAIN_WORD.fullmatch(words[0]):
        return None
    if len(words) > 1 and _SUBCOMMAND.fullmatch(words[1]):
        named = words[:2]
        if words[:2] in _TWO_LEVELS:
            if len(words) < 3 or words[2].startswith("-") or words[2] in _NEVER:
                return None
            named = words[:3]
        return f"{shlex.join(named)}:*" if all(map(_PLAIN_WORD.fullmatch, named)) else None
    if name in _WITH_SUBCOMMANDS:
        # Without a clear subcommand, allow only exactly this command.
        whole = len(words) == len(part.words) and all(map(_PLAIN_WORD.fullmatch, words))
        return " ".join(words) if whole else None
    return f"{words[0]}:*"


def _for_file(call: Call, rights: Rights, places: Sequence[RealPath]) -> list[dict[str, Any]]:
    paths = {path for each in places for path in each.real}
    if len(paths) != 1 or not all(each.sure for each in places):
        return []
    (path,) = paths
    given = (rights.cwd, *rights.directories)
    roots = [absolute(each, rights.cwd, rights.user_home) for each in given]
    if call.kind == "write" and any(protected(each, roots) for each in places):
        return []
    folder = path if call.tool in ("Glob", "Grep", "LS") else os.path.dirname(path)
    if not _PLAIN_PATH.fullmatch(path):
        return []
    if all(lies_in(each, roots) for each in places):
        return _inside(path, folder, rights)
    too_much = [real_path(rights.user_home), *map(real_path, roots)]
    if folder == "/" or any(below(each, folder) for each in too_much):
        return []
    if call.kind == "read":
        return [_rules([{"toolName": "Read", "ruleContent": f"/{folder}/**"}])]
    found: list[dict[str, Any]] = [
        {"type": "addDirectories", "directories": [folder], "destination": "session"}
    ]
    if rights.mode == "default":
        found.append(_rules([{"toolName": "Edit", "ruleContent": f"/{folder}/**"}]))
    return found


def _inside(path: str, folder: str, rights: Rights) -> list[dict[str, Any]]:
    """A rule for the directory of a file, or for the file if that is the whole project."""
    cwd = real_path(rights.cwd)
    within = below(folder, cwd) and folder != cwd
    target = f"{folder}/**" if within else path
    content = target.removeprefix(cwd.rstrip("/")) if below(target, cwd) else f"/{target}"
    return [_rules([{"toolName": "Edit", "ruleContent": content}])]
