"""Turn a spawn request from a person, a team file or an agent into a spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from bullpen.agents.config.definitions import (
    Definition,
    apply,
    find,
    refuse_unreadable,
    role_file,
)
from bullpen.agents.config.inherit import under
from bullpen.agents.config.mcp_config import KnownServers, read_servers, with_servers
from bullpen.agents.config.role_fields import COORDINATION
from bullpen.agents.config.role_skills import with_role_skills
from bullpen.agents.config.settings import FileSettings, read_settings
from bullpen.agents.config.trust import refuse_untrusted
from bullpen.agents.contracts.machines import ON, RESPAWN
from bullpen.agents.drivers.native.model_choice import choose
from bullpen.agents.drivers.native.provider.options import (
    SMALL_MODEL,
    SMALL_MODEL_OPTIONS,
    STRICT_MODEL,
    ModelOptions,
)
from bullpen.agents.drivers.registry import reads_unasked
from bullpen.agents.permissions.rule_language.known_tools import check_tools
from bullpen.agents.permissions.rule_language.package_names import KNOWN_TOOLS, all_named
from bullpen.agents.permissions.rule_language.rule import check_rules
from bullpen.agents.system import environment
from bullpen.agents.system.secrets import Redactor
from bullpen.agents.system.vendors.model_providers import SMALL_MODEL as BY_ENVIRONMENT
from bullpen.agents.system.vendors.obeyed_files import APPROVED_FILES, obeyed_files
from bullpen.agents.system.vendors.programs import COMMAND
from bullpen.agents.tools.web.search import SEARCH_URL
from bullpen.agents.work.tree_at_spawn import WorkspaceRequest, beside, placed
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.team.budget.rules import budget

# The option of an agent that ignores the project's settings, as do its teammates.
NO_PROJECT_SETTINGS = "no_project_settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """An agent that someone wants. Missing values come from files, its parent or defaults."""

    cwd: str
    driver: str = "native"
    backend: str = "subprocess"
    # The name of an agent definition, or the path of its file if a person names one.
    role: str | None = None
    model: str | None = None
    prompt: str | None = None
    # The scripted driver's script; the command that starts another vendor's program.
    script: str | None = None
    command: Sequence[str] | None = None
    mode: str | None = None
    policy: Policy | None = None
    # Whether to use the project's settings, and not only the user's own.
    project_settings: bool = True
    claims: bool = True
    turns_max: int | None = None
    budget_tokens: int | None = None
    budget_usd: float | None = None
    budget_wall_s: float | None = None
    # Names of environment variables that it gets besides those of its driver.
    env: Sequence[str] = ()
    # Any host with these labels may run it; with `respawn`, another one after a loss.
    on: Mapping[str, str] | None = None
    respawn: bool = False
    # Its own worktree; the settings in `cwd` apply to it as they are now.
    workspace: WorkspaceRequest | None = None
    # The worktree that it gets instead if its role sets `isolation`: no kind was asked for.
    isolated: WorkspaceRequest | None = None
    # Its skills for tasks that need them. Skills that it can load are files.
    skills: Sequence[str] = ()
    # Only these tools, besides the team tools.
    tools: Sequence[str] | None = None
    # MCP servers by name, besides those that files define.
    mcp_servers: Mapping[str, Any] | None = None
    # Commands to run after an edit, by a pattern of names, besides those of settings.
    after_edit: Mapping[str, Sequence[str]] | None = None
    # What WebSearch asks; by default, what settings say.
    search_url: str | None = None
    # What is set for its model, and for models by their names: window, longest answer, prices.
    model_options: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The model that writes its summaries; by default its own.
    small_model: str | None = None
    effort: str | None = None
    # End it if the API answers with another model's name.
    strict_model: bool = False


@dataclass(frozen=True, slots=True)
class SpawnFiles:
    """Where requests are resolved: a home, with the user's files and the environment."""

    home: Path
    environ: Mapping[str, str]

    @property
    def user_home(self) -> Path:
        """The home directory of the user."""
        return Path(self.environ.get("HOME") or "/")

    def settings(self, cwd: str, *, project: bool = True) -> FileSettings:
        """The settings for work in a directory. Raises Unreadable and Invalid."""
        return read_settings(Path(cwd), user_home=self.user_home, home=self.home, project=project)


