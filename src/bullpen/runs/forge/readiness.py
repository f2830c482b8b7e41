"""Checks whether a team can use its forge, and says what to do about each thing that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from bullpen.errors import BullpenError, Unavailable
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connect import open_client
from bullpen.runs.forge.contract import ForgeClient
from bullpen.runs.forge.place import place_of
from bullpen.runs.forge.token import find_token
from bullpen.team.forge.choosing import query_of

_CHECK_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What one check found. `remedy` says what to do, if something is to be done."""

    what: str
    ok: bool
    said: str
    remedy: str = ""


async def examine(
    settings: ForgeSettings,
    merge: MergeSettings | None,
    *,
    home: Path,
    environ: Mapping[str, str],
) -> list[Answer]:
    """Return what is there and what is missing; the first thing that is missing may hide others."""
    answers = [_work(merge)]
    place = place_of(settings.repository)
    try:
        token = find_token(home, place.host, environ, variable=settings.token_env)
        answers.append(Answer("token", True, f"from {token.origin}"))
        opened = open_client(settings, token)
    except BullpenError as error:
        return [*answers, _missing("token", error)]
    try:
        with anyio.fail_after(_CHECK_S):
            answers += await _there(settings, merge, opened.client)
    except TimeoutError:
        late = Unavailable(f"{place.host} took too long.", remedy="Check the network.")
        answers.append(_missing("repository", late))
    except BullpenError as error:
        answers.append(_missing("repository", error))
    finally:
        await opened.aclose()
    return answers


def _work(merge: MergeSettings | None) -> Answer:
    if merge is None:
        remedy = "Add [merge] to the team file, or run: bullpen merge set"
        return Answer("work", False, "the team hands in no work", remedy)
    return Answer("work", True, f"handed in for {merge.target} in {merge.repository}")


def _target(merge: MergeSettings | None, settings: ForgeSettings) -> str | None:
    return settings.target or (None if merge is None else merge.target)


async def _there(
    settings: ForgeSettings, merge: MergeSettings | None, client: ForgeClient
) -> list[Answer]:
    target = _target(merge, settings)
    me, repository = await client.me(), await client.repository()
    rights = "Give the token the right to write contents, issues and pull requests."
    answers = [
        Answer("account", True, me.login),
        Answer("repository", True, repository.url),
        Answer("rights", True, "the token may push")
        if repository.may_push
        else Answer("rights", False, f"{me.login} may not push", rights),
    ]
    if repository.may_push:
        missing = await client.missing_rights()
        if missing:
            said = f"the token lacks {', '.join(dict.fromkeys(missing))}"
            answers[-1] = Answer("rights", False, said, rights)
    if target is not None:
        head = await client.branch_head(target)
        answers.append(
            Answer("target", True, f"{target} at {head[:12]}")
            if head is not None
            else Answer(
                "target", False, f"there is no branch {target}", f"git push origin {target}"
            )
        )
        if settings.merge == "forge":
            answers.append(await _tests(merge, client, head))
    issues = await client.issues(query_of(settings))
    answers.append(Answer("issues", True, f"{len(issues)} open issues fit"))
    return answers


async def _tests(merge: MergeSettings | None, client: ForgeClient, head: str | None) -> Answer:
    """Return what tests work before the forge merges it."""
    if merge is not None and merge.gate:
        return Answer("gate", True, "the merge gate runs before each pull request and each merge")
    if head is not None and await client.verdicts(head):
        return Answer("gate", True, "there is no merge gate: only what CI passes is merged")
    remedy = "Set gate in [merge] of the team file, or run: bullpen merge set --gate COMMAND"
    said = "there is neither a merge gate nor CI: nothing is merged without a person"
    # It may get CI, and a person may merge: this is no reason to refuse.
    return Answer("gate", True, said, remedy)


def _missing(what: str, error: BullpenError) -> Answer:
    return Answer(what, False, error.message, error.remedy)
