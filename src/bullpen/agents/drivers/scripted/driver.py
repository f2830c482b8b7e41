"""The scripted driver: it does what a script says, the same every time, and costs nothing.

Each step stands for one model request: mail is taken before it, and is seen once the "model" has
answered with something to do. A step that hangs, fails or kills stands for a request without an
answer: its mail stays unseen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from pydantic import BaseModel, ConfigDict, ValidationError

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed, TurnInput, TurnResult
from bullpen.agents.drivers.scripted import CAPABILITIES
from bullpen.agents.drivers.scripted.script import (
    PLACEHOLDER,
    ScriptedTurn,
    ScriptStep,
    WaitMail,
    load,
    texts,
)
from bullpen.agents.mail.message_frame import said
from bullpen.agents.tools.files.file_content import find, known
from bullpen.agents.tools.files.safe_open import real_path
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import BullpenError, Unavailable, Unreadable
from bullpen.protocol.agent import AgentSpec, Usage
from bullpen.protocol.message import Message
from bullpen.protocol.task import Task
from bullpen.store.private_folder import make_private
from bullpen.team.tasks import rules

_SEEN_KEPT = 1_000
"""How many ids are kept, for the time until the store has recorded them as seen."""
_LOOK_EVERY_S = 0.05


class Scripted:
    """Takes turns from a script. `script.json` in the desk's folder keeps its progress."""

    name = "scripted"
    capabilities = CAPABILITIES

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._script: tuple[ScriptedTurn, ...] = ()
        self._progress = _Progress()

    async def start(self, desk: Desk) -> None:
        """Read the script and the progress of an earlier process."""
        if self._spec.script is None:
            raise Unavailable(
                f"{desk.agent!r} has no script.",
                remedy="Name a script with --script FILE, or choose another driver.",
            )
        path = Path(self._spec.cwd, self._spec.script)
        self._script = await anyio.to_thread.run_sync(load, path, desk.agent)
        self._progress = _read(_place(desk))

    def remembers(self, message_id: str) -> bool:
        """Whether a step with this message was answered, even before a restart."""
        return message_id in self._progress.seen

    async def turn(self, given: TurnInput, desk: Desk) -> TurnResult:
        """Play the turn of the script that matches, then those that answer the mail it got."""
        progress = self._progress
        played = _Played(desk, progress, given)
        await played.meet(given.ids)
        number = self._opening(played, await _own_tasks(desk))
        progress.turns += 1
        while number is not None and desk.leaving is None:
            # Saved before the first step: a turn that kills its process must not be played again.
            progress.played.append(number)
            _write(_place(desk), progress)
            for step in self._script[number].steps:
                await played.do(step)
                if desk.leaving is not None:
                    break
            number = self._answering(played, await _own_tasks(desk))
        await played.end()
        progress.tasks = [_stamp(task) for task in (await _own_tasks(desk)).in_progress]
        _write(_place(desk), progress)
        return TurnResult(played.said[-1] if played.said else "")

    async def aclose(self) -> None:
        """Nothing to close."""

    def _opening(self, played: _Played, own: _OwnTasks) -> int | None:
        """The scripted turn that matches the start of this turn."""
        fresh = [task for task in own.in_progress if _stamp(task) not in self._progress.tasks]
        for number, scripted in self._unplayed():
            if scripted.when == "start" and self._progress.turns:
                continue
            if scripted.when == "task" and not fresh:
                continue
            among = own._replace(in_progress=fresh) if scripted.when == "task" else own
            if not _fits(scripted, among):
                continue
            if not scripted.answers_mail:
                # It was written for the whole turn, with all its mail.
                played.unanswered.clear()
                return number
            if played.answer(scripted.sender, scripted.contains):
                return number
        return None

    def _answering(self, played: _Played, own: _OwnTasks) -> int | None:
        """The scripted turn for a message without an answer, whenever the message came."""
        for number, scripted in self._unplayed():
            if (
                scripted.answers_mail
                and scripted.when in {"mail", "any"}
                and _fits(scripted, own)
                and played.answer(scripted.sender, scripted.contains)
            ):
                return number
        return None

    def _unplayed(self) -> Iterator[tuple[int, ScriptedTurn]]:
        for number, scripted in enumerate(self._script):
            if scripted.repeat or number not in self._progress.played:
                yield number, scripted


