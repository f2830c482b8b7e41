"""Widgets for many lines that draw only the visible ones, so that a long history costs little."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bullpen.doors.tui.terminal_text import TerminalText

Draw = Callable[[int, int], Text]
"""Draws one line, given its number and its width."""

Blocks = Sequence[tuple[str, str]]
"""Texts, each with its style."""


class Lines(ScrollView, can_focus=True):
    """A scrollable list of lines, usually with a cursor."""

    COMPONENT_CLASSES = {"lines--cursor"}  # noqa: RUF012
    BINDINGS = [  # noqa: RUF012
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home", "to_end(False)", "First", show=False),
        Binding("end", "to_end(True)", "Last", show=False),
        Binding("enter", "choose", "Open", key_display="Enter"),
    ]

    class Moved(Message):
        """The cursor moved to another line."""

        def __init__(self, lines: Lines) -> None:
            super().__init__()
            self.lines = lines

    class Chosen(Message):
        """A line was opened with Enter or the mouse."""

        def __init__(self, lines: Lines) -> None:
            super().__init__()
            self.lines = lines

    def __init__(
        self,
        *,
        cursor: bool = True,
        follow: bool = False,
        marked: bool = True,
        dom_id: str | None = None,
    ) -> None:
        """With `follow`, a view at the last line stays at the last line as lines are added.

        Unless it follows, its cursor is also `marked` while another widget has the focus.
        """
        super().__init__(id=dom_id)
        self._has_cursor = cursor
        self._follow = follow
        self._always_marked = marked and not follow
        self._count = self._height = 0
        self._draw: Draw = lambda _number, _width: Text()
        self._at = 0

    @property
    def cursor(self) -> int | None:
        """The number of the line under the cursor; None if there is none."""
        return min(self._at, self._count - 1) if self._has_cursor and self._count else None

    @property
    def line_width(self) -> int:
        """The width of a line, without the scroll bar."""
        return self.scrollable_content_region.width

    def put(self, count: int, draw: Draw, *, at: int | None = None, width: int = 0) -> None:
        """Replace all lines; `at` moves the cursor."""
        before, at_end = self._count, self._follow and self._is_at_end()
        self._count, self._draw = count, draw
        self.virtual_size = Size(width, count)
        if at is not None:
            self._at = at
        if at_end and count != before:
            self.call_after_refresh(self.action_to_end, True)
        elif self._at >= count > 0:
            self._at = count - 1
        if at is not None:
            self._reveal()
        self.refresh()

    def go_to(self, number: int) -> None:
        if not self._count:
            return
        self._at = min(max(0, number), self._count - 1)
        self._reveal()
        self.refresh()
        self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        """Draw one visible row, as Textual asks for it."""
        left, top = self.scroll_offset
        width, number = self.line_width, top + y
        base = self.rich_style
        if number >= self._count:
            return Strip.blank(width, base)
        text = self._draw(number, width)
        strip = Strip(text.render(self.app.console)).crop_extend(left, left + width, None)
        if number == self.cursor and (self.has_focus or self._always_marked):
            base = base + self.get_component_rich_style("lines--cursor", partial=True)
        return strip.apply_style(base)

    def action_move(self, by: int) -> None:
        if self._has_cursor:
            self.go_to((self.cursor or 0) + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.size.height - 1))

    def action_to_end(self, last: bool) -> None:
        if self._has_cursor:
            self.go_to(self._count - 1 if last else 0)
        else:
            self.scroll_to(y=self.max_scroll_y if last else 0, animate=False, immediate=True)

    def action_choose(self) -> None:
        if self.cursor is not None:
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the line under the mouse; a second click opens it."""
        offset = event.get_content_offset(self)
        if offset is None or not self._has_cursor:
            return
        number = offset.y + self.scroll_offset.y
        if number < self._count:
            chosen = number == self.cursor
            self.go_to(number)
            if chosen or event.chain > 1:
                self.action_choose()

    def on_focus(self) -> None:
        self.refresh()

    def on_resize(self) -> None:
        """A view that showed the last line shows it also when there is less room."""
        before, self._height = self._height, self.size.height
        if self._follow and self.scroll_offset.y + before >= self._count:
            self.call_after_refresh(self._show_last)

    def _show_last(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)

    def _is_at_end(self) -> bool:
        if self._has_cursor:
            return self._at >= self._count - 1
        return self.scroll_offset.y >= self.max_scroll_y

    def _reveal(self) -> None:
        top, height = self.scroll_offset.y, self.size.height
        if height and not top <= self._at < top + height:
            y = self._at if self._at < top else self._at - height + 1
            self.scroll_to(y=y, animate=False, immediate=True, force=True)


class TextScreen(Lines):
    """A long text, wrapped to the width of the widget."""

    def __init__(
        self, terminal: TerminalText, *, follow: bool = False, dom_id: str | None = None
    ) -> None:
        super().__init__(cursor=False, follow=follow, dom_id=dom_id)
        self._terminal = terminal
        self._blocks: list[tuple[str, str]] = []
        self._wrapped: list[Text] = []
        self._width = 0

    def read(self, blocks: Blocks) -> None:
        """Show these texts one below the other."""
        if self._blocks != list(blocks):
            self._blocks = list(blocks)
            self._wrap_all()

    def read_on(self, blocks: Blocks) -> None:
        self._blocks += blocks
        self._wrap(blocks)

    def on_resize(self) -> None:
        if self._blocks and self.line_width != self._width:
            self._wrap_all()

    def _wrap_all(self) -> None:
        self._width = self.line_width
        self._wrapped = []
        self._wrap(self._blocks)

    def _wrap(self, blocks: Blocks) -> None:
        lines = self._wrapped
        for text, style in blocks:
            lines += self._terminal.wrap(text, self._width or 80, style)
        self.put(len(lines), lambda number, _: lines[number])
