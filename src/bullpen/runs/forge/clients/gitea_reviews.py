"""Reviews of a pull request on Gitea, and the threads on its lines."""

from __future__ import annotations

from collections.abc import Sequence

from bullpen.errors import Conflict, NotFound
from bullpen.runs.forge.clients.gitea_answers import REVIEW_STATES, LineComment, ReviewAnswer
from bullpen.runs.forge.clients.gitea_people import GiteaPeople
from bullpen.runs.forge.clients.gitea_requests import GiteaRequests
from bullpen.runs.forge.clients.gitea_threads import LineThread, marked, threads_of, unmarked
from bullpen.runs.forge.contract import LOOK_THERE, SUBMIT_FIRST, TryLater
from bullpen.team.forge.shown import Comment, LineRemark, Review, Thread

_DRAFT = "PENDING"


class GiteaReviews:
    """Reviews and threads of one repository."""

    def __init__(self, requests: GiteaRequests, repository: str, people: GiteaPeople) -> None:
        self._requests = requests
        self._at = repository
        self._people = people
        self._knows_replies = True
        # The threads of each pull request as they were shown last.
        self._shown: dict[int, list[LineThread]] = {}

    async def reviews(self, number: int) -> list[Review]:
        """Return the reviews of a pull request, oldest first, without those not submitted yet."""
        return [await self._review(each) for each in await self._submitted(number)]

    async def _review(self, answer: ReviewAnswer) -> Review:
        return Review(
            id=str(answer.id),
            author=await self._people.author(answer),
            state="dismissed" if answer.dismissed else REVIEW_STATES[answer.state],
            body=answer.body,
            commit=answer.commit_id,
            url=answer.html_url,
            at=answer.submitted_at,
        )

    async def post(
        self, number: int, commit: str, body: str, comments: Sequence[LineRemark]
    ) -> Review:
        """Post a review with comments on lines.

        The server keeps each comment in the account's draft, and submits that at the end. So a
        draft that is there would be submitted with it.
        """
        await self._refuse_draft(number, {_end_of(each.body) for each in comments})
        notes = [
            {"path": each.path, "new_position": each.line, "body": each.body} for each in comments
        ]
        made = await self._requests.send(
            ReviewAnswer,
            "POST",
            f"{self._at}/pulls/{number}/reviews",
            {"event": "COMMENT", "body": body, "commit_id": commit, "comments": notes},
        )
        if made.state not in REVIEW_STATES:
            raise TryLater(f"The review of #{number} is not submitted.")
        return await self._review(made)

    async def _refuse_draft(self, number: int, ends: set[str]) -> None:
        """Refuse to submit a person's draft. One that an earlier try left behind is deleted.

        That is one whose comments all end with the mark of those that are posted now.
        """
        path = f"{self._at}/pulls/{number}/reviews"
        ours = (await self._people.our_login()).casefold()
        for each in await self._requests.all(ReviewAnswer, path):
            if each.state != _DRAFT or each.user is None or each.user.login.casefold() != ours:
                continue
            found = {_end_of(one.body) for one in await self._comments_of(number, each.id)}
            if each.body or not found or not found <= ends or not all(map(_is_mark, found)):
                raise Conflict(
                    f"{each.user.login} has a review of #{number} that is not submitted.",
                    remedy=SUBMIT_FIRST,
                )
            await self._requests.do("DELETE", f"{path}/{each.id}")

    async def threads(self, number: int) -> list[Thread]:
        """Return the threads on lines of a pull request, oldest first, with all their comments."""
        self._shown[number] = await self._found(number)
        return [await self._thread(each) for each in self._shown[number]]

    async def reply(self, number: int, thread: Thread, body: str) -> Comment:
        """Answer in a thread."""
        place = await self._place(number, thread)
        first = place.comments[0]
        if self._knows_replies:
            path = f"{self._at}/pulls/{number}/comments/{first.id}/replies"
            try:
                made = await self._requests.send(LineComment, "POST", path, {"body": body})
                place.comments.append(made)
                return await self._comment(made)
            except NotFound:
                # If the comment is still there, it is the call that is missing.
                self._shown.pop(number, None)
                place = await self._place(number, thread)
                first = place.comments[0]
                self._knows_replies = False
        return await self._reply_by_review(number, place, body)

    async def resolve(self, number: int, thread: Thread) -> bool:
        """Mark a thread as resolved. Returns False if this version has no call for that."""
        place = await self._place(number, thread)
        if place.resolved:
            return True
        for first in place.beginnings:
            try:
                await self._requests.do("POST", f"{self._at}/pulls/comments/{first.id}/resolve")
            except NotFound:
                self._shown.pop(number, None)
                await self._place(number, thread)
                return False
        return True

    async def _submitted(self, number: int) -> list[ReviewAnswer]:
        path = f"{self._at}/pulls/{number}/reviews"
        found = await self._requests.all(ReviewAnswer, path)
        submitted = [each for each in found if each.state in REVIEW_STATES]
        return sorted(submitted, key=lambda each: each.id)

    async def _found(self, number: int) -> list[LineThread]:
        comments: list[LineComment] = []
        for review in await self._submitted(number):
            if review.comments_count:
                comments += await self._comments_of(number, review.id)
        return threads_of(comments, await self._people.our_login())

    async def _comments_of(self, number: int, review: int) -> list[LineComment]:
        path = f"{self._at}/pulls/{number}/reviews/{review}/comments"
        return await self._requests.get(list[LineComment], path)

    async def _place(self, number: int, thread: Thread) -> LineThread:
        """Return a thread as it was shown last, or as it is. One read may take many requests."""
        for each in self._shown.get(number, ()):
            if each.id == thread.id:
                return each
        self._shown[number] = await self._found(number)
        for each in self._shown[number]:
            if each.id == thread.id:
                return each
        raise NotFound(f"#{number} has no such thread at {thread.path}.", remedy=LOOK_THERE)

    async def _reply_by_review(self, number: int, place: LineThread, body: str) -> Comment:
        """Answer by a review with one comment on the same line."""
        first = place.comments[0]
        side = "new_position" if place.line > 0 else "old_position"
        text = marked(body, first.id)
        comment = {"path": place.path, "body": text, side: abs(place.line)}
        review = await self._requests.send(
            ReviewAnswer,
            "POST",
            f"{self._at}/pulls/{number}/reviews",
            # At the commit that was commented on: the line may be gone since.
            {"event": "COMMENT", "body": "", "commit_id": first.commit_id, "comments": [comment]},
        )
        for each in await self._comments_of(number, review.id):
            if each.body == text:
                place.comments.append(each)
                return await self._comment(each)
        raise TryLater(f"The answer in #{number} is written, but not shown yet.")

    async def _comment(self, answer: LineComment) -> Comment:
        body = unmarked(answer, await self._people.our_login())
        return await self._people.comment(answer, body)

    async def _thread(self, place: LineThread) -> Thread:
        return Thread(
            id=place.id,
            path=place.path,
            line=abs(place.line) or None,
            resolved=place.resolved,
            comments=tuple([await self._comment(each) for each in place.comments]),
        )


def _end_of(body: str) -> str:
    return body.rstrip().rpartition("\n")[2]


def _is_mark(line: str) -> bool:
    return line.startswith("<!-- ") and line.endswith(" -->")
