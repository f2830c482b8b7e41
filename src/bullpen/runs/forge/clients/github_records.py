"""Answers of GitHub as the records of Bullpen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from bullpen.runs.forge.contract import TryLater
from bullpen.team.forge.shown import (
    Comment,
    Issue,
    Person,
    PullRequest,
    Repository,
    Review,
    ReviewState,
    Thread,
    VerdictState,
)

P = ParamSpec("P")
T = TypeVar("T")

TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""How GitHub calls those who may write: the association of an author with the repository."""

GHOST = "ghost"
"""How GitHub shows who deleted the account."""

_REVIEWS: Mapping[str, ReviewState] = {
    "APPROVED": "approved",
    "CHANGES_REQUESTED": "changes_requested",
    "COMMENTED": "commented",
    "DISMISSED": "dismissed",
}

_CONCLUSIONS: Mapping[str, VerdictState] = {
    "success": "success",
    "neutral": "skipped",
    "skipped": "skipped",
    "failure": "failure",
    "timed_out": "failure",
    "cancelled": "failure",
    "startup_failure": "failure",
    # Somebody has to allow the job, or GitHub gave it up: there is no verdict yet.
    "action_required": "pending",
    "stale": "pending",
}

_STATUSES: Mapping[str, VerdictState] = {
    "success": "success",
    "failure": "failure",
    "error": "failure",
    "pending": "pending",
}


def _as_documented(translate: Callable[P, T]) -> Callable[P, T]:
    """Let an answer that lacks what GitHub documents be a failure of the forge."""

    @wraps(translate)
    def translated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return translate(*args, **kwargs)
        except (AttributeError, KeyError, TypeError) as error:
            what = f"GitHub's {translate.__name__} is not as documented"
            raise TryLater(f"{what}: {type(error).__name__} {error}") from None

    return translated


def login_of(user: Mapping[str, Any] | None) -> str:
    """Return the name of an account."""
    return str(user["login"]) if user else GHOST


@_as_documented
def author(shown: Mapping[str, Any], trusted: bool | None = None) -> Person:
    """Return who wrote something. `trusted` stands for an association that is not there."""
    association = shown.get("author_association")
    if association is None:
        return Person(login_of(shown.get("user")), bool(trusted))
    known = shown.get("user") is not None
    return Person(login_of(shown.get("user")), known and association in TRUSTED)


@_as_documented
def repository(shown: Mapping[str, Any]) -> Repository:
    """Return a repository."""
    return Repository(
        owner=shown["owner"]["login"],
        name=shown["name"],
        default_branch=shown["default_branch"],
        url=shown["html_url"],
        clone_url=shown["clone_url"],
        may_push=bool((shown.get("permissions") or {}).get("push")),
    )


@_as_documented
def issue(
    shown: Mapping[str, Any],
    person: Person,
    blocked_by: tuple[int, ...] = (),
    children: tuple[int, ...] = (),
) -> Issue:
    """Return an issue."""
    milestone = shown.get("milestone")
    return Issue(
        number=shown["number"],
        title=shown["title"],
        body=shown.get("body") or "",
        author=person,
        is_open=shown["state"] == "open",
        url=shown["html_url"],
        updated=shown["updated_at"],
        labels=labels(shown),
        assignees=tuple(each["login"] for each in shown.get("assignees") or ()),
        milestone=milestone["title"] if milestone else None,
        blocked_by=blocked_by,
        children=children,
    )


def labels(shown: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of labels, which are texts in old answers."""
    found = (each if isinstance(each, str) else each["name"] for each in shown.get("labels") or ())
    return tuple(name for name in found if name)


@_as_documented
def comment(shown: Mapping[str, Any], person: Person) -> Comment:
    """Return a comment."""
    return Comment(
        id=str(shown["id"]),
        author=person,
        body=shown.get("body") or "",
        url=shown["html_url"],
        at=shown["created_at"],
    )


@_as_documented
def pull(shown: Mapping[str, Any], person: Person, owner: str, name: str) -> PullRequest:
    """Return a pull request. A branch of another repository has `OWNER:` before its name."""
    head, merged = shown["head"], shown.get("merged_at") is not None
    home = head.get("repo")
    ours = home is not None and home["full_name"].lower() == f"{owner}/{name}".lower()
    return PullRequest(
        number=shown["number"],
        title=shown["title"],
        body=shown.get("body") or "",
        author=person,
        url=shown["html_url"],
        branch=head["ref"] if ours else f"{login_of(head.get('user'))}:{head['ref']}",
        head=head["sha"],
        base=shown["base"]["ref"],
        is_open=shown["state"] == "open",
        merged=merged,
        mergeable=shown.get("mergeable"),
        # Of an open one it is the commit of a trial.
        merge_commit=shown.get("merge_commit_sha") if merged else None,
        labels=labels(shown),
        draft=bool(shown.get("draft")),
        blocked=shown.get("mergeable_state") == "blocked",
        updated=shown.get("updated_at") or "",
    )


@_as_documented
def review(shown: Mapping[str, Any], person: Person) -> Review | None:
    """Return a review; None if it is not submitted."""
    state = _REVIEWS.get(shown["state"])
    if state is None:
        return None
    return Review(
        id=str(shown["id"]),
        author=person,
        state=state,
        body=shown.get("body") or "",
        commit=shown.get("commit_id") or "",
        url=shown["html_url"],
        at=shown.get("submitted_at") or "",
    )


@_as_documented
def thread(shown: Mapping[str, Any], comments: list[dict[str, Any]]) -> Thread | None:
    """Return a thread; None if nothing of it is submitted."""
    submitted = [each for each in comments if each["state"] == "SUBMITTED"]
    if not submitted:
        return None
    line = shown["line"] if shown["line"] is not None else shown["originalLine"]
    return Thread(
        id=shown["id"],
        path=shown["path"],
        line=line,
        resolved=shown["isResolved"],
        comments=tuple(_thread_comment(each) for each in submitted),
    )


def _thread_comment(shown: Mapping[str, Any]) -> Comment:
    known = shown["author"] is not None
    person = Person(login_of(shown["author"]), known and shown["authorAssociation"] in TRUSTED)
    return Comment(
        str(shown["fullDatabaseId"]), person, shown["body"], shown["url"], shown["createdAt"]
    )


def check_state(shown: Mapping[str, Any]) -> VerdictState:
    """Return the outcome of a check. One that we do not know is no success."""
    if shown["status"] != "completed":
        return "pending"
    return _CONCLUSIONS.get(shown.get("conclusion") or "", "failure")


def status_state(shown: Mapping[str, Any]) -> VerdictState:
    """Return the outcome of a commit status. One that we do not know is no success."""
    return _STATUSES.get(shown["state"], "failure")
