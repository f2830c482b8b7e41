"""What a command shows: one JSON value, or plain text that is stable for grep and awk."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, BinaryIO, TextIO

from bullpen.doors.cli.output.text import tell
from bullpen.errors import BullpenError
from bullpen.protocol import json_text as jsontext
from bullpen.protocol.record import Wire, camel
from bullpen.view.text import Cell, json_text, one_line, visible

_NOTHING = "-"


Row = Sequence[str | Cell]
Draw = Callable[["Page"], None]


class Page:
    """Standard output as a command sees it, when it is not a terminal.

    With `json`, one JSON object is all that reaches standard output. With `jsonl`, each object is
    on a line of its own, and `json` is true as well. Warnings go to standard error either way.

    Every object has the name and the version of its schema, as `bullpen schema --list` shows them.
    """

    draws = False
    """Whether box characters are welcome."""

    def __init__(self, *, json: bool = False, jsonl: bool = False) -> None:
        self.json, self.jsonl = json or jsonl, jsonl

    def value(self, schema: str, value: Any) -> None:
        """Write one object as JSON, indented as the files are; with `jsonl`, on one line."""
        if self.jsonl:
            self.json_line(schema, value)
        else:
            self._write_json(jsontext.shaped(schema, as_json(value)), jsontext.dumps)

    def json_line(self, schema: str, value: Any) -> None:
        """Write one object as JSON on a line of its own, at once."""
        self._write_json(jsontext.shaped(schema, as_json(value)), jsontext.dumps_line)
        self.flush()

    def document(self, value: dict[str, Any]) -> None:
        """Write a JSON document that follows a standard of its own, such as a JSON Schema."""
        self._write_json(value, jsontext.dumps_line if self.jsonl else jsontext.dumps)

    def result(self, schema: str, value: Any, *lines: str | Cell) -> None:
        """Write what a command did: the object for programs, or the lines for people."""
        if self.json:
            self.value(schema, value)
            return
        for line in lines:
            self.line(line)

    def listing(
        self,
        schema: str,
        value: Any,
        columns: Sequence[str],
        rows: Sequence[Row],
        *,
        nothing: str,
    ) -> None:
        """Write a list: the object for programs; for people a table, or that there is nothing."""
        if self.json:
            self.value(schema, value)
        elif rows:
            self.table(columns, rows)
        else:
            self.line(nothing)

    def mark(self, glyphs: tuple[str, str]) -> str:
        """The first of two marks if it can be shown, else the second."""
        fine = _encoding().lower().replace("-", "").startswith("utf")
        return glyphs[0] if fine else glyphs[1]

    def line(self, line: str | Cell = "") -> None:
        """Write one line."""
        self._write(one_line(_text(line)))

    def title(self, text: str) -> None:
        """Write a line that begins a section."""
        self._write(one_line(text))

    def block(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Write a text of several lines, whole."""
        for line in visible(text).expandtabs(4).split("\n"):
            self._write((" " * indent + line).rstrip())

    def drawing(self, lines: Sequence[str]) -> None:
        """Write lines whose spaces matter."""
        for line in lines:
            self._write(visible(line).replace("\n", " ").rstrip())

    def table(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Write rows under their column names; no cell is empty, the last one may hold spaces."""
        head = [name.upper().replace(" ", "-") for name in columns]
        # By column, because a list may have tens of thousands of rows.
        *padded, last = zip(head, *rows, strict=True)
        shown = [*map(_padded, map(_column, padded)), _column(last)]
        self._write("\n".join(map("  ".join, zip(*shown, strict=True))))

    def fields(self, rows: Sequence[tuple[str, str | Cell]]) -> None:
        """Write names and values, one pair a line; values that are empty are left out."""
        shown = [(name, one_line(_text(value))) for name, value in rows if _text(value)]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self._write(f"{name + ':':<{width + 1}}  {value}")

    @contextmanager
    def frames(self) -> Iterator[Callable[[Draw], None]]:
        """Give a function that shows one picture after another of something that changes."""

        def show(draw: Draw) -> None:
            draw(self)
            self._write("")
            self.flush()

        yield show

    def warn(self, text: str) -> None:
        """Write a warning to standard error."""
        tell(f"warning: {text}", hang=" " * 9)

    def flush(self) -> None:
        """Flush standard output."""
        _to_output(lambda stdout: stdout.flush())

    def _write_json(self, value: dict[str, Any], dumps: Callable[[Any], bytes]) -> None:
        self._write_bytes(json_text(dumps(value)))

    def _write(self, line: str) -> None:
        self._write_bytes(line.encode(_encoding(), "backslashreplace"))

    def _write_bytes(self, line: bytes) -> None:
        _to_output(lambda stdout: _write_all(stdout.buffer, line + b"\n"))


def as_json(value: Any) -> Any:
    """A value for programs: records as they are stored, other fields in camel case."""
    if isinstance(value, Wire):
        return value.raw
    if is_dataclass(value):
        return {camel(each.name): as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return value


def _column(cells: Iterable[str | Cell]) -> list[str]:
    return [one_line(_text(cell)).strip() or _NOTHING for cell in cells]


def _padded(cells: Sequence[str]) -> list[str]:
    """The cells of a column, all as wide as the widest."""
    if "".join(cells).isascii():
        width = max(map(len, cells))
        return [cell.ljust(width) for cell in cells]
    width = max(map(_width, cells))
    return [cell + " " * (width - _width(cell)) for cell in cells]


def _text(cell: str | Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _write_all(stream: BinaryIO, data: bytes) -> None:
    # With PYTHONUNBUFFERED the stream is the bare file, which may take a part only.
    while data:
        data = data[stream.write(data) :]


def _to_output(act: Callable[[TextIO], object]) -> None:
    stdout: TextIO | None = sys.stdout
    if stdout is None:
        # The caller closed standard output: it wants the effect, not the text.
        return
    try:
        act(stdout)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BullpenError(
            f"Cannot write the output: {error.strerror}.", remedy="Check where the output goes."
        ) from error


def is_terminal(stream: object) -> bool:
    """Whether somebody looks at a stream who can be shown more than plain text."""
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and os.environ.get("TERM") != "dumb"
