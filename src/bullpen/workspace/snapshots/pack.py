"""A tar file in blobs for what git cannot hold in a tree: repositories, odd names, git dirs."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from bullpen.errors import BullpenError, Refused, Unreadable
from bullpen.workspace.git.marks import read_errors
from bullpen.workspace.git.run_git import TREE_S, Git

# The part of a tar file in one blob: git may hold a whole blob in memory.
_BLOB_BYTES = 64 * 1024 * 1024

_READ_BYTES = 1024 * 1024


@dataclass(slots=True)
class Bound:
    """How much may still be saved."""

    most: int
    used: int = 0

    def take(self, size: int, what: str) -> None:
        """Count more bytes. Raises Refused (too_big)."""
        self.used += size
        if self.used > self.most:
            raise Refused(
                f"{what} has more than {self.most / 1e9:.3g} GB of untracked content, which is "
                "too much for the repository.",
                reason="too_big",
                remedy="Nothing was changed. Delete what can be created again (build folders, "
                "downloads), or move the folder away yourself.",
            )


@dataclass(slots=True)
class Pack:
    """A tar file that is written as blobs of a repository."""

    git: Git
    bound: Bound
    about: str
    blobs: list[str] = field(default_factory=list)
    # Things in it that have no content.
    left_out: list[str] = field(default_factory=list)

    def write(self, sources: Sequence[tuple[str, Path]], texts: Mapping[str, bytes]) -> None:
        """Add files and folders with everything below, each under a name, and some texts.

        Raises:
            Refused: they are too large (too_big).
            Unavailable: something cannot be read, or changes while it is read.
        """
        if not sources and not texts:
            return
        with (
            _Blobs(self.git, self.blobs) as blobs,
            tarfile.open(
                fileobj=blobs, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape"
            ) as tar,
        ):
            for name, source in sources:
                for path in _below(source):
                    below = "" if path == source else f"/{path.relative_to(source)}"
                    self._add(tar, f"{name}{below}", path)
            for name, text in texts.items():
                row = tarfile.TarInfo(name)
                row.size = len(text)
                tar.addfile(row, io.BytesIO(text))

    def _add(self, tar: tarfile.TarFile, name: str, path: Path) -> None:
        with read_errors(path):
            look = path.lstat()
            row = tarfile.TarInfo(name)
            row.mode, row.mtime = stat.S_IMODE(look.st_mode), int(look.st_mtime)
            if stat.S_ISDIR(look.st_mode):
                row.type = tarfile.DIRTYPE
                tar.addfile(row)
            elif stat.S_ISLNK(look.st_mode):
                row.type, row.linkname = tarfile.SYMTYPE, os.readlink(path)
                tar.addfile(row)
            elif stat.S_ISREG(look.st_mode):
                self.bound.take(look.st_size, self.about)
                row.size = look.st_size
                with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                    tar.addfile(row, file)
            else:
                self.left_out.append(name)


class _Blobs(io.RawIOBase):
    """A file object whose content becomes blobs of a repository."""

    def __init__(self, git: Git, blobs: list[str]) -> None:
        self._git, self._blobs = git, blobs
        self._path = Path(git.env["GIT_DIR"]) / "packed"
        self._file = self._path.open("wb")
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        assert isinstance(data, bytes | bytearray | memoryview)
        self._file.write(data)
        self._size += len(data)
        if self._size >= _BLOB_BYTES:
            self._keep()
        return len(data)

    def close(self) -> None:
        if not self.closed:
            if self._size:
                self._keep()
            self._file.close()
        super().close()

    def _keep(self) -> None:
        self._file.flush()
        self._blobs.append(
            self._git("hash-object", "-w", "--no-filters", "--", str(self._path), seconds=TREE_S)
        )
        self._file.seek(0)
        self._file.truncate()
        self._size = 0


class _Read(io.RawIOBase):
    """A file object that reads the blobs of a tar file."""

    def __init__(self, git: Git, blobs: Sequence[str]) -> None:
        self._git, self._waiting = git, list(blobs)
        self._file: io.BufferedReader | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = size if size >= 0 else _READ_BYTES
        parts: list[bytes] = []
        while wanted > 0 and (part := self._next(wanted)):
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    def _next(self, size: int) -> bytes:
        while True:
            if self._file is not None:
                if part := self._file.read(size):
                    return part
                self._file.close()
                self._file = None
            if not self._waiting:
                return b""
            folder = Path(self._git.env["GIT_DIR"])
            git = self._git.at(folder).with_env(GIT_WORK_TREE=str(folder))
            name = folder / git("unpack-file", self._waiting.pop(0), seconds=TREE_S)
            self._file = name.open("rb")
            name.unlink()


def unpack(git: Git, blobs: Sequence[str], places: Mapping[str, Path]) -> dict[str, bytes]:
    """Unpack into the folders that the names begin with. Returns what belongs to no folder.

    Only files of the git dir itself are overwritten. Nothing is written through a link.

    Raises:
        Unreadable: it is not a valid pack.
    """
    texts: dict[str, bytes] = {}
    folders: list[tuple[Path, int]] = []
    links: set[Path] = set()
    if not blobs:
        return texts
    try:
        with (
            _Read(git, blobs) as packed,
            tarfile.open(fileobj=packed, mode="r|", errors="surrogateescape") as tar,
        ):
            for row in tar:
                first, _, rest = row.name.partition("/")
                if first not in places:
                    file = tar.extractfile(row)
                    texts[row.name] = b"" if file is None else file.read()
                    continue
                path = _path_in(places[first], rest, links)
                _extract(tar, row, path, folders, links)
    except tarfile.TarError as error:
        raise Unreadable("the snapshot", str(error), remedy="Try an older snapshot.") from None
    # At the end and from the bottom up: a folder may be read-only.
    for folder, mode in sorted(folders, reverse=True):
        folder.chmod(mode)
    return texts


def _path_in(folder: Path, name: str, links: set[Path]) -> Path:
    parts = PurePosixPath(name)
    path = folder / parts
    if parts.is_absolute() or ".." in parts.parts or links & set(path.parents):
        raise Unreadable("the snapshot", f"{name!r} leads outside it", remedy="Do not trust it.")
    return path


def _extract(
    tar: tarfile.TarFile,
    row: tarfile.TarInfo,
    path: Path,
    folders: list[tuple[Path, int]],
    links: set[Path],
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if row.isdir():
        path.mkdir(exist_ok=True)
        folders.append((path, row.mode))
        return
    if path.is_symlink() or path.is_file():
        path.unlink()
    if row.issym():
        os.symlink(row.linkname, path)
        links.add(path)
        return
    file = tar.extractfile(row)
    if file is None:
        raise BullpenError(
            f"{row.name!r} in the snapshot is not a file.",
            remedy="Restore another snapshot: bullpen workspace saved",
        )
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb"
    ) as to:
        while part := file.read(_READ_BYTES):
            to.write(part)
    path.chmod(row.mode)
    os.utime(path, (row.mtime, row.mtime))


def _below(source: Path) -> Iterator[Path]:
    """Yield a path and everything below it, in order; links are not followed."""
    waiting = [source]
    while waiting:
        path = waiting.pop()
        yield path
        if path.is_symlink() or not path.is_dir():
            continue
        with read_errors(path):
            waiting += sorted(path.iterdir(), reverse=True)
