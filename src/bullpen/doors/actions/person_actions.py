"""What a person does to a team from a screen: answer, write, assign, stop. Doors call these."""

from __future__ import annotations

import os
from typing import Any

import anyio

from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.supervisor.supervisor import Stopped
from bullpen.app.app import App
from bullpen.by_name import load
from bullpen.doors.actions.absence import absent
from bullpen.doors.actions.answer import Answered, answer_request, new_input
from bullpen.doors.actions.identity import ActingIdentity
from bullpen.doors.actions.task_by_hand import task_door
from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import EVERYBODY, LEAD
from bullpen.protocol.policy import Mode
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Finished, Limits, TeamConfig
from bullpen.view.text import one_line


class PersonActions:
    """What a person may do in one team, in the name that the settings give."""

    def __init__(self, app: App, team: str, identity: ActingIdentity | None = None) -> None:
        """`identity` is who acts, if that is known already."""
        self._app = app
        self._team = app.teams.open(team)
        self._identity = identity or ActingIdentity(app.settings)

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

    async def send(self, to: str, text: str) -> str | None:
        """Write to a member, or to everybody with `@team`.

        Returns why the member does nothing with it now, if it is an agent that does not run.
        """
        if not text.strip():
            raise Invalid("The message is empty.", remedy="Write something.")
        by, voice = await self._identity.speaks(self._team)
        if to == EVERYBODY:
            await self._team.mailbox.broadcast(text, sender=by, voice=voice)
            return None
        await self._team.mailbox.send(to, text, sender=by, voice=voice)
        return await absent(self._team, to, told="your message")

    async def assign(self, task_id: str, to: str) -> Task:
        """Give a task to a member."""
        by = await self._identity.acts(self._team)
        return await self._team.tasks.assign(task_id, to, by=by)

    async def stop(self, name: str, *, reason: str | None = None) -> Stopped:
        """Stop an agent; nothing of it runs any more when this returns."""
        by, reason = await self._identity.stops(self._team, reason)
        return await self._app.supervisor(self._team.name).stop(name, by=by, reason=reason)

    async def mode(self, name: str) -> Mode:
        """Return the permission mode of an agent. Raises NotFound."""
        return (await self._team.agents.get(name))[1].mode

    async def set_mode(self, name: str, mode: str) -> AgentFacts:
        """Change the permission mode of an agent; it counts from its next tool call on."""
        by, voice = await self._identity.speaks(self._team)
        return await self._app.set_mode(self._team.name, name, mode, by=by, voice=voice)

    async def interrupt(self, name: str) -> None:
        """End the turn of an agent; it keeps running and waits for what you say next.

        Raises as `Supervisor.interrupt`.
        """
        by, voice = await self._identity.speaks(self._team)
        await self._app.supervisor(self._team.name).interrupt(name, by=by, voice=voice)

    async def comment(
        self, member: str, *, path: str, line: int | None, quoted: str, text: str
    ) -> None:
        """Send a comment on a line of a diff, or on a whole file, to the member that wrote it."""
        if not text.strip():
            raise Invalid("The comment is empty.", remedy="Write something.")
        by, voice = await self._identity.speaks(self._team)
        place = one_line(path) if line is None else f"{one_line(path)} line {line}"
        quotes = [f"> {each}" for each in quoted.split("\n")] if quoted.strip() else []
        body = "\n".join([f"Comment on {place}:", *quotes, text.strip()])
        summary = f"Comment on {place}"
        await self._team.mailbox.send(member, body, sender=by, voice=voice, summary=summary)

    async def add_task(self, subject: str, description: str = "") -> Task:
        """Add a task, unless a hook refuses it."""
        by, parent = await self._identity.spawns(self._team)
        door = task_door(
            self._team,
            by=by,
            cwd=await self._directory(),
            env=os.environ,
            home=self._app.settings.home,
            warn=lambda _: None,
            agent=None if parent is None else parent[1],
        )
        return await door.add(subject, description=description)

    async def spawn(self, name: str, prompt: str, *, like: str | None = None) -> None:
        """Start an agent like the lead, or like another one, with no wider rights than the lead.

        Raises:
            NotFound: there is no such agent.
            Refused: there is no agent to be like (no_agent), or as the rules of spawning say.
            Unavailable: it did not start.
        """
        by, caller = await self._identity.spawns(self._team)
        config = await self._team.agents.config()
        model = like or _first_agent(config)
        facts = (await self._team.agents.get(model))[1]
        make = load("bullpen.agents.supervisor.colleagues:like_agent")
        lead = config.member(LEAD)
        bounds = [caller] if caller is not None else []
        if lead is not None and lead.agent is not None:
            bounds.append((LEAD, lead.agent))
        wanted = Wanted(name, prompt)
        spec = await make(wanted, self._app.files, (model, facts), bounds, team=self._team.name)
        await self._app.supervisor(self._team.name).spawn(name, spec, by=by)

    async def set_budget(self, usd: float | None) -> Limits:
        """Set what the team may cost in all, in dollars; None removes the limit."""
        by, voice = await self._identity.speaks(self._team)
        return await self._team.agents.limit(by=by, voice=voice, usd=usd)

    async def _directory(self) -> str:
        """Where the team works, on this machine, so that the hooks of that place are asked."""
        lead = (await self._team.agents.config()).member(LEAD)
        cwd = None if lead is None else lead.cwd
        return cwd if cwd and await anyio.Path(cwd).is_dir() else os.getcwd()

    async def finish(self, summary: str = "") -> Finished:
        """End the run, also while tasks are open: its agents stop, and the run says how it ended.

        Without a summary, the last words of the lead stand for it.
        """
        by, voice = await self._identity.speaks(self._team)
        return await self._team.agents.finish(by=by, summary=summary.strip(), voice=voice)

    async def _asked(self, request_id: str, digest: str | None) -> Request:
        request = await self._team.approvals.get(request_id)
        if request.digest != digest:
            raise Invalid(
                "The request has changed since you saw it.", remedy="Read the request again."
            )
        return request

    async def _answer(self, request: Request, **answer: Any) -> Answered:
        return await answer_request(self._team, request, self._identity, **answer)


def _first_agent(config: TeamConfig) -> str:
    """The agent that a new one is like: the lead, else the first. Raises Refused (no_agent)."""
    agents = [member.name for member in config.roster if member.agent is not None]
    if not agents:
        raise Refused(
            f"Team {config.name} has no agent yet, so there is none to be like.",
            reason="no_agent",
            remedy="Start the first one with: bullpen spawn NAME PROMPT",
        )
    return LEAD if LEAD in agents else agents[0]
