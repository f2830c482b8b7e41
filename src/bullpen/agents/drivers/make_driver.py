"""Create the driver of an agent, in the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bullpen.agents.contracts.driver import Driver
from bullpen.agents.drivers import native
from bullpen.agents.drivers.registry import factory_of, part_of
from bullpen.agents.drivers.scripted.driver import Scripted
from bullpen.agents.system.vendors import programs
from bullpen.agents.system.vendors.acp_presets import GENERIC, PRESETS
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentSpec


def make_driver(spec: AgentSpec, env: Mapping[str, str], *, limits: Path) -> Driver:
    """The driver that a spec asks for. All agents of a machine share the folder `limits`."""
    # A driver that needs an extra is imported when it is used.
    if spec.driver == "native":
        return native.make(spec, env, limits=limits)
    if spec.driver == "scripted":
        return Scripted(spec)
    if spec.driver in PRESETS or spec.driver == GENERIC.name:
        programs.check_libraries(spec.driver)
        from bullpen.agents.drivers.acp import driver as acp

        return acp.make(spec)
    if spec.driver == programs.CLAUDE_CODE:
        programs.check_libraries(spec.driver)
        from bullpen.agents.drivers.claude_code.driver import ClaudeCodeDriver

        return ClaudeCodeDriver(spec, env)
    return _of_package(spec, env)


def _of_package(spec: AgentSpec, env: Mapping[str, str]) -> Driver:
    """The driver that a package provides. Raises Invalid or Unavailable."""
    part = part_of(spec.driver)
    factory = factory_of(part)
    try:
        driver = factory(spec, env)
    except BullpenError:
        raise
    except Exception as error:
        raise part.broken(f"{type(error).__name__}: {error}") from error
    if driver.capabilities != factory.capabilities:
        # The spawn was judged by what the package declares.
        raise part.broken("it has other capabilities than it declares")
    return driver
