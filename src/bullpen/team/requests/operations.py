"""Requests: to shut down, for a plan or a permission, and questions. Each has one answer.

Each question and each answer is stored in the same commit as its message.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bullpen.by_name import load
from bullpen.errors import Invalid, NotFound
from bullpen.protocol import json_text, names
from bullpen.protocol.changes import (
    Change,
    Deliver,
    PutMember,
    PutRequest,
    PutTask,
    RemoveRequest,
)
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import ShutdownRequest, payload_of
from bullpen.protocol.record.review import is_review
from bullpen.protocol.request import Answerer, Request, RequestKind, Voice
from bullpen.store.contract import View
from bullpen.team.lookup import among, leads
from bullpen.team.mail.operations import new_message, notice
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.requests import always_rules, plan_rules, question_rules
from bullpen.team.requests import rules as request_rules
from bullpen.team.tasks import guarded_rules
from bullpen.team.tasks.rules import lease_until

CLOCKWORK = "system"
"""The actor when a deadline passes. Not a member."""


class Approvals(TeamPart):
    """The requests of one team."""

    @operation
    async def ask_shutdown(
        self, member: str, *, by: str, reason: str | None = None, deadline_s: float | None = None
    ) -> Request:
        """Ask a member to shut down."""
        return await self._ask(
            "shutdown",
            {"reason": reason},
            lambda _, ms: names.shutdown_request_id(member, now_ms=ms),
            by=by,
            to=member,
            deadline_s=deadline_s,
        )

    @operation
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
        """Ask for approval of a plan. The approval covers exactly this text.

        For a Bullpen agent, this becomes its submitted plan. An earlier plan that nobody answered
        is withdrawn.
        """
        if not plan.strip():
            raise Invalid("The plan is empty.", remedy="Write down what you want to do.")
        return await self._ask(
            "plan",
            {"plan": plan, "planFilePath": plan_file_path},
            lambda team, ms: names.plan_request_id(by, team, now_ms=ms),
            by=by,
            to=to,
            deadline_s=deadline_s,
            digest=names.plan_digest(plan),
            approver=approver,
        )

    @operation
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
        choices: Sequence[Any] = (),
        deadline_s: float | None = None,
        approver: Answerer | None = None,
        digest: str | None = None,
    ) -> Request:
        """Ask for permission for one tool call. The approval covers exactly this call.

        If secrets were removed from the input, `digest` is the digest of the original call.
        """
        suffix = self._new_id().replace("-", "")[:7]
        subject = {
            "toolName": tool_name,
            "toolUseId": tool_use_id,
            "description": description,
            "input": tool_input,
            "suggestions": list(suggestions),
            **({"choices": list(choices)} if choices else {}),
        }
        with _storable():
            digest = digest or names.input_digest(tool_name, json_text.dumps_line(tool_input))
        return await self._ask(
            "permission",
            subject,
            lambda _, ms: names.permission_request_id(now_ms=ms, suffix=suffix),
            by=by,
            to=to,
            deadline_s=deadline_s,
            digest=digest,
            approver=approver,
        )

    @operation
    async def ask_question(
        self,
        questions: Sequence[Any],
        *,
        by: str,
        to: str = LEAD,
        deadline_s: float | None = None,
    ) -> Request:
        """Ask a person. The words of the answer are its `feedback`; no agent can answer."""
        question_rules.check_questions(questions)
        suffix = self._new_id().replace("-", "")[:7]
        with _storable():
            digest = names.input_digest("question", json_text.dumps_line(list(questions)))
        return await self._ask(
            "question",
            {"questions": list(questions)},
            lambda _, ms: names.question_request_id(now_ms=ms, suffix=suffix),
            by=by,
            to=to,
            deadline_s=deadline_s,
            digest=digest,
            approver="human",
        )

    async def _ask(
        self,
        kind: RequestKind,
        subject: dict[str, Any],
        request_id: Callable[[str, int], str],
        *,
        by: str,
        to: str,
        deadline_s: float | None,
        digest: str | None = None,
        approver: Answerer | None = None,
    ) -> Request:
        now = self._clock()
        deadline_ms, message_id = lease_until(now, deadline_s), self._new_id()

        def decide(view: View) -> tuple[Request, list[Change]]:
            request_rules.check_ask(view.team, by=by, to=to)
            ms = now
            while view.request(request_id(view.team.name, ms)) is not None:
                ms += 1
            with _storable():
                request = Request.new(
                    id=request_id(view.team.name, ms),
                    kind=kind,
                    sender=by,
                    to=to,
                    created_ms=now,
                    deadline_ms=deadline_ms,
                    subject={key: value for key, value in subject.items() if value is not None},
                    digest=digest,
                    approver=approver,
                )
            request_rules.check_waits(request, view.team)
            changes: list[Change] = [PutRequest(request)]
            # A person sees questions in the list of requests.
            if kind != "question" and request_rules.reaches_inbox(request, view.team):
                message = notice(
                    request_rules.question(request),
                    team=view.team,
                    sender=by,
                    message_id=message_id,
                    now_ms=now,
                )
                changes.append(Deliver(to, message, fresh=True))
            if request.kind == "plan":
                changes += plan_rules.submitted(view, request, now_ms=now)
            return request, changes

        return await self._settle(decide, by=by, op=f"request.{kind}")

    @operation
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
        choice: str | None = None,
    ) -> Request:
        """Answer a request, and tell the asker in the same commit.

        `voice` says who acts in the name of `by`. With `always`, the rules that the asker suggested
        are added in the same commit; `choice` is the name or number of other ones that it offered.

        Raises:
            Refused: not_approver, already_answered, wrong_digest or expired. An answer after the
                deadline records the request as denied, if that was not recorded before.
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
                choice=choice,
            )
            words = feedback
            if request.kind == "question" and approve:
                words = question_rules.answer_words(request, feedback)
            with _storable():
                request = request_rules.answered(
                    request,
                    approve=approve,
                    by=by,
                    voice=voice,
                    now_ms=now,
                    feedback=words,
                    updated_input=updated_input,
                    permission_mode=permission_mode,
                    always=approve and always,
                    choice=choice,
                )
            changes = _told(view, request, by, message_id, now)
            changes += _resumed(view, request)
            return request, changes + (_grant(view, request) if approve and always else [])

        request = await self._settle(decide, by=by, op="request.answer")
        if request.state == "expired":
            raise request_rules.too_late(request)
        return request

    @operation
    async def hear(self, message: Message, *, to: str) -> Request | None:
        """Record a shutdown request that another program's lead sent as a plain message.

        It can then be answered like any other request. Returns None if the message is not a
        request.
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
        """Return the requests that can still be answered, oldest first; with `to`, one member's."""
        now = self._clock()
        requests = (await self._store.read(self._team)).requests.values()
        return open_requests(requests, now, to=to)

    async def get(self, request_id: str) -> Request:
        """Return one request. Raises NotFound."""
        state = await self._store.read(self._team)
        if request_id not in state.requests:
            raise _no_request(request_id, self._team, state.requests)
        return state.requests[request_id]

    @operation
    async def redeem(self, request_id: str, *, by: str, digest: str | None) -> Request:
        """Use a permission for the one call that it covers.

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

    @operation
    async def withdraw(self, request_id: str, *, by: str, why: str) -> None:
        """Withdraw one's own request that nobody has answered."""
        now = self._clock()

        def decide(view: View) -> tuple[None, list[Change]]:
            request = view.request(request_id)
            if request is None or request.sender != by or request.state != "pending":
                return None, []
            return None, [PutRequest(request_rules.expired(request, now_ms=now, why=why))]

        await self._settle(decide, by=by, op="request.withdraw")

    @operation
    async def reschedule(self, deadlines: dict[str, int], *, by: str) -> None:
        """Move the deadlines of one's own pending requests; the lead may move every one.

        The clock was set, or the machine slept: nobody could answer in that time.
        """

        def decide(view: View) -> tuple[None, list[Change]]:
            return None, [
                PutRequest(request.evolve(deadline_ms=deadlines[request.id]))
                for request in view.requests().values()
                if request.id in deadlines
                and request.state == "pending"
                and (request.sender == by or leads(view.team, by))
            ]

        await self._settle(decide, by=by, op="request.reschedule")

    def overdue(self, request: Request) -> bool:
        """Return whether a request is past its deadline and therefore denied."""
        return request_rules.is_overdue(request, self._clock())

    def usable(self, request: Request) -> bool:
        """Return whether an approval can still be used."""
        return request_rules.is_usable(request, self._clock())

    async def all(self) -> Mapping[str, Request]:
        """Return the requests by id; those that were answered long ago are only in the log."""
        return (await self._store.read(self._team)).requests

    @operation
    async def expire(self) -> list[Request]:
        """Deny every request that is past its deadline, tell the askers, and forget old ones."""
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
            changes += map(RemoveRequest, request_rules.outlived(view.requests(), now))
            return late, changes

        return await self._settle(decide, by=CLOCKWORK, op="request.expire")


