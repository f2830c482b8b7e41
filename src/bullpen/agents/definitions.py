"""Agent definitions: roles in files, in the format of Claude Code.

Every field of a file is applied or refused by name, with the file and the reason; nothing is
ignored. `description` and `color` are only shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bullpen.agents.drivers.choice import capabilities_of
from bullpen.agents.drivers.keeping import unkept
from bullpen.agents.drivers.programs import is_foreign
from bullpen.agents.policy.covering import covered_by
from bullpen.agents.policy.rules import OTHER_TOOLS, rule_of
from bullpen.agents.project import up_to_git_root
from bullpen.agents.settings import KNOWN_TOOLS, joined_hooks, with_source
from bullpen.agents.tools.box import TOOLS
from bullpen.errors import Invalid, NotFound, Refused, Unreadable
from bullpen.hooks import HookSet
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import DEFAULT_MODE, MODES, Policy
from bullpen.team.policy_rules import wider_mode

MODELS = {
    "opus": "anthropic:claude-opus-5-5",
    "sonnet": "anthropic:claude-sonnet-5-5",
    "haiku": "anthropic:claude-haiku-5-5",
}
"""What the short names of models stand for. `inherit` leaves the model to who spawns."""

COORDINATION = tuple(
    tool.name
    for tool in TOOLS
    if tool.kind == "team" and tool.name not in ("SpawnTeammate", "StopTeammate")
)
"""The tools that every member of a team has, whatever its role lists, as in Claude Code."""

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")

_FOLDERS = (".bullpen/agents", ".claude/agents")
_BYTES_MAX = 1_000_000
_FRONT = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?(.*)\Z", re.DOTALL | re.MULTILINE
)
_LOOSE = re.compile(r"^description:[ \t]+(?![\"'|>])(.+?)[ \t\r]*$", re.MULTILINE)
_SEVERAL = re.compile(r"(?P<tool>\w+)\((?P<parts>.*:\*,.*)\)", re.DOTALL)
_SHOWN = {"name", "description", "color"}
# Tools of Claude Code that no agent of ours has: to forbid one is to get what was asked for.
_NOT_HERE = OTHER_TOOLS | {"LSP"}


@dataclass(frozen=True, slots=True)
class Definition:
    """A role: the text of the file is the instructions, the fields are as they were written."""

    name: str
    path: Path
    instructions: str
    fields: Mapping[str, Any]

    @property
    def description(self) -> str:
        """What it is for, in its author's words."""
        return str(self.fields.get("description") or "")

    @property
    def color(self) -> str | None:
        """The colour it is shown in."""
        color = self.fields.get("color")
        return None if color is None else str(color)

    @property
    def folder(self) -> Path:
        """The project, or the home, that it is of."""
        return self.path.resolve().parents[2]

    @property
    def governs(self) -> bool:
        """Whether it runs commands or allows things, so that only a trusted one may be used."""
        mode = next((mode for mode in MODES if mode == self.fields.get("permissionMode")), None)
        widens = mode is not None and wider_mode(mode, DEFAULT_MODE)
        return widens or bool(self.fields.get("hooks"))


@dataclass(slots=True)
class Definitions:
    """What there is, the nearest of each name only; and the files that could not be read."""

    found: dict[str, Definition] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    # Names that an unreadable file may well define, and no nearer file does.
    doubtful: dict[str, Unreadable] = field(default_factory=dict)


def list_definitions(cwd: Path, home: Path) -> Definitions:
    """The definitions for work in this directory: from it up to the git root, then the home's."""
    all_of_them = Definitions()
    seen: set[Path] = set()
    for folder in [*up_to_git_root(cwd), home]:
        for place in _FOLDERS:
            agents = (folder / place).resolve()
            if agents not in seen:
                seen.add(agents)
                _add(all_of_them, agents)
    return all_of_them


def find(name: str, cwd: Path, home: Path) -> Definition:
    """The nearest definition of this name.

    Raises:
        NotFound: there is none; the error lists those there are.
        Unreadable: there is none that can be read, or the file of this name cannot.
    """
    known = list_definitions(cwd, home)
    if name in known.doubtful:
        raise known.doubtful[name]
    if name not in known.found:
        if known.unreadable:
            raise known.unreadable[0]
        names = ", ".join(sorted(known.found)) or "none"
        raise NotFound(
            f"There is no agent definition {name!r} for {cwd}.",
            remedy=f"There are: {names}. Definitions lie in .bullpen/agents and .claude/agents.",
        )
    return known.found[name]


