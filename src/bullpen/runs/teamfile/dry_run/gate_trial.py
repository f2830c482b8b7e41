"""Runs the merge gate of a team file once on its target, before anybody works on anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.agents.work.merge_checks import try_gate
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Check
from bullpen.runs.teamfile.team_records import merge_settings
from bullpen.runs.up import StartRequest
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.view.text import one_line, shortened, within_sentence

GATE_S = 120.0
"""How long the gate may take before the team starts. The merge queue has its own limits."""


async def gate_warning(
    home: Path, request: StartRequest, specs: Mapping[str, AgentSpec], *, seconds: float = GATE_S
) -> str | None:
    """Return why nothing can be merged now, or why that is not known; None if the gate passes.

    It runs as in the merge queue, in the sandbox that the members have, in a worktree that is
    removed again. `specs` are all members, by name.
    """
    table = request.file.merge
    if table is None or not table.gate:
        return None
    failed: Check | None = None
    try:
        settings = await to_thread.run_sync(merge_settings, table, request.cwd)
        teams = Teams(MemoryStore())
        name = request.file.team.name
        await teams.create(name, cwd=request.cwd)
        team = teams.open(name)
        for number, (member, spec) in enumerate(specs.items()):
            await team.agents.register(member, spec, by=LEAD, nonce=f"gate-{number}")
        with anyio.move_on_after(seconds) as scope:
            failed = await try_gate(team, settings, home=home, environ=os.environ)
        if scope.cancelled_caught:
            return (
                f"the gate was stopped after {seconds:g} s, so nobody knows whether it passes on"
                f" {settings.target} now."
            )
    except BullpenError as error:
        return f"the gate could not be tried: {within_sentence(str(error))}"
    if failed is None:
        return None
    return (
        f"the gate fails on {settings.target} now ({_reason(failed)}); nothing will be merged"
        " until it passes."
    )


def _reason(failed: Check) -> str:
    """Return the last line of the output, which says why most often."""
    lines = [line.strip() for line in (failed.detail or "").splitlines() if line.strip()]
    return shortened(one_line(lines[-1] if lines else failed.name))
