"""Answering what waits, where the person is: by one key, with a reason, by number or in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from textual.screen import Screen

from bullpen.by_name import load
from bullpen.doors.tui.prompt.ask_bar import AskBar
from bullpen.doors.tui.prompt.prompt_line import PromptLine
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.view.scene import AskCard

if TYPE_CHECKING:
    from bullpen.doors.tui.key_actions import KeyActions, Teller

_YES = ("allow", "approve", "always")


@dataclass(frozen=True, slots=True)
class Reply:
    """Words that the input line takes for a request; `draft` was in it before."""

    ask: AskCard
    how: Literal["deny", "words"]
    draft: str


class Answering:
    """What the keys and the input line mean for the request on the bar."""

    def __init__(
        self,
        screen: Screen[None],
        terminal: TerminalText,
        bar: AskBar,
        line: PromptLine,
        act: Callable[[Callable[[KeyActions], None]], None],
        tell: Teller,
    ) -> None:
        self._screen, self._terminal, self._bar, self._line = screen, terminal, bar, line
        self._act, self._tell = act, tell
        self._reply: Reply | None = None
        # The question that the input line answers, and those that the person set aside.
        self._question: str | None = None
        self._aside: set[str] = set()

    def label(self, name: Callable[[str], str]) -> str | None:
        """What the input line takes words for; None if it takes messages."""
        if self._reply is not None:
            who, ask = name(self._reply.ask.sender), self._reply.ask
            if self._reply.how == "deny":
                what = "reject the plan of" if ask.kind == "plan" else "deny"
                return f"{what} {who}, reason (may be empty): "
            return f"{'approve the plan of' if ask.kind == 'plan' else 'answer'} {who}, words: "
        ask_now = self._bar.ask
        if ask_now is not None and ask_now.id == self._question:
            return f"answer {name(ask_now.sender)}: "
        return None

    def beside(self, to: str) -> str:
        """What somebody who types a text to a member should know: the keys do not answer now."""
        ask, line = self._bar.ask, self._line
        if self._reply is not None:
            done = "denies" if self._reply.how == "deny" else "answers"
            return f"Enter {done}, Esc goes back."
        if ask is None or not line.text or line.text[0] in "/@" or line.is_held:
            return ""
        if ask.id == self._question:
            return ""
        yes = self._bar.keys().get("a")
        then = f", then a {yes}s" if yes else ""
        return f"This is text to {to}. Ctrl-C empties it{then}."

    def waits(self) -> str:
        """The keys that answer the request which a text did not answer; empty if there is none."""
        ask, keys = self._bar.ask, self._bar.keys()
        if ask is None or ask.kind == "question":
            return ""
        return " / ".join(key for key in ("a", "d") if key in keys)

    def follow(self) -> None:
        """Take note of what is on the bar and in the line: both may have changed."""
        ask, line = self._bar.ask, self._line
        if self._reply is not None and (ask is None or ask.id != self._reply.ask.id):
            # It was answered elsewhere, or another one is looked at.
            draft, self._reply = self._reply.draft, None
            line.put(draft)
        if ask is None or ask.kind != "question":
            self._question = None
        elif ask.id != self._question:
            free = not line.text and ask.id not in self._aside
            self._question = ask.id if free else None
        self._bar.take_words(self._question is not None)
        line.keys = frozenset() if self._reply is not None else frozenset(self._bar.keys())

    def leave(self) -> bool:
        """Close what is open for the request on the bar; whether anything was."""
        if self._bar.choosing:
            self._bar.choose(False)
        elif self._reply is not None:
            reply, self._reply = self._reply, None
            self._line.put(reply.draft)
        elif self._question is not None:
            self._aside.add(self._question)
            self._question = None
        else:
            return False
        self.follow()
        return True

    def submit(self, text: str) -> bool:
        """Take what was typed as words for a request; whether it was for one."""
        if self._reply is not None:
            reply, self._reply = self._reply, None
            self._line.put(reply.draft + self._line.text)
            if reply.how == "deny":
                self._act(lambda acts: acts.deny(reply.ask, text))
            elif text.strip():
                self._act(lambda acts: acts.approve(reply.ask, words=text.strip()))
            else:
                self._tell("Nothing was answered: there were no words.")
            self.follow()
            return True
        ask = self._bar.ask
        if ask is None or ask.id != self._question or not text.strip() or text[:1] in "/@":
            return False
        self._act(lambda acts: acts.approve(ask, words=text.strip()))
        return True

    def press(self, key: str) -> None:
        """Answer by one key, unless the request has only just appeared by itself."""
        ask, what = self._bar.ask, self._bar.keys().get(key)
        if ask is None or what is None:
            return
        if what == "next":
            self._bar.next()
            self.follow()
        elif what == "view":
            self._view(ask)
        elif not self._bar.is_settled:
            self._tell("This request has only just appeared.", "Read it, then answer.")
        elif what in _YES and self._bar.is_unseen:
            # Nobody approves what is not on the screen.
            self._view(ask)
        else:
            self._answer(ask, what, key)

    def _answer(self, ask: AskCard, what: str, key: str) -> None:
        match what:
            case "allow" | "approve":
                self._act(lambda acts: acts.approve(ask))
            case "always" if len(ask.choices) > 1:
                self._bar.choose(True)
                self.follow()
            case "always":
                self._act(lambda acts: acts.approve(ask, always=True))
            case "choose":
                choice = self._bar.choice(key)
                self._bar.choose(False)
                self._act(lambda acts: acts.approve(ask, always=True, choice=choice))
            case "answer":
                self._act(lambda acts: acts.approve(ask, words=key))
            case "edit":
                self._act(lambda acts: acts.edit(ask))
            case _:
                words = what in ("with words", "words")
                self._reply = Reply(ask, "words" if words else "deny", self._line.take())
                self.follow()

    def _view(self, ask: AskCard) -> None:
        window = load("bullpen.doors.tui.prompt.ask_window:AskWindow")(
            self._terminal, ask, self._bar.head(ask), self._bar.keys()
        )

        def answered(key: str | None) -> None:
            self._bar.viewed(ask)
            now = self._bar.ask
            what = self._bar.keys().get(key or "")
            if now is not None and now.id == ask.id and what is not None:
                # As it was seen: if it has changed since, the answer is refused.
                self._answer(ask, what, key or "")

        self._screen.app.push_screen(window, answered)