def role_file(path: Path) -> Definition:
    """The definition in a file that a person named by its path.

    Raises:
        Unreadable: it cannot be read, or it is no definition.
        Refused: it would run commands or allow things (role_governs). Agents may write files that
            lie anywhere; those in the folders of definitions they may not.
    """
    definition = read(path)
    if definition.governs:
        raise Refused(
            f"{path} has hooks or a permissionMode, which a role file that is named by its path"
            " cannot have.",
            reason="role_governs",
            remedy="Put it into .bullpen/agents and name the role, or say the mode elsewhere.",
        )
    return definition


def apply(definition: Definition, spec: AgentSpec) -> AgentSpec:
    """The spec with all that the definition says. What was asked for at spawn comes first.

    Tools are only ever narrowed: an agent has those that both allow.

    Raises:
        Invalid: fields that cannot be applied, all of them at once, each with the reason.
    """
    made: dict[str, Any] = {"role": definition.name}
    if definition.instructions:
        texts = [definition.instructions, spec.instructions]
        made["instructions"] = "\n\n".join(text for text in texts if text)
    refused: list[str] = []
    for name, value in definition.fields.items():
        if value is None or name in _SHOWN:
            continue
        try:
            made.update(_applied(name, value, spec))
        except _No as no:
            refused.extend(f"{name}: {reason}" for reason in no.reasons)
    refused += _unkept(made, spec)
    if refused:
        raise Invalid(
            f"The agent definition {definition.path} asks for what cannot be given: "
            + "; ".join(refused)
            + ".",
            remedy="Take these out of the file, or use another definition.",
        )
    deny = made.pop("deny", [])
    if deny:
        policy = spec.rights
        sources = {**policy.sources, **dict.fromkeys(deny, str(definition.path))}
        made["policy"] = policy.evolve(
            deny=list(dict.fromkeys([*policy.deny, *deny])), sources=sources
        ).raw
    if "hooks" in made:
        own = with_source(made["hooks"], definition.path, definition.folder)
        made["hooks"] = joined_hooks(spec.hooks or {}, own)
    return spec.evolve(**made)


def _unkept(made: Mapping[str, Any], spec: AgentSpec) -> list[str]:
    """What the driver of a spec could not keep of a definition alone, by the fields of that."""
    if not is_foreign(spec.driver):
        return []
    names = ("tools", "disallowed_tools", "hooks", "options")
    alone = AgentSpec.new(
        driver=spec.driver,
        backend=spec.backend,
        cwd=spec.cwd,
        policy=Policy.new(deny=made.get("deny", [])).raw,
        **{name: made[name] for name in names if name in made},
    )
    return [
        # Of a tool, parts that are disallowed have become rules.
        f"{'disallowedTools' if field == 'rules' else field}: {spec.driver}: {why}"
        for field, why in unkept(alone, capabilities_of(spec.driver))
    ]


class _No(Exception):
    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


def _applied(name: str, value: Any, spec: AgentSpec) -> dict[str, Any]:
    if name in _FIELDS:
        return _FIELDS[name](value, spec)
    if name in _NOT_YET:
        if value in ("", [], {}, False):
            return {}
        raise _No(_NOT_YET[name])
    raise _No("there is no such field")


def _tools(value: Any, spec: AgentSpec) -> dict[str, Any]:
    names = _tool_names(value)
    if names == ["*"]:
        return {}
    _refuse([why for name in names if (why := _why_not(name)) is not None])
    names = list(dict.fromkeys([*names, *COORDINATION]))
    if spec.tools is None:
        return {"tools": names}
    both = [name for name in names if covered_by(name, spec.tools, alike=False)]
    both += [name for name in spec.tools if covered_by(name, names, alike=False)]
    return {"tools": list(dict.fromkeys(both))}


def _disallowed(value: Any, spec: AgentSpec) -> dict[str, Any]:
    """Whole tools are taken away; of parts of tools, and of servers, every call is denied."""
    names = [name for name in _tool_names(value) if name not in _NOT_HERE]
    _refuse([why for name in names if (why := _why_not(name, to_deny=True)) is not None])
    parts = [name for name in names if name not in KNOWN_TOOLS]
    whole = [name for name in names if name in KNOWN_TOOLS]
    taken = list(dict.fromkeys([*(spec.disallowed_tools or []), *whole]))
    return {"disallowed_tools": taken or None, "deny": parts}


def _refuse(reasons: list[str]) -> None:
    if reasons:
        raise _No(*dict.fromkeys(reasons))


def _tool_names(value: Any) -> list[str]:
    if isinstance(value, str):
        # Commas inside a rule such as Bash(git log:*, git diff:*) do not part two tools.
        value = re.split(r",\s*(?![^()]*\))", value)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _No("it is no list of names")
    return [part for name in value if name.strip() for part in _parts(name.strip())]


