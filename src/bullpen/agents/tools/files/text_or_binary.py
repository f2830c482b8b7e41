"""Tell text files from binary files. Pure."""

from __future__ import annotations

_LOOKED_AT = 8192

_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program or library"),
    (b"MZ", "a Windows program or library"),
    (b"PK\x03\x04", "a ZIP archive, or a document packed as one"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


def kind_of_binary(raw: bytes) -> str | None:
    """What kind of binary file it is, or None if it is text."""
    kind = next((kind for start, kind in _BEGINNINGS if raw.startswith(start)), None)
    if b"\0" in raw[:_LOOKED_AT]:
        return kind or "binary data"
    if kind is not None and (raw.startswith(b"%PDF-") or not _is_utf8(raw[:_LOOKED_AT])):
        return kind
    return None


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True
