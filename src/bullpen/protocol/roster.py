"""`teams/{team}/config.json`: a team and its members, in every variant seen."""

from __future__ import annotations

from typing import Any, Self

from pydantic import AliasChoices, Field

from bullpen.errors import Invalid
from bullpen.protocol import names
from bullpen.protocol.agent import AgentFacts, TeamFacts
from bullpen.protocol.names import LEAD
from bullpen.protocol.wire import Wire


class Member(Wire):
    """One row of `members`. The lead's row has no prompt, colour or plan flag."""

    agent_id: str = ""
    name: str = Field(min_length=1)
    agent_type: str | None = None
    model: str | None = None
    prompt: str | None = None
    color: str | None = None
    plan_mode_required: bool | None = None
    joined_at: int | float | None = None
    tmux_pane_id: str | None = None
    cwd: str | None = None
    subscriptions: list[Any] | None = None
    backend_type: str | None = None
    is_active: bool | None = None
    mode: str | None = None
    worktree_path: str | None = None
    allowed_tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    bullpen: Any = None

    @property
    def agent(self) -> AgentFacts | None:
        """Our facts about it, if it is an agent of ours.

        Facts that were damaged are none: what is not surely ours is never stopped or replaced.
        """
        try:
            facts = AgentFacts.parse(self.bullpen)
            _ = facts.asked.rights.closed_in, facts.place, facts.used, facts.stands.submitted
            _ = facts.asked.cap, facts.asked.tree, facts.account
        except ValueError:
            return None
        return facts

    @property
    def is_lead(self) -> bool:
        """Whether this is the lead's row."""
        return self.name == LEAD or self.agent_type == LEAD


class TeamConfig(Wire):
    """A team. `teamName` instead of `name` is the seeds' simplified variant."""

    name: str = Field(validation_alias=AliasChoices("name", "teamName"), min_length=1)
    description: str | None = None
    created_at: int | float | None = None
    lead_agent_id: str | None = None
    lead_session_id: str | None = None
    lead_process: dict[str, Any] | None = None
    bullpen: Any = None
    members: list[Any] = Field(default_factory=list)

    _good: tuple[Member, ...] | None = None
    _bad: tuple[tuple[int, str], ...] = ()

    def _sort_rows(self) -> None:
        good: list[Member] = []
        bad: list[tuple[int, str]] = []
        taken: set[str] = set()
        for index, row in enumerate(self.members):
            try:
                member = Member.parse(row)
                names.check_component(member.name, kind="member name")
            except (ValueError, Invalid) as error:
                bad.append((index, str(error)))
                continue
            if member.name in taken:
                bad.append((index, f"another row has the same name {member.name!r}"))
                continue
            taken.add(member.name)
            good.append(member)
        self._good, self._bad = tuple(good), tuple(bad)

    @property
    def roster(self) -> tuple[Member, ...]:
        """The members whose rows can be read, in join order."""
        if self._good is None:
            self._sort_rows()
        return self._good or ()

    @property
    def bad_rows(self) -> tuple[tuple[int, str], ...]:
        """Position and reason of every row that is no member."""
        if self._good is None:
            self._sort_rows()
        return self._bad

    def member(self, name: str) -> Member | None:
        """The member of that name."""
        return next((member for member in self.roster if member.name == name), None)

    def with_member(self, member: Member) -> Self:
        """The team with this member added, or its row replaced."""
        rows = list(self.members)
        for index, row in enumerate(rows):
            if isinstance(row, dict) and row.get("name") == member.name:
                rows[index] = member.raw
                break
        else:
            rows.append(member.raw)
        return self.with_rows(rows)

    def without_member(self, name: str) -> Self:
        """The team without the member of that name."""
        rows = [
            row for row in self.members if not (isinstance(row, dict) and row.get("name") == name)
        ]
        return self.with_rows(rows)

    def with_rows(self, rows: list[Any]) -> Self:
        """The team with exactly these rows of its own."""
        return self._evolved(members=rows)

    @property
    def facts(self) -> TeamFacts:
        """Our facts about the team; all at their defaults for one that another program made."""
        try:
            facts = TeamFacts.parse(self.bullpen or {})
            _ = facts.bounds, facts.lead_lease, facts.result, facts.account
            _ = facts.made_from, facts.habits
        except ValueError:
            return TeamFacts.new()
        return facts

    @property
    def header(self) -> dict[str, Any]:
        """Everything but the members."""
        return {key: value for key, value in self.raw.items() if key != "members"}