def _parts(name: str) -> list[str]:
    """`Bash(git log:*, git diff)` means two parts of a tool."""
    several = _SEVERAL.fullmatch(name)
    if several is None:
        return [name]
    parts = re.split(r"(?<=:\*)\s*,\s*", several["parts"])
    return [f"{several['tool']}({part.strip()})" for part in parts]


def _why_not(name: str, *, to_deny: bool = False) -> str | None:
    rule = rule_of(name)
    elsewhere = rule.tool in _NOT_HERE or rule.tool.startswith("mcp__")
    if rule.tool not in KNOWN_TOOLS and not (to_deny and elsewhere):
        return f"there is no tool {name!r} here"
    return None if rule.broken is None else f"{name}: {rule.broken}"


def _model(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if not isinstance(value, str) or not value.strip():
        raise _No("it is no name of a model")
    if value == "inherit" or spec.model is not None:
        return {}
    # Other programs know their own names of models.
    return {"model": value if is_foreign(spec.driver) else MODELS.get(value, value)}


def _mode(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if value not in MODES:
        raise _No(f"there is no mode {value!r}; there are {', '.join(MODES)}")
    return {"mode": spec.mode or value}


def _hooks(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _No("they are no hooks by event")
    try:
        HookSet.of(value)
    except Invalid as error:
        raise _No(error.message.rstrip(".")) from None
    return {"hooks": value} if value else {}


def _turns(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _No("it is no number of turns")
    return {"turns_max": value if spec.turns_max is None else min(value, spec.turns_max)}


def _effort(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if value not in EFFORTS:
        raise _No(f"there is no effort {value!r}; there are {', '.join(EFFORTS)}")
    return {"options": {"effort": value, **spec.options}}


def _prompt(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if not isinstance(value, str):
        raise _No("it is no text")
    return {"prompt": "\n\n".join(text for text in (value, spec.prompt) if text)}


def _background(value: Any, spec: AgentSpec) -> dict[str, Any]:
    # Every agent of a team runs in the background; there is nothing to do for it.
    if not isinstance(value, bool):
        raise _No("it is neither true nor false")
    return {}


_FIELDS: dict[str, Callable[[Any, AgentSpec], dict[str, Any]]] = {
    "tools": _tools,
    "disallowedTools": _disallowed,
    "model": _model,
    "permissionMode": _mode,
    "hooks": _hooks,
    "maxTurns": _turns,
    "effort": _effort,
    "initialPrompt": _prompt,
    "background": _background,
}
_NOT_YET = {
    "skills": "skills are not loaded by this program",
    "mcpServers": "agents are not connected to MCP servers by this program",
    "memory": "there is no memory across agents",
    "isolation": "there are no workspaces of an agent's own yet; it would share the directory",
}


def _add(known: Definitions, folder: Path) -> None:
    """Add the definitions of a folder; those of nearer folders are there already and stay."""
    here: dict[str, Definition] = {}
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".md")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        known.unreadable.append(_unreadable(folder, error.strerror or str(error)))
        return
    for path in files:
        try:
            definition = read(path)
            if definition.name in here:
                other = here[definition.name].path.name
                raise _unreadable(path, f"the name {definition.name!r} is taken by {other}")
        except Unreadable as error:
            known.unreadable.append(error)
            if path.stem not in known.found:
                known.doubtful.setdefault(path.stem, error)
        else:
            here[definition.name] = definition
    known.found = {**here, **known.found}


def read(path: Path) -> Definition:
    """One definition from its file.

    Raises:
        Unreadable: it cannot be read, or it is no definition.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not UTF-8") from error
    if len(raw) > _BYTES_MAX:
        raise _unreadable(path, f"it is larger than {_BYTES_MAX} bytes")
    parts = _FRONT.match(text)
    if parts is None:
        raise _unreadable(path, "it does not begin with fields between two lines of ---")
    fields = _fields(path, parts.group(1))
    name = fields.get("name", path.stem)
    if not isinstance(name, str) or not name.strip():
        raise _unreadable(path, "its name is no text")
    return Definition(name.strip(), path, parts.group(2).strip(), fields)


def _fields(path: Path, text: str) -> dict[str, Any]:
    try:
        fields = yaml.safe_load(text)
    except yaml.YAMLError as strict:
        # Claude Code takes descriptions with colons in them, which are not YAML.
        try:
            fields = yaml.safe_load(_LOOSE.sub(_quoted, text))
        except yaml.YAMLError:
            why = " ".join(str(strict).split())
            raise _unreadable(path, f"its fields are not YAML ({why})") from strict
    if fields is None:
        return {}
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise _unreadable(path, "its fields are no mapping of names")
    return fields


def _quoted(found: re.Match[str]) -> str:
    return f"description: {json.dumps(found.group(1))}"


def _unreadable(path: Path, why: str) -> Unreadable:
    return Unreadable(str(path), why, remedy="Mend the file or take it away.")
