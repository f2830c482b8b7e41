"""Answering a request: the one way of every door."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bullpen.agents.tools.toolbox import check_input
from bullpen.doors.actions.absence import absent
from bullpen.doors.actions.identity import ActingIdentity
from bullpen.errors import BullpenError, Invalid
from bullpen.protocol.request import Request
from bullpen.team.team import Team

_HIDDEN = "[secret"


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that is recorded.

    `untold` is why the words beside it did not arrive, `absent` why its asker does nothing with it
    now.
    """

    request: Request
    untold: str | None = None
    absent: str | None = None

    @property
    def warning(self) -> str:
        """Return what the person who answered must know."""
        return " ".join(words for words in (self.untold, self.absent) if words)


def new_input(request: Request, text: str) -> dict[str, Any] | None:
    """The input that a person wrote in the place of the one that was asked for; None if the same.

    Raises:
        Invalid: it is no JSON object, the tool would not take it, or it holds a mark for a secret.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise Invalid(f"The input is not JSON: {error}.", remedy="Pass a JSON object.") from None
    if not isinstance(given, dict):
        raise Invalid(
            "The input of a tool must be a JSON object.", remedy='For example {"command": "ls"}.'
        )
    if given == request.subject.get("input"):
        return None
    if _HIDDEN in json.dumps(given):
        raise Invalid(
            "The new input contains a placeholder for a secret that is not known here.",
            remedy="Approve the call unchanged, deny it, or remove the secret.",
        )
    check_input(str(request.subject.get("toolName")), given)
    return given


async def answer_request(
    team: Team, request: Request, identity: ActingIdentity, *, approve: bool, **more: Any
) -> Answered:
    """Answer a request exactly as it was seen, in the name of whoever acts here."""
    by, voice = await identity.speaks(team)
    given = await team.approvals.answer(
        request.id, approve=approve, by=by, voice=voice, digest=request.digest, **more
    )
    words, away = more.get("feedback"), await absent(team, given.sender, told="your answer")
    if words is None or given.kind != "permission" or given.state != "approved":
        return Answered(given, absent=away)
    # The answer to a call carries no text, so the text is sent as a message.
    try:
        await team.mailbox.send(given.sender, words, sender=by, key=given.id, voice=voice)
    except BullpenError as error:
        return Answered(given, f"Your message did not reach {given.sender}. {error}", away)
    return Answered(given, absent=away)


def shown_input(given: Mapping[str, Any]) -> str:
    """An input as a person edits it."""
    return json.dumps(given, indent=2, ensure_ascii=False)
