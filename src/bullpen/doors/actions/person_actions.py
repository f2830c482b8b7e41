"""What a person does to a team from a screen: answer, write, assign, stop. Doors call these."""

from __future__ import annotations

from typing import Any

from bullpen.agents.supervisor.supervisor import Stopped
from bullpen.app.app import App
from bullpen.doors.actions.answer import Answered, answer_request, new_input
from bullpen.doors.actions.identity import ActingIdentity
from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import EVERYBODY
from bullpen.protocol.policy import Mode
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task


class PersonActions:
    """What a person may do in one team, in the name that the settings give."""

    def __init__(self, app: App, team: str) -> None:
        self._app = app
        self._team = app.teams.open(team)
        self._identity = ActingIdentity(app.settings)

    async def approve(
        self,
        request_id: str,
        *,
        digest: str | None,
        changed: str | None = None,
        always: bool = False,
        choice: str | None = None,
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
            choice=choice,
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
            raise Invalid("The message is empty.", remedy="Write something.")
        by, voice = await self._identity.speaks(self._team)
        if to == EVERYBODY:
            await self._team.mailbox.broadcast(text, sender=by, voice=voice)
        else:
            await self._team.mailbox.send(to, text, sender=by, voice=voice)

    async def assign(self, task_id: str, to: str) -> Task:
        """Give a task to a member."""
        by = await self._identity.acts(self._team)
        return await self._team.tasks.assign(task_id, to, by=by)

    async def stop(self, name: str, *, reason: str | None = None) -> Stopped:
        """Stop an agent; nothing of it runs any more when this returns."""
        by = await self._identity.acts(self._team)
        return await self._app.supervisor(self._team.name).stop(name, by=by, reason=reason)

    async def mode(self, name: str) -> Mode:
        """Return the permission mode of an agent. Raises NotFound."""
        return (await self._team.agents.get(name))[1].mode

    async def set_mode(self, name: str, mode: str) -> AgentFacts:
        """Change the permission mode of an agent; it counts from its next tool call on."""
        by, voice = await self._identity.speaks(self._team)
        return await self._app.set_mode(self._team.name, name, mode, by=by, voice=voice)

    async def _asked(self, request_id: str, digest: str | None) -> Request:
        request = await self._team.approvals.get(request_id)
        if request.digest != digest:
            raise Invalid(
                "The request has changed since you saw it.", remedy="Read the request again."
            )
        return request

    async def _answer(self, request: Request, **answer: Any) -> Answered:
        return await answer_request(self._team, request, self._identity, **answer)
