"""Images and PDFs in a conversation: how they are sent, kept on disk and dropped when they are old.

Each is kept once, in a file named by its digest beside the history: a conversation is written after
every answer, and its texts are searched for secrets each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, ToolReturnPart

from bullpen.agents.contracts.tool import Attachment
from bullpen.agents.drivers.conversation_file import write_whole

FOLDER = "attachments"

FILES_MAX = 12
"""How many attachments a request has at most; APIs accept only small images beyond 20."""
BYTES_MAX = 15_000_000
"""Their bytes together; as text in a request they are a third larger."""

OLD = "no longer shown, to save room"
UNSEEN = "not shown: your model cannot see it"
FAILED = "not shown: the API failed on it"

_TOKENS = {"image": 1_600, "application": 30_000}
_FILE = "bullpen_file"
_GONE = "no longer there"

Change = Callable[[BinaryContent], BinaryContent | str]


def result_content(text: str, attachments: Sequence[Attachment]) -> Any:
    """The content of a tool result: its text, then what the model is shown."""
    if not attachments:
        return text
    return [
        text,
        *(BinaryContent(data=each.data, media_type=each.media_type) for each in attachments),
    ]


def seen_part(
    text: str, found: Sequence[Attachment], sees: Callable[[str], bool]
) -> tuple[str, list[Attachment]]:
    """What a model can see of the attachments, and the text with the words for the others."""
    seen = [each for each in found if sees(each.media_type)]
    return "\n".join([text, *(each.instead for each in found if each not in seen)]), seen


def attachments_in(messages: Sequence[ModelMessage]) -> list[BinaryContent]:
    """All attachments of a conversation, the oldest first."""
    return list(_all(messages))


def _all(messages: Sequence[ModelMessage]) -> Iterator[BinaryContent]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart) and isinstance(part.content, list):
                yield from (each for each in part.content if isinstance(each, BinaryContent))


def sent_size(messages: Sequence[ModelMessage]) -> tuple[int, int]:
    """How many bytes of a request are attachments, and about how many tokens those have."""
    found = attachments_in(messages)
    size = sum(4 * (-(-len(each.data) // 3)) for each in found)
    return size, sum(_TOKENS.get(each.media_type.partition("/")[0], 0) for each in found)


def dropped(messages: Sequence[ModelMessage], why: str) -> list[ModelMessage]:
    """The conversation with words in place of its attachments."""
    return _changed(messages, lambda each: _words(each, why))


def pruned(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The conversation without its oldest attachments if there are too many.

    Half the room is made free at once, because each change costs the API's cache of the rest.
    """
    found = attachments_in(messages)
    if len(found) <= FILES_MAX and sum(len(each.data) for each in found) <= BYTES_MAX:
        return list(messages)
    kept: set[int] = set()
    room = BYTES_MAX // 2
    for each in reversed(found):
        room -= len(each.data)
        if len(kept) == FILES_MAX // 2 or (room < 0 and kept):
            break
        kept.add(id(each))
    return _changed(messages, lambda each: each if id(each) in kept else _words(each, OLD))


def kept_in_files(folder: Path, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Write the attachments into files; returns the conversation without their bytes."""
    files: set[str] = set()

    def keep(each: BinaryContent) -> BinaryContent:
        name = hashlib.sha256(each.data).hexdigest()[:32]
        path = folder / FOLDER / name
        if name not in files and not path.exists():
            write_whole(path, each.data)
        files.add(name)
        return BinaryContent(data=b"", media_type=each.media_type, vendor_metadata={_FILE: name})

    return _changed(messages, keep)


def forget_others(folder: Path, messages: Sequence[ModelMessage]) -> None:
    """Remove the files of attachments that a saved conversation no longer has."""
    if not (folder / FOLDER).is_dir():
        return
    used = {(each.vendor_metadata or {}).get(_FILE) for each in _all(messages)}
    for path in (folder / FOLDER).iterdir():
        if path.name not in used:
            path.unlink(missing_ok=True)


def read_again(folder: Path, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The conversation with the bytes of its attachments, as far as they are there."""

    def read(each: BinaryContent) -> BinaryContent | str:
        name = str((each.vendor_metadata or {}).get(_FILE, ""))
        try:
            data = (folder / FOLDER / Path(name).name).read_bytes() if name else b""
        except OSError:
            data = b""
        if not name or hashlib.sha256(data).hexdigest()[:32] != name:
            return _words(each, _GONE)
        return BinaryContent(data=data, media_type=each.media_type)

    return _changed(messages, read)


def _words(each: BinaryContent, why: str) -> str:
    return f"[{each.media_type}: {why}. Read it again if you need it.]"


def _changed(messages: Sequence[ModelMessage], change: Change) -> list[ModelMessage]:
    return [_with(message, change) for message in messages]


def _with(message: ModelMessage, change: Change) -> ModelMessage:
    if not isinstance(message, ModelRequest) or not attachments_in([message]):
        return message
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolReturnPart) and isinstance(part.content, list):
            content: list[Any] = [
                change(each) if isinstance(each, BinaryContent) else each for each in part.content
            ]
            words_only = all(isinstance(each, str) for each in content)
            changed: Any = "\n".join(content) if words_only else content
            part = replace(part, content=changed)
        parts.append(part)
    return replace(message, parts=parts)
