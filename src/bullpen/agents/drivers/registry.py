"""List the drivers, and check a spec against one, without importing any."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bullpen.agents.contracts.driver import EVERYTHING, Capabilities, DriverFactory
from bullpen.agents.contracts.installed_parts import InstalledPart, find_part, no_part
from bullpen.agents.drivers import native, scripted
from bullpen.agents.drivers.native import model_choice as native_choice
from bullpen.agents.drivers.native.provider.options import (
    SMALL_MODEL,
    SMALL_MODEL_OPTIONS,
    ModelOptions,
)
from bullpen.agents.drivers.unsupported import unkept
from bullpen.agents.permissions.rule_language.known_tools import check_tools
from bullpen.agents.permissions.rule_language.package_names import package_tool
from bullpen.agents.system.vendors import programs
from bullpen.agents.system.vendors.acp_presets import GENERIC, PRESETS
from bullpen.by_name import load
from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.policy import MODES, Mode
from bullpen.sandbox.command import check_sandbox

DRIVERS = (*programs.OWN_DRIVERS, *programs.PROGRAMS)
"""Every driver that comes with Bullpen: its own, and those for other vendors' programs."""


def modules_of(spec: AgentSpec, env: Mapping[str, str]) -> tuple[str, ...]:
    """What the process of an agent imports for its driver."""
    if spec.driver == "native":
        return native.modules_of(spec, env)
    if spec.driver == programs.CLAUDE_CODE:
        return ("bullpen.agents.drivers.claude_code.driver",)
    if programs.is_foreign(spec.driver):
        return ("bullpen.agents.drivers.acp.driver",)
    # For the driver of a package too: a warm parent has the rest of an agent, never the package.
    return (f"{scripted.__name__}.driver",)


def capabilities_of(driver: str) -> Capabilities:
    """The capabilities that a driver declares. Needs no model library and no program."""
    if driver in PRESETS:
        return PRESETS[driver].capabilities
    if driver == GENERIC.name:
        return GENERIC.capabilities
    if driver in ("native", programs.CLAUDE_CODE):
        return EVERYTHING
    if driver == "scripted":
        return scripted.CAPABILITIES
    return factory_of(part_of(driver)).capabilities


def loading_words(driver: str) -> str:
    """What an agent of a driver does before it is ready, in a few words."""
    if driver == "native":
        return "loading model client"
    return f"{'starting' if programs.is_foreign(driver) else 'loading driver'} {driver}"


def check_driver(name: str) -> None:
    """Check that there is a driver of this name, without importing it. Raises Invalid."""
    if name not in DRIVERS:
        part_of(name)


def part_of(name: str) -> InstalledPart:
    """The package's driver of this name. Raises Invalid if there is none."""
    found = find_part("driver", name, DRIVERS)
    if found is None:
        raise no_part("driver", name, DRIVERS)
    return found


def factory_of(part: InstalledPart) -> DriverFactory:
    """What makes the drivers of a package. Raises Unavailable if it cannot be used."""
    found = part.load()
    if not callable(found) or not isinstance(getattr(found, "capabilities", None), Capabilities):
        raise part.broken("it is not a driver that declares its capabilities")
    factory: DriverFactory = found
    return factory


def reads_unasked(driver: str) -> bool:
    """Whether the driver is a program that reads files without asking, in every mode."""
    return not capabilities_of(driver).asks_to_read


def runs_unasked(driver: str) -> bool:
    """Whether the driver is a program that runs commands that only read without asking."""
    return not capabilities_of(driver).asks_to_run


