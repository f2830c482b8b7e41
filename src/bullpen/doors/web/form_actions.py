"""What a visitor does with a form of a page, and the sentence that tells them it is done."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from bullpen.doors.actions.person_actions import PersonActions
from bullpen.errors import Invalid
from bullpen.protocol.names import EVERYBODY
from bullpen.view.story import Story

FORM_BYTES_MAX = 1024 * 1024

Act = Callable[[Mapping[str, str]], Awaitable[str]]


class FormActions:
    """The actions of all forms, by name. `story` gives the team as it is now."""

    def __init__(self, acts: PersonActions, story: Callable[[], Story]) -> None:
        self._acts = acts
        self._story = story
        self.by_name: Mapping[str, Act] = {
            "approve": self._approve,
            "deny": self._deny,
            "send": self._send,
            "comment": self._comment,
            "assign": self._assign,
            "add-task": self._add_task,
            "spawn": self._spawn,
            "interrupt": self._interrupt,
            "mode": self._mode,
            "stop": self._stop,
            "budget": self._budget,
            "finish": self._finish,
        }

    async def _approve(self, form: Mapping[str, str]) -> str:
        choice = form.get("choice") or None
        answered = await self._acts.approve(
            form.get("id", ""),
            digest=form.get("digest") or None,
            changed=self._changed(form),
            always=choice is not None or form.get("always") == "yes",
            choice=choice,
            mode=form.get("mode") or None,
            words=form.get("option") or form.get("words") or None,
        )
        sender = self._shown(answered.request.sender)
        more = f" {answered.warning}" if answered.warning else ""
        if answered.request.kind == "question":
            return f"Answered {sender}.{more}"
        if answered.request.kind == "plan":
            return f"Approved the plan of {sender}.{more}"
        return f"Allowed what {sender} asked for.{more}"

    def _changed(self, form: Mapping[str, str]) -> str | None:
        """The input that was edited, as JSON: all of it, or a command alone."""
        command = form.get("command")
        if command is None:
            return form.get("changed") or None
        request = self._story().requests.get(form.get("id", ""))
        given = None if request is None else request.subject.get("input")
        return json.dumps({**(given if isinstance(given, dict) else {}), "command": command})

    async def _deny(self, form: Mapping[str, str]) -> str:
        answered = await self._acts.deny(
            form.get("id", ""), digest=form.get("digest") or None, why=form.get("why") or None
        )
        return f"Denied what {self._shown(answered.request.sender)} asked for."

    async def _send(self, form: Mapping[str, str]) -> str:
        to = form.get("to", "")
        away = await self._acts.send(to, form.get("text", ""))
        more = f" {away}" if away else ""
        return f"Sent to {'everybody' if to == EVERYBODY else self._shown(to)}.{more}"

    async def _comment(self, form: Mapping[str, str]) -> str:
        to, path = form.get("to", ""), form.get("path", "")
        line = form.get("line", "").strip()
        if line and not (line.isascii() and line.isdigit() and len(line) < 10):
            raise Invalid(f"{line!r} is not a line number.", remedy="Give the number of a line.")
        number = int(line) if line else None
        quoted, text = form.get("quoted", ""), form.get("text", "")
        await self._acts.comment(to, path=path, line=number, quoted=quoted, text=text)
        place = path if number is None else f"{path}, line {number}"
        return f"Sent your comment on {place} to {self._shown(to)}."

    async def _assign(self, form: Mapping[str, str]) -> str:
        task = await self._acts.assign(form.get("id", ""), form.get("to", ""))
        return f"Task {task.id} is assigned to {self._shown(task.owner or 'nobody')}."

    async def _add_task(self, form: Mapping[str, str]) -> str:
        task = await self._acts.add_task(form.get("subject", ""), form.get("description", ""))
        return f"Added task {task.id}: {task.subject}"

    async def _spawn(self, form: Mapping[str, str]) -> str:
        name = form.get("name", "").strip()
        await self._acts.spawn(name, form.get("prompt", ""), like=form.get("like") or None)
        return f"Started {name}."

    async def _interrupt(self, form: Mapping[str, str]) -> str:
        name = form.get("name", "")
        await self._acts.interrupt(name)
        return f"Interrupted {self._shown(name)}. The agent keeps running."

    async def _mode(self, form: Mapping[str, str]) -> str:
        name, mode = form.get("name", ""), form.get("mode", "")
        await self._acts.set_mode(name, mode)
        return f"The mode of {self._shown(name)} is now {mode}."

    async def _stop(self, form: Mapping[str, str]) -> str:
        name = form.get("name", "")
        if form.get("sure") != "yes":
            raise Invalid(f"{name} was not stopped.", remedy='Tick "I am sure" first.')
        await self._acts.stop(name, reason=form.get("reason") or None)
        return f"Stopped {self._shown(name)}."

    async def _budget(self, form: Mapping[str, str]) -> str:
        given = form.get("usd", "").strip().removeprefix("$")
        try:
            usd = float(given) if given else None
        except ValueError:
            raise Invalid(
                f"{given!r} is not an amount.", remedy="Give dollars, for example 5 or 2.50."
            ) from None
        limits = await self._acts.set_budget(usd)
        if limits.usd is None:
            return "The team has no budget limit any more."
        return f"The budget of the team is now ${limits.usd:.2f}."

    async def _finish(self, form: Mapping[str, str]) -> str:
        if form.get("sure") != "yes":
            raise Invalid("The run was not finished.", remedy='Tick "I am sure" first.')
        await self._acts.finish(form.get("summary", ""))
        return "The run is finished."

    def _shown(self, name: str) -> str:
        return self._story().shown_name(name)


async def read_form(request: Request, *, bytes_max: int = FORM_BYTES_MAX) -> dict[str, str]:
    """The fields of a form. Raises Invalid."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid(
            f"A form cannot be sent as {kind!r}.", remedy="Send application/x-www-form-urlencoded."
        )
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > bytes_max:
            raise Invalid(
                "The form is too long.", remedy="Shorten the text, or put it into a file."
            )
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise Invalid("The form cannot be read.", remedy="Load the page again.") from None
    # Browsers send line breaks as CRLF.
    return {name: value.replace("\r\n", "\n") for name, value in fields}
