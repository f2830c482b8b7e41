"""`bullpen drivers`: the programs that can take an agent's turns."""

from __future__ import annotations

import os

from bullpen.agents.drivers.survey import survey
from bullpen.doors.cli.agents.drivers_view import show_drivers
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.session import Session


@examples("bullpen drivers", "bullpen drivers --json")
def drivers(session: Session) -> None:
    """List agent programs and what each supports."""

    show_drivers(session.page, survey(os.environ))
