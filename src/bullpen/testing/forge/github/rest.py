"""The calls of GitHub's REST API, on what the stand-in remembers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bullpen.testing.forge.github.bare_repository import MergeFails
from bullpen.testing.forge.github.shown import Shown
from bullpen.testing.forge.github.state import (
    Account,
    IssueRow,
    PullRow,
    RepositoryState,
)


class Fails(Exception):
    """A call that GitHub answers with an error."""

    def __init__(self, status: int, message: str, *errors: Mapping[str, Any] | str) -> None:
        super().__init__(message)
        self.status = status
        self.content: dict[str, Any] = {
            "message": message,
            "documentation_url": "https://docs.github.com/rest",
            "status": str(status),
        }
        if errors:
            self.content["errors"] = list(errors)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, and on what it acts."""

    state: RepositoryState
    shown: Shown
    account: Account
    values: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    def issue(self, name: str = "issue_number") -> IssueRow:
        """Return the issue or pull request that the path names."""
        row = self.state.issues.get(int(self.values[name]))
        if row is None:
            raise Fails(404, "Not Found")
        return row

    def pull(self) -> IssueRow:
        """Return the pull request that the path names."""
        row = self.issue("pull_number")
        if row.pull is None:
            raise Fails(404, "Not Found")
        return row

    @property
    def may_write(self) -> bool:
        """Return whether the account may write in the repository."""
        return self.account.permission in {"admin", "write"}

    def must_write(self) -> None:
        """Refuse an account that may not write."""
        if not self.may_write:
            raise Fails(403, "Must have admin rights to Repository.")


Answer = tuple[int, Any]
"""A status and content. A list is cut into pages by who sends it."""


def me(call: Call) -> Answer:
    if call.account.is_app:
        raise Fails(403, "Resource not accessible by integration")
    return 200, call.shown.me(call.account)


def repository(call: Call) -> Answer:
    return 200, call.shown.repository(call.account)


def permission(call: Call) -> Answer:
    found = call.state.accounts.get(call.values["username"])
    if found is None:
        raise Fails(404, "Not Found")
    user = {**call.shown.user(found), "name": None, "email": None}
    role = found.permission
    return 200, {"permission": role, "role_name": role, "user": user}


# Issues


def issues(call: Call) -> Answer:
    query = call.query
    wanted = {each.lower() for each in query.get("labels", "").split(",") if each}
    found = []
    for row in call.state.issues.values():
        labels = {each.lower() for each in row.labels}
        milestone = str(call.state.milestones.get(row.milestone or "", ""))
        if (
            query.get("state", "open") in {row.state, "all"}
            and wanted <= labels
            and query.get("assignee", "*") in {"*", *(each.login for each in row.assignees)}
            and query.get("milestone", "*") in {"*", milestone}
        ):
            found.append(call.shown.issue(row))
    return 200, _in_direction(found, query)


def search(call: Call) -> Answer:
    found = list(call.state.issues.values())
    for word in shlex.split(call.query["q"].replace("'", "\\'")):
        kind, _, value = word.partition(":")
        found = [row for row in found if _fits(call.state, row, kind, value, word)]
    rows = [call.shown.found_issue(row) for row in found]
    per_page, page = int(call.query.get("per_page", 30)), int(call.query.get("page", 1))
    items = _in_direction(rows, {"direction": call.query.get("order", "desc")})
    part = items[(page - 1) * per_page : page * per_page]
    found_all = {"total_count": len(rows), "incomplete_results": False}
    return 200, {**found_all, "search_type": "lexical", "items": part}


def _fits(state: RepositoryState, row: IssueRow, kind: str, value: str, word: str) -> bool:
    if kind == "repo":
        return value.lower() == f"{state.owner}/{state.name}".lower()
    if kind == "is":
        types = "pr" if row.pull else "issue"
        return value in {row.state, types}
    if kind == "label":
        return value.lower() in {each.lower() for each in row.labels}
    if kind == "assignee":
        return value in {each.login for each in row.assignees}
    if kind == "milestone":
        return value == row.milestone
    return word.lower() in f"{row.title} {row.body}".lower()


def issue(call: Call) -> Answer:
    return 200, call.shown.issue(call.issue())


def update_issue(call: Call) -> Answer:
    row, body = call.issue(), call.body or {}
    if row.author != call.account:
        call.must_write()
    row.title, row.body = body.get("title", row.title), body.get("body", row.body)
    if body.get("state") == "closed":
        call.state.close(row)
    elif body.get("state") == "open":
        row.state, row.closed = "open", None
    row.updated = call.state.now()
    return 200, call.shown.issue(row)


def comments(call: Call) -> Answer:
    row = call.issue()
    return 200, [call.shown.comment(row, each) for each in row.comments]


