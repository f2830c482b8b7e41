"""Reviews a pull request of a forge, and posts the verdict there if it is asked to.

What the pull request holds is the work of strangers. It is fetched into a bare repository that is
removed afterwards, and nothing of it is run. The reviewer does not get the token.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from bullpen.agents.system.secrets import Redactor
from bullpen.errors import BullpenError, Conflict, Invalid, Unavailable
from bullpen.protocol.record.review import Verdict
from bullpen.protocol.task import Check
from bullpen.runs.forge.connect import open_client
from bullpen.runs.forge.contract import TRY_LATER, ForgeClient
from bullpen.runs.forge.place import Place, place_of
from bullpen.runs.forge.pushes import Pushes
from bullpen.runs.forge.token import Token, body_redactor, find_token, marker_key, without_token
from bullpen.runs.review.of_range import RangeReview, review_span
from bullpen.runs.review.posting import Posted, Poster
from bullpen.runs.review.pull_forge import NamedForge, forge_meant
from bullpen.runs.review.reviewer import review_folder
from bullpen.team.forge.outside_words import clipped, one_line, visible
from bullpen.team.forge.review_bodies import ReviewOf, lines_shown, posted, review_text
from bullpen.team.forge.shown import PullRequest
from bullpen.workspace.git.repository import common_dir
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.handover.reviewed_work import Span, shown_difference

ASK_S = 120.0
"""How long the forge may take to say what the pull request is."""

_TITLE_MAX = 255
_TEXT_MAX = 10_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PullReview:
    """What came of the review of a pull request."""

    pull: PullRequest
    verdict: Verdict
    # None if the review of this commit was posted before: then nobody reviewed it again.
    review: RangeReview | None = None
    posted: Posted | None = None
    # Why the verdict was not posted.
    failed: BullpenError | None = None


@dataclass(frozen=True, slots=True)
class _There:
    """A repository on a forge, and what is needed to use it."""

    place: Place
    token: Token
    client: ForgeClient
    redactor: Redactor
    home: Path
    cwd: Path
    environ: Mapping[str, str] = field(repr=False)


async def review_pull(
    cwd: str,
    number: int,
    check: Check,
    *,
    named: NamedForge,
    post: bool,
    home: Path,
    environ: Mapping[str, str],
) -> PullReview:
    """Have the change of a pull request reviewed; with `post`, post the verdict as a review there.

    If the same review of the same commit is there already, nobody reviews it again.

    Raises:
        NotFound: there is no token, or no such pull request.
        Invalid: no forge is named, or the pull request changes nothing.
        Refused: the token may not read it (forge_refused).
        CouldNotReview: there is no verdict.
        Unavailable: the forge cannot be reached.
    """
    async with _there(Path(cwd), named, home, environ) as there:
        pull = await _in_time(there.place, there.client.pull(number))
        # Forges do not tell upper and lower case apart in it.
        repository = f"{there.place.host}/{there.place.path}".lower()
        which = ReviewOf(repository, number, pull.head, check)
        if post:
            before = await _posted(there, which)
            if before is not None:
                done, verdict = before
                return PullReview(pull, verdict, posted=done)
        async with review_folder() as folder:
            span = await to_thread.run_sync(_fetched, there, pull, folder / "forge")
            review = await review_span(
                span,
                check,
                folder,
                title=f"Pull request #{number}: {one_line(pull.title, _TITLE_MAX)}",
                description=clipped(visible(pull.body), _TEXT_MAX).strip(),
                nothing=f"Pull request #{number} changes nothing.",
                environ=without_token(environ, there.token),
            )
            verdict = review.answered.words.verdict
            if not post:
                return PullReview(pull, verdict, review)
            shown = lines_shown(await to_thread.run_sync(shown_difference, span))
        return await _with_post(there, pull, which, review, shown)


async def _posted(there: _There, which: ReviewOf) -> tuple[Posted, Verdict] | None:
    """Return the same review if it is there, with its verdict."""
    reviews = await _in_time(there.place, there.client.reviews(which.number))
    login = (await _in_time(there.place, there.client.me())).login
    key = await to_thread.run_sync(marker_key, there.home)
    found = posted(reviews, which, key, account=login)
    return None if found is None else (Posted(found[0].url, is_new=False), found[1])


async def _with_post(
    there: _There,
    pull: PullRequest,
    which: ReviewOf,
    review: RangeReview,
    shown: Mapping[str, frozenset[int]],
) -> PullReview:
    """Return the review with what posting it came to. A verdict is never lost because of that."""
    words = review.answered.words
    try:
        key = await to_thread.run_sync(marker_key, there.home)
        poster = Poster(there.client, there.place, there.home, key)
        made = [
            review_text(words, which, key, shown=lines, clean=there.redactor.text)
            for lines in (shown, {})
        ]
        done = await poster.post(which, *made)
    except BullpenError as error:
        return PullReview(pull, words.verdict, review, failed=error)
    return PullReview(pull, words.verdict, review, posted=done)


@asynccontextmanager
async def _there(
    cwd: Path, named: NamedForge, home: Path, environ: Mapping[str, str]
) -> AsyncIterator[_There]:
    settings = await to_thread.run_sync(forge_meant, named, cwd)
    place = place_of(settings.repository)
    token = find_token(home, place.host, environ, variable=settings.token_env)
    opened = open_client(settings, token)
    try:
        redactor = body_redactor(home, token, environ)
        yield _There(place, token, opened.client, redactor, home, cwd, environ)
    finally:
        with anyio.CancelScope(shield=True), suppress(Exception):
            await opened.aclose()


async def _in_time(place: Place, ask: Awaitable[T]) -> T:
    """Return what the forge says. Raises Unavailable if it takes too long."""
    try:
        with anyio.fail_after(ASK_S):
            return await ask
    except TimeoutError:
        raise Unavailable(
            f"{place.host} did not answer within {ASK_S:g} s.", remedy=TRY_LATER
        ) from None


def _fetched(there: _There, pull: PullRequest, folder: Path) -> Span:
    """Fetch what a pull request adds to its base. It blocks."""
    source: Path | None = None
    with suppress(BullpenError):
        # What the clone has already need not be fetched.
        source = common_dir(there.cwd)
    pushes = Pushes(
        there.home, there.place, there.token, there.redactor, source=source, folder=folder
    )
    base = pushes.fetch(pull.base)
    head = pushes.fetch_pull(pull.number)
    if head != pull.head:
        raise Conflict(
            f"Pull request #{pull.number} was changed while it was read.",
            remedy="Run the same command again.",
        )
    found = Git(folder).run("merge-base", base, head)
    if not found.ok:
        raise Invalid(
            f"Pull request #{pull.number} has no commit in common with {pull.base}.",
            remedy="In a shallow clone, fetch the rest first: git fetch --unshallow",
        )
    return Span(folder, found.out.strip(), head)
