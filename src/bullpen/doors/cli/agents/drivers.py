"""`bullpen drivers`: the programs that can take an agent's turns."""

from __future__ import annotations

import os

from bullpen.agents.drivers.survey import survey, survey_packages
from bullpen.app.package_parts import checked_parts
from bullpen.doors.cli.agents.drivers_view import show_drivers
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.session import Session


@examples("bullpen drivers", "bullpen drivers --json")
def drivers(session: Session) -> None:
    """List agent programs and what each supports."""

    parts = checked_parts("backend", "store", "tool")
    show_drivers(session.page, [*survey(os.environ), *survey_packages()], parts)
