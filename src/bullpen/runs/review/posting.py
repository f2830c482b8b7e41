"""Posts a review on a forge, once: whoever posts looks first.

A post may have happened although it failed, and a process may be killed after it. The mark in the
text of the review says so to the next one. On this machine, only one process posts to a pull
request at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.errors import BullpenError, Conflict, Refused, Unavailable
from bullpen.runs.forge.contract import ForgeClient, LinesRefused, TryLater
from bullpen.runs.forge.place import Place
from bullpen.runs.forge.token import forge_folder
from bullpen.store.private_folder import make_private
from bullpen.team.forge.review_bodies import ReviewOf, ReviewText, posted
from bullpen.workspace.git.marks import write_errors
from bullpen.workspace.git.ref_names import component
from bullpen.workspace.merge_queue.lock import only_holder

POST_S = 180.0
"""How long posting may take, with all its tries."""

TRIES_MAX = 4
_WAIT_S = 2.0

AGAIN = "Run the same command again: what is posted already is not posted twice."
_LOOK = "Look at the pull request. If its commits were replaced, run the same command again."
_NO_RIGHT = ("refused (403)", "answered 403", "not accessible by")
_RIGHTS = (
    "Give the token the right to read contents and to write pull requests (GitHub: Pull requests"
    " and Contents; Gitea: write:repository and write:issue), then run the same command again."
)


@dataclass(frozen=True, slots=True)
class Posted:
    """A review on the forge, and whether it was posted now."""

    url: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class Poster:
    """Posts reviews with one client."""

    client: ForgeClient
    place: Place
    home: Path
    key: bytes
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep

    async def post(self, which: ReviewOf, text: ReviewText, without_lines: ReviewText) -> Posted:
        """Post a review unless it is there.

        `without_lines` has all comments in its text, for a forge that refuses one on a line.

        Raises:
            Refused: the token may not do that, or the forge does not take it (forge_refused).
            Conflict: the account has an unsubmitted review there, or another process posts now.
            Unavailable: the forge cannot be reached. It may have happened.
        """
        try:
            with anyio.fail_after(POST_S):
                return await self._post(which, [text, text, *[without_lines] * (TRIES_MAX - 2)])
        except TimeoutError:
            raise Unavailable(
                f"{self.place.host} did not take the review within {POST_S:g} s.", remedy=AGAIN
            ) from None

    async def _post(self, which: ReviewOf, texts: list[ReviewText]) -> Posted:
        last: BullpenError | None = None
        while texts:
            try:
                return await self._tried(which, texts.pop(0))
            except LinesRefused as refused:
                last, texts = refused, [each for each in texts if not each.comments]
            except (TryLater, Conflict) as later:
                last = later
                waits = later.after_s if isinstance(later, TryLater) else None
                if waits is not None and waits >= POST_S:
                    break
                await self.sleep(_WAIT_S if waits is None else waits)
            except Refused as refused:
                raise _refused(which, refused) from None
        assert last is not None
        if not isinstance(last, TryLater):
            raise last
        with suppress(BullpenError):
            # The last try may have posted it.
            found = await self._found(which)
            if found is not None:
                return found
        raise Unavailable(
            f"The review of #{which.number} may not be posted: {last.message}",
            remedy=AGAIN,
        ) from None

    async def _tried(self, which: ReviewOf, text: ReviewText) -> Posted:
        path = await to_thread.run_sync(self._lock, which)
        with only_holder(path, lambda holder: f"{holder} posts to #{which.number} now."):
            login = (await self.client.me()).login
            found = posted(await self.client.reviews(which.number), which, self.key, account=login)
            if found is not None:
                return Posted(found[0].url, is_new=False)
            made = await self.client.post_review(
                which.number, commit=which.head, body=text.body, comments=text.comments
            )
        return Posted(made.url, is_new=True)

    async def _found(self, which: ReviewOf) -> Posted | None:
        login = (await self.client.me()).login
        reviews = await self.client.reviews(which.number)
        found = posted(reviews, which, self.key, account=login)
        return None if found is None else Posted(found[0].url, is_new=False)

    def _lock(self, which: ReviewOf) -> Path:
        name = component(f"{which.repository}/{which.number}")
        path = forge_folder(self.home) / f"posting-{name}.lock"
        with write_errors(path):
            make_private(path.parent)
        return path


def _refused(which: ReviewOf, refused: Refused) -> Refused:
    """Return the error for a review that the forge does not take."""
    remedy = refused.remedy if "accept the token" in refused.message else _LOOK
    if any(words in refused.message for words in _NO_RIGHT):
        remedy = _RIGHTS
    return Refused(
        f"The review of #{which.number} was not posted: {refused.message}",
        reason="forge_refused",
        remedy=remedy,
    )
