"""Recognize the images and PDFs that models can see, and the size of an image. Pure."""

from __future__ import annotations

import struct

PDF = "application/pdf"

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)
# The markers of a JPEG that begin a frame and so tell its size.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def media_type_of(raw: bytes) -> str | None:
    """The type of an image or PDF by its first bytes; None for anything else."""
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _BEGINNINGS if raw.startswith(start)), None)


def pixels_of(raw: bytes) -> tuple[int, int] | None:
    """The width and height of an image; None if its header is damaged."""
    try:
        match media_type_of(raw):
            case "image/png":
                size: tuple[int, int] = struct.unpack(">II", raw[16:24])
            case "image/gif":
                size = struct.unpack("<HH", raw[6:10])
            case "image/webp":
                size = _webp(raw)
            case "image/jpeg":
                size = _jpeg(raw)
            case _:
                return None
    except (struct.error, IndexError, ValueError):
        return None
    return size if min(size) > 0 else None


def _webp(raw: bytes) -> tuple[int, int]:
    if len(raw) < 30:
        raise ValueError("too short")
    match raw[12:16]:
        case b"VP8X":
            return _number(raw[24:27]) + 1, _number(raw[27:30]) + 1
        case b"VP8L":
            bits = _number(raw[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", raw[26:30])
            return width & 0x3FFF, height & 0x3FFF
    raise ValueError("an unknown kind of WebP")


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _jpeg(raw: bytes) -> tuple[int, int]:
    at = 2
    while raw[at] == 0xFF:
        marker = raw[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        (length,) = struct.unpack(">H", raw[at + 2 : at + 4])
        # A length includes its own two bytes, so a smaller one would not get on.
        at += 2 + max(length, 2)
    raise ValueError("no frame")
