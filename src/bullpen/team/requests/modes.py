"""The permission modes of agents, as others change them."""

from __future__ import annotations

from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.changes import Change, Deliver, PutMember
from bullpen.protocol.clock import iso
from bullpen.protocol.payloads import ModeSetRequest
from bullpen.protocol.request import Voice
from bullpen.store.contract import View
from bullpen.team.agents import rules as agent_rules
from bullpen.team.mail.operations import notice
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.requests import mode_change


class Modes(TeamPart):
    """The modes of the agents of one team."""

    @operation
    async def change(self, name: str, mode: str, *, by: str, voice: Voice = "human") -> AgentFacts:
        """Change the permission mode of an agent. Its next tool call is judged by it.

        The agent is told in the same commit, unless it has ended. `voice` says who acts in the
        name of `by`.

        Raises:
            Refused: not_lead; or not_a_person, wider_than_lead or not_approver for a lead that is
                a model.
            Invalid: there is no such mode.
        """
        now, message_id = self._clock(), self._new_id()
        asked, whose = mode_change.known_mode(mode), "a person" if voice == "human" else by

        def decide(view: View) -> tuple[AgentFacts, list[Change]]:
            team = view.team
            member, agent = agent_rules.agent_of(team, name)
            mode_change.check_mode(team, name, agent, asked, by=by, voice=voice)
            if asked == agent.mode:
                return agent, []
            after = mode_change.changed(agent, asked, leads=member.is_lead, by=whose)
            changes = mode_change.ended_plan(view, agent, now_ms=now)
            changes.append(PutMember(member.evolve(bullpen=after.raw, mode=after.mode)))
            # The inbox of a guest belongs to the program whose team it is in.
            if agent.phase != "ended" and not agent.spec.is_guest:
                payload = ModeSetRequest.new(mode=asked, sender=by, timestamp=iso(now))
                message = notice(payload, team=team, sender=by, message_id=message_id, now_ms=now)
                changes.append(Deliver(name, mode_change.marked_stored(message), fresh=True))
            return after, changes

        return await self._settle(decide, by=by, op="agent.mode")
