"""What git can hold in no tree, as blobs of a tar file: other repositories, odd names, git dirs."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from bullpen.errors import BullpenError, Refused, Unavailable, Unreadable
from bullpen.workspace.git import TREE_S, Git

# So much of a tar file is in one blob: git may hold all of a blob in memory.
_BLOB_BYTES = 64 * 1024 * 1024

_READ_BYTES = 1024 * 1024


@dataclass(slots=True)
class Bound:
    """How much may still be kept."""

    most: int
    used: int = 0

    def take(self, size: int, what: str) -> None:
        """Count some more. Raises Refused (too_big)."""
        self.used += size
        if self.used > self.most:
            raise Refused(
                f"{what} holds more than {self.most / 1e9:.3g} GB that git does not track, "
                f"and so much is not put into the repository.",
                reason="too_big",
                remedy="Nothing was changed. Remove what can be made again (build folders, "
                "downloads), or move the folder away yourself.",
            )


@dataclass(slots=True)
class Pack:
    """A tar file that is written as blobs of a repository."""

    git: Git
    bound: Bound
    about: str
    blobs: list[str] = field(default_factory=list)
    # What is in it that holds nothing that could be kept.
    left_out: list[str] = field(default_factory=list)

    def write(self, sources: Sequence[tuple[str, Path]], texts: Mapping[str, bytes]) -> None:
        """Take in files and folders with all below, each under a name, and some texts.

        Raises:
            Refused: they are too big (too_big).
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
                    self._add(
                        tar, name if path == source else f"{name}/{_rest(path, source)}", path
                    )
            for name, text in texts.items():
                row = tarfile.TarInfo(name)
                row.size = len(text)
                tar.addfile(row, io.BytesIO(text))

    def _add(self, tar: tarfile.TarFile, name: str, path: Path) -> None:
        try:
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
        except OSError as error:
            raise Unavailable(
                f"{path} cannot be kept: {error.strerror or error}.",
                remedy="Nothing was changed. See that nobody changes it, and to its permissions.",
            ) from None


class _Blobs(io.RawIOBase):
    """What is written to this becomes blobs of a repository, one after another."""

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
    """The blobs of a tar file, one after another."""

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
    """Put what was packed below the folders that its names begin with; what is below no folder.

    Nothing that is there is overwritten but by files of the git dir itself; nothing is written
    through a link.

    Raises:
        Unreadable: this is no pack of ours.
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
    # At the end and from below: a folder may be one that nothing can be written to.
    for folder, mode in sorted(folders, reverse=True):
        folder.chmod(mode)
    return texts


def _path_in(folder: Path, name: str, links: set[Path]) -> Path:
    parts = PurePosixPath(name)
    path = folder / parts
    if parts.is_absolute() or ".." in parts.parts or links & set(path.parents):
        raise Unreadable("the snapshot", f"{name!r} leads out of it", remedy="Do not trust it.")
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
        raise BullpenError(f"{row.name!r} in the snapshot is no file.")
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb"
    ) as to:
        while part := file.read(_READ_BYTES):
            to.write(part)
    path.chmod(row.mode)
    os.utime(path, (row.mtime, row.mtime))


def _below(source: Path) -> Iterator[Path]:
    """A path and all below it, in order; links are not followed."""
    waiting = [source]
    while waiting:
        path = waiting.pop()
        yield path
        if path.is_symlink() or not path.is_dir():
            continue
        try:
            waiting += sorted(path.iterdir(), reverse=True)
        except OSError as error:
            raise Unavailable(
                f"The folder {path} cannot be read: {error.strerror}.",
                remedy="Nothing was changed. See to its permissions, then try again.",
            ) from None


def _rest(path: Path, source: Path) -> str:
    return str(path.relative_to(source))
