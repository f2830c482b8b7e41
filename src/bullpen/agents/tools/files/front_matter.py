"""Read the fields at the start of a Markdown file, between two lines of ---."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bullpen.agents.system.project_files import unreadable
from bullpen.by_name import load

_FRONT = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?(.*)\Z", re.DOTALL | re.MULTILINE
)


def front_matter(path: Path, text: str, names: Iterable[str]) -> tuple[dict[str, Any], str] | None:
    """The fields of a file and the text after them; None if it does not start with fields.

    Claude Code accepts an unquoted description with colons or examples, which is not YAML. It ends
    before the next of the fields with these names. Raises Unreadable.
    """
    parts = _FRONT.match(text)
    if parts is None:
        return None
    return _fields(path, parts.group(1), names), parts.group(2).strip()


def _fields(path: Path, text: str, names: Iterable[str]) -> dict[str, Any]:
    # Most agents are started without such a file, and the reader is slow to import.
    read, wrong = load("yaml:safe_load"), load("yaml:YAMLError")
    try:
        fields = read(text)
    except wrong as strict:
        try:
            fields = read(_with_quotes(text, names))
        except wrong:
            why = " ".join(str(strict).split())
            raise unreadable(path, f"its fields are not YAML ({why})") from strict
    except RecursionError as error:
        raise unreadable(path, "its fields are nested too deeply") from error
    if fields is None:
        return {}
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise unreadable(path, "its fields are not a mapping of names")
    return fields


def _with_quotes(text: str, names: Iterable[str]) -> str:
    """The fields with the description in quotes."""
    following = "|".join(map(re.escape, names))
    loose = re.compile(
        rf"^description:[ \t]+(?![\"'|>])(.+?)\s*(?=^(?:{following}):|\Z)",
        re.MULTILINE | re.DOTALL,
    )
    return loose.sub(lambda found: f"description: {json.dumps(found.group(1))}\n", text)
