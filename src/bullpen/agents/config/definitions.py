"""Agent definitions: roles in files, in Claude Code's format.

Every field of a file is applied, or refused by name with the reason; none is ignored.
`description` and `color` are only shown. The types that every agent of Claude Code knows are files
too, in `agent_types`; a definition of the user or the project with the same name wins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bullpen.agents.config.mcp_config import role_servers
from bullpen.agents.config.role_fields import (
    FieldRefused,
    disallowed,
    isolation,
    memory,
    skill_names,
    skills,
    tools,
)
from bullpen.agents.config.settings import joined_hooks, with_source
from bullpen.agents.drivers.registry import capabilities_of
from bullpen.agents.drivers.unsupported import unkept
from bullpen.agents.hooks.hook_set import HookSet
from bullpen.agents.permissions.rule_language.paths import below
from bullpen.agents.system.project_files import (
    BYTES_MAX,
    read_limited,
    unreadable,
    up_to_git_root,
)
from bullpen.agents.system.vendors.programs import OWN_DRIVERS
from bullpen.agents.tools.agent_memory import MEMORY, is_folder_name
from bullpen.agents.tools.files.front_matter import front_matter
from bullpen.agents.tools.files.prompt_files import (
    project_root,
    read_regular,
    reading_rights,
    unreadable_for,
)
from bullpen.agents.tools.files.safe_open import look_up
from bullpen.errors import Invalid, NotFound, Refused, Unreadable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import DEFAULT_MODE, MODES, Policy
from bullpen.team.requests.mode_rules import wider_mode

MODELS = {
    "opus": "anthropic:claude-opus-5-5",
    "sonnet": "anthropic:claude-sonnet-5-5",
    "haiku": "anthropic:claude-haiku-5-5",
}
"""The short names of models. `inherit` leaves the model to the spawning member."""

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")

_FOLDERS = (".bullpen/agents", ".claude/agents")
_BUILT_IN = Path(__file__).with_name("agent_types")
_PROMPTS = {"initialPrompt"}
# Public collections add notes for their readers, which change nothing.
_SHOWN = set(
    """
    name description color author category emoji examples license metadata tags triggers version
    vibe
    """.split()  # noqa: SIM905 - one name a line would fill the page
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A role: instructions from the text of the file, and its fields as written."""

    name: str
    path: Path
    instructions: str
    fields: Mapping[str, Any]
    # The root of the project that it was found in; None for the user's own.
    root: str | None = None
    # The SHA-256 of the bytes that were read.
    digest: str = ""

    @property
    def folder(self) -> Path:
        """The project or home that it belongs to. A link belongs to where the link is."""
        return (self.path.parent.resolve() / self.path.name).parents[2]

    @property
    def skills(self) -> list[str]:
        """The skills whose texts belong to its instructions."""
        return skill_names(self.fields.get("skills"))

    @property
    def governs(self) -> bool:
        """Whether it runs commands or allows things, so that it needs trust."""
        mode = next((mode for mode in MODES if mode == self.fields.get("permissionMode")), None)
        widens = mode is not None and wider_mode(mode, DEFAULT_MODE)
        fields = self.fields
        governing = fields.get("hooks") or fields.get("memory")
        return widens or bool(governing) or self._defines_servers

    @property
    def _defines_servers(self) -> bool:
        """Whether it defines MCP servers itself, which run commands."""
        told = self.fields.get("mcpServers")
        return any(isinstance(each, dict) for each in (told if isinstance(told, list) else [told]))

    def redacted(self, redact: Callable[[str], str]) -> Definition:
        """The definition without secrets in the texts that models read."""
        fields = {
            k: redact(v) if k in _PROMPTS and isinstance(v, str) else v
            for k, v in self.fields.items()
        }
        return replace(self, instructions=redact(self.instructions), fields=fields)


@dataclass(slots=True)
class Definitions:
    """The nearest definition of each name, and the files that could not be read."""

    found: dict[str, Definition] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    # Names that an unreadable file may define and that no nearer file does.
    doubtful: dict[str, Unreadable] = field(default_factory=dict)


def list_definitions(cwd: Path, home: Path) -> Definitions:
    """The definitions for a directory: from it up to the git root, the home's, then Bullpen's."""
    all_of_them = Definitions()
    seen: set[Path] = set()
    root = project_root(str(cwd), str(home.resolve()))
    # The user's own folders may be links to anywhere; those of a project may not leave it.
    owned = {(home / place).resolve() for place in _FOLDERS}
    for folder in [*up_to_git_root(cwd), home]:
        for place in _FOLDERS:
            agents = (folder / place).resolve()
            if agents not in seen:
                seen.add(agents)
                _add(all_of_them, agents, None if agents in owned else root)
    _add(all_of_them, _BUILT_IN, None)
    return all_of_them


