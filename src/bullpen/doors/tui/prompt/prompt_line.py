"""The input line: several lines if need be, a history, and single keys that answer."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.message import Message
from textual.timer import Timer
from textual.widgets import TextArea

from bullpen.view.text import visible

HOLD_S = 0.4
"""A key that answers waits this long for a second key: then both are the begin of a text."""

_HISTORY_MAX = 200
_NEW_LINE = ("ctrl+j", "shift+enter", "alt+enter")


class PromptLine(TextArea):
    """Takes what a person types."""

    class Sent(Message):
        """Enter was pressed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Pressed(Message):
        """A single key was pressed that means something in an empty line."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Step(Message):
        """Up or down was pressed while completions are shown."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self) -> None:
        super().__init__(
            id="line", soft_wrap=True, tab_behavior="focus", highlight_cursor_line=False,
            compact=True,
        )  # fmt: skip
        self.cursor_blink = False
        self.keys: frozenset[str] = frozenset()
        self.completing = False
        # What Tab makes of a text, and Enter (then True): at once, as more keys may wait.
        self.completed: Callable[[str, bool], str | None] = lambda _text, _entered: None
        # Called at every key.
        self.touched: Callable[[], None] = lambda: None
        self._held: str | None = None
        self._timer: Timer | None = None
        self._history: list[str] = []
        self._at: int | None = None

    def take(self) -> str:
        """Empty the line and return what was in it."""
        text = self.text
        self.text = ""
        self._at = None
        return text

    def remember(self, text: str) -> None:
        """Put a text into the history."""
        if text and self._history[-1:] != [text]:
            self._history = [*self._history, text][-_HISTORY_MAX:]

    def put(self, text: str) -> None:
        """Show a text, with the cursor at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    @property
    def is_held(self) -> bool:
        """Whether it holds one key that answers unless another one follows."""
        return self._held is not None

    async def _on_key(self, event: events.Key) -> None:
        self.touched()
        held = self._let_go()
        if not self._handled(event, held):
            return
        event.stop()
        event.prevent_default()

    def _handled(self, event: events.Key, held: str | None) -> bool:
        key, character = event.key, event.character
        if key == "enter":
            if held is not None:
                self._answer(held)
            elif not self._complete(entered=True):
                # Told before the line is empty: for what is there to answer, that is a change.
                self.post_message(self.Sent(self.text))
                self.take()
        elif key in _NEW_LINE:
            self.insert("\n")
        elif key in ("up", "down") and self.completing:
            self.post_message(self.Step(1 if key == "down" else -1))
        elif key in ("up", "down") and self._browses:
            self._browse(-1 if key == "up" else 1)
        elif key == "tab" and self.text:
            self._complete(entered=False)
        elif not self.text and character == "?":
            self.post_message(self.Pressed("?"))
        elif not self.text and character is not None and character in self.keys:
            self.insert(character)
            self._held = character
            self._timer = self.set_timer(HOLD_S, self._held_long)
        else:
            return False
        return True

    def _complete(self, *, entered: bool) -> bool:
        whole = self.completed(self.text, entered)
        if whole is not None:
            self.put(whole)
        return whole is not None

    async def _on_paste(self, event: events.Paste) -> None:
        self._let_go()
        event.stop()
        event.prevent_default()
        # Control characters that were copied along would steer the terminal.
        self.insert(visible(event.text.replace("\r\n", "\n").replace("\r", "\n")))

    def _let_go(self) -> str | None:
        held, self._held = self._held, None
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        return held

    def _held_long(self) -> None:
        held = self._let_go()
        if held is not None and self.text == held:
            self._answer(held)

    def _answer(self, key: str) -> None:
        self.post_message(self.Pressed(key))
        self.take()

    @property
    def _browses(self) -> bool:
        if not self._history:
            return False
        if self._at is not None and self._history[self._at] == self.text:
            return True
        return not self.text

    def _browse(self, by: int) -> None:
        at = len(self._history) if self._at is None or not self.text else self._at
        at = max(0, at + by)
        if at >= len(self._history):
            self.take()
            return
        self.put(self._history[at])
        self._at = at
