"""Deliveries of webhooks as GitHub sends them: recorded ones, about things of the stand-in."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from bullpen.testing.forge.github.published_rules import recorded_delivery, wrong_in_delivery
from bullpen.testing.forge.github.shown import Shown
from bullpen.testing.forge.github.state import Account, IssueRow, RepositoryState

# Actions without a recorded delivery, and one that differs only in its action.
_LIKE = {"issues.closed": "issues.reopened", "pull_request.edited": "pull_request.opened"}

_SEND_S = 30.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery: send it once, twice, late or not at all."""

    event: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def content(self) -> Any:
        """Return what it says."""
        return json.loads(self.body)

    async def send(self, url: str) -> int:
        """Send it; return the status of the answer."""
        async with httpx2.AsyncClient(timeout=_SEND_S) as client:
            answer = await client.post(url, content=self.body, headers=dict(self.headers))
        return answer.status_code


class Webhooks:
    """Makes the deliveries of one repository, signed with a secret."""

    def __init__(self, state: RepositoryState, origin: str, secret: str) -> None:
        self._state, self._shown, self._secret = state, Shown(state, origin), secret
        self._ids = itertools.count(1)

    def delivery(
        self,
        name: str,
        *,
        number: int | None = None,
        commit: str | None = None,
        sender: Account | None = None,
        **more: Any,
    ) -> Delivery:
        """Return a delivery such as `issues.opened`, `push` or `check_run.completed`.

        It is about an issue or pull request, or a commit. `more` replaces keys of its event's own
        record, such as `conclusion="failure"` of a check run.

        Raises:
            ValueError: with `more` it does not fit the published shape.
        """
        event, _, action = name.partition(".")
        body = recorded_delivery(_LIKE.get(name, name))
        if action:
            body["action"] = action
        if name == "pull_request.edited":
            body["changes"] = {}
        self._place(body, sender)
        row = self._state.issues[number] if number is not None else None
        if row is not None:
            self._about(body, row)
        own = body.get(event) if isinstance(body.get(event), dict) else body
        assert isinstance(own, dict)
        if commit is not None:
            own |= _commit_keys(event, commit)
        own |= more
        wrong = wrong_in_delivery(name, body)
        if wrong:
            raise ValueError(f"{name} does not fit its published shape: {'; '.join(wrong[:3])}")
        return self._signed(event, body)

    def _place(self, body: dict[str, Any], sender: Account | None) -> None:
        state, place = self._state, body["repository"]
        full = f"{state.owner}/{state.name}"
        place |= {"name": state.name, "full_name": full, "html_url": self._shown.web}
        place |= {"clone_url": f"{self._shown.web}.git", "default_branch": "main"}
        place["owner"]["login"] = state.owner
        if sender is not None:
            body["sender"] |= {"login": sender.login, "id": sender.id}

    def _about(self, body: dict[str, Any], row: IssueRow) -> None:
        common = {"number": row.number, "title": row.title, "body": row.body, "state": row.state}
        if "number" in body:
            body["number"] = row.number
        for key in ("issue", "pull_request"):
            if key in body:
                found = body[key]
                # Some events have less of a pull request.
                found |= {name: value for name, value in common.items() if name in found}
                if row.author is not None:
                    found["user"] |= {"login": row.author.login, "id": row.author.id}
        if row.pull is not None and "pull_request" in body:
            pull = body["pull_request"]
            pull["head"] |= {"ref": row.pull.branch, "sha": row.pull.head}
            pull["base"] |= {"ref": row.pull.base}

    def _signed(self, event: str, body: dict[str, Any]) -> Delivery:
        data = json.dumps(body).encode()
        mac = hmac.new(self._secret.encode(), data, hashlib.sha256).hexdigest()
        place = f"{self._state.owner}/{self._state.name}/{next(self._ids)}"
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/0123456",
            "X-GitHub-Delivery": str(uuid.uuid5(uuid.NAMESPACE_URL, place)),
            "X-GitHub-Event": event,
            "X-Hub-Signature-256": f"sha256={mac}",
        }
        return Delivery(event, data, headers)


def _commit_keys(event: str, commit: str) -> dict[str, str]:
    return {
        "status": {"sha": commit},
        "push": {"after": commit},
        "check_run": {"head_sha": commit},
        "check_suite": {"head_sha": commit},
    }.get(event, {})
