"""Take pages out of a PDF and make images smaller, as a separate program that can be killed.

The bytes come from anywhere, and the libraries for them can be made to run forever or to take all
memory. `media.py` runs this file; it answers on standard output with one JSON object.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import resource
import sys
from contextlib import suppress
from typing import Any

PDF_BYTES_MAX = 10_000_000
"""The largest PDF that is sent to a model."""

TEXT_CHARS_MAX = 60_000
MEMORY_BYTES_MAX = 2_000_000_000
PIXELS_MAX = 60_000_000
CPU_S = 25


class Unfit(Exception):
    """The file cannot be used; the text says why."""


def pages_of(raw: bytes, first: int, last: int) -> dict[str, Any]:
    """These pages of a PDF: the number of all its pages, their text, and a PDF of only them.

    `last` 0 means the last page. There is no PDF if it would be too large. Raises Unfit.
    """
    pypdf = _library("pypdf")
    try:
        reader = pypdf.PdfReader(io.BytesIO(raw))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unfit("it is encrypted with a password")
        count = len(reader.pages)
        chosen = range(first - 1, min(last or count, count))
        text = ""
        for at in chosen:
            if len(text) < TEXT_CHARS_MAX:
                text += f"[Page {at + 1}]\n{reader.pages[at].extract_text().strip()}\n\n"
        part = raw
        if len(chosen) < count:
            writer = pypdf.PdfWriter()
            for at in chosen:
                writer.add_page(reader.pages[at])
            made = io.BytesIO()
            writer.write(made)
            part = made.getvalue()
    except Unfit:
        raise
    except Exception as error:
        # The library raises anything for a damaged file.
        raise Unfit(f"it is damaged ({type(error).__name__}: {str(error)[:200]})") from error
    sent = base64.b64encode(part).decode() if len(part) <= PDF_BYTES_MAX else None
    return {"count": count, "text": text[:TEXT_CHARS_MAX].strip(), "data": sent}


def smaller_image(raw: bytes, side_max: int) -> dict[str, Any]:
    """The image with no side longer than this, as a PNG or JPEG. Raises Unfit."""
    images = _library("PIL.Image")
    images.MAX_IMAGE_PIXELS = PIXELS_MAX
    try:
        with images.open(io.BytesIO(raw)) as image:
            if image.width * image.height > PIXELS_MAX:
                raise Unfit(f"it has more than {PIXELS_MAX:,} pixels")
            has_alpha = image.mode in ("RGBA", "LA", "P")
            plain = image.convert("RGBA" if has_alpha else "RGB")
        plain.thumbnail((side_max, side_max))
        made = io.BytesIO()
        plain.save(made, format="PNG" if has_alpha else "JPEG", quality=85)
    except Unfit:
        raise
    except Exception as error:
        raise Unfit(f"it is damaged ({type(error).__name__}: {str(error)[:200]})") from error
    return {"data": base64.b64encode(made.getvalue()).decode()}


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Unfit(f"the Python package {name.partition('.')[0]} is not installed") from None


def main() -> None:
    """Read the file on standard input, do what the first argument asks, and print the answer."""
    for kind, most in ((resource.RLIMIT_AS, MEMORY_BYTES_MAX), (resource.RLIMIT_CPU, CPU_S)):
        # Not every system has every limit.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))
    asked = json.loads(sys.argv[1])
    raw = sys.stdin.buffer.read()
    try:
        if asked["do"] == "pages":
            answer = pages_of(raw, asked["first"], asked["last"])
        else:
            answer = smaller_image(raw, asked["side_max"])
    except Unfit as error:
        answer = {"unfit": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
