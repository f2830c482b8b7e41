"""The person of a tape: does in a replay what a person did in the run, at the same place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio

from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system.secrets import with_texts
from bullpen.agents.tapes.departures import Departure
from bullpen.agents.tapes.follower import Follower
from bullpen.agents.tapes.format import PersonAct, Tape
from bullpen.agents.tapes.places import Places
from bullpen.errors import BullpenError
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.runs.tapes import acts
from bullpen.team.team import Team

_ASKED_WITHIN_S = 120.0
"""How long a replay waits for a request that a person answered on the tape."""

_WORKS_S = 1.0
"""How long an agent may work before it is interrupted: the tape does not say how far it was."""

_LOOK_EVERY_S = 0.05


class TapedPerson:
    """Does what the person of a tape did."""

    def __init__(
        self, tape: Tape, team: Team, supervisor: Supervisor, follower: Follower, places: Places
    ) -> None:
        self._tape = tape
        self._team = team
        self._supervisor = supervisor
        self._follower = follower
        self._places = places
        # Where it could not go on.
        self.left: Departure | None = None

    async def act(self) -> None:
        """Do everything, each thing when the calls before it are answered."""
        for number, act in enumerate(self._tape.acts, 1):
            before = self._tape.before(act.at_ms)
            while not before <= self._follower.look().answered:  # noqa: ASYNC110 - a file
                await anyio.sleep(_LOOK_EVERY_S)
            why = await self._do(act)
            if why is not None:
                self.left = Departure("you", act.act, number, "what a person did", why)
                return

    async def _do(self, act: PersonAct) -> tuple[str, ...] | None:
        """Do one thing; why it could not be done."""
        try:
            match act.act:
                case acts.SEND:
                    text = self._places.unmarked(act.text or "")
                    await self._team.mailbox.send(act.to, text, sender=LEAD, voice="human")
                case acts.INTERRUPT:
                    await anyio.sleep(_WORKS_S)
                    await self._supervisor.interrupt(act.to, by=LEAD, voice="human")
                case acts.FINISH:
                    summary = self._places.unmarked(act.text or "")
                    await self._team.agents.finish(by=LEAD, summary=summary, voice="human")
                case acts.ANSWER:
                    return await self._answer(act)
                case _:
                    return (f"- {act.act}", "+ unknown to this version")
        except BullpenError as error:
            return (f"- {act.act} {act.to}".rstrip(), f"+ {error.message}")
        return None

    async def _answer(self, act: PersonAct) -> tuple[str, ...] | None:
        wanted = self._normal(act.asked)
        others: list[str] = []
        with anyio.move_on_after(_ASKED_WITHIN_S):
            while True:
                pending = await self._team.approvals.pending()
                own = [each for each in pending if (each.sender, each.kind) == (act.to, act.about)]
                others = [self._normal(acts.asked_words(each)) for each in own]
                for request, words in zip(own, others, strict=True):
                    if words == wanted:
                        await self._give(request, act)
                        return None
                await anyio.sleep(_LOOK_EVERY_S)
        asked = [f"+ {act.to} asks: {words}" for words in others]
        return (f"- {act.to} asks: {wanted}", *(asked or [f"+ {act.to} did not ask"]))

    async def _give(self, request: Request, act: PersonAct) -> None:
        told: Mapping[str, Any] = with_texts(act.answer, self._places.unmarked)
        choice = told.get("choice")
        await self._team.approvals.answer(
            request.id,
            approve=act.approve,
            by=LEAD,
            voice="human",
            digest=request.digest,
            feedback=told.get("feedback"),
            updated_input=told.get("updatedInput"),
            permission_mode=told.get("permissionMode"),
            always=told.get("always") is True,
            choice=choice if isinstance(choice, str) else None,
        )

    def _normal(self, words: str) -> str:
        """What was asked, without what changes by nature."""
        try:
            value = json.loads(words)
        except ValueError:
            value = words
        return json.dumps(with_texts(value, self._places.normal), sort_keys=True)
