"""What the stand-in remembers, as GitHub shows it.

Each answer begins as GitHub's published example, so that it has every field of a real one.
"""

from __future__ import annotations

import json
from typing import Any

from bullpen.testing.forge.github.published_rules import example
from bullpen.testing.forge.github.state import (
    Account,
    CheckRow,
    CommentRow,
    IssueRow,
    RepositoryState,
    ReviewRow,
)

_EXAMPLE = "octocat/Hello-World"
_STATES = {True: "clean", False: "dirty", None: "unknown"}
_ASSOCIATIONS = {"admin": "OWNER", "write": "COLLABORATOR", "read": "NONE", "none": "NONE"}


class Shown:
    """Shows what is in one repository; `origin` is the address of the stand-in."""

    def __init__(self, state: RepositoryState, origin: str) -> None:
        self._state, self._origin = state, origin
        self._full = f"{state.owner}/{state.name}"

    @property
    def api(self) -> str:
        """Return the address of the repository in the API."""
        return f"{self._origin}/repos/{self._full}"

    @property
    def web(self) -> str:
        """Return the address of the repository for people."""
        return f"{self._origin}/{self._full}"

    def _example(self, operation: str, *path: int | str) -> dict[str, Any]:
        found = example(operation)
        for each in path:
            found = found[each]
        text = json.dumps(found).replace(_EXAMPLE, self._full)
        text = text.replace("https://api.github.com", self._origin)
        made: dict[str, Any] = json.loads(text.replace("https://github.com", self._origin))
        return made

    def user(self, account: Account) -> dict[str, Any]:
        """Return an account."""
        found = example("issues/update")["user"]
        made: dict[str, Any] = json.loads(json.dumps(found).replace("octocat", account.login))
        return {**made, "id": account.id, "type": "Bot" if account.is_app else "User"}

    def me(self, account: Account) -> dict[str, Any]:
        """Return the account of a token."""
        return {**example("users/get-authenticated"), **self.user(account)}

    def _association(self, account: Account) -> str:
        return _ASSOCIATIONS[account.permission]

    def _written(self, account: Account | None) -> dict[str, Any]:
        if account is None:
            return {"user": None, "author_association": "NONE"}
        return {"user": self.user(account), "author_association": self._association(account)}

    def repository(self, account: Account) -> dict[str, Any]:
        """Return the repository as an account sees it."""
        made = self._example("repos/get")
        for inner in ("source", "parent", "template_repository", "organization"):
            made.pop(inner, None)
        writes = account.permission in {"admin", "write"}
        permissions = {"admin": account.permission == "admin", "push": writes, "pull": True}
        owner = {**made["owner"], "login": self._state.owner}
        return {
            **made,
            "owner": owner,
            "name": self._state.name,
            "full_name": self._full,
            "default_branch": "main",
            "html_url": self.web,
            "clone_url": f"{self.web}.git",
            "language": None,
            "permissions": permissions,
        }

    def label(self, name: str) -> dict[str, Any]:
        """Return a label."""
        made = self._example("issues/get-label")
        return {**made, "name": name, "color": "ededed", "default": False}

    def milestone(self, title: str) -> dict[str, Any]:
        """Return a milestone."""
        made = self._example("issues/list-milestones", 0)
        number = self._state.milestones[title]
        return {**made, "title": title, "number": number, "id": 5_000 + number}

    def _basic(self, row: IssueRow) -> dict[str, Any]:
        """Return what an issue and a pull request have in common."""
        return {
            **self._written(row.author),
            "id": row.id,
            "number": row.number,
            "state": row.state,
            "title": row.title,
            "body": row.body,
            "labels": [self.label(each) for each in row.labels],
            "assignee": self.user(row.assignees[0]) if row.assignees else None,
            "assignees": [self.user(each) for each in row.assignees],
            "milestone": self.milestone(row.milestone) if row.milestone else None,
            "created_at": row.created,
            "updated_at": row.updated,
            "closed_at": row.closed,
        }

    def issue(self, row: IssueRow) -> dict[str, Any]:
        """Return an issue, or a pull request as one."""
        made = self._example("issues/update")
        for name in ("pull_request", "closed_by", "state_reason"):
            made.pop(name, None)
        open_blockers = [n for n in row.blocked_by if self._state.issues[n].state == "open"]
        done = [n for n in row.children if self._state.issues[n].state == "closed"]
        percent = 100 * len(done) // max(1, len(row.children))
        made |= {
            **self._basic(row),
            "url": f"{self.api}/issues/{row.number}",
            "repository_url": self.api,
            "html_url": f"{self.web}/{'pull' if row.pull else 'issues'}/{row.number}",
            "comments": len(row.comments),
            "sub_issues_summary": {
                "total": len(row.children),
                "completed": len(done),
                "percent_completed": percent,
            },
            "issue_dependencies_summary": {
                "blocked_by": len(open_blockers),
                "total_blocked_by": len(row.blocked_by),
                "blocking": 0,
                "total_blocking": 0,
            },
        }
        if row.pull:
            pull, web = f"{self.api}/pulls/{row.number}", f"{self.web}/pull/{row.number}"
            urls = {"diff_url": f"{web}.diff", "patch_url": f"{web}.patch"}
            made["pull_request"] = {"url": pull, "html_url": web, **urls}
        return made

    def found_issue(self, row: IssueRow) -> dict[str, Any]:
        """Return an issue as the search shows it."""
        # In the search, a text that is not there is left out.
        found = {name: value for name, value in self.issue(row).items() if name != "body"}
        return {**found, **({"body": row.body} if row.body else {}), "score": 1.0}

    def comment(self, row: IssueRow, comment: CommentRow) -> dict[str, Any]:
        """Return a comment on an issue or pull request."""
        made = self._example("issues/create-comment")
        web = f"{self.web}/{'pull' if row.pull else 'issues'}/{row.number}"
        return {
            **made,
            **self._written(comment.author),
            "id": comment.id,
            "body": comment.body,
            "url": f"{self.api}/issues/comments/{comment.id}",
            "html_url": f"{web}#issuecomment-{comment.id}",
            "issue_url": f"{self.api}/issues/{row.number}",
            "created_at": comment.created,
            "updated_at": comment.created,
        }

    def line_comment_url(self, number: int, comment: CommentRow) -> str:
        """Return the address of a comment on a line."""
        return f"{self.web}/pull/{number}#discussion_r{comment.id}"

    def reply(self, number: int, path: str, first: int, comment: CommentRow) -> dict[str, Any]:
        """Return an answer in a thread."""
        made = self._example("pulls/create-reply-for-review-comment")
        return {
            **made,
            **self._written(comment.author),
            "id": comment.id,
            "in_reply_to_id": first,
            "path": path,
            "body": comment.body,
            "html_url": self.line_comment_url(number, comment),
            "pull_request_url": f"{self.api}/pulls/{number}",
            "created_at": comment.created,
            "updated_at": comment.created,
        }

    def pull(self, row: IssueRow, *, listed: bool = False) -> dict[str, Any]:
        """Return a pull request; in a list it has less."""
        pull = row.pull
        assert pull is not None
        made = self._example("pulls/list", 0) if listed else self._example("pulls/get")
        whole = pull.fork or self._full
        home = whole.partition("/")[0]
        head_repository = {**made["head"]["repo"], "full_name": whole}
        base_repository = {**made["base"]["repo"], "full_name": self._full}
        base_head = self._state.git.head(pull.base) or "0" * 40
        made |= {
            **self._basic(row),
            "url": f"{self.api}/pulls/{row.number}",
            "html_url": f"{self.web}/pull/{row.number}",
            "draft": pull.draft,
            "merged_at": pull.merged,
            # Of an open one GitHub shows the commit of a trial.
            "merge_commit_sha": pull.merge_commit or f"{row.number:040x}",
            "requested_reviewers": [],
            "requested_teams": [],
            "auto_merge": None,
            "head": {
                **made["head"],
                "label": f"{home}:{pull.branch}",
                "ref": pull.branch,
                "sha": pull.head,
                "user": {**made["head"]["user"], "login": home},
                "repo": head_repository,
            },
            "base": {
                **made["base"],
                "label": f"{self._state.owner}:{pull.base}",
                "ref": pull.base,
                "sha": base_head,
                "user": {**made["base"]["user"], "login": self._state.owner},
                "repo": base_repository,
            },
        }
        if not listed:
            is_open = row.state == "open"
            can = self._state.git.can_merge(pull.base, pull.head) if is_open else None
            made |= {
                "merged": pull.merged is not None,
                "mergeable": can,
                "mergeable_state": "blocked" if can and self._state.forbids(row) else _STATES[can],
                "merged_by": None,
                "comments": len(row.comments),
            }
        return made

    def review(self, row: ReviewRow) -> dict[str, Any]:
        """Return a review."""
        made = self._example("pulls/list-reviews", 0)
        if row.submitted is None:
            made.pop("submitted_at", None)
        else:
            made["submitted_at"] = row.submitted
        return {
            **made,
            **self._written(row.author),
            "id": row.id,
            "body": row.body,
            "state": row.state,
            "commit_id": row.commit,
            "html_url": f"{self.web}/pull/{row.number}#pullrequestreview-{row.id}",
            "pull_request_url": f"{self.api}/pulls/{row.number}",
        }

    def check_run(self, row: CheckRow) -> dict[str, Any]:
        """Return a check run, of Actions if it has a log."""
        made = self._example("checks/list-for-ref", "check_runs", 0)
        done = row.status == "completed"
        made["app"] |= {"slug": "github-actions" if row.log is not None else "other-ci"}
        made["output"] |= {"title": None, "summary": None, "text": None}
        url = f"{self.web}/actions/runs/1/job/{row.id}"
        return {
            **made,
            "id": row.id,
            "name": row.name,
            "head_sha": row.commit,
            "status": row.status,
            "conclusion": row.conclusion,
            "started_at": None if row.status == "queued" else row.created,
            "completed_at": row.created if done else None,
            "html_url": url,
            "details_url": url,
        }

    def status(self, row: CheckRow) -> dict[str, Any]:
        """Return a commit status."""
        made = self._example("repos/list-commit-statuses-for-ref", 0)
        return {
            **made,
            "id": row.id,
            "context": row.name,
            "state": row.status,
            "description": row.log,
            "target_url": f"{self._origin}/ci/{row.id}",
            "created_at": row.created,
            "updated_at": row.created,
        }

    def job(self, row: CheckRow) -> dict[str, Any]:
        """Return a job of Actions with its steps."""
        made = self._example("actions/get-job-for-workflow-run")
        names = ["Set up job", row.step or "Run", "Complete job"]
        steps = []
        for number, name in enumerate(names, start=1):
            failed = name == row.step and row.conclusion == "failure"
            steps.append(
                {
                    **made["steps"][0],
                    "name": name,
                    "number": number,
                    "status": "completed",
                    "conclusion": "failure" if failed else "success",
                }
            )
        return {
            **made,
            "id": row.id,
            "name": row.name,
            "head_sha": row.commit,
            "status": "completed",
            "conclusion": row.conclusion,
            "created_at": row.created,
            "steps": steps,
        }