def create_comment(call: Call) -> Answer:
    row = call.issue()
    return 201, call.shown.comment(row, call.state.comment(row, call.account, call.body["body"]))


def update_comment(call: Call) -> Answer:
    wanted = int(call.values["comment_id"])
    for row in call.state.issues.values():
        for each in row.comments:
            if each.id == wanted:
                if each.author != call.account:
                    call.must_write()
                each.body = call.body["body"]
                return 200, call.shown.comment(row, each)
    raise Fails(404, "Not Found")


def blocked_by(call: Call) -> Answer:
    numbers = call.issue().blocked_by
    return 200, [call.shown.issue(call.state.issues[each]) for each in numbers]


def sub_issues(call: Call) -> Answer:
    numbers = call.issue().children
    return 200, [call.shown.issue(call.state.issues[each]) for each in numbers]


def milestones(call: Call) -> Answer:
    return 200, [call.shown.milestone(each) for each in call.state.milestones]


# Labels


def label(call: Call) -> Answer:
    found = call.state.labels.get(call.values["name"].lower())
    if found is None:
        raise Fails(404, "Not Found")
    return 200, call.shown.label(found)


def create_label(call: Call) -> Answer:
    call.must_write()
    name = call.body["name"]
    if name.lower() in call.state.labels:
        error = {"resource": "Label", "code": "already_exists", "field": "name"}
        raise Fails(422, "Validation Failed", error)
    call.state.ensure_labels([name])
    return 201, call.shown.label(name)


def labels_of(call: Call) -> Answer:
    return 200, [call.shown.label(each) for each in call.issue().labels]


def add_labels(call: Call) -> Answer:
    row = call.issue()
    call.must_write()
    names = call.body["labels"] if isinstance(call.body, dict) else call.body
    missing = [each for each in names if each.lower() not in call.state.labels]
    if missing:
        # GitHub creates them. That is not documented, so nobody should count on it.
        raise Fails(422, "Validation Failed", {"resource": "Label", "code": "missing"})
    row.labels += [each for each in call.state.ensure_labels(names) if each not in row.labels]
    row.updated = call.state.now()
    return labels_of(call)


def remove_label(call: Call) -> Answer:
    row = call.issue()
    call.must_write()
    name = call.values["name"].lower()
    if name not in {each.lower() for each in row.labels}:
        raise Fails(404, "Label does not exist")
    row.labels = [each for each in row.labels if each.lower() != name]
    row.updated = call.state.now()
    return labels_of(call)


# Branches


def get_ref(call: Call) -> Answer:
    ref = call.values["ref"]
    commit = call.state.git.head(ref.removeprefix("heads/")) if ref.startswith("heads/") else None
    if commit is None:
        raise Fails(404, "Not Found")
    url = f"{call.shown.api}/git"
    found = {"type": "commit", "sha": commit, "url": f"{url}/commits/{commit}"}
    return 200, {"ref": f"refs/{ref}", "node_id": "x", "url": f"{url}/{ref}", "object": found}


def delete_ref(call: Call) -> Answer:
    call.must_write()
    branch = call.values["ref"].removeprefix("heads/")
    if call.state.git.head(branch) is None:
        raise Fails(422, "Reference does not exist")
    call.state.git.delete(branch)
    call.state.moved()
    return 204, None


# Pull requests


def pulls(call: Call) -> Answer:
    query, state = call.query, call.state
    found = []
    for row in state.issues.values():
        pull = row.pull
        if pull is None or query.get("state", "open") not in {row.state, "all"}:
            continue
        head = f"{(pull.fork or state.owner).partition('/')[0]}:{pull.branch}"
        if query.get("head", head) == head and query.get("base", pull.base) == pull.base:
            found.append(call.shown.pull(row, listed=True))
    return 200, _in_direction(found, query)


def create_pull(call: Call) -> Answer:
    state, body = call.state, call.body
    call.must_write()
    head, base = state.git.head(body["head"]), body["base"]
    for name, commit in (("head", head), ("base", state.git.head(base))):
        if commit is None:
            error = {"resource": "PullRequest", "field": name, "code": "invalid"}
            raise Fails(422, "Validation Failed", error)
    for row in state.issues.values():
        pull = row.pull
        if pull and row.state == "open" and (pull.branch, pull.base) == (body["head"], base):
            where = f"{state.owner}:{body['head']}"
            words = f"A pull request already exists for {where}."
            error = {"resource": "PullRequest", "code": "custom", "message": words}
            raise Fails(422, "Validation Failed", error)
    assert head is not None
    if state.git.contains(base, head):
        words = f"No commits between {base} and {body['head']}"
        error = {"resource": "PullRequest", "code": "custom", "message": words}
        raise Fails(422, "Validation Failed", error)
    pull = PullRow(body["head"], base, head, bool(body.get("draft")))
    row = state.add_issue(call.account, body["title"], body.get("body"), pull)
    return 201, call.shown.pull(row)


