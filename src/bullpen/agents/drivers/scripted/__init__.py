"""The scripted driver: an agent that follows a script."""

from __future__ import annotations

from dataclasses import replace

from bullpen.agents.contracts.driver import EVERYTHING

# A refused call ends the turn unless the step allows it to fail.
CAPABILITIES = replace(EVERYTHING, goes_on=False)
