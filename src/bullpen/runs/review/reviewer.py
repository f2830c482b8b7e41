"""Runs one reviewer: the only agent of a throwaway team, in a directory of its own.

The name of the team is the token that the verdict needs. The team, its home and the directory are
removed when the reviewer has answered.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.agents.backends.warm_start.starter import OFF, WARM_START
from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system.vendors.acp_presets import GENERIC
from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.errors import BullpenError, Invalid, NotFound, Unavailable
from bullpen.protocol.agent import AgentFacts, Spent
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification, payload_of
from bullpen.protocol.task import Check
from bullpen.team.tasks.reviews.rules import name_of
from bullpen.team.tasks.reviews.verdict import (
    NoVerdict,
    ReviewMatter,
    Words,
    again,
    prompt,
    verdict_in,
)
from bullpen.team.team import Team
from bullpen.workspace.handover.reviewed_work import DIFFERENCE_CHARS_MAX, Laid

REVIEWER = "reviewer"
"""The name of a reviewer in its team."""

TIMEOUT_S = 600.0
"""How long a review may take that sets no time limit."""

_TURNS_MAX = 6
_LOOK_S = 1.0
_GRACE_S = 2.0
_READS_ONLY = ("Read", "Glob", "Grep")


class CouldNotReview(Unavailable):
    """There is no verdict: the reviewer could not be started, it died, or it did not answer.

    `used` is what it cost all the same.
    """

    def __init__(self, why: str, *, used: Sequence[Spent] = (), remedy: str = "") -> None:
        super().__init__(
            f"The work could not be reviewed: {why}",
            remedy=remedy or "Nothing was approved. Fix the cause, then try again.",
        )
        self.why = why
        self.used = tuple(used)


@dataclass(frozen=True, slots=True)
class Answered:
    """The verdict of a reviewer, and what it cost."""

    words: Words
    used: tuple[Spent, ...]


@asynccontextmanager
async def review_folder() -> AsyncIterator[Path]:
    """Yield an empty folder for one review; remove it afterwards. Raises Unavailable."""
    try:
        folder = await to_thread.run_sync(_new_folder)
    except OSError as error:
        raise Unavailable(
            f"There is no room for a review: {error.strerror}.", remedy="Free some disk space."
        ) from None
    try:
        yield folder
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))


def refuse_too_long(work: Laid) -> None:
    """Refuse a difference that nobody would read with care. Raises CouldNotReview."""
    if len(work.difference) > DIFFERENCE_CHARS_MAX:
        raise CouldNotReview(
            f"its difference has {len(work.difference)} characters, and at most"
            f" {DIFFERENCE_CHARS_MAX} are reviewed.",
            remedy="Split the work, or leave out generated files.",
        )


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="bullpen-review-")).resolve()


async def ask_reviewer(
    check: Check, matter: ReviewMatter, work: Laid, *, environ: Mapping[str, str]
) -> Answered:
    """Start the reviewer of a check and return its verdict.

    Raises:
        CouldNotReview: there is none.
    """
    token = f"review-{secrets.token_hex(8)}"
    given = {name: value for name, value in environ.items() if not name.startswith("BULLPEN_")}
    given[WARM_START] = OFF
    home = work.folder.with_name("home")
    settings = Settings(home=home, team=token, agent=LEAD)
    text = prompt(matter, token)
    try:
        async with App(settings, given, inside=False) as app:
            return await _answered(app, check, text, token, work.folder)
    except CouldNotReview:
        raise
    except BullpenError as error:
        raise CouldNotReview(
            f"{name_of(check)} could not be used: {error.message}", remedy=error.remedy
        ) from error


async def _answered(app: App, check: Check, text: str, token: str, folder: Path) -> Answered:
    limit_s = check.timeout_s or TIMEOUT_S
    request = _request(check, text, folder, limit_s)
    spec = await app.resolve(request)
    await app.teams.create(token, cwd=str(folder))
    team, supervisor = app.teams.open(token), app.supervisor(token)
    why = f"{name_of(check)} did not answer within {limit_s:g} s."
    words: Words | None = None
    try:
        with anyio.move_on_after(limit_s):
            await supervisor.spawn(REVIEWER, spec, by=LEAD)
            try:
                words = await _verdict(team, supervisor, token, name_of(check))
            except NoVerdict as error:
                why = str(error)
    finally:
        with anyio.CancelScope(shield=True), suppress(BullpenError):
            await supervisor.stop_all(by=LEAD, grace_s=_GRACE_S)
    used = await _used(team)
    if words is None:
        raise CouldNotReview(why, used=used)
    return Answered(words, used)


def _request(check: Check, text: str, folder: Path, limit_s: float) -> SpawnRequest:
    """Return what to start: an agent that reads, asks nobody, and obeys no file of the project."""
    driver, run = check.by or "", check.run
    if driver == "scripted" and not os.path.isabs(run or ""):
        raise Invalid(
            "A scripted reviewer needs the absolute path of its script in `run`.",
            remedy="Give the whole path of a file that the author cannot write.",
        )
    return SpawnRequest(
        cwd=str(folder),
        driver=driver,
        model=check.model,
        prompt=text,
        mode="dontAsk",
        claims=False,
        turns_max=_TURNS_MAX,
        budget_wall_s=limit_s + _GRACE_S,
        project_settings=False,
        tools=_READS_ONLY if driver == "native" else None,
        script=run if driver == "scripted" else None,
        command=shlex.split(run) if run and driver == GENERIC.name else None,
    )


async def _verdict(team: Team, supervisor: Supervisor, token: str, name: str) -> Words:
    """Wait for the verdict. One that cannot be read is asked for once more. Raises NoVerdict."""
    heard = 0
    asked_again = False
    async with aclosing(team.changes(every_s=_LOOK_S)) as changes:
        async for _ in changes:
            # Notices that its process is gone.
            await supervisor.tend(by=LEAD)
            agent = await _agent(team)
            said = await _turns(team)
            for notice in said[heard:]:
                heard += 1
                if notice.failure_reason is not None:
                    continue
                try:
                    return verdict_in(notice.result or "", token)
                except NoVerdict as error:
                    if asked_again:
                        raise NoVerdict(
                            f"the answer of {name} could not be read: {error}."
                        ) from None
                    asked_again = True
                    await team.mailbox.send(REVIEWER, again(str(error), token), sender=LEAD)
            if agent.phase == "ended":
                failed = next((each.failure_reason for each in said if each.failure_reason), None)
                raise NoVerdict(f"{name} ended: {agent.cause or failed or 'it gave no reason'}.")
    raise NoVerdict(f"the team of {name} is gone.")


async def _turns(team: Team) -> list[IdleNotification]:
    box = await team.mailbox.read(LEAD, history=True)
    found = (payload_of(entry.message.text) for entry in box.entries)
    return [each for each in found if isinstance(each, IdleNotification)]


async def _agent(team: Team) -> AgentFacts:
    _, agent = await team.agents.get(REVIEWER)
    return agent


async def _used(team: Team) -> tuple[Spent, ...]:
    """Return what the reviewer used, by model."""
    try:
        agent = await _agent(team)
    except NotFound:
        return ()
    return tuple(row for row in agent.account if row.turns or row.requests or row.tokens)
