"""Shutdown, plan and permission requests: durable questions with one answer each.

Every question and every answer is stored together with the message that carries it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Invalid, NotFound
from bullpen.protocol import jsontext, names
from bullpen.protocol.changes import Change, Deliver, PutMember, PutRequest
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import ShutdownRequest, payload_of
from bullpen.protocol.request import Answerer, Request, RequestKind, Voice
from bullpen.store.base import View
from bullpen.team import plan_rules, request_rules
from bullpen.team.decision import Part
from bullpen.team.lookup import among
from bullpen.team.notices import notice
from bullpen.team.rules import lease_until

CLOCKWORK = "system"
"""Who acts when a deadline passes: no member."""


@dataclass(frozen=True, slots=True)
class _Question:
    kind: RequestKind
    to: str
    subject: dict[str, Any]
    digest: str | None
    deadline_ms: int | None
    approver: Answerer | None = None


class Approvals(Part):
    """The requests of one team."""

    async def ask_shutdown(
        self, member: str, *, by: str, reason: str | None = None, deadline_s: float | None = None
    ) -> Request:
        """Ask a member to end."""
        now = self._clock()
        subject = {} if reason is None else {"reason": reason}
        asked = _Question("shutdown", member, subject, None, lease_until(now, deadline_s))
        return await self._ask(
            asked,
            lambda _, ms: names.shutdown_request_id(member, now_ms=ms),
            by=by,
            now=now,
        )

    async def ask_plan(
        self,
        plan: str,
        *,
        by: str,
        to: str = LEAD,
        plan_file_path: str | None = None,
        deadline_s: float | None = None,
        approver: Answerer | None = None,
    ) -> Request:
        """Ask for approval of a plan. An approval holds for exactly this text.

        For an agent of ours the plan is what it submitted last from now on; what it asked before
        and nobody answered is taken back.
        """
        if not plan.strip():
            raise Invalid("A plan needs a text.", remedy="Write down what shall be done.")
        now = self._clock()
        subject = {"plan": plan, "planFilePath": plan_file_path}
        asked = _Question(
            "plan",
            to,
            _stated(subject),
            names.plan_digest(plan),
            lease_until(now, deadline_s),
            approver,
        )
        return await self._ask(
            asked,
            lambda team, ms: names.plan_request_id(by, team, now_ms=ms),
            by=by,
            now=now,
        )

    async def ask_permission(
        self,
        tool_name: str,
        tool_input: Any,
        *,
        by: str,
        to: str = LEAD,
        tool_use_id: str | None = None,
        description: str | None = None,
        suggestions: Sequence[Any] = (),
        deadline_s: float | None = None,
        approver: Answerer | None = None,
        digest: str | None = None,
    ) -> Request:
        """Ask for permission of one tool call. A yes holds for exactly this call.

        `digest` is of the call as it is, if the input here is without its secrets.
        """
        now = self._clock()
        suffix = self._new_id().replace("-", "")[:7]
        subject = {
            "toolName": tool_name,
            "toolUseId": tool_use_id,
            "description": description,
            "input": tool_input,
            "suggestions": list(suggestions),
        }
        with _storable():
            digest = digest or names.input_digest(tool_name, jsontext.dumps_line(tool_input))
        deadline_ms = lease_until(now, deadline_s)
        asked = _Question("permission", to, _stated(subject), digest, deadline_ms, approver)
        return await self._ask(
            asked,
            lambda _, ms: names.permission_request_id(now_ms=ms, suffix=suffix),
            by=by,
            now=now,
        )

    async def _ask(
        self,
        asked: _Question,
        request_id: Callable[[str, int], str],
        *,
        by: str,
        now: int,
    ) -> Request:
        message_id = self._new_id()

        def decide(view: View) -> tuple[Request, list[Change]]:
            request_rules.check_ask(view.team, by=by, to=asked.to)
            ms = now
            while view.request(request_id(view.team.name, ms)) is not None:
                ms += 1
            with _storable():
                request = Request.new(
                    id=request_id(view.team.name, ms),
                    kind=asked.kind,
                    sender=by,
                    to=asked.to,
                    created_ms=now,
                    deadline_ms=asked.deadline_ms,
                    subject=asked.subject,
                    digest=asked.digest,
                    approver=asked.approver,
                )
            message = notice(
                request_rules.question(request),
                team=view.team,
                sender=by,
                message_id=message_id,
                now_ms=now,
            )
            changes: list[Change] = [PutRequest(request)]
            if request_rules.reaches_inbox(request, view.team):
                changes.append(Deliver(asked.to, message, fresh=True))
            if request.kind == "plan":
                changes += plan_rules.submitted(view, request, now_ms=now)
            return request, changes

        return await self._settle(decide, by=by, op=f"request.{asked.kind}")

    async def answer(
        self,
        request_id: str,
        *,
        approve: bool,
        by: str,
        feedback: str | None = None,
        updated_input: Any = None,
        permission_mode: str | None = None,
        digest: str | None = None,
        voice: Voice = "agent",
        always: bool = False,
    ) -> Request:
        """Answer a request; the asker is told in the same commit.

        `voice` says who speaks in the name of `by`. With `always` what the asker suggested is
        allowed from now on, in the same commit.

        Raises:
            Refused: not_approver, already_answered, wrong_digest, or expired. An answer after the
                deadline makes the request a no, if nobody noticed the deadline before.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Request, list[Change]]:
            request = view.request(request_id)
            if request is None:
                raise _no_request(request_id, self._team, view.requests())
            request_rules.check_answer(request, view.team, by=by, voice=voice, digest=digest)
            if request_rules.is_overdue(request, now):
                request = request_rules.expired(request, now_ms=now)
                return request, _told(view, request, request.to, _expiry_id(request), now)
            request_rules.check_extras(
                request,
                view.team,
                voice=voice,
                updated_input=updated_input,
                permission_mode=permission_mode,
                always=always,
            )
            with _storable():
                request = request_rules.answered(
                    request,
                    approve=approve,
                    by=by,
                    voice=voice,
                    now_ms=now,
                    feedback=feedback,
                    updated_input=updated_input,
                    permission_mode=permission_mode,
                    always=approve and always,
                )
            changes = _told(view, request, by, message_id, now)
            return request, changes + (_grant(view, request) if approve and always else [])

        request = await self._settle(decide, by=by, op="request.answer")
        if request.state == "expired":
            raise request_rules.too_late(request)
        return request

    async def hear(self, message: Message, *, to: str) -> Request | None:
        """Record what a lead of another program asks by a bare message: that a member ends.

        From then on it can be answered like any other request. None if the message asks nothing.
        """
        asked = payload_of(message.text)
        if not isinstance(asked, ShutdownRequest):
            return None
        now = self._clock()

        def decide(view: View) -> tuple[Request | None, list[Change]]:
            request = request_rules.heard(
                asked, view.team, sender=message.sender, to=to, now_ms=now
            )
            if request is None or view.request(request.id) is not None:
                return None, []
            return request, [PutRequest(request)]

        return await self._settle(decide, by=message.sender, op="request.shutdown")

    async def pending(self, *, to: str | None = None) -> list[Request]:
        """The requests that can still be answered, oldest first; with `to` only that member's."""
        now = self._clock()
        requests = (await self._store.read(self._team)).requests.values()
        return open_requests(requests, now, to=to)

    async def get(self, request_id: str) -> Request:
        """One request. Raises NotFound."""
        state = await self._store.read(self._team)
        if request_id not in state.requests:
            raise _no_request(request_id, self._team, state.requests)
        return state.requests[request_id]

    async def redeem(self, request_id: str, *, by: str, digest: str | None) -> Request:
        """Use a permission for the one call that it was given for.

        Raises:
            Refused: not_approved, wrong_digest, already_used or too_old.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Request, list[Change]]:
            request = view.request(request_id)
            if request is None:
                raise _no_request(request_id, self._team, view.requests())
            request_rules.check_redeem(request, by=by, digest=digest, now_ms=now)
            used = request.evolve(used_ms=now)
            return used, [PutRequest(used)]

        return await self._settle(decide, by=by, op="request.use")

    async def withdraw(self, request_id: str, *, by: str, why: str) -> None:
        """Take back a request of one's own that nobody answered yet."""
        now = self._clock()

        def decide(view: View) -> tuple[None, list[Change]]:
            request = view.request(request_id)
            if request is None or request.sender != by or request.state != "pending":
                return None, []
            return None, [PutRequest(request_rules.expired(request, now_ms=now, why=why))]

        await self._settle(decide, by=by, op="request.withdraw")

    def overdue(self, request: Request) -> bool:
        """Whether a request is past its deadline, and so a no."""
        return request_rules.is_overdue(request, self._clock())

    def usable(self, request: Request) -> bool:
        """Whether a yes can still be used."""
        return request_rules.is_usable(request, self._clock())

    async def all(self) -> Mapping[str, Request]:
        """Every request that was ever made, by id."""
        return (await self._store.read(self._team)).requests

    async def expire(self) -> list[Request]:
        """Make every request past its deadline a no, and tell those who asked."""
        now = self._clock()

        def decide(view: View) -> tuple[list[Request], list[Change]]:
            late = [
                request_rules.expired(request, now_ms=now)
                for request in view.requests().values()
                if request_rules.is_overdue(request, now)
            ]
            changes: list[Change] = []
            for request in late:
                changes += _told(view, request, request.to, _expiry_id(request), now)
            return late, changes

        return await self._settle(decide, by=CLOCKWORK, op="request.expire")


