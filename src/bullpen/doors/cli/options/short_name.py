"""The short name of the lead, in every option and argument that names a member."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

from bullpen.doors.cli.options import completion
from bullpen.doors.cli.session import Session
from bullpen.errors import BullpenError
from bullpen.protocol.names import LEAD, SHORT_LEAD
from bullpen.team.team import Team

_NAME_MEMBERS = (completion.member_names, completion.receivers)
_AS = "common_as"


def with_lead_named(
    session: Session, values: Mapping[str, Any], parameters: Iterable[inspect.Parameter]
) -> dict[str, Any]:
    """The values of a command, in which the lead has its name where it was called `lead`.

    Screens call it so. If a member has that name, it is meant.
    """
    offers = {each.name: list(_offered(each)) for each in parameters}
    named = {
        name
        for name, value in values.items()
        if set(_NAME_MEMBERS) & set(offers.get(name, ())) and _is_short(value)
    }
    acts = session.acts_as == SHORT_LEAD
    teams = [values[name] for name, found in offers.items() if completion.team_names in found]
    if not (named or acts) or not _lead_is_meant(session, next(iter(teams), None)):
        return dict(values)
    if acts:
        session.act_as(LEAD)
    return {name: _full(value) if name in named else value for name, value in values.items()}


def _offered(parameter: inspect.Parameter) -> Iterator[Any]:
    """What completes a parameter in a shell."""
    for info in get_args(parameter.annotation)[1:]:
        yield getattr(info, "autocompletion", None)


def _is_short(value: Any) -> bool:
    return value == SHORT_LEAD or (isinstance(value, list) and SHORT_LEAD in value)


def _full(value: Any) -> Any:
    if isinstance(value, list):
        return [LEAD if each == SHORT_LEAD else each for each in value]
    return LEAD


def _lead_is_meant(session: Session, team: str | None) -> bool:
    """Whether the team has a lead, and no member that is really called so."""

    async def look(team: Team) -> bool:
        config = await team.agents.config()
        return config.member(SHORT_LEAD) is None and config.member(LEAD) is not None

    with suppress(BullpenError):
        return session.with_team(look, name=team)
    # The command itself says what is wrong with the team.
    return False