def find(name: str, cwd: Path, home: Path) -> Definition:
    """The nearest definition of this name. Raises NotFound or Unreadable."""
    known = list_definitions(cwd, home)
    if name in known.doubtful:
        raise known.doubtful[name]
    if name not in known.found:
        if known.unreadable:
            raise known.unreadable[0]
        names = ", ".join(sorted(known.found))
        raise NotFound(
            f"There is no agent definition {name!r} for {cwd}.",
            remedy=f"Known names: {names}. Put definitions in .bullpen/agents or .claude/agents.",
        )
    return known.found[name]


def role_file(path: Path) -> Definition:
    """The definition in a file that a person named by its path.

    Raises Unreadable, or Refused if it runs commands or allows things (role_governs): agents may
    write files anywhere, except in the folders of definitions.
    """
    definition = read(path)
    if definition.governs:
        raise Refused(
            f"{path} sets hooks, a permissionMode, a memory or MCP servers, which a role file named"
            " by its path may not.",
            reason="role_governs",
            remedy="Put it into .bullpen/agents and name the role, or set the mode elsewhere.",
        )
    return definition


def refuse_unreadable(definition: Definition, spec: AgentSpec, user_home: Path) -> None:
    """Refuse a project's role file that the agent may not read itself. Raises Refused: denied."""
    if definition.root is None:
        return
    rights = reading_rights(spec, str(user_home), definition.root)
    real = str(definition.path.resolve())
    if (why := unreadable_for(str(definition.path), real, rights, definition.root)) is not None:
        raise Refused(
            f"The role {definition.name!r} cannot be used: {definition.path}: {why}.",
            reason="denied",
            remedy="Allow reading that file, or use another role.",
        )


def apply(definition: Definition, spec: AgentSpec) -> AgentSpec:
    """The spec with everything that the definition sets. What was asked for at spawn wins.

    Tools are only narrowed: an agent has those that both allow. Raises Invalid, which lists all
    fields that cannot be applied with the reasons.
    """
    made: dict[str, Any] = {"role": definition.name}
    if definition.instructions:
        texts = [definition.instructions, spec.instructions]
        made["instructions"] = "\n\n".join(text for text in texts if text)
    refused: list[str] = []
    options: dict[str, Any] = {}
    for name, value in definition.fields.items():
        if value is None or name in _SHOWN:
            continue
        try:
            fields = _applied(name, value, spec)
        except FieldRefused as no:
            refused.extend(f"{name}: {reason}" for reason in no.reasons)
        else:
            options |= fields.pop("options", {})
            made |= fields
    if options:
        made["options"] = {**options, **spec.options}
    if MEMORY in options and not is_folder_name(definition.name):
        refused.append("memory: the role's name cannot be the name of a folder")
    refused += _unkept(made, spec)
    if refused:
        raise Invalid(
            f"The agent definition {definition.path} cannot be applied: {'; '.join(refused)}.",
            remedy="Remove these fields from the file, or use another definition.",
        )
    deny = made.pop("deny", [])
    if deny:
        policy = spec.policy
        sources = {**policy.sources, **dict.fromkeys(deny, str(definition.path))}
        made["policy"] = policy.evolve(
            deny=list(dict.fromkeys([*policy.deny, *deny])), sources=sources
        ).raw
    if "hooks" in made:
        own = with_source(made["hooks"], definition.path, definition.folder, role=definition.name)
        made["hooks"] = joined_hooks(spec.hooks or {}, own)
    return spec.evolve(**made)


def _unkept(made: Mapping[str, Any], spec: AgentSpec) -> list[str]:
    """The fields of a definition that the driver of a spec cannot honour, with the reasons."""
    if spec.driver in OWN_DRIVERS:
        return []
    names = ("tools", "disallowed_tools", "hooks", "mcp_servers", "options")
    alone = AgentSpec.new(
        driver=spec.driver,
        backend=spec.backend,
        cwd=spec.cwd,
        policy=Policy.new(deny=made.get("deny", [])).raw,
        **{name: made[name] for name in names if name in made},
    )
    return [
        # Disallowed parts of tools have become rules.
        f"{'disallowedTools' if field == 'rules' else field}: {spec.driver}: {why}"
        for field, why in unkept(alone, capabilities_of(spec.driver))
    ]