def open_requests(
    requests: Iterable[Request], now_ms: int, *, to: str | None = None
) -> list[Request]:
    """Return the requests that can still be answered, oldest first; with `to`, one member's."""
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
    if request.kind == "question":
        # The call that asks waits for the record.
        return [PutRequest(request)]
    if guarded_rules.is_hand_in(request) or is_review(request):
        # No call waits for it: the model has to read it.
        message = new_message(
            _about(request, "answer_text")(request),
            team=view.team,
            sender=sender,
            message_id=message_id,
            now_ms=now_ms,
        )
    else:
        message = notice(
            request_rules.verdict(request, view.team),
            team=view.team,
            sender=sender,
            message_id=message_id,
            now_ms=now_ms,
        )
    return [PutRequest(request), Deliver(request.sender, message, fresh=True)]


def _resumed(view: View, request: Request) -> list[Change]:
    """Return the task that waited for this approval, offered to everybody again."""
    task_id = _about(request, "task_of_request")(request)
    task = None if task_id is None else view.task(task_id)
    given_up = None if task is None else task.facts.given_up
    # Work that a person did not accept after its review is changed and reviewed again.
    if task is None or given_up is None or not (is_review(request) or request.state == "approved"):
        return []
    waited = _about(request, "park_reason")(request.evolve(state="pending"))
    return [PutTask(task.with_facts(given_up=None, tried=None))] if given_up == waited else []


