"""A notebook as Read shows it: each cell with its id, then what it printed. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from bullpen.agents.tools.files.media_type import PDF, media_type_of
from bullpen.agents.tools.files.notebooks.cells import Cell, Notebook, joined

IMAGES_MAX = 8
"""How many images of one notebook a model is shown."""

_OUTPUT_CHARS_MAX = 10_000
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def is_notebook(path: str) -> bool:
    """Whether a path is that of a notebook."""
    return path.lower().endswith(".ipynb")


def shown_notebook(notebook: Notebook) -> tuple[str, list[tuple[str, bytes]]]:
    """The text of a notebook, and its images, each with a name."""
    lines: list[str] = []
    images: list[tuple[str, bytes]] = []
    for cell in notebook.cells:
        lines += [f'<cell id="{cell.id}" type="{cell.type}">', cell.source, "</cell>"]
        for text, image in _outputs(cell):
            if image is not None and len(images) < IMAGES_MAX:
                images.append((f"image {len(images) + 1} of cell {cell.id}", image))
                text = f"[{images[-1][0]}]"
            lines += [f'<output of="{cell.id}">', _cut(text), "</output>"]
    return "\n".join(lines) or "The notebook has no cells.", images


def _outputs(cell: Cell) -> Iterator[tuple[str, bytes | None]]:
    """The text of each output of a cell, and its image if it is one."""
    outputs = cell.fields.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        match output.get("output_type"):
            case "stream":
                yield joined(output.get("text")), None
            case "error":
                trace = joined([f"{line}\n" for line in _strings(output.get("traceback"))])
                yield trace or f"{output.get('ename')}: {output.get('evalue')}", None
            case _:
                yield _data(output.get("data"))


def _data(data: Any) -> tuple[str, bytes | None]:
    """The best of the forms in which an output is stored."""
    if not isinstance(data, dict):
        return "", None
    for kind in _IMAGES:
        if kind in data:
            image = _image(joined(data[kind]))
            return f"[{kind}: not shown]", image
    for kind in ("text/plain", "text/markdown", "text/latex", "text/html"):
        if kind in data:
            return joined(data[kind]), None
    return f"[{', '.join(map(str, data)) or 'nothing'}: not shown]", None


def _image(text: str) -> bytes | None:
    try:
        raw = base64.b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return raw if media_type_of(raw) not in (None, PDF) else None


def _strings(rows: Any) -> list[str]:
    return [row for row in rows if isinstance(row, str)] if isinstance(rows, list) else []


def _cut(text: str) -> str:
    text = _TERMINAL_CODES.sub("", text).rstrip("\n")
    if len(text) <= _OUTPUT_CHARS_MAX:
        return text
    return f"{text[:_OUTPUT_CHARS_MAX]}\n[{len(text) - _OUTPUT_CHARS_MAX} more characters]"
