"""The calls of GitHub's REST API about reviews, on what the stand-in remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bullpen.testing.forge.github.rest import Answer, Call, Fails
from bullpen.testing.forge.github.state import CommentRow, ReviewRow, ThreadRow

_STATES = {"COMMENT": "COMMENTED", "APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED"}


def reviews(call: Call) -> Answer:
    number = call.pull().number
    own = call.account
    seen = [
        each
        for each in call.state.reviews
        if each.number == number and (each.state != "PENDING" or each.author == own)
    ]
    return 200, [call.shown.review(each) for each in seen]


def reply(call: Call) -> Answer:
    number, first = call.pull().number, int(call.values["comment_id"])
    for each in call.state.threads:
        if each.number == number and each.comments[0].id == first:
            made = CommentRow(
                call.state.new_id(), call.account, call.body["body"], call.state.now()
            )
            each.comments.append(made)
            call.state.issues[each.number].updated = call.state.now()
            return 201, call.shown.reply(number, each.path, first, made)
    raise Fails(404, "Not Found")


def create_review(call: Call) -> Answer:
    """Post a review with comments on lines of the new side, all of it or nothing."""
    row, body, state = call.pull(), call.body or {}, call.state
    pull = row.pull
    assert pull is not None
    if call.account.permission == "none":
        raise Fails(403, "Resource not accessible by personal access token")
    for each in state.reviews:
        if (each.number, each.state, each.author) == (row.number, "PENDING", call.account):
            words = "User can only have one pending review per pull request"
            raise Fails(422, "Unprocessable Entity", words)
    if body.get("event") not in _STATES:
        raise Fails(422, "This stand-in takes no drafts.")
    commit = body.get("commit_id", pull.head)
    base = state.git.head(pull.base)
    if base is None or not state.git.has(commit):
        raise Fails(422, "Unprocessable Entity", "commit_id is not part of the pull request")
    shown = state.git.lines_shown(base, commit)
    for note in body.get("comments") or ():
        if note["path"] not in shown:
            raise Fails(422, "Unprocessable Entity", "Path could not be resolved")
        if note.get("side") != "RIGHT" or note.get("line") not in shown[note["path"]]:
            raise Fails(422, "Unprocessable Entity", "Line could not be resolved")
    at = state.now()
    made = ReviewRow(
        state.new_id(),
        row.number,
        call.account,
        _STATES[body["event"]],
        body.get("body", ""),
        commit,
        at,
    )
    state.reviews.append(made)
    for note in body.get("comments") or ():
        comment = CommentRow(state.new_id(), call.account, note["body"], at)
        node = f"PRRT_{state.new_id()}"
        thread = ThreadRow(node, row.number, note["path"], note["line"], [comment])
        state.threads.append(thread)
    row.updated = at
    return 200, call.shown.review(made)


CALLS: Mapping[str, Callable[[Call], Answer]] = {
    "pulls/list-reviews": reviews,
    "pulls/create-review": create_review,
    "pulls/create-reply-for-review-comment": reply,
}
