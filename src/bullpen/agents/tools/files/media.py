"""Images and PDFs as results of tools: within bounds, and with a text for models without eyes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import anyio

from bullpen.agents.contracts.tool import Attachment, ToolResult
from bullpen.agents.system.environment import for_commands
from bullpen.agents.system.run_command import Workplace, running
from bullpen.agents.tools.files import media_worker
from bullpen.agents.tools.files.media_type import PDF, media_type_of, pixels_of
from bullpen.errors import Invalid, Unavailable

IMAGE_BYTES_MAX = 3_750_000
"""The largest image that is sent to a model: 5 MB as text, which is what APIs accept."""
IMAGE_SIDE_MAX = 8_000
PAGES_MAX = 20
"""How many pages of a PDF are shown at once."""
PAGES_WITHOUT_ASKING = 10

_SMALLER_SIDE = 1_568
_WORK_S = 30.0
_PAGES = re.compile(r"\s*(\d{1,6})\s*(?:(-)\s*(\d{1,6})?\s*)?")


@dataclass(frozen=True, slots=True)
class PageRange:
    """Pages of a PDF, counted from 1. A last page of 0 is the end."""

    first: int
    last: int

    @classmethod
    def of(cls, text: str) -> PageRange:
        """The pages that `3`, `1-5` or `10-` names. Raises Invalid."""
        found = _PAGES.fullmatch(text)
        if found is None:
            raise _bad_pages(text)
        first, to, end = found.groups()
        last = int(end) if end else 0 if to else int(first)
        if int(first) < 1 or (end and last < int(first)):
            raise _bad_pages(text)
        return cls(int(first), last)


def _bad_pages(text: str) -> Invalid:
    return Invalid(f"{text[:40]!r} is not a range of pages.", remedy="Write 3, 1-5 or 10-.")


async def shown_file(name: str, raw: bytes, pages: str | None, place: Workplace) -> ToolResult:
    """An image or PDF as the result of a tool. Raises Invalid or Unavailable."""
    if media_type_of(raw) == PDF:
        return await _pdf(name, raw, None if pages is None else PageRange.of(pages), place)
    if pages is not None:
        raise Invalid(f"{name!r} is not a PDF.", remedy="Leave out pages.")
    return await _image(name, raw, place)


async def _image(name: str, raw: bytes, place: Workplace) -> ToolResult:
    pixels = pixels_of(raw)
    if pixels is None:
        raise Invalid(
            f"The image {name!r} is damaged: its size cannot be read.", remedy="Make it anew."
        )
    sent, note = raw, ""
    if len(raw) > IMAGE_BYTES_MAX or max(pixels) > IMAGE_SIDE_MAX:
        sent = await _smaller(name, raw, pixels, place)
        note = f", shown smaller: {_size(pixels_of(sent) or pixels)}"
    kind = media_type_of(sent) or "image/png"
    text = f"{_note(name, kind, raw)}, {_size(pixels)} pixels{note}."
    return ToolResult(text, (Attachment(name, kind, sent, _unseen("images")),))


async def _smaller(name: str, raw: bytes, pixels: tuple[int, int], place: Workplace) -> bytes:
    answer = await _worked({"do": "smaller", "side_max": _SMALLER_SIDE}, raw, place)
    made = base64.b64decode(answer.get("data", ""))
    if "unfit" in answer or not 0 < len(made) <= IMAGE_BYTES_MAX:
        raise Invalid(
            f"The image {name!r} is too large: {_size(pixels)} pixels and {len(raw):,} bytes. A"
            f" model sees at most {IMAGE_SIDE_MAX} pixels a side and {IMAGE_BYTES_MAX:,} bytes, and"
            f" it cannot be made smaller: {answer.get('unfit', 'the result is too large')}.",
            remedy="Make a smaller copy with a program and read that.",
        )
    return made


async def _pdf(name: str, raw: bytes, pages: PageRange | None, place: Workplace) -> ToolResult:
    wanted = pages or PageRange(1, PAGES_MAX)
    last = min(wanted.last or wanted.first + PAGES_MAX, wanted.first + PAGES_MAX)
    asked = {"do": "pages", "first": wanted.first, "last": last}
    answer = await _worked(asked, raw, place)
    if "unfit" in answer:
        raise Invalid(
            f"The PDF {name!r} cannot be read: {answer['unfit']}.",
            remedy="Use Bash with a program for PDFs.",
        )
    count = int(answer["count"])
    shown = PageRange(wanted.first, min(wanted.last or count, count))
    if pages is None and count > PAGES_WITHOUT_ASKING:
        raise Invalid(
            f"The PDF {name!r} has {count} pages.",
            remedy=f"Give pages, such as 1-5; at most {PAGES_MAX} at once.",
        )
    if shown.first > count or shown.last - shown.first >= PAGES_MAX:
        raise Invalid(
            f"The PDF {name!r} has {count} pages; at most {PAGES_MAX} are shown at once.",
            remedy="Give a smaller range of pages.",
        )
    text = f"{_note(name, PDF, raw)}, pages {shown.first} to {shown.last} of {count}."
    words = answer["text"] or "(The pages contain no text: they may be scanned images.)"
    instead = f"{_unseen('PDFs')} This is the text of the pages:\n{words}"
    if answer["data"] is None:
        return ToolResult(f"{text} It is too large to be shown. The text of the pages:\n{words}")
    sent = base64.b64decode(answer["data"])
    return ToolResult(text, (Attachment(name, PDF, sent, instead),))


def _note(name: str, kind: str, raw: bytes) -> str:
    """What the transcript keeps of a file that was shown."""
    digest = hashlib.sha256(raw).hexdigest()[:16]
    return f"{name}: {kind}, {len(raw):,} bytes, sha256 {digest}"


def _unseen(what: str) -> str:
    return f"[Your model cannot see {what}.]"


def _size(pixels: tuple[int, int]) -> str:
    return f"{pixels[0]} x {pixels[1]}"


async def _worked(asked: dict[str, Any], raw: bytes, place: Workplace) -> dict[str, Any]:
    """What the worker answers. Raises Unavailable."""
    argv = [sys.executable, "-I", media_worker.__file__, json.dumps(asked)]
    printed, said = bytearray(), bytearray()
    code: int | None = None
    with tempfile.TemporaryFile() as file:
        file.write(raw)
        file.seek(0)
        env = for_commands(place.env, place.spec)
        takes = [printed.extend, said.extend]
        async with running(argv, cwd=place.spec.cwd, env=env, takes=takes, stdin=file) as worker:
            with anyio.move_on_after(_WORK_S):
                code = await worker.finished()
            if code is None:
                await worker.end(0)
    if code != 0:
        why = f"it took longer than {_WORK_S:g} seconds" if code is None else "the reader crashed"
        raise Unavailable(
            f"The file cannot be shown: {why}. {said.decode('utf-8', 'replace').strip()[-200:]}",
            remedy="Use Bash with a program for this kind of file.",
        )
    answer: dict[str, Any] = json.loads(printed)
    return answer
