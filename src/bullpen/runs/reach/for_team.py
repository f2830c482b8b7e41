"""Puts together what sends the notices of a team of this home to a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from bullpen.agents.system.folders import agent_folder
from bullpen.agents.system.secrets import redactor_of
from bullpen.app.app import App
from bullpen.app.config.files import Config
from bullpen.app.config.keys import key_named
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.names import LEAD
from bullpen.runs.reach.browsers import Browsers
from bullpen.runs.reach.courier import ProcessCourier
from bullpen.runs.reach.person_notices import PersonNotices
from bullpen.runs.reach.request_links import RequestLinks
from bullpen.runs.reach.targets import Target
from bullpen.runs.reach.web_address import address_of
from bullpen.team.team import Team

_CHECK_S = 30.0


async def person_notices(app: App, team: Team, tell: Callable[[str], None]) -> PersonNotices:
    """What sends the notices of a team to a person. Raises NotFound, Unavailable."""
    home, environ = app.settings.home, dict(os.environ)
    config = await team.agents.config()
    return PersonNotices(
        team,
        kept=agent_folder(home, config, LEAD).parent / "reach.json",
        links=RequestLinks(team, home, lambda: address_of(home, team.name, public_url(home))),
        browsers=Browsers(home),
        courier=ProcessCourier(environ),
        environ=environ,
        redacted=redactor_of(environ).text,
        tell=tell,
    )


async def check_targets(targets: Sequence[Target]) -> None:
    """Check that notices can be sent, before a team starts.

    Raises:
        Invalid: a variable holds no address, or apprise does not know an address.
        Unavailable: the extra is not installed.
    """
    courier = ProcessCourier(dict(os.environ))
    for target in targets:
        if target.is_push:
            continue
        address = target.address(os.environ)
        found = await courier.check(address, timeout_s=_CHECK_S)
        if not found.ok and "pip install" in found.why:
            raise Unavailable(
                f"[[notify]] {target.shown} needs a package: {found.why.partition(':')[0]}.",
                remedy="Run: pip install 'bullpen[notify]'",
            )
        if not found.ok:
            raise Invalid(
                f"[[notify]] {target.shown} cannot be used: {found.why}.",
                remedy="See the address of your service: https://appriseit.com/services/",
            )


def public_url(home: Path) -> str | None:
    """Where a phone reaches the dashboard, as the settings of this machine's person say."""
    config = Config(os.environ, cwd=Path("/"), home=home)
    found = config.value(key_named("public_url")).value
    return found if isinstance(found, str) else None
