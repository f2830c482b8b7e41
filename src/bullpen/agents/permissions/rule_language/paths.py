"""Resolve the paths that a call names, and match them against path patterns.

A path can have more than one meaning: `..` before or after links are followed, `~` as the home of
the agent or of this process. To allow, all meanings must match; to deny, one is enough.
"""

from __future__ import annotations

import errno
import fnmatch
import itertools
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

_LINKS_MAX = 40
_PATH_CHARS_MAX = 8192
_ENTRIES_MAX = 3_000
_MAGIC = re.compile(r"[*?\[]")


class _Unsure(Exception):
    """The real path is unknown."""


@dataclass(frozen=True, slots=True)
class RealPath:
    """A path as it is written, and its real paths with all links resolved.

    It is not `sure` if the real path is unknown: for circular links, special links of the kernel,
    and names that no file can have. Nothing is allowed there.
    """

    written: tuple[str, ...]
    real: tuple[str, ...]
    sure: bool = True


NOWHERE = RealPath((), (), sure=False)
"""For a text that is not a path at all."""


def place(path: str, cwd: str, user_home: str) -> RealPath:
    """The real path of a path, for an agent that works in `cwd`."""
    if not path.strip() or "\0" in path or len(path) > _PATH_CHARS_MAX:
        return NOWHERE
    # A tool may strip blanks around a path.
    names = dict.fromkeys([path, path.strip()])
    joined = [os.path.join(cwd, each) for name in names for each in _expanded(name, user_home)]
    written = [_normal(each) for each in joined]
    real: list[str] = []
    sure = True
    # The kernel resolves links before `..`; tools that normalize paths do it the other way.
    for each in dict.fromkeys([*joined, *written]):
        try:
            real.append(_resolved(each))
        except (_Unsure, OSError, ValueError):
            sure = False
    return RealPath(tuple(dict.fromkeys(written)), tuple(dict.fromkeys(real)), sure)


def _expanded(path: str, user_home: str) -> list[str]:
    if not path.startswith("~"):
        return [path]
    name, slash, rest = path.partition("/")
    homes = [_home_of(name)]
    if name == "~":
        homes = list(dict.fromkeys([user_home, *homes]))
    return [home + slash + rest for home in homes]


def _home_of(name: str) -> str:
    """The home that `~` or `~name` means; the name itself if there is none."""
    try:
        return os.path.expanduser(name)
    except ValueError:
        return name


def absolute(path: str, cwd: str, user_home: str) -> str:
    """The absolute path of a directory that a person gave."""
    return _normal(os.path.join(cwd, _expanded(path, user_home)[0]))


def _normal(path: str) -> str:
    """The path without `.`, `..` and double slashes; links are not resolved."""
    return "/" + os.path.normpath(path).lstrip("/")


def real_path(path: str) -> str:
    """The real path of a directory that a person gave; as written if it is unknown."""
    try:
        return _resolved(_normal(path))
    except (_Unsure, OSError, ValueError):
        return _normal(path)


def _resolved(path: str) -> str:
    """The path with all links resolved, even if it does not exist yet."""
    done = "/"
    todo = list(reversed(path.split("/")))
    links = 0
    missing = False
    while todo:
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = os.path.dirname(done)
            continue
        here = os.path.join(done, name)
        target = None
        if not missing:
            try:
                target = _link(here)
            except FileNotFoundError:
                # The rest does not exist either, so it has no links.
                missing = True
        if target is None:
            done = here
            continue
        links += 1
        if links > _LINKS_MAX or not target:
            raise _Unsure(path)
        todo.extend(reversed(target.split("/")))
        if target.startswith("/"):
            done = "/"
    _refuse_other_file(path, done)
    return done


def _link(path: str) -> str | None:
    """The target of a link; None for anything else that exists."""
    facts = os.lstat(path)
    if not stat.S_ISLNK(facts.st_mode):
        return None
    if facts.st_dev == _proc_device():
        # The text of such a link is not its real target, which differs for each process.
        raise _Unsure(path)
    return os.readlink(path)


