"""Harmless scripts of awk and sed, and the words of tar, which are not like other options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bullpen.agents.permissions.shell.words import Word

_AWK_RISK = re.compile(r"system|getline|[|>@]")
_SED_REPLACE = "|".join(
    rf"s{mark}[^{mark}\n\\]*{mark}[^{mark}\n\\]*{mark}[gpiI0-9]*" for mark in "/,#:%@"
)
_SED_COMMAND = rf"\s*(?:[0-9$]+(?:,[0-9$+]+)?)?(?:[pdq=]|{_SED_REPLACE})\s*"
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:;{_SED_COMMAND})*;?")
_SED_HARMLESS = re.compile(r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|posix|help|version)")
_SED_SCRIPT_NEXT = re.compile(r"-[nErsuz]*e|--expression")
_TAR_MODE = re.compile(r"-?(?P<letters>[tcvzjJak]+)(?P<file>f?)(?P<attached>.*)")
_TAR_HARMLESS = re.compile(
    r"-[vzjJa]+|--(?:verbose|gzip|bzip2|xz|zstd|wildcards|exclude=.*|strip-components=[0-9]+)"
)


def awk_script(text: str) -> bool:
    """Whether a script of awk only prints: it runs nothing, and opens no other files."""
    return not _AWK_RISK.search(text)


def _unsure(word: Word) -> bool:
    return not word.literal and (
        "$" in word.text or "`" in word.text or word.text[:1] in {"-", "*", "?", "[", "{", "<"}
    )


def sed_words(words: Sequence[Word], said: int) -> str | None:
    """The first word of a sed command that is not known to be harmless.

    Its scripts can write files and run programs, and -i changes files. Only the simplest scripts
    are harmless: print, delete, quit and replace.
    """
    script_next = script_seen = False
    for at, word in enumerate(words[1:], start=1):
        text = word.text
        if script_next or not (text.startswith("-") or script_seen):
            fine = word.literal and bool(_SED_SCRIPT.fullmatch(text))
            script_next, script_seen = False, True
        elif text.startswith("-"):
            script_next = bool(_SED_SCRIPT_NEXT.fullmatch(text))
            fine = word.literal and (script_next or bool(_SED_HARMLESS.fullmatch(text)))
        else:
            fine = not _unsure(word)
        if at >= said and not fine:
            return text
    return None


def tar_words(words: Sequence[Word], said: int, writable: Callable[[str], bool]) -> str | None:
    """The first word of a tar command that is not known to be harmless.

    An archive may be listed, or made inside. Unpacking one can write any file.
    """
    archive_next = False
    makes = "c" in words[1].text.partition("f")[0] if len(words) > 1 else False
    for at, word in enumerate(words[1:], start=1):
        text = word.text
        if at == 1:
            mode = _TAR_MODE.fullmatch(text) if word.literal else None
            fine = mode is not None and not mode["attached"] and bool({*"tc"} & {*mode["letters"]})
            archive_next = mode is not None and bool(mode["file"])
        elif archive_next:
            fine = word.literal and ":" not in text and not text.startswith("-")
            fine = fine and (not makes or writable(text))
            archive_next = False
        elif text.startswith("-"):
            fine = word.literal and bool(_TAR_HARMLESS.fullmatch(text))
        else:
            fine = not _unsure(word)
        if at >= said and not fine:
            return text
    return None
