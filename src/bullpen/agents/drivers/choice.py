"""The drivers there are, and making one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bullpen.agents.drivers.acp.presets import GENERIC, PRESETS
from bullpen.agents.drivers.base import EVERYTHING, Capabilities, Driver
from bullpen.agents.drivers.keeping import unkept
from bullpen.agents.drivers.native import choice as native_choice
from bullpen.agents.drivers.programs import (
    CLAUDE_CODE,
    COMMAND,
    PROGRAMS,
    check_libraries,
    check_program,
    command_of,
    is_foreign,
)
from bullpen.agents.sandbox import check_sandbox
from bullpen.agents.tools.box import check_tools
from bullpen.errors import Invalid, NotFound
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import MODES

DRIVERS = ("native", "scripted", *PROGRAMS)
"""Every program that can take an agent's turns: our own, a script, and those of other vendors."""


def make_driver(spec: AgentSpec, env: Mapping[str, str], *, limits: Path) -> Driver:
    """The driver that a spec asks for.

    `limits` is where all agents of this machine share what they know of rate limits.

    Raises:
        Invalid: there is no such driver.
        Unavailable: it is not installed.
    """
    # Each driver is imported when it is used: the native one brings a model library along.
    if spec.driver == "native":
        from bullpen.agents.drivers import native

        return native.make(spec, env, limits=limits)
    if spec.driver == "scripted":
        from bullpen.agents.drivers import scripted

        return scripted.make(spec)
    if spec.driver in PRESETS or spec.driver == GENERIC.name:
        from bullpen.agents.drivers.acp import driver as acp

        return acp.make(spec, env)
    if spec.driver == CLAUDE_CODE:
        from bullpen.agents.drivers import claude_code

        return claude_code.make(spec, env)
    raise Invalid(
        f"There is no driver {spec.driver!r}.",
        remedy=f"Choose one of these: {', '.join(DRIVERS)}.",
    )


def capabilities_of(driver: str) -> Capabilities:
    """What a driver can do, as it declares it; no model library and no program is needed.

    Raises:
        Invalid: there is no such driver.
        Unavailable: a library that it needs is not installed.
    """
    if driver in PRESETS:
        return PRESETS[driver].capabilities
    if driver == GENERIC.name:
        return GENERIC.capabilities
    if driver == "native":
        return EVERYTHING
    if driver == CLAUDE_CODE:
        check_libraries(driver)
    bare = AgentSpec.new(driver=driver, backend="subprocess", cwd="/")
    return make_driver(bare, {}, limits=Path()).capabilities


def reads_unasked(driver: str) -> bool:
    """Whether it is a program that reads what it likes, whatever a mode says of reading."""
    return is_foreign(driver) and not capabilities_of(driver).asks_to_read


def check_spec(
    spec: AgentSpec, in_money: bool = False, *, environ: Mapping[str, str] | None = None
) -> None:
    """Refuse at spawn what could not be honoured later.

    `in_money` says that a budget in money must be kept; the environment says where the model is.

    Raises:
        Invalid: a driver, tool or script that does not exist; a price that is not known.
        NotFound: the directory to work in does not exist.
        Unavailable: the driver or its program is not installed, or a sandbox is not to be had.
    """
    check_tools([*(spec.tools or ()), *(spec.disallowed_tools or ())])
    if spec.mode is not None and spec.mode not in MODES:
        raise Invalid(
            f"There is no mode {spec.mode!r}.",
            remedy=f"Choose one of these: {', '.join(MODES)}.",
        )
    # A tree of its own is made when it is started.
    if spec.tree is None and not Path(spec.cwd).is_dir():
        raise NotFound(
            f"There is no directory {spec.cwd}.", remedy="Name one that exists with --cwd."
        )
    can = capabilities_of(spec.driver)
    _refuse_unkept(spec, can)
    if is_foreign(spec.driver):
        check_program(spec, os.environ if environ is None else environ)
    elif COMMAND in spec.options:
        command_of(spec)
    # It refuses what it lacks.
    make_driver(spec, {}, limits=Path())
    if spec.rights.closed_in is not None:
        check_sandbox()
    if spec.driver == "scripted" and spec.script is None:
        raise Invalid("A scripted agent needs a script.", remedy="Name one with --script FILE.")
    _refuse_budget(spec, can, in_money, environ or {})


def _refuse_unkept(spec: AgentSpec, can: Capabilities) -> None:
    """Refuse modes and rules that nobody would enforce."""
    if spec.start_mode != "bypassPermissions" and not can.permissions:
        raise Invalid(
            f"The driver {spec.driver!r} asks nobody for permission, so the mode"
            f" {spec.start_mode!r} could not be enforced.",
            remedy="Choose another driver, or the mode bypassPermissions.",
        )
    if spec.mode == "plan" and not can.plan_mode:
        raise Invalid(
            f"The driver {spec.driver!r} has no plan mode.", remedy="Choose another driver or mode."
        )
    if found := unkept(spec, can):
        raise Invalid(
            f"The driver {spec.driver!r} cannot keep what is asked for: "
            + "; ".join(f"{field}: {why}" for field, why in found)
            + ".",
            remedy="Leave it out, or choose the driver native.",
        )


def _refuse_budget(
    spec: AgentSpec, can: Capabilities, in_money: bool, environ: Mapping[str, str]
) -> None:
    if (in_money or spec.cap.tokens is not None) and not can.usage:
        raise Invalid(
            f"The driver {spec.driver!r} does not tell what it uses, so no budget could be kept.",
            remedy="Choose another driver, or a budget in turns or seconds.",
        )
    if in_money and is_foreign(spec.driver) and not PROGRAMS[spec.driver].tells_cost:
        raise Invalid(
            f"The driver {spec.driver!r} does not tell what its requests cost, so no budget in"
            " money could be kept.",
            remedy="Give a budget in tokens, turns or seconds, or choose the driver native.",
        )
    if in_money and spec.driver == "native":
        from bullpen.agents.drivers.native.model import check_price

        check_price(native_choice.choose(spec.model, environ))
