"""Who may write in a repository on Gitea, remembered for some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

from bullpen.errors import NotFound, Refused
from bullpen.runs.forge.clients.gitea_answers import CommentAnswer, Permission, Repo, User, Written
from bullpen.runs.forge.clients.gitea_requests import GiteaRequests
from bullpen.team.forge.shown import Comment, Person

TRUST_S = 300.0
"""How long an answer about somebody's rights is used."""

NOBODY = Person("ghost", False)

_MAY_WRITE = ("write", "admin", "owner")


class GiteaPeople:
    """Translates accounts. Trusted is who may write here, by the server's own word."""

    def __init__(
        self,
        requests: GiteaRequests,
        repository: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = requests
        self._repository = repository
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, bool]] = {}
        self._writers: tuple[float, frozenset[str]] | None = None
        self._ours: str | None = None

    async def our_login(self) -> str:
        """Return whose token it is."""
        if self._ours is None:
            self._ours = (await self._requests.get(User, "/user")).login
        return self._ours

    async def comment(self, answer: CommentAnswer, body: str | None = None) -> Comment:
        """Return a comment with its author, and another text if one is given."""
        return Comment(
            id=str(answer.id),
            author=await self.author(answer),
            body=answer.body if body is None else body,
            url=answer.html_url,
            at=answer.created_at,
        )

    async def author(self, written: Written) -> Person:
        """Return who wrote something."""
        if written.original_author:
            # It came with a repository that was moved here. The account is only who moved it.
            return Person(written.original_author, False)
        return NOBODY if written.user is None else await self.person(written.user.login)

    async def person(self, login: str) -> Person:
        """Return an account with what it may do here."""
        known = self._known.get(login)
        if known is None or self._monotonic() - known[0] >= TRUST_S:
            known = self._monotonic(), await self._may_write(login)
            self._known[login] = known
        return Person(login, known[1])

    async def _may_write(self, login: str) -> bool:
        path = f"{self._repository}/collaborators/{quote(login, safe='')}/permission"
        try:
            found = await self._requests.get(Permission, path)
        except NotFound:
            return False
        except Refused:
            # Only administrators of a repository may ask about others.
            return login.casefold() in await self._those_who_write()
        return found.permission in _MAY_WRITE

    async def _those_who_write(self) -> frozenset[str]:
        """Return who can be assigned. Of a person's repository, that is who may write in it."""
        if self._writers is None or self._monotonic() - self._writers[0] >= TRUST_S:
            self._writers = self._monotonic(), await self._read_writers()
        return self._writers[1]

    async def _read_writers(self) -> frozenset[str]:
        found = await self._requests.get(list[User], f"{self._repository}/assignees")
        owner = (await self._requests.get(Repo, self._repository)).owner.login
        logins = frozenset(each.login.casefold() for each in found)
        # In an organization, readers of pull requests can be assigned too.
        return logins if owner.casefold() in logins else frozenset()