class _Progress(BaseModel):
    """What is saved: turns taken, scripted turns played, mail seen, tasks in progress."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    turns: int = 0
    played: list[int] = []
    seen: list[str] = []
    # The tasks that were in progress when the last turn succeeded.
    tasks: list[str] = []


def _place(desk: Desk) -> Path:
    return desk.folder / "script.json"


def _read(path: Path) -> _Progress:
    try:
        return _Progress.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return _Progress()
    except (OSError, ValidationError) as error:
        raise Unreadable(
            str(path),
            f"the progress of the script cannot be parsed ({type(error).__name__})",
            remedy="Delete the file to play the script from the start.",
        ) from None


def _write(path: Path, progress: _Progress) -> None:
    make_private(path.parent)
    beside = path.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(progress.model_dump_json())
    beside.replace(path)


class _OwnTasks(NamedTuple):
    """The tasks of one agent: those in progress, and those that it can begin."""

    in_progress: list[Task]
    ready: list[Task]


async def _own_tasks(desk: Desk) -> _OwnTasks:
    tasks = {task.id: task for task in (await desk.team.tasks.list()).tasks}
    mine = [task for task in tasks.values() if task.owner == desk.agent]
    ready = rules.ready(tasks, team=desk.team.name, for_owner=desk.agent)
    return _OwnTasks(
        [task for task in mine if task.status == "in_progress"],
        [task for task in ready if task.owner],
    )


def _stamp(task: Task) -> str:
    return f"{task.id}:{task.facts.attempt}"


def _fits(scripted: ScriptedTurn, own: _OwnTasks) -> bool:
    return all(
        part is None or any(part in task.subject for task in among)
        for part, among in ((scripted.task, own.in_progress), (scripted.ready, own.ready))
    )


class _Played:
    """One turn while it is played."""

    def __init__(self, desk: Desk, progress: _Progress, given: TurnInput) -> None:
        self.said: list[str] = []
        self.unanswered: list[Message] = []
        self._desk = desk
        self._progress = progress
        self._given: TurnInput | None = given
        self._unseen: list[str] = []
        self._mail: Message | None = None
        self._asked: list[str] = []

    async def meet(self, ids: Sequence[str]) -> None:
        """Add the messages of the next request."""
        self._unseen += ids
        if ids:
            box = await self._desk.team.mailbox.read(self._desk.agent, history=True)
            messages = {entry.id: entry.message for entry in box.entries}
            self.unanswered += [messages[each] for each in ids if each in messages]

    def answer(self, sender: str | None, contains: str | None) -> bool:
        """Answer the first unanswered message that matches."""
        for message in self.unanswered:
            if sender is not None and message.sender != sender:
                continue
            if contains is None or contains in message.text or contains in said(message):
                self.unanswered.remove(message)
                self._mail = message
                return True
        return False

    async def do(self, step: ScriptStep) -> None:
        """Make a request that is answered with this step."""
        await self._ask()
        if step.exit is not None:
            os._exit(step.exit)
        if step.kill is not None:
            os.kill(os.getpid(), step.kill)
        if step.kill is not None or step.hang:
            await anyio.sleep_forever()
        if step.fail is not None:
            raise self._failed(await self._filled(step.fail))
        await anyio.sleep(step.sleep or 0)
        await self._answered()
        if step.tool is not None:
            await self._use(step, step.tool)
        elif step.say is not None:
            await self._say(step.say)
        elif step.wait_mail is not None:
            await self._wait(step.wait_mail)
        elif step.usage is not None:
            self._desk.used(Usage.new(**step.usage.model_dump()))

    async def end(self) -> None:
        """End the turn. A turn without steps is a request with an empty answer."""
        if self._given is not None:
            await self._ask()
            await self._answered()

    async def _ask(self) -> None:
        """Start a request: the first with the text of the turn, the others with new mail."""
        await self._desk.may_spend()
        text = ""
        if self._given is not None:
            text, self._given = self._given.text, None
        elif (mail := await self._desk.take_mail()) is not None:
            text = mail.text
            await self.meet(mail.ids)
        self._desk.record("request", text=text)

    async def _answered(self) -> None:
        """Note that a request succeeded: its mail is seen."""
        if not self._unseen:
            return
        ids, self._unseen = self._unseen, []
        # Our own file first: a kill between the two must not deliver a message twice.
        self._progress.seen = [*self._progress.seen, *ids][-_SEEN_KEPT:]
        _write(_place(self._desk), self._progress)
        await self._desk.seen(ids)

    async def _use(self, step: ScriptStep, tool: str) -> None:
        self._desk.used(Usage.new(requests=1), calls=[tool])
        raw = await self._filled(step.input or {})
        if tool == "Write":
            await anyio.to_thread.run_sync(self._know, raw.get("file_path"))
        text, is_error = await call(toolbox(self._desk), tool, raw, self._desk, of_model=False)
        if is_error and not step.may_fail:
            raise self._failed(f"{tool} failed: {text}")

    def _know(self, path: object) -> None:
        """Count a file as read: the author of a script has decided to replace what is there."""
        with suppress(BullpenError, ValueError):
            found = find(real_path(str(path), self._desk.spec.cwd))
            if found is not None:
                known(self._desk)[found.path] = found.digest

    async def _say(self, text: str) -> None:
        self._desk.used(Usage.new(requests=1))
        self.said.append(await self._filled(text))
        self._desk.record("text", text=self.said[-1])

    async def _wait(self, wanted: WaitMail) -> None:
        whose = wanted.sender or "anybody"
        with self._desk.waiting(f"mail from {whose}"), anyio.move_on_after(wanted.seconds):
            while not self.answer(wanted.sender, wanted.contains):
                mail = await self._desk.take_mail()
                if mail is None:
                    await anyio.sleep(_LOOK_EVERY_S)
                    continue
                self._desk.record("request", text=mail.text)
                await self.meet(mail.ids)
                await self._answered()
            return
        like = f" with {wanted.contains!r}" if wanted.contains else ""
        raise self._failed(f"No mail from {whose}{like} came within {wanted.seconds:g} seconds.")

    def _failed(self, cause: str) -> TurnFailed:
        return TurnFailed(cause, partial="\n".join(self.said))

    async def _filled(self, value: Any) -> Any:
        """The value with every placeholder in its texts replaced."""
        found = {match["name"] for text in texts(value) for match in PLACEHOLDER.finditer(text)}
        tasks = (await self._desk.team.tasks.list()).tasks if found & {"task", "subject"} else []
        if "request" in found:
            pending = await self._desk.team.approvals.pending()
            self._asked = [each.id for each in pending if each.to == self._desk.agent]
        return self._fill(value, tasks)

    def _fill(self, value: Any, tasks: Sequence[Task]) -> Any:
        if isinstance(value, str):
            return PLACEHOLDER.sub(
                lambda match: (
                    match[0][1:-1] if match[1] else self._value(match["name"], match["of"], tasks)
                ),
                value,
            )
        if isinstance(value, dict):
            return {key: self._fill(each, tasks) for key, each in value.items()}
        return [self._fill(each, tasks) for each in value] if isinstance(value, list) else value

    def _value(self, name: str, of: str | None, tasks: Sequence[Task]) -> str:
        desk = self._desk
        if name == "task" and of is not None:
            ids = [task.id for task in tasks if of in task.subject]
            return self._first(ids, f"There is no task whose subject contains {of!r}.")
        if name in ("task", "subject"):
            owned = [task for task in tasks if task.owner == desk.agent]
            mine = [task for task in owned if task.status == "in_progress"]
            found = [task.id if name == "task" else task.subject for task in mine]
            return self._first(found, f"{desk.agent!r} has no task in progress.")
        if name == "mail":
            mail = [] if self._mail is None else [said(self._mail)]
            return self._first(mail, "No message was answered in this turn.")
        if name == "request":
            return self._first(
                self._asked, f"No request is waiting for an answer from {desk.agent!r}."
            )
        return {"agent": desk.agent, "team": desk.team.name, "cwd": desk.spec.cwd}[name]

    def _first(self, found: list[str], otherwise: str) -> str:
        if not found:
            raise self._failed(otherwise)
        return found[0]
