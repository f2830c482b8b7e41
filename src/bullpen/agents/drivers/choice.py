"""The drivers there are, and making one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bullpen.agents.drivers.base import Driver
from bullpen.agents.sandbox import check_sandbox
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


def check_spec(
    spec: AgentSpec, in_money: bool = False, *, environ: Mapping[str, str] | None = None
) -> None:
    """Refuse at spawn what could not be honoured later.

    `in_money` says that a budget in money must be kept; the environment says where the model is.

    Raises:
        Invalid: a driver, tool or script that does not exist; a price that is not known.
        NotFound: the directory to work in does not exist.
        Unavailable: the driver is not installed, or a sandbox is not to be had.
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
    if spec.rights.closed_in is not None:
        check_sandbox()
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
    if (in_money or spec.cap.tokens is not None) and not driver.capabilities.usage:
        raise Invalid(
            f"The driver {driver.name!r} does not tell what it uses, so no budget could be kept.",
            remedy="Choose another driver, or a budget in turns or seconds.",
        )
    if in_money and spec.driver == "native":
        from bullpen.agents.drivers.native.choice import choose
        from bullpen.agents.drivers.native.model import check_price

        check_price(choose(spec.model, environ or {}))
