"""The lines of a diff as blocks of text with styles. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.doors.tui.line_view import Blocks
from bullpen.view.diff import DiffLine, FileDiff

_STYLES = {"hunk": "cyan", "context": "", "added": "good", "removed": "bad"}
_SIGNS = {"hunk": "", "context": "  ", "added": "+ ", "removed": "- "}


def diff_blocks(files: Iterable[FileDiff]) -> Blocks:
    """Each file with how much changes in it, then its lines."""
    blocks: list[tuple[str, str]] = []
    for number, file in enumerate(files):
        note = f"  ({file.note})" if file.note else ""
        blocks += [("", "")] if number else []
        blocks.append((f"{file.path}  +{file.added} -{file.removed}{note}", "strong"))
        blocks += ((_line(line), _STYLES[line.kind]) for line in file.lines)
    return blocks


def _line(line: DiffLine) -> str:
    if line.kind == "hunk":
        return line.text
    number = line.old if line.new is None else line.new
    return f"{'' if number is None else number:>5} {_SIGNS[line.kind]}{line.text}"
