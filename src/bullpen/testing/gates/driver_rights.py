"""What every driver promises about permission: it asks first, and obeys."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.errors import Refused
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_stage import Puppet, Stage, needs, started, take


class RightsContract(Stage):
    """Permission, denial, changed calls and plans."""

    async def test_every_call_is_asked_for_before_it_is_made(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        puppet.use_tool("Bash", {"command": f"touch {made}"})
        puppet.say("Done.")
        existed: list[bool] = []

        def look(call: Call) -> Mapping[str, Any]:
            existed.append(made.exists())
            return call.input

        desk.rule = look
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.permissions)
            await take(driver, desk)
        (asked,) = [call for call in desk.wanted if call.kind != "team"]
        assert (asked.tool, asked.kind) == ("Bash", "run")
        assert asked.input["command"] == f"touch {made}"
        assert (existed, made.exists()) == ([False], True)

    async def test_a_driver_that_does_not_declare_permissions_asks_for_nothing(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        puppet.use_tool("Bash", {"command": f"touch {made}"})
        puppet.say("Done.")
        async with started(puppet, desk) as driver:
            needs(not driver.capabilities.permissions)
            await take(driver, desk)
        assert [call for call in desk.wanted if call.kind != "team"] == []
        assert made.exists()

    async def test_a_call_that_is_denied_is_not_made(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        puppet.use_tool("Bash", {"command": f"touch {made}"})
        puppet.say("Then not.")
        # For a program that tells the model about a refusal at once, but says why only later.
        puppet.say("I see why.")

        def deny(call: Call) -> Mapping[str, Any]:
            raise Refused("You may not.", reason="denied")

        desk.rule = deny
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.permissions)
            # A model continues with other things; a script that did not expect it fails.
            with suppress(TurnFailed):
                await take(driver, desk)
        assert desk.wanted
        assert not made.exists()
        asked = puppet.requests(desk)
        if driver.capabilities.goes_on:
            assert any("You may not." in text for text in asked[1:])
        else:
            assert len(asked) == 1

    async def test_what_an_answer_changes_is_what_is_called(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        asked, changed = tmp_path / "asked", tmp_path / "changed"
        puppet.use_tool("Bash", {"command": f"touch {asked}"})
        puppet.say("Done.")
        puppet.say("I see why.")
        desk.rule = lambda _: {"command": f"touch {changed}"}
        async with started(puppet, desk) as driver:
            needs(driver.capabilities.permissions)
            if driver.capabilities.edits:
                await take(driver, desk)
            else:
                # It cannot be called like that, and the original call was not allowed.
                with suppress(TurnFailed):
                    await take(driver, desk)
        assert (asked.exists(), changed.exists()) == (False, driver.capabilities.edits)

    async def test_in_plan_mode_nothing_is_changed(
        self, puppet: Puppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        made = tmp_path / "made"
        puppet.use_tool("Bash", {"command": f"touch {made}"})
        puppet.say("Then not.")
        puppet.say("I see why.")
        planning = replace(desk, spec=puppet.spec.evolve(mode="plan"))

        def only_look(call: Call) -> Mapping[str, Any]:
            if call.kind in ("write", "run"):
                raise Refused("Not before your plan is approved.", reason="denied")
            return call.input

        planning.rule = only_look
        async with started(puppet, planning) as driver:
            needs(driver.capabilities.plan_mode)
            with suppress(TurnFailed):
                await take(driver, planning)
        assert not made.exists()

    async def test_a_plan_reaches_whoever_approves_it(
        self, puppet: Puppet, desk: RecordingDesk
    ) -> None:
        puppet.use_tool("ExitPlanMode", {"plan": "1. Paint the wall.\n2. Let it dry."})
        puppet.say("I wait.")
        planning = replace(desk, spec=puppet.spec.evolve(mode="plan"))
        async with started(puppet, planning) as driver:
            needs(driver.capabilities.plan_mode)
            with suppress(TurnFailed):
                await take(driver, planning)
        (plan,) = [plan for plan in planning.plans if plan is not None]
        assert "2. Let it dry." in plan