def get_pull(call: Call) -> Answer:
    return 200, call.shown.pull(call.pull())


def update_pull(call: Call) -> Answer:
    row, body = call.pull(), call.body or {}
    if row.author != call.account:
        call.must_write()
    row.title, row.body = body.get("title", row.title), body.get("body", row.body)
    if body.get("state") == "closed":
        call.state.close(row)
    row.updated = call.state.now()
    return 200, call.shown.pull(row)


def merge_pull(call: Call) -> Answer:
    call.must_write()
    row, body = call.pull(), call.body or {}
    assert row.pull is not None
    if row.state != "open" or row.pull.draft:
        raise Fails(405, "Pull Request is not mergeable")
    if call.state.forbids(row) and not call.state.ignores_rules:
        words = "At least 1 approving review is required by reviewers with write access."
        raise Fails(405, words)
    if body.get("sha", row.pull.head) != row.pull.head:
        raise Fails(409, "Head branch was modified. Review and try the merge again.")
    commit = merge(call.state, row, body.get("merge_method", "merge"))
    words = "Pull Request successfully merged"
    return 200, {"sha": commit, "merged": True, "message": words}


def merge(state: RepositoryState, row: IssueRow, method: str) -> str:
    """Merge a pull request in git and in what is remembered; return the commit."""
    assert row.pull is not None
    message = f"Merge pull request #{row.number}\n\n{row.title}"
    try:
        commit = state.git.merge(row.pull.base, row.pull.head, method, message)
    except MergeFails:
        raise Fails(405, "Pull Request has merge conflicts") from None
    state.merged(row, commit)
    state.moved()
    return commit


# CI


def _commit(call: Call) -> str:
    commit = call.values["ref"]
    if not call.state.git.has(commit):
        raise Fails(422, f"No commit found for SHA: {commit}")
    return commit


def check_runs(call: Call) -> Answer:
    commit = _commit(call)
    rows = [each for each in call.state.checks if each.commit == commit and not each.is_status]
    if call.query.get("filter", "latest") == "latest":
        rows = list({each.name: each for each in rows}.values())
    per_page, page = int(call.query.get("per_page", 30)), int(call.query.get("page", 1))
    part = rows[::-1][(page - 1) * per_page : page * per_page]
    return 200, {"total_count": len(rows), "check_runs": [call.shown.check_run(x) for x in part]}


def statuses(call: Call) -> Answer:
    commit = _commit(call)
    rows = [each for each in call.state.checks if each.commit == commit and each.is_status]
    return 200, [call.shown.status(each) for each in rows[::-1]]


def job(call: Call) -> Answer:
    wanted = int(call.values["job_id"])
    for each in call.state.checks:
        if each.id == wanted and each.log is not None:
            return 200, call.shown.job(each)
    raise Fails(404, "Not Found")


def job_logs(call: Call) -> Answer:
    job(call)
    return 302, None


def _in_direction(rows: list[dict[str, Any]], query: Mapping[str, str]) -> list[dict[str, Any]]:
    backwards = query.get("direction", "desc") == "desc"
    return sorted(rows, key=lambda each: each["number"], reverse=backwards)


CALLS: Mapping[str, Callable[[Call], Answer]] = {
    "users/get-authenticated": me,
    "search/issues-and-pull-requests": search,
    "repos/get": repository,
    "repos/get-collaborator-permission-level": permission,
    "issues/list-for-repo": issues,
    "issues/get": issue,
    "issues/update": update_issue,
    "issues/list-comments": comments,
    "issues/create-comment": create_comment,
    "issues/update-comment": update_comment,
    "issues/list-dependencies-blocked-by": blocked_by,
    "issues/list-sub-issues": sub_issues,
    "issues/list-milestones": milestones,
    "issues/get-label": label,
    "issues/create-label": create_label,
    "issues/list-labels-on-issue": labels_of,
    "issues/add-labels": add_labels,
    "issues/remove-label": remove_label,
    "git/get-ref": get_ref,
    "git/delete-ref": delete_ref,
    "pulls/list": pulls,
    "pulls/create": create_pull,
    "pulls/get": get_pull,
    "pulls/update": update_pull,
    "pulls/merge": merge_pull,
    "checks/list-for-ref": check_runs,
    "repos/list-commit-statuses-for-ref": statuses,
    "actions/get-job-for-workflow-run": job,
    "actions/download-job-logs-for-workflow-run": job_logs,
}
