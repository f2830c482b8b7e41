"""Many lines of which only those in sight are made: a long history costs no more than a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bullpen.tui.ink import Ink

Draw = Callable[[int, int], Text]
"""Makes the line of a number in a width."""


class Lines(ScrollView, can_focus=True):
    """Lines that can be scrolled, and one of them chosen."""

    COMPONENT_CLASSES = {"lines--cursor"}  # noqa: RUF012
    BINDINGS = [  # noqa: RUF012
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home", "to_end(False)", "First", show=False),
        Binding("end", "to_end(True)", "Last", show=False),
        Binding("enter", "choose", "Open", show=False),
    ]

    class Moved(Message):
        """Somebody went to another line."""

        def __init__(self, lines: Lines) -> None:
            super().__init__()
            self.lines = lines

    class Chosen(Message):
        """Somebody wants to see more of a line."""

        def __init__(self, lines: Lines) -> None:
            super().__init__()
            self.lines = lines

    def __init__(
        self, *, cursor: bool = True, follow: bool = False, dom_id: str | None = None
    ) -> None:
        """`follow`: whoever is at the last line stays at the last line."""
        super().__init__(id=dom_id)
        self._has_cursor = cursor
        self._follow = follow
        self._count = 0
        self._draw: Draw = lambda _number, _width: Text()
        self._at = 0

    @property
    def cursor(self) -> int | None:
        """The number of the chosen line; None if there is none."""
        return min(self._at, self._count - 1) if self._has_cursor and self._count else None

    def put(self, count: int, draw: Draw, *, at: int | None = None, width: int = 0) -> None:
        """Show other lines; `at` is the one that is chosen from now on."""
        before, behind = self._count, self._follow and self._is_at_end()
        self._count, self._draw = count, draw
        self.virtual_size = Size(width, count)
        if at is not None:
            self._at = at
        if behind and count != before:
            self.call_after_refresh(self.action_to_end, True)
        elif self._at >= count > 0:
            self._at = count - 1
        if at is not None:
            self._reveal()
        self.refresh()

    def go_to(self, number: int) -> None:
        """Choose a line."""
        if not self._count:
            return
        self._at = min(max(0, number), self._count - 1)
        self._reveal()
        self.refresh()
        self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        """The line that is so many rows below the top."""
        left, top = self.scroll_offset
        width, number = self.size.width, top + y
        base = self.rich_style
        if number >= self._count:
            return Strip.blank(width, base)
        text = self._draw(number, width)
        strip = Strip(text.render(self.app.console)).crop_extend(left, left + width, None)
        if number == self.cursor and (self.has_focus or self._follow is False):
            base = base + self.get_component_rich_style("lines--cursor", partial=True)
        return strip.apply_style(base)

    def action_move(self, by: int) -> None:
        """Go up or down."""
        if self._has_cursor:
            self.go_to((self.cursor or 0) + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Go up or down by a screen."""
        self.action_move(by * max(1, self.size.height - 1))

    def action_to_end(self, last: bool) -> None:
        """Go to the first or to the last line."""
        if self._has_cursor:
            self.go_to(self._count - 1 if last else 0)
        else:
            self.scroll_to(y=self.max_scroll_y if last else 0, animate=False, immediate=True)

    def action_choose(self) -> None:
        """Show more of the chosen line."""
        if self.cursor is not None:
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        """Choose the line under the mouse; twice shows more of it."""
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
        """Show the chosen line as such."""
        self.refresh()

    def _is_at_end(self) -> bool:
        if self._has_cursor:
            return self._at >= self._count - 1
        return self.scroll_offset.y >= self.max_scroll_y

    def _reveal(self) -> None:
        top, height = self.scroll_offset.y, self.size.height
        if height and not top <= self._at < top + height:
            y = self._at if self._at < top else self._at - height + 1
            self.scroll_to(y=y, animate=False, immediate=True, force=True)


class Reading(Lines):
    """A text of many lines, wrapped to the width there is; nothing of it is left out."""

    def __init__(self, *, follow: bool = False, dom_id: str | None = None) -> None:
        super().__init__(cursor=False, follow=follow, dom_id=dom_id)
        self._ink = Ink()
        self._blocks: list[tuple[str, str]] = []
        self._wrapped: list[Text] = []
        self._width = 0

    def read(self, ink: Ink, blocks: Sequence[tuple[str, str]]) -> None:
        """Show these texts in their styles, one below the other."""
        self._ink, self._blocks = ink, list(blocks)
        self._wrap()

    def holds(self, blocks: Sequence[tuple[str, str]]) -> bool:
        """Whether these are what it shows."""
        return self._blocks == list(blocks)

    def read_on(self, blocks: Sequence[tuple[str, str]]) -> None:
        """Show more below."""
        self._blocks += blocks
        width = self._width or 80
        for text, style in blocks:
            self._wrapped += self._ink.wrap(text, width, style)
        self._put()

    def on_resize(self) -> None:
        """Wrap again."""
        if self._blocks and self.size.width != self._width:
            self._wrap()

    def _wrap(self) -> None:
        self._width = self.size.width
        width = self._width or 80
        self._wrapped = [
            line for text, style in self._blocks for line in self._ink.wrap(text, width, style)
        ]
        self._put()

    def _put(self) -> None:
        lines = self._wrapped
        self.put(len(lines), lambda number, _: lines[number])