def _proc_device() -> int | None:
    try:
        return os.stat("/proc/").st_dev
    except OSError:
        return None


def _refuse_other_file(path: str, resolved: str) -> None:
    """Raise _Unsure if the kernel opens another file for this path."""
    found: list[os.stat_result | None] = []
    for each in (path, resolved):
        try:
            found.append(os.stat(each))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            found.append(None)
    first, second = found
    if first is None and second is None:
        return
    if first is None or second is None or not os.path.samestat(first, second):
        raise _Unsure(path)


def below(path: str, root: str) -> bool:
    """Whether a path is a directory or inside it. Both are real paths."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def lies_in(found: RealPath, roots: Iterable[str]) -> bool:
    """Whether a path is certainly inside one of these directories."""
    real = [real_path(root) for root in roots]
    return (
        found.sure
        and bool(found.real)
        and all(any(below(each, root) for root in real) for each in found.real)
    )


def may_lie_in(found: RealPath, roots: Iterable[str]) -> bool:
    """Whether a path could be inside one of these directories, in any of its meanings."""
    known = {each for root in roots for each in (_normal(root), real_path(root))}
    return any(below(each, root) for each in (*found.real, *found.written) for root in known)


@dataclass(frozen=True, slots=True)
class Bases:
    """The directories that an agent's patterns start from."""

    cwd: str
    user_home: str
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A pattern below a directory. A `loose` one applies in every working directory."""

    root: str
    pattern: str
    loose: bool = False


def permits(pattern: str, found: RealPath, bases: Bases) -> bool:
    """Whether an allow pattern matches the real path."""
    if not found.sure or not found.real:
        return False
    anchored = _anchored(pattern, bases)
    root = real_path(anchored.root)
    # Links below the root are not followed: creating a link must not move the rule.
    return all(_matches(anchored.pattern, root, each) for each in found.real)


def forbids(pattern: str, found: RealPath, bases: Bases) -> bool:
    """Whether a deny pattern matches a path, as it is written or its real path."""
    return DenyPattern(pattern, bases).matches(found)


class DenyPattern:
    """A pattern that denies, with the directories that it may start from looked up once."""

    def __init__(self, pattern: str, bases: Bases) -> None:
        self._everything = pattern.strip("/") in ("*", "**") and not pattern.startswith("/")
        variants = [] if self._everything else _variants(_anchored(pattern, bases), bases)
        self._variants = list(
            dict.fromkeys((_composed(root), _composed(glob)) for root, glob in variants)
        )

    def matches(self, found: RealPath) -> bool:
        """Whether it matches a path, as it is written or its real path."""
        if self._everything:
            return True
        paths = {_composed(path) for path in (*found.written, *found.real)}
        return any(_matches(glob, root, path) for root, glob in self._variants for path in paths)

    def may_match_in(self, roots: Iterable[str]) -> bool:
        """Whether it could match something in one of these directories."""
        if self._everything:
            return True
        known = {each for root in roots for each in (_normal(root), real_path(root))}
        starts = [
            os.path.join(root, *_plain_start(glob.split("/"))) for root, glob in self._variants
        ]
        return any(below(start, root) or below(root, start) for start in starts for root in known)


def _composed(text: str) -> str:
    # Some file systems treat both forms of an accented letter as one name.
    return unicodedata.normalize("NFC", text)


def _anchored(pattern: str, bases: Bases) -> _Anchored:
    if pattern.startswith("//"):
        return _Anchored("/", pattern.lstrip("/"))
    if pattern.startswith("~"):
        name, _, rest = pattern.partition("/")
        root = bases.user_home if name == "~" else _home_of(name)
        return _Anchored(os.path.join(bases.cwd, root), rest or "**")
    if pattern.startswith("/"):
        return _Anchored(bases.cwd, pattern.lstrip("/"))
    root, rest = bases.cwd, pattern
    dotted = False
    while (match := re.match(r"(\.\.?)(?:/+|$)", rest)) is not None:
        root = os.path.dirname(_normal(root)) if match.group(1) == ".." else root
        rest, dotted = rest[match.end() :] or "**", True
    if dotted:
        return _Anchored(root, rest)
    if "/" in rest.rstrip("/"):
        return _Anchored(root, rest, loose=True)
    return _Anchored(root, f"**/{rest}", loose=True)


def _variants(anchored: _Anchored, bases: Bases) -> Iterator[tuple[str, str]]:
    """All directories that a deny pattern may start from, each with the rest of the pattern."""
    roots = [anchored.root, *(bases.directories if anchored.loose else ())]
    for root in roots:
        for each in dict.fromkeys([_normal(root), real_path(root)]):
            yield each, anchored.pattern
        # The real path of the plain start of the pattern.
        parts = anchored.pattern.split("/")
        plain = len(_plain_start(parts))
        if plain:
            yield real_path(os.path.join(root, *parts[:plain])), "/".join(parts[plain:]) or "**"


def _plain_start(parts: Sequence[str]) -> list[str]:
    """The names before the first part of a pattern that can match several."""
    return list(
        itertools.takewhile(lambda part: not _MAGIC.search(part) and "\\" not in part, parts)
    )


def _matches(pattern: str, root: str, path: str) -> bool:
    if not below(path, root):
        return False
    return _compiled(pattern).fullmatch(path[len(root.rstrip("/")) :].lstrip("/")) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as in gitignore: if it matches a directory, it matches everything in it."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or parts == ["**"]:
        return re.compile(r"(?s:.*)")
    within = parts[-1] == "**"
    if within:
        parts.pop()
    out = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out += "(?:[^/]+/)*" if not last else "[^/]+(?:/[^/]+)*"
        else:
            out += _segment(part) + ("" if last else "/")
    return re.compile(rf"(?s:{out}(?:/.*)?)")


def _segment(part: str) -> str:
    out, index = "", 0
    while index < len(part):
        char = part[index]
        index += 1
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "\\" and index < len(part):
            out += re.escape(part[index])
            index += 1
        elif char == "[" and (end := part.find("]", index + 1)) > 0:
            out += _set_of(part[index:end])
            index = end + 1
        else:
            out += re.escape(char)
    return out


def _set_of(body: str) -> str:
    """A set of characters such as `[a-z]`."""
    negated = body[0] in "!^"
    chars, index, out = body[negated:], 0, ""
    while index < len(chars):
        if chars[index + 1 : index + 2] == "-" and index + 2 < len(chars):
            out += f"{re.escape(chars[index])}-{re.escape(chars[index + 2])}"
            index += 3
        else:
            out += re.escape(chars[index])
            index += 1
    return f"(?!/)[{'^' if negated else ''}{out}]"


def is_pattern(pattern: str) -> bool:
    """Whether a path pattern is valid."""
    try:
        _compiled(pattern)
    except re.error:
        return False
    return not pattern.startswith("!") and not any(char in pattern for char in "\0\n\r")


def globbed(pattern: str) -> list[str] | None:
    """The paths that a shell would expand a pattern to; None if there are very many to look at."""
    found, looked = ["/"], 0
    for part in filter(None, pattern.split("/")):
        if not _MAGIC.search(part):
            found = [os.path.join(each, part) for each in found]
            continue
        names: list[str] = []
        for each in found:
            try:
                entries = os.listdir(each)
            except (OSError, ValueError):
                continue
            looked += len(entries)
            names += [os.path.join(each, name) for name in fnmatch.filter(entries, part)]
            if looked > _ENTRIES_MAX:
                return None
        found = names
    return found


def glob_paths(pattern: str, path: str | None) -> Sequence[str] | None:
    """The directories that a Glob searches; None if unknown."""
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not re.search(r"[*?\[{]", parts[plain]):
        plain += 1
    if ".." in re.split(r"[/{},]", "/".join(parts[plain:])):
        return None
    start = "/".join(parts[:plain]) or ("/" if pattern.startswith("/") else ".")
    base = path or "."
    found = [os.path.join(base, start)]
    if pattern.startswith("~"):
        found.append(start if plain else pattern)
    return found