def check_spec(
    spec: AgentSpec, in_money: bool = False, *, environ: Mapping[str, str] | None = None
) -> None:
    """Refuse at spawn everything that could not be enforced or run later.

    `in_money` says that there is a budget in money. The environment names the model's address.
    """
    check_tools(spec.disallowed_tools or ())
    if any(map(package_tool, spec.tools or ())):
        # Imported now: one that is broken must not fail only in a turn.
        list(load("bullpen.agents.permissions.package_tools:package_tools")(spec))
    if spec.mode is not None and spec.mode not in MODES:
        raise Invalid(
            f"There is no mode {spec.mode!r}.",
            remedy=f"Choose one of these: {', '.join(MODES)}.",
        )
    # Its own worktree is made when it starts.
    if spec.workspace is None and not Path(spec.cwd).is_dir():
        raise NotFound(
            f"There is no directory {spec.cwd}.", remedy="Name an existing one with --cwd."
        )
    can = capabilities_of(spec.driver)
    _refuse_unkept(spec, can)
    if programs.is_foreign(spec.driver):
        programs.check_program(spec, os.environ if environ is None else environ)
    else:
        if programs.COMMAND in spec.options:
            programs.command_of(spec)
        if spec.driver == "native":
            native.check_installed(spec)
    if spec.policy.sandbox is not None:
        check_sandbox()
    if spec.driver == "scripted" and spec.script is None:
        raise Invalid(
            "The driver 'scripted' needs a script.", remedy="Name one with --script FILE."
        )
    _refuse_budget(spec, can, in_money, environ or {})


def check_new_mode(agent: AgentFacts, mode: Mode) -> None:
    """Refuse a mode that an agent's driver cannot enforce, or not while its program runs."""
    _refuse_unkept(agent.spec.evolve(mode=mode), capabilities_of(agent.spec.driver))
    refuse_fixed_mode(agent, mode)


def refuse_fixed_mode(agent: AgentFacts, mode: str) -> None:
    """Refuse a mode that the program of an agent takes only when it starts. Raises Refused."""
    driver = agent.spec.driver
    fixed = [each for each in ("bypassPermissions", "plan") if each in (mode, agent.mode)]
    if agent.phase == "ended" or mode == agent.mode or not fixed:
        return
    if programs.is_foreign(driver):
        raise Refused(
            f"The program of driver {driver!r} takes the mode {fixed[0]} only when it starts.",
            reason="fixed_mode",
            remedy="Stop the agent, change its mode, then resume it: bullpen team resume",
        )


def _refuse_unkept(spec: AgentSpec, can: Capabilities) -> None:
    """Refuse modes and rules that the driver cannot enforce."""
    if spec.start_mode != "bypassPermissions" and not can.permissions:
        raise Invalid(
            f"The driver {spec.driver!r} never asks for permission, so the mode"
            f" {spec.start_mode!r} cannot be enforced.",
            remedy="Choose another driver, or the mode bypassPermissions.",
        )
    if spec.mode == "plan" and not can.plan_mode:
        raise Invalid(
            f"The driver {spec.driver!r} has no plan mode.", remedy="Choose another driver or mode."
        )
    if found := unkept(spec, can):
        raise Invalid(
            f"The driver {spec.driver!r} cannot do everything that was asked for: "
            + "; ".join(f"{field}: {why}" for field, why in found)
            + ".",
            remedy="Leave these out, or choose the driver native.",
        )


def _refuse_budget(
    spec: AgentSpec, can: Capabilities, in_money: bool, environ: Mapping[str, str]
) -> None:
    if (in_money or spec.budget_with_turns.tokens is not None) and not can.usage:
        raise Invalid(
            f"The driver {spec.driver!r} does not report usage, so a budget cannot be enforced.",
            remedy="Choose another driver, or a budget in turns or seconds.",
        )
    if in_money and not _tells_cost(spec.driver):
        raise Invalid(
            f"The driver {spec.driver!r} does not report what its requests cost, so a budget in"
            " money cannot be enforced.",
            remedy="Give a budget in tokens, turns or seconds, or choose the driver native.",
        )
    if in_money and spec.driver == "native":
        from bullpen.agents.drivers.native.provider import prices

        own = native_choice.choose(spec.model, environ)
        prices.check_price(own, ModelOptions.of(spec.options))
        if isinstance(named := spec.options.get(SMALL_MODEL), str):
            known = ModelOptions.of(spec.options.get(SMALL_MODEL_OPTIONS) or {})
            prices.check_price(native_choice.choose(named, environ), known)


def _tells_cost(driver: str) -> bool:
    """Whether the cost of a driver's requests is known. A package cannot declare that."""
    if programs.is_foreign(driver):
        return programs.PROGRAMS[driver].tells_cost
    return driver in DRIVERS
