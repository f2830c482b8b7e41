"""What a person does to a team from a screen: answer, write, assign, stop. Doors call these."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bullpen.agents.supervisor import Stopped
from bullpen.agents.tools.box import check_input
from bullpen.errors import BullpenError, Invalid
from bullpen.office import Office
from bullpen.protocol.names import EVERYBODY
from bullpen.protocol.request import Request, Voice
from bullpen.protocol.task import Task
from bullpen.team.team import Team
from bullpen.view.identity import Identity

_HIDDEN = "[secret"


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that is recorded. `untold` is why the words beside it did not arrive."""

    request: Request
    untold: str | None = None


def new_input(request: Request, text: str) -> dict[str, Any] | None:
    """The input that a person wrote in the place of the one that was asked for; None if the same.

    Raises:
        Invalid: it is no JSON object, the tool would not take it, or it holds a mark for a secret.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise Invalid(f"The input is no JSON: {error}.", remedy="Check it.") from None
    if not isinstance(given, dict):
        raise Invalid(
            "The input of a tool is a JSON object.", remedy='For example {"command": "ls"}.'
        )
    if given == request.subject.get("input"):
        return None
    if _HIDDEN in json.dumps(given):
        raise Invalid(
            "The new input holds a mark in the place of a secret, which is not known here.",
            remedy="Allow the call as it is, deny it, or leave the secret out.",
        )
    check_input(str(request.subject.get("toolName")), given)
    return given


async def give_answer(
    team: Team, request: Request, *, by: str, voice: Voice, approve: bool, **more: Any
) -> Answered:
    """Answer a request as it was seen: another question is not answered by this."""
    given = await team.approvals.answer(
        request.id, approve=approve, by=by, voice=voice, digest=request.digest, **more
    )
    words = more.get("feedback")
    if words is None or given.kind != "permission" or given.state != "approved":
        return Answered(given)
    # A yes to a call has no room for words: they come as a message beside it.
    try:
        await team.mailbox.send(given.sender, words, sender=by, key=given.id)
    except BullpenError as error:
        return Answered(given, f"{given.sender} cannot be told your words. {error}")
    return Answered(given)


class Acts:
    """What a person may do in one team, in the name that the settings give."""

    def __init__(self, office: Office, team: str) -> None:
        self._office = office
        self._team = office.teams.open(team)
        self._identity = Identity(office.settings)

    async def approve(
        self,
        request_id: str,
        *,
        digest: str | None,
        changed: str | None = None,
        always: bool = False,
        mode: str | None = None,
        words: str | None = None,
    ) -> Answered:
        """Allow what is asked, perhaps with another input, given as JSON text."""
        request = await self._asked(request_id, digest)
        return await self._answer(
            request,
            approve=True,
            updated_input=None if changed is None else new_input(request, changed),
            always=always,
            permission_mode=mode,
            feedback=words or None,
        )

    async def deny(self, request_id: str, *, digest: str | None, why: str | None) -> Answered:
        """Say no, and why."""
        request = await self._asked(request_id, digest)
        return await self._answer(request, approve=False, feedback=why or None)

    async def send(self, to: str, text: str) -> None:
        """Write to a member, or to everybody with `@team`."""
        if not text.strip():
            raise Invalid("There is nothing to send.", remedy="Write something.")
        by, _ = await self._identity.speaks(self._team)
        if to == EVERYBODY:
            await self._team.mailbox.broadcast(text, sender=by)
        else:
            await self._team.mailbox.send(to, text, sender=by)

    async def assign(self, task_id: str, to: str) -> Task:
        """Give a task to a member."""
        by, _ = await self._identity.speaks(self._team)
        return await self._team.tasks.assign(task_id, to, by=by)

    async def stop(self, name: str, *, reason: str | None = None) -> Stopped:
        """Stop an agent; nothing of it runs any more when this returns."""
        by, _ = await self._identity.speaks(self._team)
        return await self._office.supervisor(self._team.name).stop(name, by=by, reason=reason)

    async def _asked(self, request_id: str, digest: str | None) -> Request:
        request = await self._team.approvals.get(request_id)
        if request.digest != digest:
            raise Invalid("What is asked has changed since you saw it.", remedy="Look at it again.")
        return request

    async def _answer(self, request: Request, **answer: Any) -> Answered:
        by, voice = await self._identity.speaks(self._team)
        return await give_answer(self._team, request, by=by, voice=voice, **answer)


def shown_input(given: Mapping[str, Any]) -> str:
    """An input as a person edits it."""
    return json.dumps(given, indent=2, ensure_ascii=False)
