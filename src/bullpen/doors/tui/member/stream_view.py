"""The stream of one member: its words, calls and messages, newest last, as they come."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.geometry import Size

from bullpen.doors.tui.line_view import Lines
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.view.stream import StreamItem

_CALL_STYLES = {"open": "attention", "ok": "", "failed": "bad", "denied": "bad"}
_TEXTS = ("words", "mail", "trouble")
"""Texts have an empty line before them, and calls after them."""


class StreamView(Lines):
    """Shows the items of a stream. Enter opens the one under the cursor."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(follow=True, dom_id="stream")
        self._terminal = terminal
        self._items: list[StreamItem] = []
        # The lines so far, and with which line each item begins.
        self._drawn: list[Text] = []
        self._owners: list[int] = []
        self._starts: list[int] = []
        self._drawn_width = 0
        self._empty = ""

    def begin(self, empty: str) -> None:
        """Show another stream; `empty` is what to say while there is nothing in it."""
        self._empty = empty
        self.show([], 0)
        self.call_after_refresh(self.action_to_end, True)

    def show(self, items: Sequence[StreamItem], first: int) -> None:
        """Show these items; those before `first` are the ones that are shown already."""
        self._items = list(items)
        self._draw_from(min(first, len(self._starts)))

    @property
    def item(self) -> StreamItem | None:
        """The item under the cursor."""
        at = self.cursor
        if at is None or at >= len(self._owners):
            return None
        return self._items[self._owners[at]]

    def on_resize(self) -> None:
        if self.line_width != self._drawn_width:
            self._draw_from(0)

    def _draw_from(self, first: int) -> None:
        width = self._drawn_width = max(8, self.line_width)
        begin = self._starts[first] if first < len(self._starts) else len(self._drawn)
        del self._drawn[begin:], self._owners[begin:], self._starts[first:]
        for number in range(first, len(self._items)):
            item = self._items[number]
            before = self._items[number - 1] if number else None
            self._starts.append(len(self._drawn))
            lines = _item_lines(item, width, self._terminal)
            if before is not None and _stands_apart(before, item):
                lines = [styled(""), *lines]
            self._drawn += lines
            self._owners += [number] * len(lines)
        self._put()

    def _put(self) -> None:
        at_end = self.scroll_offset.y >= self.max_scroll_y
        shown = self._drawn or self._terminal.wrap(self._empty, self._drawn_width, "muted")
        self._count, self._draw = len(shown), lambda number, _: shown[number]
        self.virtual_size = Size(0, len(shown))
        if at_end:
            self._at = len(shown) - 1
            self.call_after_refresh(self._to_end)
        self._at = min(self._at, len(shown) - 1)
        self.refresh()

    def _to_end(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)


def _stands_apart(before: StreamItem, item: StreamItem) -> bool:
    if item.kind == "mail" and before.kind == "mail":
        return "you" in (before.sender, item.sender)
    return item.kind in _TEXTS or (item.kind == "call" and before.kind in _TEXTS)


def _item_lines(item: StreamItem, width: int, terminal: TerminalText) -> list[Text]:
    match item.kind:
        case "words":
            return _markdown(item.text, width, terminal)
        case "mail":
            mine = item.sender == "you"
            lead = "> " if mine or not item.sender else f"{item.sender}: "
            lines = terminal.wrap(f"{lead}{item.text}", width, "strong" if mine else "cyan")
            if item.aside:
                lines[-1].append_text(styled(f"  {terminal.fit(item.aside, 40)}", "muted"))
            return lines
        case "call":
            return [_call(item, width, terminal)]
        case "note":
            return terminal.wrap(_beside(item), width, "muted")
        case _:
            return terminal.wrap(f"! {_beside(item)}", width, "bad")


def _beside(item: StreamItem) -> str:
    return f"{item.text}  {item.aside}".rstrip()


def _call(item: StreamItem, width: int, terminal: TerminalText) -> Text:
    glyph = {"open": "more", "ok": "in_progress"}.get(item.state, "failed")
    line = styled(f"{terminal.glyph(glyph)} ", _CALL_STYLES[item.state] or "cyan")
    tool, space, rest = terminal.fit(item.text, width - 2).partition(" ")
    aside = terminal.fit(item.aside, max(8, width // 2))
    room = width - 2 - len(aside) - 2 if aside else width - 2
    line.append_text(styled(tool, "strong"))
    line.append_text(styled(space + terminal.fit(rest, max(0, room - len(tool) - 1))))
    if aside:
        line.append("  ")
        for part in aside.split(" "):
            style = {"+": "good", "-": "bad"}.get(part[:1]) if part[1:].isdecimal() else None
            line.append_text(styled(f"{part} ", style or _CALL_STYLES[item.state] or "muted"))
        line.right_crop(1)
    return line


def _markdown(text: str, width: int, terminal: TerminalText) -> list[Text]:
    """Words of an agent: headings and code stand out, the rest is as it was written."""
    lines: list[Text] = []
    in_code = False
    for line in text.strip("\n").split("\n"):
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        if fence:
            continue
        if in_code:
            lines += terminal.wrap(line, width - 2, "cyan", indent=2)
        elif line.startswith("#"):
            lines += terminal.wrap(line.lstrip("# "), width, "strong")
        else:
            lines += terminal.wrap(line.replace("**", ""), width)
    return lines or [styled("")]
