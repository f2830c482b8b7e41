"""Who lives at a mirror, and what it shows of the roster. Pure.

A mirror acts only for its residents: what others seem to have said or done in its home does not
count. Facts about one machine (panes, processes, Bullpen's facts about agents) stay there: a
program must not take a pane of another machine for one of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bullpen.protocol.names import LEAD
from bullpen.protocol.team import Member, TeamConfig

_OWN_FIELDS = frozenset({"bullpen", "leadProcess", "members"})
FIXED_FIELDS = _OWN_FIELDS | {"name", "createdAt"}
"""Fields of a team that no home may change."""

_OWN_ROW_KEYS = frozenset({"bullpen"})
_PANE = "tmuxPaneId"
_LEADERS_PANE = "leader"


@dataclass(frozen=True, slots=True)
class Residents:
    """The members that were named or joined here; with none named, all but Bullpen's agents."""

    named: Collection[str]
    born: Collection[str]

    def has(self, team: TeamConfig, name: str) -> bool:
        """Return whether that member acts through this mirror and gets its mail here."""
        if self.named:
            return name in self.named or name in self.born
        member = team.member(name)
        return member is None or member.agent is None

    def names(self, team: TeamConfig) -> list[str]:
        """Return the members that live here."""
        return [member.name for member in team.roster if self.has(team, member.name)]

    def lead(self, team: TeamConfig) -> str | None:
        """Return the lead, if it lives here."""
        name = next((member.name for member in team.roster if member.is_lead), LEAD)
        return name if self.has(team, name) else None

    def row(self, team: TeamConfig, member: Member) -> Member:
        """Return a member's entry as this home shows it."""
        raw = {key: value for key, value in member.raw.items() if key not in _OWN_ROW_KEYS}
        if not self.has(team, member.name) and raw.get(_PANE) not in (None, _LEADERS_PANE):
            raw[_PANE] = ""
        return Member.parse(raw)

    def config(self, team: TeamConfig) -> TeamConfig:
        """Return the whole team as this home shows it."""
        rows = [self.row(team, member).raw for member in team.roster]
        return TeamConfig.parse({**fields(team.header), "members": rows})


def fields(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a team that a home shows."""
    return {
        key: value for key, value in header.items() if key not in _OWN_FIELDS and value is not None
    }


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what has to be set to get from one to the other; None means removed."""
    new = {key: value for key, value in after.items() if before.get(key) != value}
    return {**new, **{key: None for key in before if key not in after}}


def merged_row(member: Member, before: Mapping[str, Any], after: Mapping[str, Any]) -> Member:
    """Return an entry with a home's changes to it."""
    changes = changed(before, after)
    kept = {**member.raw, **{key: changes[key] for key in changes if key not in _OWN_ROW_KEYS}}
    return Member.parse(
        {key: value for key, value in kept.items() if value is not None or key not in changes}
    )