async def resolve(
    request: SpawnRequest, files: SpawnFiles, parent: tuple[str, AgentFacts] | None = None
) -> AgentSpec:
    """The spec for a request, with its definition and the settings applied.

    The model is the requested one, else the definition's, else that of a parent with the same
    driver, else a default. The mode is the requested one, else the definition's, the settings', the
    parent's or the default. Rules and hooks add up. `parent` is the agent that spawns it, if no
    person does.

    Raises:
        NotFound: there is no such definition.
        Invalid: a part of it cannot be applied; the text names it.
        Unreadable: a settings file cannot be read.
        Refused: wider_than_parent; not_trusted, if the project has settings and is not trusted;
            mode_disabled, if they forbid its mode; own_limits, if its role wants a worktree that
            it cannot have; or a reason of its workspace.
    """
    if request.workspace is not None and parent is not None:
        cwd, workspace, parent = beside(request.cwd, request.workspace, parent)
        request = replace(request, cwd=cwd, workspace=workspace)
    spec = _stated(request, files)
    check_tools(spec.tools or ())
    # Everything is decided now: later changes of the files have no effect.
    definition = await to_thread.run_sync(partial(_definition, request, files, parent))
    spec = await to_thread.run_sync(partial(_by_files, spec, request, files, parent, definition))
    spec = _with_model(spec, request, files, parent)
    place = _workspace(request, definition)
    if place is None:
        return spec
    return await to_thread.run_sync(partial(placed, spec, place, elsewhere=request.on is not None))


def _definition(
    request: SpawnRequest, files: SpawnFiles, parent: tuple[str, AgentFacts] | None
) -> Definition | None:
    """The definition of the role that is asked for, without secrets. Raises NotFound."""
    role = request.role
    if role is None:
        return None
    # Only a person may name a file: an agent may not read every file.
    by_path = parent is None and role.endswith(".md")
    found = role_file(Path(role)) if by_path else find(role, Path(request.cwd), files.user_home)
    return found.redacted(Redactor(files.environ).text)


def _workspace(request: SpawnRequest, definition: Definition | None) -> WorkspaceRequest | None:
    """The worktree that was asked for, else the one that the role wants. Raises Refused."""
    if definition is None or not definition.fields.get("isolation"):
        return request.workspace
    if request.isolated is None and request.workspace is None:
        raise Refused(
            f"The role {definition.name!r} wants a worktree of its own (isolation), and this agent"
            " cannot have one.",
            reason="own_limits",
            remedy="Start it as a teammate with a name, or remove `isolation` from the role.",
        )
    return request.isolated or request.workspace


def _stated(request: SpawnRequest, files: SpawnFiles) -> AgentSpec:
    """The spec with only what the request sets."""
    elsewhere = request.on is not None
    tools = None if request.tools is None else all_named(request.tools)
    # The variables of an agent on another machine are set there.
    env = list(request.env) if elsewhere else environment.check_names(request.env, files.environ)
    options: dict[str, Any] = {} if request.project_settings else {NO_PROJECT_SETTINGS: True}
    if request.command is not None:
        options[COMMAND] = list(request.command)
    if request.search_url is not None:
        options[SEARCH_URL] = request.search_url
    if request.on is not None:
        options |= {ON: dict(request.on), RESPAWN: request.respawn}
    most = budget(
        tokens=request.budget_tokens, usd=request.budget_usd, wall_s=request.budget_wall_s
    )
    return AgentSpec.new(
        driver=request.driver,
        backend=request.backend,
        cwd=request.cwd,
        prompt=request.prompt,
        model=request.model,
        script=request.script,
        mode=request.mode,
        policy=None if request.policy is None else request.policy.raw,
        claims=request.claims,
        turns_max=request.turns_max,
        budget=most.raw or None,
        env=environment.names_for(request.driver, env),
        env_asked=env,
        options=options,
        skills=list(dict.fromkeys(request.skills)) or None,
        tools=None if tools is None else list(dict.fromkeys([*tools, *COORDINATION])),
        after_edit={name: list(each) for name, each in (request.after_edit or {}).items()} or None,
    )


