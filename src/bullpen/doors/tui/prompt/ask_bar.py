"""The bar above the input line: what waits for the person, exactly, and the keys that answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import monotonic

from rich.text import Text
from textual.widgets import Static

from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.view.agent_words import duration
from bullpen.view.scene import AskCard

SETTLE_S = 0.7
"""For this long, keys do not answer a request that appeared by itself."""

_LINES_LEAST, _LINES_MAX = 3, 12
# How much of the screen the bar may take, as in its style, and its lines beside the request.
_SHARE_MAX, _BESIDE = 60, 5
_EDITS = ("Edit", "MultiEdit", "Write")
_DIGITS = "123456789"


class AskBar(Static):
    """The requests that wait for the person, one at a time; not shown while there are none."""

    def __init__(
        self, terminal: TerminalText, *, monotonic: Callable[[], float] = monotonic
    ) -> None:
        super().__init__(id="asks")
        self._terminal, self._monotonic = terminal, monotonic
        self._asks: list[AskCard] = []
        self._at = 0
        self._came_s = 0.0
        self._now_ms = 0
        self._names: Callable[[str], str] = lambda name: name
        self._shown: tuple[object, ...] = ()
        self.is_cut = False
        self._viewed: tuple[str, str | None] | None = None
        # Whether one of the choices of "always" is being picked.
        self.choosing = False
        self._chosen: str | None = None
        # Whether what is typed answers the question.
        self._takes_words = False

    @property
    def ask(self) -> AskCard | None:
        """The request that the keys answer."""
        return self._asks[self._at] if self._asks else None

    @property
    def is_settled(self) -> bool:
        """Whether the request has been there long enough to have been read."""
        return self._monotonic() - self._came_s >= SETTLE_S

    @property
    def is_unseen(self) -> bool:
        """Whether a part of the request was never on the screen, so that a yes shows it first."""
        ask = self.ask
        return self.is_cut and ask is not None and self._viewed != (ask.id, ask.digest)

    def viewed(self, ask: AskCard) -> None:
        """Take note that the person saw all of a request."""
        self._viewed = ask.id, ask.digest
        self.draw()

    def show(self, look: TeamLook, chosen: str | None) -> None:
        """Show what the chosen member waits for, then what else waits for people.

        The request on the bar stays there until another member is chosen: a key that was meant for
        one request must not answer another one.
        """
        self._now_ms, self._names = look.now_ms, look.name
        before, goes_on = self.ask, chosen == self._chosen
        self._chosen = chosen
        asks = [ask for ask in look.scene.asks if ask.sender == chosen]
        own = bool(asks)
        asks += [ask for ask in look.scene.asks if ask.for_people and ask.sender != chosen]
        self._asks = asks
        ids = [ask.id for ask in asks]
        if not goes_on and own:
            self._at = 0
        elif before is not None and before.id in ids:
            self._at = ids.index(before.id)
        else:
            self._at = min(self._at, max(0, len(ids) - 1))
        self._came(before)
        self.draw()

    def next(self) -> None:
        """Go to the next request: the person chose it, so it may be answered at once."""
        if len(self._asks) > 1:
            self._at = (self._at + 1) % len(self._asks)
            self.choosing = False
            self._came_s = 0.0
            self.draw()

    def age(self, now_ms: int) -> None:
        """Show how long is left to answer by now."""
        self._now_ms = now_ms
        self.draw()

    def take_words(self, takes: bool) -> None:
        """Say that what is typed answers the question, or that it does not."""
        if takes != self._takes_words:
            self._takes_words = takes
            self.draw()

    def choose(self, choosing: bool) -> None:
        """Show the choices of "always", or what they were chosen for."""
        self.choosing = choosing
        self.draw()

    def choice(self, key: str) -> str | None:
        """The name of the choice of "always" that a digit means."""
        ask = self.ask
        if ask is None or key not in _DIGITS[: len(ask.choices)]:
            return None
        return ask.choices[int(key) - 1][0]

    def keys(self) -> dict[str, str]:
        """The keys that mean something now, each with what it does."""
        ask = self.ask
        if ask is None:
            return {}
        more = {"n": "next"} if len(self._asks) > 1 else {}
        if self.choosing:
            return dict.fromkeys(_DIGITS[: len(ask.choices)], "choose")
        # It is also taken where it is not named: of all that is shown, a line may be cut.
        view = {"v": "view"}
        match ask.kind:
            case "permission":
                always = {"A": "always"} if ask.always or ask.choices else {}
                edit = {"e": "edit"} if ask.input is not None else {}
                return {"a": "allow", **always, "d": "deny", **edit, **view, **more}
            case "plan":
                return {"a": "approve", "w": "with words", "d": "reject", **view, **more}
            case "question":
                digits = dict.fromkeys(_DIGITS[: _options(ask)], "answer")
                return {**digits, "w": "words", "d": "decline", **more}
            case _:
                return {"a": "allow", "d": "deny", **view, **more}

    def draw(self) -> None:
        """Draw the bar again if it shows something else, or has another width."""
        ask, width, height = self.ask, self.app.size.width, self.app.size.height
        self.display = ask is not None
        if ask is None:
            self._shown = ()
            return
        where = (self._at, len(self._asks), self._viewed, self._takes_words)
        shown = (ask, width, height, self.choosing, *where, self._left(ask))
        if shown != self._shown:
            self._shown = shown
            self.update(self._text(ask, width - 2, height))

    def head(self, ask: AskCard) -> str:
        """Who wants what, in a few words; of a short command, all of it."""
        who = self._names(ask.sender)
        to = "" if ask.for_people else f" (asks {self._names(ask.to)})"
        tool, _, detail = ask.about.partition(" ")
        match ask.kind:
            case "permission" if tool == "Bash":
                wants = "wants to run:"
            case "permission" if tool in _EDITS:
                wants = f"wants to change {detail}"
            case "permission":
                wants = f"wants to use {ask.about}"
            case "plan":
                wants = "asks you to approve its plan"
            case "question":
                wants = "asks you:"
            case _:
                wants = f"asks {ask.about}"
        return f"{who} {wants}{to}"

    def _came(self, before: AskCard | None) -> None:
        now = self.ask
        if now is None or before is None or before.id != now.id or before.digest != now.digest:
            self._came_s = self._monotonic()
            self.choosing = False

    def _left(self, ask: AskCard) -> str:
        """How long there is to answer: in whole minutes, at last in seconds."""
        if ask.deadline_ms is None:
            return ""
        seconds = max(0, ask.deadline_ms - self._now_ms) / 1000
        minutes = math.ceil(seconds / 60)
        if minutes > 120:
            return f"{minutes // 60}h left to answer"
        return f"{f'{minutes}m' if minutes > 2 else duration(seconds)} left to answer"

    def _text(self, ask: AskCard, width: int, height: int) -> Text:
        lines = self._content(ask, width, height)
        keys = self._key_line()
        if lines[0].cell_len + keys.cell_len + 3 <= width:
            lines[0].append("   ").append_text(keys)
        else:
            lines.append(keys)
        shown = Text("\n").join(lines)
        shown.no_wrap, shown.overflow = True, "crop"
        return shown

    def _content(self, ask: AskCard, width: int, height: int) -> list[Text]:
        terminal = self._terminal
        mark = f"{terminal.glyph('waiting')} "
        if len(self._asks) > 1:
            mark += f"{self._at + 1} of {len(self._asks)}  "
        head = styled(mark + terminal.fit(self.head(ask), width - len(mark)), "attention")
        exact = [
            line for cell in ask.lines for line in terminal.wrap(cell.text, width - 2, cell.style)
        ]
        one = len(exact) == 1 and head.cell_len + exact[0].cell_len < width
        if one and (ask.kind == "question" or ask.about.startswith("Bash ")):
            self.is_cut = False
            head.append(" ").append_text(styled(exact[0].plain, "strong"))
            exact = []
        lines = [head, *self._cut(exact, height, len(ask.choices))]
        left = self._left(ask)
        dot = f" {terminal.glyph('dot')} "
        # A long reason is cut, not the time that is left.
        room = width - len(dot) - len(left) if left else width
        reason = terminal.fit(f"  Why: {ask.why}", room) if ask.why else ""
        why = dot.join(part for part in (reason, left) if part)
        if why:
            lines.append(styled(terminal.fit(why if reason else f"  {why}", width), "muted"))
        return lines + self._always(ask, width)

    def _cut(self, exact: Sequence[Text], height: int, choices: int) -> list[Text]:
        """All lines if the bar can grow so far; else some, and the rest can be viewed."""
        room = min(_LINES_MAX, max(_LINES_LEAST, height // 3 - 3))
        if len(exact) <= height * _SHARE_MAX // 100 - _BESIDE - choices:
            room = len(exact)
        self.is_cut = len(exact) > room
        lines = [styled("  ").append_text(line) for line in exact[:room]]
        if self.is_cut:
            first = ", a shows all of it first" if self.is_unseen and "a" in self.keys() else ""
            lines.append(styled(f"  {len(exact) - room} more lines: v shows all{first}", "muted"))
        return lines

    def _always(self, ask: AskCard, width: int) -> list[Text]:
        fit = self._terminal.fit
        if self.choosing:
            head = styled("  Always allow which? Narrow to wide; Escape goes back.", "strong")
            rows = [
                styled(fit(f"  {number} {covers}", width))
                for number, (_, covers) in enumerate(ask.choices, 1)
            ]
            return [head, *rows]
        if ask.always and len(ask.choices) <= 1:
            return [styled(fit(f"  Always would allow: {', '.join(ask.always)}", width), "muted")]
        return []

    def _key_line(self) -> Text:
        line = styled("")
        digits = [key for key in self.keys() if key in _DIGITS]
        if digits:
            word = "choose" if self.choosing else "answer"
            reach = digits[0] if len(digits) == 1 else f"{digits[0]}-{digits[-1]}"
            line.append_text(styled(f"[{reach}] {word} ", "strong"))
        for key, word in self.keys().items():
            if key in _DIGITS or (word == "words" and self._takes_words):
                continue
            if word == "view" and not self.is_cut and (self.ask is None or self.ask.kind != "plan"):
                continue
            shown = f"[{key}]{word[1:]}" if word[0] == key.lower() else f"[{key}] {word}"
            line.append_text(styled(f"{shown} ", "strong"))
        if self._takes_words:
            line.append_text(styled("or type the answer ", "muted"))
        line.right_crop(1)
        return line


def _options(ask: AskCard) -> int:
    """How many options a single question offers; 0 if there are several questions."""
    numbered = [cell.text.strip().partition(".")[0] for cell in ask.lines]
    options = [number for number in numbered if number.isdecimal()]
    return len(options) if options == [str(n) for n in range(1, len(options) + 1)] else 0
