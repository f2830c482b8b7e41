"""Verdicts of CI on GitHub: check runs and commit statuses, and logs of failed Actions."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from bullpen.errors import NotFound, Refused
from bullpen.runs.forge.clients import github_records as records
from bullpen.runs.forge.clients.github_connection import GitHubConnection
from bullpen.runs.forge.contract import LOOK_THERE
from bullpen.team.forge.shown import Verdict

TAIL_BYTES_MAX = 4096
"""At most this much of a log is in a verdict."""

_READ_BYTES = 1024 * 1024
_LOGS_MAX = 200
_ACTIONS = "github-actions"
_STAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ", re.MULTILINE)
_COLOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ERROR = "##[error]"

_Log = tuple[str | None, str | None]


class GitHubVerdicts:
    """Reads the verdicts about commits of one repository. A log is read once."""

    def __init__(self, connection: GitHubConnection, repository: str, size: int) -> None:
        self._connection, self._repository, self._size = connection, repository, size
        self._logs: OrderedDict[int, _Log] = OrderedDict()

    async def of(self, commit: str) -> list[Verdict]:
        """Return the newest verdict of each name about a commit."""
        where = f"{self._repository}/commits/{quote(commit, safe='')}"
        try:
            checks = await self._connection.pages(
                f"{where}/check-runs", self._size, {"filter": "latest"}, inside="check_runs"
            )
            statuses = await self._connection.pages(f"{where}/statuses", self._size)
        except Refused as refused:
            if "No commit found" in refused.message:
                raise NotFound(f"There is no commit {commit}.", remedy=LOOK_THERE) from None
            raise
        newest: dict[str, tuple[tuple[str, int], Mapping[str, Any]]] = {}
        for each in (*checks, *statuses):
            name = each["name"] if "name" in each else each["context"]
            # What waits in a queue has not begun, so it is newer than what has.
            at = each["created_at"] if "context" in each else each["started_at"] or "9999"
            age = at, int(each["id"])
            if name not in newest or newest[name][0] < age:
                newest[name] = age, each
        found = [await self._verdict(name, each, commit) for name, (_, each) in newest.items()]
        return sorted(found, key=lambda each: each.name)

    async def _verdict(self, name: str, shown: Mapping[str, Any], commit: str) -> Verdict:
        if "context" in shown:
            state = records.status_state(shown)
            url = shown.get("target_url") or shown["url"]
            tail = shown.get("description") if state == "failure" else None
            return Verdict(name, state, commit, url, None, _end(tail) if tail else None)
        state = records.check_state(shown)
        url = shown.get("html_url") or shown.get("details_url") or shown["url"]
        step, tail = await self._log(shown) if state == "failure" else (None, None)
        return Verdict(name, state, commit, url, step, tail)

    async def _log(self, check: Mapping[str, Any]) -> _Log:
        """Return the failing step of a check, and the end of what it wrote."""
        known = self._logs.get(check["id"])
        if known is not None:
            return known
        output = check.get("output") or {}
        said = output.get("text") or output.get("summary")
        log: _Log = None, _end(said) if said else None
        if (check.get("app") or {}).get("slug") == _ACTIONS:
            log = await self._job_log(check) or log
        self._logs[check["id"]] = log
        while len(self._logs) > _LOGS_MAX:
            self._logs.popitem(last=False)
        return log

    async def _job_log(self, check: Mapping[str, Any]) -> _Log | None:
        """Return the failing step of a job and the end of its log; None if GitHub shows neither.

        The check of a job of Actions has the number of the job.
        """
        where = f"{self._repository}/actions/jobs/{int(check['id'])}"
        try:
            job = (await self._connection.get(where)).content
        except (NotFound, Refused):
            return None
        failed = (each for each in job.get("steps") or () if each.get("conclusion") == "failure")
        step = next((str(each["name"]) for each in failed), None)
        try:
            raw = await self._connection.tail(f"{where}/logs", _READ_BYTES)
        except (NotFound, Refused):
            # It was deleted, or the token may not read it.
            return step, None
        return step, _end(_until_error(raw.decode("utf-8", "ignore")))


def _until_error(log: str) -> str:
    """Return a log without its times, up to the last error: after that only cleaning follows."""
    text = _COLOR.sub("", _STAMP.sub("", log.replace("\r\n", "\n")))
    at = text.rfind(_ERROR)
    if at < 0:
        return text
    line_end = text.find("\n", at)
    return text if line_end < 0 else text[: line_end + 1]


def _end(text: str) -> str:
    """Return the end of a text, from the beginning of a line if there is one."""
    data = text.encode("utf-8", "replace")
    if len(data) <= TAIL_BYTES_MAX:
        return text
    cut = data[-TAIL_BYTES_MAX:].decode("utf-8", "ignore")
    _, newline, rest = cut.partition("\n")
    return rest if newline and rest else cut
