"""What a driver gets of its runner: the one implementation of `Desk`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bullpen.agents.drivers.base import Colleagues, Mail
from bullpen.agents.frame import frames
from bullpen.agents.transcript import Transcript
from bullpen.agents.triage import triage, without_repeats
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import AgentState
from bullpen.protocol.times import ms_of
from bullpen.store.base import Entry
from bullpen.team.team import Team

_ACTIONS_KEPT = 3


@dataclass(slots=True)
class Activity:
    """What an agent does at the moment, for its heartbeat."""

    state: AgentState
    since_ms: int
    detail: str | None = None
    tool: str | None = None
    actions: list[str] = field(default_factory=list)


class RunnerDesk:
    """The desk of one agent. Whatever it does, it does under that agent's name."""

    def __init__(
        self,
        team: Team,
        agent: str,
        spec: AgentSpec,
        *,
        folder: Path,
        env: Mapping[str, str],
        transcript: Transcript,
        colleagues: Colleagues | None,
        now: Callable[[], int],
    ) -> None:
        self.team = team
        self.agent = agent
        self.is_lead = agent == LEAD
        self.spec = spec
        self.folder = folder
        self.env = env
        self.colleagues = colleagues
        self.attempts: dict[str, int] = {}
        self.turn_usage = Usage.new()
        self.activity = Activity("starting", now())
        self.notes: list[str] = []
        self.timers: list[tuple[float, str]] = []
        self.wrote_to: dict[str, str] = {}
        self.leaving: str | None = None
        # Set by the runner: what to do when something of the above has changed.
        self.stir: Callable[[], None] = lambda: None
        self.show: Callable[[], None] = lambda: None
        self._transcript = transcript
        self._now = now
        # Given to the driver in this process already. After a restart there is a new desk.
        self._given: set[str] = set()
        self._remembers: Callable[[str], bool] = lambda _: False

    def trust_memory(self, remembers: Callable[[str], bool]) -> None:
        """Believe a driver about the messages that its history holds."""
        self._remembers = remembers

    async def unread(self) -> tuple[Entry, ...]:
        """The mail that this agent was not given yet.

        What its driver remembers from before a restart was seen, though nobody could say so.
        """
        box = await self.team.mailbox.read(self.agent)
        fresh = tuple(entry for entry in box.unread if entry.id not in self._given)
        known = [entry.id for entry in fresh if self._remembers(entry.id)]
        if known:
            await self.seen(known)
        return tuple(entry for entry in fresh if entry.id not in known)

    async def inject(self, entries: Sequence[Entry]) -> Mail | None:
        """Frame messages and record that they were put into a turn; None if there are none."""
        if not entries:
            return None
        ids = tuple(entry.id for entry in entries)
        config = await self.team.agents.config()
        messages = [entry.message for entry in without_repeats(entries)]
        # People speak in the lead's name. An agent never can: its tools do not write to itself.
        users = [message for message in messages if self.is_lead and message.sender == self.agent]
        framed = frames([each for each in messages if each not in users], config.roster)
        own = [f"Your user says:\n{message.text}" for message in users]
        text = "\n\n".join([*own, framed] if framed else own)
        await self.team.mailbox.mark(self.agent, ids, "injected")
        self._given.update(ids)
        now = self._now()
        waited = [now - sent for each in messages if (sent := ms_of(each.timestamp)) is not None]
        self.record("mail", ids=list(ids), text=text, waited_ms=waited)
        return Mail(text, ids)

    async def take_mail(self) -> Mail | None:
        """The mail for the model that came since."""
        entries = await self.unread()
        if not entries:
            return None
        config = await self.team.agents.config()
        mail = triage(entries, config, agent=self.agent)
        if not (mail.urgent or mail.reports):
            return None
        return await self.inject(mail.mail)

    async def seen(self, ids: Sequence[str]) -> None:
        """Record that a model request with these messages succeeded."""
        if ids:
            await self.team.mailbox.mark(self.agent, list(ids), "seen")

    def turn_over(self) -> None:
        """From now on, mail that was given and not seen is given again."""
        self._given.clear()

    def doing(self, tool: str | None, detail: str = "") -> None:
        """Report what it does now."""
        activity = self.activity
        activity.tool = tool
        activity.detail = detail or None
        activity.since_ms = self._now()
        if tool is not None:
            action = f"{tool} {detail}".strip()
            activity.actions = [*activity.actions, action][-_ACTIONS_KEPT:]
        self.show()

    @contextmanager
    def waiting(self, on: str) -> Iterator[None]:
        """Report that it waits for somebody."""
        before = self.activity.state, self.activity.detail
        self.enter("waiting", on)
        try:
            yield
        finally:
            self.enter(*before)

    def enter(self, state: AgentState, detail: str | None = None) -> None:
        """Report another state."""
        activity = self.activity
        activity.state, activity.detail, activity.since_ms = state, detail, self._now()
        activity.tool = None
        self.show()

    def record(self, kind: str, **data: Any) -> None:
        """Add a line to the transcript."""
        self._transcript.record(kind, **data)

    def used(self, usage: Usage) -> None:
        """Add what one model request used."""
        self.turn_usage = self.turn_usage.plus(usage)
        self.record("usage", **usage.raw)
        self.show()

    def wrote(self, to: str, summary: str) -> None:
        """Remember that it wrote to somebody in this turn."""
        self.wrote_to[to] = summary

    def wake_later(self, seconds: float, note: str) -> None:
        """Ask for another turn later."""
        self.timers.append((self._now() / 1000 + seconds, note))
        self.stir()

    def wake(self, note: str) -> None:
        """Ask for another turn soon."""
        self.notes.append(note)
        self.stir()

    def leave(self, reason: str) -> None:
        """End for good when the turn is over."""
        self.leaving = reason

    def due_notes(self) -> list[str]:
        """The notes whose time has come; they are handed out once."""
        now = self._now() / 1000
        due = [note for at, note in self.timers if at <= now]
        self.timers = [timer for timer in self.timers if timer[0] > now]
        notes, self.notes = [*self.notes, *due], []
        return notes

    def next_timer_s(self) -> float | None:
        """Seconds until the next timer, if there is one."""
        if not self.timers:
            return None
        return max(0.0, min(at for at, _ in self.timers) - self._now() / 1000)
