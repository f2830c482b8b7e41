"""What jobs of CI say about a commit on Gitea, with the end of the log of its own Actions."""

from __future__ import annotations

import re

from bullpen.errors import NotFound, Refused
from bullpen.runs.forge.clients.gitea_answers import VERDICT_STATES, Job, StatusAnswer
from bullpen.runs.forge.clients.gitea_requests import GiteaRequests
from bullpen.runs.forge.contract import TryLater
from bullpen.team.forge.shown import Verdict

TAIL_BYTES_MAX = 4_096
"""How much of the end of a log is kept."""

_LOG_READS_MAX = 2

_JOB = re.compile(r"/actions/runs/[0-9]{1,18}/jobs/([0-9]{1,18})/?$")
_FAILED = re.compile(r"^ *\u274c +Failure - Main (.+?) *$", re.MULTILINE)
"""What the runner of Actions writes where a step fails."""

_TIME = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ", re.MULTILINE)


async def verdicts_of(
    requests: GiteaRequests, repository: str, commit: str, *, page: str
) -> list[Verdict]:
    """Return the newest verdict of each job about a commit, by name.

    `page` is the address of the commit, for jobs that have none of their own.
    """
    statuses = await requests.all(StatusAnswer, f"{repository}/commits/{commit}/statuses")
    newest: dict[str, StatusAnswer] = {}
    for status in sorted(statuses, key=lambda each: each.id):
        newest[status.context] = status
    return [
        await _verdict(requests, repository, commit, newest[name], page) for name in sorted(newest)
    ]


async def _verdict(
    requests: GiteaRequests, repository: str, commit: str, status: StatusAnswer, page: str
) -> Verdict:
    # A state that this version does not know is no success.
    state = VERDICT_STATES.get(status.status, "pending")
    url = status.target_url if status.target_url.startswith(("http://", "https://")) else page
    if state != "failure":
        return Verdict(status.context, state, commit, url)
    found = _JOB.search(status.target_url)
    job = None if found is None else await _job(requests, repository, int(found[1]), commit)
    if job is None:
        # Of CI elsewhere, its short description is all that there is.
        return Verdict(status.context, state, commit, url, tail=status.description or None)
    tail = await _tail(requests, repository, job)
    step = failed_step(job, tail)
    return Verdict(status.context, state, commit, job.html_url or url, step, tail)


async def _job(requests: GiteaRequests, repository: str, number: int, commit: str) -> Job | None:
    """Return a job of Actions; None if the server does not show it.

    Older versions count jobs from 0 in each run, so the number may be that of another job.
    """
    try:
        job = await requests.get(Job, f"{repository}/actions/jobs/{number}")
    except (NotFound, Refused):
        return None
    return job if job.head_sha == commit else None


def failed_step(job: Job, tail: str | None) -> str | None:
    """Return the name of the step that failed; None if neither the job nor its log says which.

    Some versions say of every step what became of the job. Then the end of the log may say it: a
    step that failed earlier was allowed to.
    """
    failed = [each.name for each in job.steps if each.conclusion == "failure"]
    if len(failed) < 2:
        return failed[0] if failed else None
    said = [name for name in _FAILED.findall(tail or "") if name in failed]
    return said[-1] if said else None


async def _tail(requests: GiteaRequests, repository: str, job: Job) -> str | None:
    path = f"{repository}/actions/jobs/{job.id}/logs"
    for _ in range(_LOG_READS_MAX):
        try:
            return tail_of(await requests.end_of(path, TAIL_BYTES_MAX * 2))
        except (NotFound, Refused):
            return None
        except TryLater:
            # A log that is lost fails each time; the verdict itself is told without it.
            continue
    return None


def tail_of(log: bytes) -> str | None:
    """Return the last lines of a log, without the time before each."""
    lines = _TIME.sub("", log.decode("utf-8", "replace")).rstrip()
    short = lines.encode()[-TAIL_BYTES_MAX:].decode("utf-8", "ignore")
    if len(log) >= TAIL_BYTES_MAX * 2 or len(short) < len(lines):
        # The first line is cut.
        short = short.partition("\n")[2] or short.lstrip("\ufffd")
    return short or None
