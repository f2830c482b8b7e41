"""The drivers there are, and making one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bullpen.agents.drivers.base import Driver
from bullpen.agents.tools.box import check_tools
from bullpen.errors import Invalid, NotFound
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import MODES

DRIVERS = ("native", "scripted")


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
    raise Invalid(
        f"There is no driver {spec.driver!r}.",
        remedy=f"Choose one of these: {', '.join(DRIVERS)}.",
    )


def check_spec(spec: AgentSpec) -> None:
    """Refuse at spawn what could not be honoured later.

    Raises:
        Invalid: a driver, tool or script that does not exist.
        NotFound: the directory to work in does not exist.
        Unavailable: the driver is not installed.
    """
    check_tools([*(spec.tools or ()), *(spec.disallowed_tools or ())])
    if spec.mode is not None and spec.mode not in MODES:
        raise Invalid(
            f"There is no mode {spec.mode!r}.",
            remedy=f"Choose one of these: {', '.join(MODES)}.",
        )
    if not Path(spec.cwd).is_dir():
        raise NotFound(
            f"There is no directory {spec.cwd}.", remedy="Name one that exists with --cwd."
        )
    driver = make_driver(spec, {}, limits=Path())
    if spec.start_mode != "bypassPermissions" and not driver.capabilities.permissions:
        raise Invalid(
            f"The driver {driver.name!r} asks nobody for permission, so the mode"
            f" {spec.start_mode!r} could not be enforced.",
            remedy="Choose another driver, or the mode bypassPermissions.",
        )
    if spec.mode == "plan" and not driver.capabilities.plan_mode:
        raise Invalid(
            f"The driver {driver.name!r} has no plan mode.", remedy="Choose another driver or mode."
        )
    if spec.driver == "scripted" and spec.script is None:
        raise Invalid("A scripted agent needs a script.", remedy="Name one with --script FILE.")
