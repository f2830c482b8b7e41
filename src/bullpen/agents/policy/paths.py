"""Paths: where a path that a call names really lies, and what patterns of paths mean.

A path can be read in more than one way: `..` before or after links are followed, `~` as the home
of the agent or of this process. For what is permitted all readings must agree; for what is
forbidden one is enough.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

_LINKS_MAX = 40
_PATH_CHARS_MAX = 8192
_ENTRIES_MAX = 5_000
_MAGIC = re.compile(r"[*?\[]")


class _Unsure(Exception):
    """It cannot be told where a path leads."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path lies: as it is written, and really, past all links.

    It is not `sure` if it cannot be told: links that turn in circles, links of the kernel that
    lead past the directories, names that no file can have. Nothing is permitted there.
    """

    written: tuple[str, ...]
    real: tuple[str, ...]
    sure: bool = True


NOWHERE = Place((), (), sure=False)
"""The place of what is no path at all."""


def place(path: str, cwd: str, user_home: str) -> Place:
    """Where a path lies for an agent that works in `cwd`."""
    if not path.strip() or "\0" in path or len(path) > _PATH_CHARS_MAX:
        return NOWHERE
    # A tool may take blanks around a path for an accident.
    names = dict.fromkeys([path, path.strip()])
    joined = [os.path.join(cwd, each) for name in names for each in _expanded(name, user_home)]
    written = [_normal(each) for each in joined]
    real: list[str] = []
    sure = True
    # The kernel follows links before it goes up by `..`; tools that tidy paths go up first.
    for each in dict.fromkeys([*joined, *written]):
        try:
            real.append(_resolved(each))
        except (_Unsure, OSError, ValueError):
            sure = False
    return Place(tuple(dict.fromkeys(written)), tuple(dict.fromkeys(real)), sure)


def _expanded(path: str, user_home: str) -> list[str]:
    if not path.startswith("~"):
        return [path]
    name, slash, rest = path.partition("/")
    homes = [_home_of(name)]
    if name == "~":
        homes = list(dict.fromkeys([user_home, *homes]))
    return [home + slash + rest for home in homes]


def _home_of(name: str) -> str:
    """The home that `~` or `~name` stands for; the name itself if there is none."""
    try:
        return os.path.expanduser(name)
    except ValueError:
        return name


def absolute(path: str, cwd: str, user_home: str) -> str:
    """A directory that a person gave, from the root of the file system."""
    return _normal(os.path.join(cwd, _expanded(path, user_home)[0]))


def _normal(path: str) -> str:
    """Without `.`, `..` and double slashes, links not looked at."""
    return "/" + os.path.normpath(path).lstrip("/")


def real_path(path: str) -> str:
    """Where a directory that was given by a person lies; as it is written if that is not known."""
    try:
        return _resolved(_normal(path))
    except (_Unsure, OSError, ValueError):
        return _normal(path)


def _resolved(path: str) -> str:
    """The path past all links, also of what does not exist yet."""
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
                # What comes after it does not exist either, so it holds no links.
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
    """Where a link leads; None for all else that exists."""
    facts = os.lstat(path)
    if not stat.S_ISLNK(facts.st_mode):
        return None
    if facts.st_dev == _proc_device():
        # What such a link says is not where it leads, and it leads elsewhere for each process.
        raise _Unsure(path)
    return os.readlink(path)


def _proc_device() -> int | None:
    try:
        return os.stat("/proc/").st_dev
    except OSError:
        return None


def _refuse_other_file(path: str, resolved: str) -> None:
    """The kernel has the last word on which file it is."""
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
    """Whether a path is a directory or lies in it. Both are real paths."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def lies_in(found: Place, roots: Iterable[str]) -> bool:
    """Whether a path surely lies in one of some directories."""
    real = [real_path(root) for root in roots]
    return (
        found.sure
        and bool(found.real)
        and all(any(below(each, root) for root in real) for each in found.real)
    )


def may_lie_in(found: Place, roots: Iterable[str]) -> bool:
    """Whether a path could lie in one of some directories, however it is read."""
    known = {each for root in roots for each in (_normal(root), real_path(root))}
    return any(below(each, root) for each in (*found.real, *found.written) for root in known)


@dataclass(frozen=True, slots=True)
class Bases:
    """What the patterns of an agent begin at."""

    cwd: str
    user_home: str
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A pattern below a directory. `loose` ones are meant in every working directory."""

    root: str
    pattern: str
    loose: bool = False


def permits(pattern: str, found: Place, bases: Bases) -> bool:
    """Whether a pattern that permits is about a path: where it really lies, it matches."""
    if not found.sure or not found.real:
        return False
    anchored = _anchored(pattern, bases)
    root = real_path(anchored.root)
    # Links below the root are not followed: whoever can make one must not move the rule.
    return all(_matches(anchored.pattern, root, each) for each in found.real)


def forbids(pattern: str, found: Place, bases: Bases) -> bool:
    """Whether a pattern that forbids is about a path, as it is written or where it really lies."""
    if pattern.strip("/") in ("*", "**") and not pattern.startswith("/"):
        return True
    paths = dict.fromkeys([*found.written, *found.real])
    variants = list(_variants(_anchored(pattern, bases), bases))
    return any(
        _matches(_composed(glob), _composed(root), _composed(path))
        for root, glob in variants
        for path in paths
    )


def _composed(text: str) -> str:
    # Some file systems take the two ways to write an umlaut for one name.
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
    """All directories that a pattern that forbids can be meant to begin at, with its rest."""
    roots = [anchored.root, *(bases.directories if anchored.loose else ())]
    for root in roots:
        for each in dict.fromkeys([_normal(root), real_path(root)]):
            yield each, anchored.pattern
        # Where the plain beginning of the pattern leads, past links.
        parts = anchored.pattern.split("/")
        plain = 0
        while plain < len(parts) and not _MAGIC.search(parts[plain]) and "\\" not in parts[plain]:
            plain += 1
        if plain:
            yield real_path(os.path.join(root, *parts[:plain])), "/".join(parts[plain:]) or "**"


def _matches(pattern: str, root: str, path: str) -> bool:
    if not below(path, root):
        return False
    return _compiled(pattern).fullmatch(path[len(root.rstrip("/")) :].lstrip("/")) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern like those of gitignore: what matches a directory matches all that is in it."""
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
    """Whether a pattern of paths can be read."""
    try:
        _compiled(pattern)
    except re.error:
        return False
    return not pattern.startswith("!") and not any(char in pattern for char in "\0\n\r")


def globbed(pattern: str) -> Iterator[str]:
    """The paths that a shell would put in the place of a pattern; of very many only some."""
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
                break
        found = names
    yield from found


def glob_paths(pattern: str, path: str | None) -> Sequence[str] | None:
    """The directories that a Glob looks into; None if that cannot be told."""
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
