"""Find files and search in them, also as a separate program that can be killed.

It needs only the standard library: `search.py` runs this file with a bare interpreter, because a
pattern can take forever and a thread cannot be stopped.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

LINE_CHARS_MAX = 2_000
TEXT_CHARS_MAX = 100_000
FOUND_CHARS_MAX = 4_000_000
"""The most characters that are returned: some may have to be left out or cut."""
_BINARY_LOOKED_AT = 8192
_BATCH_FILES = 400
_BATCH_CHARS = 60_000

Request = dict[str, Any]
"""pattern, path, cwd, glob, mode, ignore_case, numbers, before, after, limit, multiline, git."""


class BadPattern(Exception):
    """A pattern that is not valid."""


def expand_braces(pattern: str) -> list[str]:
    """`*.{c,h}` as `*.c` and `*.h`; braces may nest. Unpaired braces are literal."""
    depth, start = 0, -1
    commas: list[int] = []
    for index, char in enumerate(pattern):
        if char == "{":
            if depth == 0:
                start, commas = index, []
            depth += 1
        elif char == "," and depth == 1:
            commas.append(index)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0 and commas:
                ends = [start, *commas, index]
                parts = [pattern[a + 1 : b] for a, b in itertools.pairwise(ends)]
                whole = (pattern[:start] + part + pattern[index + 1 :] for part in parts)
                return [result for one in whole for result in expand_braces(one)]
    return [pattern]


def path_pattern(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression for paths with `/`; `**` matches any directories."""
    return re.compile("|".join(_translated(one) for one in expand_braces(pattern)))


def _translated(pattern: str) -> str:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    out = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out += ".*" if last else "(?:[^/]+/)*"
        else:
            out += _segment(part) + ("" if last else "/")
    return rf"(?s:{out})\Z"


def _segment(part: str) -> str:
    out, index = "", 0
    while index < len(part):
        char = part[index]
        index += 1
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "[" and (end := _closing(part, index)) > 0:
            body = part[index:end].replace("\\", "\\\\").replace("[", "\\[")
            out += f"[^/{body[1:]}]" if body[0] in "!^" else f"[{body}]"
            index = end + 1
        else:
            out += re.escape(char)
    return out


def _closing(part: str, start: int) -> int:
    """Where a character set ends; a bracket at its very start belongs to it."""
    negated = part[start : start + 1] in ("!", "^")
    return part.find("]", start + 1 + negated)


def inside(path: str, root: str) -> str:
    """A path relative to a root above it."""
    return path[len(root) :].lstrip("/")


def walk(root: str, stopped: Callable[[], bool]) -> Iterator[os.DirEntry[str]]:
    """Every file below a directory, without `.git`, links to directories and unreadable ones."""
    waiting = [root]
    while waiting and not stopped():
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            if folder == root:
                raise
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    waiting.append(entry.path)
            elif not (entry.is_symlink() and entry.is_dir()):
                yield entry


def _files(request: Request) -> list[str]:
    """The regular files to search, by path; in a git repository, those that it does not ignore."""
    root = request["path"]
    if not os.path.isdir(root):
        return [root]
    listed = _git_files(root, request["git"]) or [entry.path for entry in walk(root, lambda: False)]
    wanted = _wanted(request["glob"], root)
    return sorted(path for path in set(listed) if wanted(path) and _is_regular(path))