def _by_files(
    spec: AgentSpec,
    request: SpawnRequest,
    files: SpawnFiles,
    parent: tuple[str, AgentFacts] | None,
    definition: Definition | None,
) -> AgentSpec:
    """The spec with its definition, the settings and its parent's limits applied."""
    policy, user = request.policy, files.user_home
    stated: frozenset[str] = frozenset()
    if policy is not None:
        check_rules([*policy.allow, *policy.deny, *policy.ask], KNOWN_TOOLS)
        stated = policy.stated_fields
    found = files.settings(spec.cwd, project=request.project_settings)
    known = KnownServers()
    if spec.driver == "native":
        known = read_servers(Path(spec.cwd), home=files.home, project=request.project_settings)
    of_project = found.of_project
    if definition is not None:
        spec = apply(definition, spec)
        if definition.governs and definition.folder != user.resolve():
            of_project.append((definition.path, definition.folder, definition.digest))
    above = None if parent is None else parent[1].spec
    spec, defining = with_servers(spec, known, stated=request.mcp_servers, above=above)
    refuse_untrusted([*of_project, *defining], files.home, Path(spec.cwd))
    spec = _with_obeyed_files(spec, files.home)
    spec = found.applied(spec, stated=stated, child=parent is not None)
    if definition is not None:
        refuse_unreadable(definition, spec, user)
    if parent is not None:
        name, facts = parent
        spec = under(
            spec,
            facts,
            of=name,
            parent_leads=name == LEAD,
            reads_freely=reads_unasked(spec.driver) and not reads_unasked(facts.spec.driver),
        )
        # Its mode may come from a parent that was spawned before the files forbade it.
        found.refuse_mode(spec.mode)
    if definition is None:
        return spec
    return with_role_skills(
        spec,
        definition.skills,
        role=definition.name,
        user_home=user,
        claude_home=files.environ.get("CLAUDE_CONFIG_DIR"),
        redact=Redactor(files.environ).text,
    )


def _with_obeyed_files(spec: AgentSpec, home: Path) -> AgentSpec:
    """The spec with the files of the repository that its program may obey. Raises Refused."""
    found = obeyed_files(spec.driver, Path(spec.cwd))
    if not found:
        return spec
    # Bullpen's own settings can be left out; these the program reads by itself.
    instead = "remove them, or choose the driver native"
    try:
        refuse_untrusted(found, home, Path(spec.cwd), otherwise=instead)
    except Refused as error:
        raise Refused(
            f"The driver {spec.driver!r} runs a program that would obey them. {error.message}",
            reason=error.reason,
            remedy=error.remedy,
        ) from error
    approved = sorted({digest for _, _, digest in found})
    return spec.evolve(options={**spec.options, APPROVED_FILES: approved})


def _with_model(
    spec: AgentSpec,
    request: SpawnRequest,
    files: SpawnFiles,
    parent: tuple[str, AgentFacts] | None,
) -> AgentSpec:
    """The spec with its models, what is known of them, and the variables of their providers."""
    model = spec.model
    if model is None and parent is not None and parent[1].spec.driver == spec.driver:
        model = parent[1].spec.model
    small = request.small_model
    options: dict[str, Any] = ModelOptions.of(request.model_options).stated
    if request.strict_model:
        options[STRICT_MODEL] = True
    if request.effort is not None:
        options["effort"] = request.effort
    if spec.driver == "native":
        small = small or files.environ.get(BY_ENVIRONMENT)
        written, model = model, str(choose(model, files.environ))
        options = {**_of_model(request.models, written, model), **options}
        if small is not None:
            written, small = small, str(choose(small, files.environ))
            if known := _of_model(request.models, written, small):
                options[SMALL_MODEL_OPTIONS] = known
    if small is not None:
        options[SMALL_MODEL] = small
    env = dict.fromkeys([*spec.env, *environment.names_of_models(model, small)])
    return spec.evolve(model=model, env=list(env), options={**spec.options, **options})


def _of_model(
    models: Mapping[str, Mapping[str, Any]], written: str | None, model: str
) -> dict[str, Any]:
    """What is set for a model: by the name as it was written, or with or without its provider."""
    for name in (written, model, model.partition(":")[2]):
        if name is not None and name in models:
            return ModelOptions.of(models[name]).stated
    return {}


def unattended(spec: AgentSpec, *, plans: bool = True) -> AgentSpec:
    """The spec for an agent without a person: a policy answers its requests instead.

    Without `plans`, its plans still wait for a person, because someone asked for that.
    """
    policy = spec.policy
    if policy.approver == "human":
        policy = policy.evolve(approver="policy")
    if plans and policy.plan_approver == "human":
        policy = policy.evolve(plan_approver="rule")
    return spec.evolve(policy=policy.raw)
