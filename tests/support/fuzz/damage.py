"""Ways to damage a file: its bytes, its JSON value, or what stands in its place."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bullpen.store.files.doctor.quarantine import is_file

from .home import TEAM, Sandbox
from .values import DEEP, PATH_TRICKS, any_text, any_value

Bytes = Callable[[bytes, random.Random], bytes]

_BAD_UTF8 = (b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xc0\xaf", b"\x80", b"\xf5\x80\x80\x80")
_CONTROLS = bytes(range(0x20)) + b"\x7f"
_NAME_KEYS = (
    "id", "name", "owner", "blocks", "blockedBy", "from", "to", "agent", "agentId", "teamName",
    "requestId", "msg_id", "put", "seq", "size", "high", "changes", "base", "ids", "waits",
)  # fmt: skip


def _truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flipped(data: bytes, rng: random.Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8)) if data else 0):
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _inserted(data: bytes, rng: random.Random, what: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + what + data[at:]


def _slice_moved(data: bytes, rng: random.Random) -> bytes:
    start, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    match rng.randrange(3):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return _inserted(data, rng, data[start:end])
        case _:
            return data[:start] + bytes(end - start) + data[end:]


def _deep(data: bytes, rng: random.Random) -> bytes:
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")))
    depth = rng.choice((150, 220, 1000, DEEP))
    text = opening * depth + rng.choice((b"", b"1", b"null", b'"\\ud83d"'))
    text += rng.choice((b"", closing * depth))
    return rng.choice((text, data + text, _inserted(data, rng, text), data[:-2] + b"," + text))


def _huge_number(data: bytes, rng: random.Random) -> bytes:
    digits = [at for at, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    number = rng.choice(
        (b"1e999", b"9" * 5000, b"9" * 4000, b"-1", b"1e-999", b"-0", b"0.0", b"1E400", b"NaN")
    )
    if not digits:
        return number
    at = rng.choice(digits)
    return data[:at] + number + data[at + 1 :]


def _key_twice(data: bytes, rng: random.Random) -> bytes:
    at = data.find(b"{", rng.randrange(len(data) + 1))
    at = at if at >= 0 else data.find(b"{")
    pair = json.dumps(rng.choice(_NAME_KEYS)) + ": " + _json(any_value(rng), rng) + ", "
    return data[: at + 1] + pair.encode("utf-8", "surrogatepass") + data[at + 1 :]


def _garbage(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"", data)) + rng.randbytes(rng.choice((1, 16, 700)))


_BYTES: tuple[tuple[str, Bytes], ...] = (
    ("truncated", _truncated),
    ("bits flipped", _flipped),
    ("emptied", lambda data, rng: rng.choice((b"", b"\n", b"   ", bytes(len(data))))),
    ("a BOM before it", lambda data, rng: b"\xef\xbb\xbf" + data),
    ("as UTF-16", lambda data, rng: data.decode("utf-8", "replace").encode("utf-16")),
    ("invalid UTF-8 in it", lambda data, rng: _inserted(data, rng, rng.choice(_BAD_UTF8))),
    ("control characters", lambda d, rng: _inserted(d, rng, bytes(rng.choices(_CONTROLS, k=3)))),
    ("a slice moved", _slice_moved),
    ("deep", _deep),
    ("a huge number", _huge_number),
    ("a key twice", _key_twice),
    ("garbage", _garbage),
    ("twice", lambda data, rng: data + data),
    ("a lone surrogate", lambda data, rng: _inserted(data, rng, b"\\ud83d")),
)


def _json(value: Any, rng: random.Random) -> str:
    """The value as text; what the standard library nests too deeply to write is null."""
    try:
        return json.dumps(value, indent=rng.choice((None, 2)))
    except (RecursionError, ValueError):
        return "null"


def _spots(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of a JSON value."""
    yield above
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _spots(part, (*above, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _spots(part, (*above, index))


def _changed_value(value: Any, rng: random.Random) -> Any:
    value = copy.deepcopy(value)
    spots = list(_spots(value))
    named = [spot for spot in spots if spot and spot[-1] in _NAME_KEYS]
    spot = rng.choice(named if named and rng.random() < 0.4 else spots)
    if not spot:
        return rng.choice((any_value(rng), [value], {"a": value}, _turned(value)))
    holder = value
    for key in spot[:-1]:
        holder = holder[key]
    key = spot[-1]
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[any_text(rng)[:60]] = holder.pop(key)
        case 2:
            holder[key] = _turned(holder[key])
        case 3:
            trick = rng.choice(PATH_TRICKS)
            holder[key] = [trick] if isinstance(holder[key], list) else trick
        case 4 if isinstance(holder, list):
            holder.insert(key, rng.choice((any_value(rng), holder[key])))
        case _:
            holder[key] = any_value(rng)
    return value


def _turned(value: Any) -> Any:
    """An array for an object, an object for an array, a text for everything else."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return {str(index): part for index, part in enumerate(value)}
    return str(value) if not isinstance(value, str) else [value]


def _json_changed(data: bytes, rng: random.Random) -> bytes:
    """Change the JSON value of a file, or of one line of it."""
    lines = data.splitlines(keepends=True) if b"}\n{" in data else [data]
    at = rng.choice((0, len(lines) - 1, rng.randrange(len(lines)))) if lines else 0
    try:
        block = 256 if lines[at].endswith(b" ") else None  # The head is a block of fixed length.
        value, rest = json.loads(lines[at][:block]), lines[at][256:] if block else b""
    except (ValueError, IndexError):
        return _flipped(data, rng)
    text = _json(_changed_value(value, rng), rng).encode()
    if len(lines) > 1:
        text = text.replace(b"\n", b" ") + b"\n"
    return b"".join([*lines[:at], text.ljust(256 if rest else 0), rest, *lines[at + 1 :]])


@dataclass(frozen=True, slots=True)
class Damage:
    """What was done to which file. `data` is what the file holds now, if it is still a file."""

    path: str
    how: str
    data: bytes | None


def inflict(sandbox: Sandbox, rng: random.Random) -> Damage:
    """Damage one file of the home, or put something beside it."""
    path = _victim(sandbox, rng)
    if not path:
        return Damage("", "nothing is left to damage", None)
    chance = rng.random()
    if chance < 0.02:
        damage = _stray(sandbox, rng)
    elif chance < 0.04:
        damage = _folder_gone(sandbox, rng)
    elif chance < 0.16:
        damage = _replaced(sandbox, path, rng)
    else:
        old = sandbox.base[path]
        name, change = ("another value", _json_changed) if chance < 0.55 else rng.choice(_BYTES)
        data = change(old, rng)
        (sandbox.home / path).write_bytes(data)
        damage = Damage(path, name, data)
    if damage.path and os.path.lexists(sandbox.home / damage.path) and rng.random() > 0.001:
        sandbox.age(damage.path)
    return damage


def _victim(sandbox: Sandbox, rng: random.Random) -> str:
    """A file of the team; every kind of file with the same chance."""
    kinds: dict[str, list[str]] = {}
    for path in sandbox.base:
        if f"/{TEAM}/" in path and is_file(sandbox.at(path)):
            folder, _, name = path.rpartition("/")
            in_general = folder.endswith((".bullpen", TEAM)) and not name[0].isdigit()
            kinds.setdefault(path if in_general else folder + name[-6:], []).append(path)
    return rng.choice(kinds[rng.choice(sorted(kinds))]) if kinds else ""


def _replaced(sandbox: Sandbox, path: str, rng: random.Random) -> Damage:
    """Something that is no file in a file's place, or nothing, or another file."""
    whole = sandbox.at(path)
    os.unlink(whole)
    inside_canary = (*sorted(os.listdir(sandbox.canary)), "not-there", "folder/precious.txt")
    outside = rng.choice((*(f"{sandbox.canary}/{name}" for name in inside_canary), "/dev/zero"))
    match rng.randrange(8):
        case 0:
            return Damage(path, "gone", None)
        case 1:
            os.mkdir(whole)
            return Damage(path, "an empty folder", None)
        case 2:
            os.mkdir(whole)
            with open(os.path.join(whole, "inside.json"), "wb") as file:
                file.write(b"{}")
            return Damage(path, "a folder", None)
        case 3 | 4:
            os.symlink(outside, whole)
            return Damage(path, f"a link to {outside}", None)
        case 5:
            os.symlink(os.path.basename(whole), whole)
            return Damage(path, "a link to itself", None)
        case 6:
            os.mkfifo(whole)
            return Damage(path, "a FIFO", None)
        case _:
            other = rng.choice(sorted(sandbox.base))
            with open(whole, "wb") as file:
                file.write(sandbox.base[other])
            return Damage(path, f"the content of {other}", sandbox.base[other])


def _folder_gone(sandbox: Sandbox, rng: random.Random) -> Damage:
    """A file, or nothing, where a folder was."""
    mine = [p for p in sandbox.folders if f"/{TEAM}/" in p and (sandbox.home / p).is_dir()]
    folder = rng.choice(mine).rstrip("/")
    shutil.rmtree(sandbox.home / folder)
    if rng.random() < 0.5:
        return Damage(folder, "no folder", None)
    data = rng.choice((b"", b"[]", b"{}"))
    (sandbox.home / folder).write_bytes(data)
    return Damage(folder, "a file for a folder", data)


def _stray(sandbox: Sandbox, rng: random.Random) -> Damage:
    """A file that should not be there."""
    folder = rng.choice((f"tasks/{TEAM}", f"teams/{TEAM}/inboxes", f"teams/{TEAM}/.bullpen"))
    folder += rng.choice(("", "/requests", "/presence")) if ".bullpen" in folder else ""
    name = rng.choice(
        (
            "..json", "-.json", "a b.json", "007.json", "\udcff.json", "a\nb.json", "é.json",
            "9" * 60 + ".json", "x" * 240 + ".json", "config.json.lock", "1.json.lock", ".json",
            "8.json", ".8.json.bullpen-tmp", "new\x1b[31m.json", "deleting.json", "²3.json",
        )
    )  # fmt: skip
    source = rng.choice((f"tasks/{TEAM}/1.json", f"teams/{TEAM}/inboxes/bob.json"))
    data = rng.choice((sandbox.base[source], b"", b"{", b"null"))
    if not (sandbox.home / folder).is_dir() or os.path.lexists(sandbox.home / folder / name):
        return Damage("", "no room for a stray file", None)
    (sandbox.home / folder / name).write_bytes(data)
    return Damage(f"{folder}/{name}", "a stray file", data)
