"""Finding the requests of one team or of all, and the one that somebody means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bullpen.errors import BullpenError, NotFound, Refused
from bullpen.protocol.clock import now_ms
from bullpen.protocol.request import Request
from bullpen.team.lookup import listed
from bullpen.team.requests import rules as request_rules
from bullpen.team.requests.handles import handles, named
from bullpen.team.team import Teams

_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class FoundRequest:
    """A request with its team, the handle to type for it, and where the asker works."""

    team: str
    request: Request
    handle: str
    cwd: str | None

    def waits(self, now: int) -> bool:
        """Whether it can still be answered."""
        return self.request.state == "pending" and not request_rules.is_overdue(self.request, now)


@dataclass(frozen=True, slots=True)
class Search:
    """All requests that were found, oldest first, and the teams that could not be read."""

    found: tuple[FoundRequest, ...]
    problems: tuple[str, ...] = ()

    @property
    def waiting(self) -> list[FoundRequest]:
        """Those that can still be answered."""
        now = now_ms()
        return [each for each in self.found if each.waits(now)]

    def one_to_see(self, wanted: str) -> FoundRequest:
        """The request that somebody wants to look at; one that waits goes before others.

        Raises:
            NotFound: there is none.
            Refused: there are several (ambiguous).
        """
        meant = _named(self.found, wanted)
        waiting = [each for each in _named(self.waiting, wanted) if each in meant]
        return _only(waiting or meant, wanted, self)

    def one_to_answer(self, wanted: str | None) -> FoundRequest:
        """The request that somebody answers: the one named, or the only one that waits.

        One that waits no more is found too, so that the answer to it is refused with the reason.
        Whether to end is for an agent to answer: that must be named.

        Raises:
            NotFound: there is none.
            Refused: there are several (ambiguous).
        """
        waiting = self.waiting
        if wanted is not None:
            meant = _named(waiting, wanted) or _named(self.found, wanted)[-1:]
            return _only(meant, wanted, self)
        waiting = [each for each in waiting if each.request.kind != "shutdown"]
        if not waiting:
            raise NotFound("No request waits for an answer.", remedy="See: bullpen requests --all")
        return _only(waiting, None, self)


async def search(teams: Teams, team: str | None) -> Search:
    """The requests of the team that is named, else of all teams there are.

    Raises:
        NotFound: there is no such team.
    """
    if team is not None:
        return Search(tuple(await _of_team(teams, team)))
    found: list[FoundRequest] = []
    problems: list[str] = []
    for name in await teams.names():
        try:
            found += await _of_team(teams, name)
        except NotFound:
            # Deleted since the names were read.
            continue
        except BullpenError as error:
            problems.append(f"team {name}: {error.message}")
    found.sort(key=lambda each: (each.request.created_ms, each.request.id))
    return Search(tuple(found), tuple(problems))


async def _of_team(teams: Teams, name: str) -> list[FoundRequest]:
    team = teams.open(name)
    config = await team.agents.config()
    requests = (await team.approvals.all()).values()
    short = handles(request for request in requests if request.state == "pending")
    places = {
        member.name: member.agent.spec.cwd if member.agent is not None else member.cwd
        for member in config.roster
    }
    ordered = sorted(requests, key=lambda request: (request.created_ms, request.id))
    return [
        FoundRequest(name, request, short.get(request.id, request.id), places.get(request.sender))
        for request in ordered
    ]


def _named(found: Iterable[FoundRequest], wanted: str) -> list[FoundRequest]:
    there = list(found)
    meant = {request.id for request in named((each.request for each in there), wanted)}
    return [each for each in there if each.request.id in meant]


def _only(meant: Sequence[FoundRequest], wanted: str | None, search: Search) -> FoundRequest:
    if len(meant) == 1:
        return meant[0]
    if not meant:
        waiting = _listed(search.waiting)
        raise NotFound(
            f"There is no request {wanted!r}.",
            remedy=f"These requests wait: {waiting}."
            if waiting
            else "No request waits for an answer.",
        )
    begins = f"Several requests match {wanted!r}" if wanted else "Several requests wait"
    raise Refused(
        f"{begins}: {_listed(meant)}.",
        reason="ambiguous",
        remedy="Name one of them; see: bullpen requests",
    )


def _listed(found: Sequence[FoundRequest]) -> str:
    said = (f"{each.handle} ({each.request.sender}, {each.request.kind})" for each in found)
    return listed(said, shown_max=_NAMED_MAX)