def _about(request: Request, rule: str) -> Any:
    """Return the rule for the work that a request is about: its review, or its hand-in."""
    # Few teams have reviews.
    rules = "reviews.rules" if is_review(request) else "guarded_rules"
    return load(f"bullpen.team.tasks.{rules}:{rule}")


def _grant(view: View, request: Request) -> list[Change]:
    """Return what an "always" adds to the asker's standing."""
    member = view.team.member(request.sender)
    agent = member.agent if member is not None else None
    if member is None or agent is None:
        return []
    rules, directories = always_rules.granted(request)
    stands = agent.standing
    after = stands.evolve(
        allow=list(dict.fromkeys([*stands.allow, *rules])),
        directories=list(dict.fromkeys([*stands.directories, *directories])),
    )
    return [PutMember(member.evolve(bullpen=agent.evolve(standing=after.raw).raw))]


def _expiry_id(request: Request) -> str:
    """Return a message id that is the same on every call: a request expires once."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"expired {request.id} {request.created_ms}"))


@contextmanager
def _storable() -> Iterator[None]:
    """Turn errors that only the record detects into a refusal."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Invalid(
            f"The request or answer cannot be stored: {error}.",
            remedy="The tool's input must be JSON without deep nesting.",
        ) from None


def _no_request(request_id: str, team: str, known: Mapping[str, Request]) -> NotFound:
    waiting = [key for key, request in known.items() if request.state == "pending"]
    return NotFound(
        f"Team {team!r} has no request {request_id!r}.",
        remedy=among(request_id, waiting, what="pending requests"),
    )
