"""The GraphQL of the stand-in: GitHub's own types, answered by a real executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphql import GraphQLError, graphql_sync

from bullpen.testing.forge.github.published_rules import graphql_schema
from bullpen.testing.forge.github.shown import Shown
from bullpen.testing.forge.github.state import Account, CommentRow, RepositoryState, ThreadRow

_FIRST_MAX = 100


class _Known(GraphQLError):
    """An error that GitHub names."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Graph:
    """Answers queries about one repository for one account."""

    def __init__(self, state: RepositoryState, shown: Shown, account: Account) -> None:
        self._state, self._shown, self._account = state, shown, account

    def answer(self, body: Any) -> tuple[dict[str, Any], list[str]]:
        """Return the answer, and what in the request does not fit GitHub's types."""
        root = {
            "repository": self._repository,
            "node": self._node,
            "viewer": {
                "__typename": "User",
                "id": str(self._account.id),
                "login": self._account.login,
            },
            "resolveReviewThread": self._resolve,
        }
        done = graphql_sync(
            graphql_schema(), body["query"], root, variable_values=body.get("variables")
        )
        wrong, errors = [], []
        for each in done.errors or ():
            known = each.original_error if isinstance(each.original_error, _Known) else each
            kind = getattr(known, "kind", None)
            if kind is None:
                wrong.append(each.message)
            shown = {"message": each.message, "path": each.path}
            errors.append({**shown, "type": kind} if kind else shown)
        answer: dict[str, Any] = {"data": done.data}
        return ({**answer, "errors": errors} if errors else answer), wrong

    def _repository(self, info: Any, owner: str, name: str, **_: Any) -> dict[str, Any]:
        if (owner, name) != (self._state.owner, self._state.name):
            words = f"Could not resolve to a Repository with the name '{owner}/{name}'."
            raise _Known("NOT_FOUND", words)
        return {"id": "R_1", "nameWithOwner": f"{owner}/{name}", "pullRequest": self._pull}

    def _pull(self, info: Any, number: int) -> dict[str, Any]:
        row = self._state.issues.get(number)
        if row is None or row.pull is None:
            words = f"Could not resolve to a PullRequest with the number of {number}."
            raise _Known("NOT_FOUND", words)
        found = [each for each in self._state.threads if each.number == number]
        found = [each for each in found if self._seen(each)]
        return {
            "id": f"PR_{number}",
            "number": number,
            "reviewThreads": _connection(found, self._thread),
        }

    def _node(self, info: Any, **given: Any) -> dict[str, Any]:
        return self._thread(self._find(given["id"]))

    def _resolve(self, info: Any, **given: Any) -> dict[str, Any]:
        row = self._find(given["input"]["threadId"])
        if self._account.permission not in {"admin", "write"}:
            raise _Known("FORBIDDEN", f"{self._account.login} may not resolve it.")
        row.resolved = True
        return {"thread": self._thread(row)}

    def _find(self, node: str) -> ThreadRow:
        for each in self._state.threads:
            if each.id == node:
                return each
        raise _Known("NOT_FOUND", f"Could not resolve to a node with the global id of '{node}'")

    def _seen(self, row: ThreadRow) -> list[CommentRow]:
        return [x for x in row.comments if not x.pending or x.author == self._account]

    def _thread(self, row: ThreadRow) -> dict[str, Any]:
        return {
            "__typename": "PullRequestReviewThread",
            "id": row.id,
            "isResolved": row.resolved,
            "isOutdated": False,
            "path": row.path,
            "line": row.line,
            "originalLine": row.line,
            "comments": _connection(self._seen(row), lambda x: self._comment(row, x)),
        }

    def _comment(self, row: ThreadRow, comment: CommentRow) -> dict[str, Any]:
        author = comment.author
        writes = author is not None and author.permission in {"admin", "write"}
        shown = author and {"__typename": "User", "id": str(author.id), "login": author.login}
        return {
            "__typename": "PullRequestReviewComment",
            "id": f"PRRC_{comment.id}",
            "fullDatabaseId": str(comment.id),
            "author": shown,
            "authorAssociation": "COLLABORATOR" if writes else "NONE",
            "body": comment.body,
            "url": self._shown.line_comment_url(row.number, comment),
            "createdAt": comment.created,
            "state": "PENDING" if comment.pending else "SUBMITTED",
        }


def _connection(rows: Sequence[Any], show: Callable[[Any], dict[str, Any]]) -> Callable[..., Any]:
    def connection(
        info: Any, first: int | None = None, after: str | None = None, **_: Any
    ) -> dict[str, Any]:
        if first is None or not 1 <= first <= _FIRST_MAX:
            raise GraphQLError(f"`first` must be between 1 and {_FIRST_MAX}")
        begin = int(after.removeprefix("cursor:")) if after else 0
        end = min(begin + first, len(rows))
        return {
            "nodes": [show(each) for each in rows[begin:end]],
            "pageInfo": {"endCursor": f"cursor:{end}", "hasNextPage": end < len(rows)},
            "totalCount": len(rows),
        }

    return connection