def _git_files(root: str, git: Sequence[str]) -> list[str]:
    if shutil.which("git") is None:
        return []
    listed = subprocess.run(  # noqa: S603 - no shell, our own words
        [*git, "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        return []
    paths: list[str] = []
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        path = os.path.join(root, name.rstrip("/"))
        if os.path.isdir(path) and not os.path.islink(path):
            # Another repository inside this one.
            paths += [entry.path for entry in walk(path, lambda: False)]
        else:
            paths.append(path)
    return paths


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _wanted(glob: str | None, root: str) -> Callable[[str], bool]:
    if not glob:
        return lambda path: True
    inverted, glob = glob.startswith("!"), glob.removeprefix("!")
    # Without a slash, the pattern is for the file name alone, in any directory.
    pattern = path_pattern(glob if "/" in glob else f"**/{glob}")
    if glob.startswith("/"):
        return lambda path: bool(pattern.match(path.lstrip("/"))) != inverted
    return lambda path: bool(pattern.match(inside(path, root))) != inverted


def read_text(path: str) -> str | None:
    """The text of a file, or None if it is not text or cannot be read."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return None
    if b"\0" in raw[:_BINARY_LOOKED_AT]:
        return None
    return raw.decode("utf-8", "replace").replace("\r\n", "\n")


def lines_of(text: str) -> list[str]:
    """The lines of a text, without an empty line after the last newline."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


Found = Callable[[Sequence[str]], dict[str, list[int]]]
"""A search engine: the numbers of the matching lines, by file; no entry without a match."""


def with_python(request: Request) -> Found:
    """The engine that is always available. Raises BadPattern."""
    flags = re.IGNORECASE if request["ignore_case"] else re.NOFLAG
    if request["multiline"]:
        flags |= re.MULTILINE | re.DOTALL
    try:
        with warnings.catch_warnings():
            # Python reads `[[:alpha:]]` as something else than a POSIX class.
            warnings.simplefilter("error", FutureWarning)
            pattern = re.compile(request["pattern"], flags)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise BadPattern(str(error)) from None
    look = _in_whole if request["multiline"] else _in_lines

    def found(paths: Sequence[str]) -> dict[str, list[int]]:
        results = ((path, read_text(path)) for path in paths)
        hits = ((path, look(pattern, text)) for path, text in results if text is not None)
        return {path: numbers for path, numbers in hits if numbers}

    return found


def _in_lines(pattern: re.Pattern[str], text: str) -> list[int]:
    lines = enumerate(lines_of(text), start=1)
    return [number for number, line in lines if pattern.search(line)]


def _in_whole(pattern: re.Pattern[str], text: str) -> list[int]:
    numbers: dict[int, None] = {}
    last, line = 0, 1
    total = len(lines_of(text))
    for match in pattern.finditer(text):
        line += text.count("\n", last, match.start())
        last = match.start()
        end = line + text.count("\n", match.start(), max(match.start(), match.end() - 1))
        numbers.update(dict.fromkeys(range(line, min(end, total) + 1)))
    return list(numbers)


def with_ripgrep(request: Request, program: str) -> Found:
    """The fast engine. It raises BadPattern for patterns that it does not support."""
    words = [program, "--no-config", "--json", "--text", "--encoding", "none", "--crlf"]
    words += ["--no-ignore", "--hidden"]
    if request["ignore_case"]:
        words.append("--ignore-case")
    if request["multiline"]:
        words += ["--multiline", "--multiline-dotall"]
    words += ["-e", request["pattern"], "--"]

    def found(paths: Sequence[str]) -> dict[str, list[int]]:
        texts = [path for path in paths if not _looks_binary(path)]
        ran = subprocess.run(  # noqa: S603 - no shell, our own words
            [*words, *(texts or [os.devnull])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        # A single unreadable file also gives 2, but then there is output.
        if ran.returncode == 2 and not ran.stdout:
            raise BadPattern(ran.stderr.decode("utf-8", "replace").strip())
        return _rows(ran.stdout)

    return found


def _looks_binary(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"\0" in file.read(_BINARY_LOOKED_AT)
    except OSError:
        return True


def _rows(printed: bytes) -> dict[str, list[int]]:
    numbers: dict[str, dict[int, None]] = {}
    for row in printed.splitlines():
        event = json.loads(row)
        if event["type"] != "match":
            continue
        data = event["data"]
        path = _plain(data["path"])
        extent = _plain(data["lines"]).removesuffix("\n").count("\n") + 1
        first = data["line_number"]
        numbers.setdefault(path, {}).update(dict.fromkeys(range(first, first + extent)))
    return {path: list(found) for path, found in numbers.items()}


def _plain(field: dict[str, str]) -> str:
    if "text" in field:
        return field["text"]
    return os.fsdecode(base64.b64decode(field["bytes"]))


def _engine(request: Request) -> Found:
    program = shutil.which("rg")
    if program is None:
        return with_python(request)
    quick = with_ripgrep(request, program)

    def found(paths: Sequence[str]) -> dict[str, list[int]]:
        try:
            return quick(paths)
        except BadPattern as refused:
            # Only Python supports some patterns, such as lookaround.
            try:
                return with_python(request)(paths)
            except BadPattern:
                raise refused from None

    return found


def _batches(paths: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        if batch and (len(batch) >= _BATCH_FILES or size + len(path) > _BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += len(path)
    # Even an empty batch: a bad pattern is an error even if there are no files.
    yield batch


Rows = list[tuple[str, list[str]]]
"""The rows that were found, by file."""


def grep(request: Request) -> Rows:
    """The matching rows, one more than the limit if there are more. Raises BadPattern."""
    engine = _engine(request)
    paths = _files(request)
    if request["mode"] == "files_with_matches":
        paths.sort(key=newest_first)
    limit = request["limit"]
    found: Rows = []
    count, room = 0, FOUND_CHARS_MAX
    for batch in _batches(paths):
        hits = engine(batch)
        for path in (path for path in batch if path in hits):
            rows = list(_shown(request, path, hits[path]))
            found.append((path, rows))
            count += len(rows)
            room -= sum(map(len, rows))
            if (limit and count > limit) or room < 0:
                return found
    return found


def newest_first(path: str) -> int:
    """The sort key of a path; paths that no longer exist come last."""
    try:
        return -os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _shown(request: Request, path: str, numbers: list[int]) -> Iterable[str]:
    name = shown_path(path, request["cwd"])
    if request["mode"] == "files_with_matches":
        return [name]
    if request["mode"] == "count":
        return [f"{name}:{len(numbers)}"]
    return _content(request, path, name, numbers)


def shown_path(path: str, cwd: str) -> str:
    """A path as it is shown: relative to the working directory if it is below it."""
    return inside(path, cwd) if path.startswith(cwd.rstrip("/") + "/") else path


def _content(request: Request, path: str, name: str, numbers: list[int]) -> Iterator[str]:
    lines = lines_of(read_text(path) or "")
    matched = set(numbers)
    before, after = request["before"], request["after"]
    last = 0
    for number in numbers:
        first = max(last + 1, number - before)
        if last and first > last + 1 and (before or after):
            yield "--"
        # Lines up to the next match belong to that match.
        for at in range(first, min(number + after, len(lines)) + 1):
            sign = ":" if at in matched else "-"
            where = f"{name}{sign}{at}{sign}" if request["numbers"] else f"{name}{sign}"
            yield where + cut(lines[at - 1])
            last = at


def cut(line: str) -> str:
    """A line without its end if it is very long."""
    if len(line) <= LINE_CHARS_MAX:
        return line
    return f"{line[:LINE_CHARS_MAX]}… [{len(line) - LINE_CHARS_MAX} more characters]"


def bounded(rows: list[str], limit: int) -> str:
    """The rows as one text, cut at the limits."""
    shown: list[str] = []
    room = TEXT_CHARS_MAX
    for row in rows[: limit or None]:
        room -= len(row) + 1
        if room < 0:
            break
        shown.append(row)
    if not shown:
        return "No matches found"
    if len(shown) < len(rows):
        shown.append(f"[Only the first {len(shown)} lines are shown. There are more.]")
    return "\n".join(shown)


def main() -> None:
    """Answer the JSON request in the first argument with a JSON object: `found` or `error`."""
    answer: dict[str, Any]
    try:
        answer = {"found": grep(json.loads(sys.argv[1]))}
    except BadPattern as error:
        answer = {"error": str(error)}
    # In ASCII, so that the locale does not matter.
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
