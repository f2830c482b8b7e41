"""Does what was typed into the input line: sends a message, or runs a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from bullpen.doors.tui.prompt.commands import member_called, read_typed, words_of
from bullpen.errors import Invalid
from bullpen.protocol.names import EVERYBODY

if TYPE_CHECKING:
    from bullpen.doors.tui.key_actions import KeyActions


class Commanded(Protocol):
    """What a command can do on the screen of a team."""

    @property
    def chosen(self) -> str | None: ...
    @property
    def app(self) -> Any: ...
    def tell(self, message: str, more: str = "", *, bad: bool = False) -> None: ...
    def act(self, do: Callable[[KeyActions], None]) -> None: ...
    def send(self, to: str | None, text: str) -> None: ...
    def talk_to(self, name: str | None) -> None: ...
    def choose(self, name: str) -> None: ...
    def worker_of(self, task: str) -> str | None: ...
    def show_diff(self, task: str | None) -> None: ...
    def show_page(self, page: str, *, graph: bool = False) -> None: ...
    def interrupt(self, name: str) -> None: ...
    def leave_team(self) -> None: ...
    def next_theme(self) -> None: ...
    def help(self) -> None: ...
    def quit(self) -> Any: ...


class CommandRunner:
    """The commands of one screen."""

    def __init__(self, screen: Commanded) -> None:
        self._screen = screen
        self._names: Sequence[str] = ()
        # Whether the last command asked to leave, and was told that this stops the run.
        self._warned = False
        show = screen.show_page
        self._commands: dict[str, Callable[[list[str]], object]] = {
            "spawn": self._spawn,
            "stop": self._stop,
            "interrupt": lambda words: screen.interrupt(self._agent(words)),
            "mode": self._mode,
            "task": lambda words: screen.act(lambda acts: acts.add_task(words[0])),
            "assign": self._assign,
            "budget": lambda words: screen.act(lambda acts: acts.set_budget(words[0])),
            "diff": self._diff,
            "attach": self._attach,
            "graph": lambda _: show("tasks", graph=True),
            "messages": lambda _: show("messages"),
            "log": lambda _: show("log"),
            "notes": lambda _: show("notes"),
            "teams": lambda _: screen.leave_team(),
            "theme": lambda _: screen.next_theme(),
            "finish": lambda words: screen.act(lambda acts: acts.finish(" ".join(words))),
            "quit": lambda _: screen.quit(),
            "help": lambda _: screen.help(),
        }

    def run(self, text: str, names: Sequence[str]) -> None:
        """Do what was typed. Raises Invalid if it cannot be understood."""
        self._names = names
        warned, self._warned = self._warned, False
        typed = read_typed(text, names)
        if typed.command == "quit" and not warned and self._screen.app.quit_stops:
            self._warned = True
            self._screen.tell("This stops the run. /quit again, or /finish.")
        elif typed.command is not None:
            words = words_of(typed.command, typed.text)
            self._commands[typed.command](words)
        elif typed.text:
            self._screen.send(typed.to, typed.text)
        elif typed.to is not None and typed.to != EVERYBODY:
            self._screen.talk_to(typed.to)

    def _agent(self, words: Sequence[str]) -> str:
        """The member that was named, or the chosen one."""
        name = member_called(words[0], self._names) if words else self._screen.chosen
        if name is None or name == EVERYBODY:
            raise Invalid("No member is chosen.", remedy="Name one, or choose it: shift+down.")
        return name

    def _spawn(self, words: list[str]) -> None:
        self._screen.act(lambda acts: acts.spawn(words[0], words[1]))

    def _stop(self, words: list[str]) -> None:
        name = self._agent(words)
        self._screen.act(lambda acts: acts.stop(name))

    def _mode(self, words: list[str]) -> None:
        name = self._agent(words[1:])
        self._screen.act(lambda acts: acts.set_mode(name, words[0]))

    def _assign(self, words: list[str]) -> None:
        task, name = words[0].removeprefix("#"), self._agent(words[1:])
        self._screen.act(lambda acts: acts.assign(task, name))

    def _attach(self, words: list[str]) -> None:
        name = self._agent(words)
        self._screen.act(lambda acts: acts.attach(name))

    def _diff(self, words: list[str]) -> None:
        """Show the changes of a member, or those for a task of whoever has it."""
        task = words[0].removeprefix("#") if words and words[0].strip("#").isdecimal() else None
        if task is None:
            self._screen.choose(self._agent(words))
            self._screen.show_diff(None)
            return
        owner = self._screen.worker_of(task)
        if owner is None:
            raise Invalid(f"Nobody has worked on task #{task}.", remedy="Tasks: ctrl+t")
        self._screen.choose(owner)
        self._screen.show_diff(task)