def open_requests(
    requests: Iterable[Request], now_ms: int, *, to: str | None = None
) -> list[Request]:
    """Those that can still be answered, oldest first; with `to` only what that member was asked."""
    return sorted(
        (
            request
            for request in requests
            if request.state == "pending"
            and not request_rules.is_overdue(request, now_ms)
            and to in (None, request.to)
        ),
        key=lambda request: (request.created_ms, request.id),
    )


def _told(view: View, request: Request, sender: str, message_id: str, now_ms: int) -> list[Change]:
    message = notice(
        request_rules.verdict(request, view.team),
        team=view.team,
        sender=sender,
        message_id=message_id,
        now_ms=now_ms,
    )
    return [PutRequest(request), Deliver(request.sender, message, fresh=True)]


def _grant(view: View, request: Request) -> list[Change]:
    """What an "always" changes of the asker's standing."""
    member = view.team.member(request.sender)
    agent = member.agent if member is not None else None
    if member is None or agent is None:
        return []
    rules, directories = request_rules.granted(request)
    stands = agent.stands
    after = stands.evolve(
        allow=list(dict.fromkeys([*stands.allow, *rules])),
        directories=list(dict.fromkeys([*stands.directories, *directories])),
    )
    return [PutMember(member.evolve(bullpen=agent.evolve(standing=after.raw).raw))]


def _expiry_id(request: Request) -> str:
    """The same however often it is made: a request expires once."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"expired {request.id} {request.created_ms}"))


@contextmanager
def _storable() -> Iterator[None]:
    """Turn what only a record can find wrong with its values into a refusal."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Invalid(
            f"This request or answer cannot be stored: {error}.",
            remedy="A tool's input must be JSON and must not nest deeply.",
        ) from None


def _stated(subject: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in subject.items() if value is not None}


def _no_request(request_id: str, team: str, known: Mapping[str, Request]) -> NotFound:
    waiting = [key for key, request in known.items() if request.state == "pending"]
    return NotFound(
        f"There is no request {request_id!r} in team {team!r}.",
        remedy=among(request_id, waiting, what="pending requests"),
    )
