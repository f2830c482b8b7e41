"""JSON files of an eval: written whole and durably, and checked when they are read."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from bullpen.errors import NotFound, Unreadable

FORMAT = 1

T = TypeVar("T")


def put_once(path: Path, said: Mapping[str, Any]) -> None:
    """Write a file whole, unless it is there already."""
    beside = _written(path, said)
    try:
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        with suppress(OSError):
            os.unlink(beside)
    _sync(path.parent)


def put_over(path: Path, said: Mapping[str, Any]) -> None:
    """Write a file whole, in place of what is there."""
    os.replace(_written(path, said), path)
    _sync(path.parent)


def _written(path: Path, said: Mapping[str, Any]) -> Path:
    """Write a file beside another one. Its name is new: processes of other hosts write too."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(said, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    return beside


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def listed(folder: Path) -> list[Path]:
    """Return the JSON files in a folder, by name. Raises Unreadable, also if it is not there."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError as error:
        raise Unreadable(
            str(folder), error.strerror or str(error), remedy="Name a folder with whole results."
        ) from None
    return [folder / name for name in names]


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file. Raises NotFound, Unreadable."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotFound(
            f"There is no {path.name} in {path.parent}.",
            remedy="Name a folder with results of `bullpen eval run`.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise Unreadable(str(path), str(error), remedy="Name a folder with results.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise Unreadable(
            str(path), "it has another format", remedy="Use the Bullpen that wrote it."
        )
    return found


def checked(path: Path, kind: type[T], found: Mapping[str, Any]) -> T:
    """Return what a file says in its form. It may come from another host. Raises Unreadable."""
    said = {name: value for name, value in found.items() if name != "format"}
    try:
        return TypeAdapter(kind).validate_python(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Unreadable(
            str(path),
            f"{where}: {first['msg']}",
            remedy="Copy the folder again, or delete the file: the trial is then run again.",
        ) from None