def _applied(name: str, value: Any, spec: AgentSpec) -> dict[str, Any]:
    if name in _FIELDS:
        return _FIELDS[name](value, spec)
    raise FieldRefused("there is no such field")


def _model(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if not isinstance(value, str) or not value.strip():
        raise FieldRefused("it is not the name of a model")
    if value == "inherit" or spec.model is not None:
        return {}
    # Other drivers have their own names for models.
    return {"model": MODELS.get(value, value) if spec.driver in OWN_DRIVERS else value}


def _mode(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if value not in MODES:
        raise FieldRefused(f"there is no mode {value!r}; known are {', '.join(MODES)}")
    return {"mode": spec.mode or value}


def _hooks(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FieldRefused("it is not a mapping of events to hooks")
    try:
        HookSet.of(value)
    except Invalid as error:
        raise FieldRefused(error.message.rstrip(".")) from None
    return {"hooks": value} if value else {}


def _servers(value: Any, spec: AgentSpec) -> dict[str, Any]:
    try:
        return {"mcp_servers": role_servers(value)}
    except Invalid as error:
        raise FieldRefused(error.message.rstrip(".")) from None


def _turns(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise FieldRefused("it is not a number of turns")
    return {"turns_max": value if spec.turns_max is None else min(value, spec.turns_max)}


def _effort(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if value not in EFFORTS:
        raise FieldRefused(f"there is no effort {value!r}; known are {', '.join(EFFORTS)}")
    return {"options": {"effort": value}}


def _prompt(value: Any, spec: AgentSpec) -> dict[str, Any]:
    if not isinstance(value, str):
        raise FieldRefused("it is not text")
    return {"prompt": "\n\n".join(text for text in (value, spec.prompt) if text)}


def _background(value: Any, spec: AgentSpec) -> dict[str, Any]:
    # Every agent of a team runs in the background anyway.
    if not isinstance(value, bool):
        raise FieldRefused("it is neither true nor false")
    return {}


_FIELDS: dict[str, Callable[[Any, AgentSpec], dict[str, Any]]] = {
    "tools": tools,
    "disallowedTools": disallowed,
    "model": _model,
    "permissionMode": _mode,
    "hooks": _hooks,
    "mcpServers": _servers,
    "maxTurns": _turns,
    "effort": _effort,
    "initialPrompt": _prompt,
    "background": _background,
    "isolation": isolation,
    "memory": memory,
    "skills": skills,
}


def _add(known: Definitions, folder: Path, root: str | None) -> None:
    """Add the definitions of a folder; those of nearer folders stay."""
    here: dict[str, Definition] = {}
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".md")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        known.unreadable.append(unreadable(folder, error.strerror or str(error)))
        return
    for path in files:
        try:
            definition = read(path, root)
            if definition.name in here:
                other = here[definition.name].path.name
                raise unreadable(path, f"the name {definition.name!r} is taken by {other}")
        except Unreadable as error:
            known.unreadable.append(error)
            if path.stem not in known.found:
                known.doubtful.setdefault(path.stem, error)
        else:
            here[definition.name] = definition
    known.found = {**here, **known.found}


def read(path: Path, root: str | None = None) -> Definition:
    """The definition in a file, which may not lie outside `root`. Raises Unreadable."""
    raw = read_limited(path) if root is None else _read_inside(path, root)
    if raw is None:
        raise unreadable(path, "there is no such file")
    try:
        found = front_matter(path, raw.decode("utf-8"), {*_FIELDS, *_SHOWN})
    except UnicodeDecodeError as error:
        raise unreadable(path, "it is not UTF-8") from error
    if found is None:
        raise unreadable(path, "it does not start with fields between two lines of ---")
    fields, text = found
    name = fields.get("name", path.stem)
    if not isinstance(name, str) or not name.strip():
        raise unreadable(path, "its name is not text")
    digest = hashlib.sha256(raw).hexdigest()
    return Definition(name.strip(), path, text, fields, root, digest)


def _read_inside(path: Path, root: str) -> bytes:
    """The content of a project's file, which may not be a link that leads out of the project."""
    try:
        real = look_up(str(path), root)
        if not below(real, root):
            raise unreadable(path, f"it leads out of the project {root}")
        raw = read_regular(real, BYTES_MAX + 1)
    except Refused as error:
        raise unreadable(path, error.message.rstrip(".")) from error
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error
    if len(raw) > BYTES_MAX:
        raise unreadable(path, f"it is larger than {BYTES_MAX} bytes")
    return raw
