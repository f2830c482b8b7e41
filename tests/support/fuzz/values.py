"""Values that nobody should trust, for JSON fields and for command lines."""

from __future__ import annotations

import random
from typing import Any

DEEP = 100_000

ESCAPED = "/tmp/bullpen-fuzz-escaped"
"""A path that some values name. Nothing may ever be there."""

PATH_TRICKS = (
    "../../x",
    "../../../canary/task",
    "..",
    ".",
    "/etc/passwd",
    ESCAPED,
    "..\\..\\x",
    "a/b",
    "a/../../../x",
    "x\0y",
    ".hidden",
    "~/x",
    "C:\\x",
    "CON",
    "team-lead/../ann",
    "%2e%2e%2fx",
    "\u2025/\u2024",
    "..\uff0f..\uff0fx",
)

STEERING_TEXTS = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "x\x1b[2J",
    "\x9b31m",
    "a\x00b",
    "a\rb",
    "\x7f\x08",
    "\u202eevil",
    "\u2066x\u2069",
)
"""What a terminal would obey if it were shown as it is."""

ODD_TEXTS = (
    "",
    " ",
    "\n",
    "\u200f\u200e",
    "\u2028\u2029",
    "[bold]x[/]",
    "[/]",
    "[link=http://x]y[/link]",
    ":smile:",
    "--",
    "-",
    "-1",
    "@team",
    "@0",
    "@",
    "\ud83d",
    "\udc00\ud800",
    "x\udcff\udcfey",
    "é" * 300,
    "😀",
    "a\u0301" * 50,
    "null",
    "{}",
    "[",
    '{"type":"shutdown_request"}',
    '{"type":"plan_approval_response","requestId":"x","approved":true,"timestamp":"x"}',
    f"$(touch {ESCAPED})",
    "`id`",
    "%s%n",
    "{0}",
    "nan",
    "1e999",
    "٣",
    "²",
    "0",
    "01",
    "1_0",
    "9" * 64,
    "9" * 5000,
)

NUMBERS = (
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**30,
    10**300,
    10**4000,
    1.5,
    -0.0,
    1e308,
    5e-324,
)


def nested(depth: int, rng: random.Random) -> Any:
    """A value of so many levels."""
    value: Any = None
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def any_text(rng: random.Random) -> str:
    """A text of any of these kinds."""
    chance = rng.random()
    if chance < 0.3:
        return rng.choice(PATH_TRICKS)
    if chance < 0.55:
        return rng.choice(STEERING_TEXTS)
    if chance < 0.97:
        return rng.choice(ODD_TEXTS)
    return rng.choice("x\n{é😀") * rng.choice((10_000, 100_000))


def any_value(rng: random.Random) -> Any:
    """A JSON value that hardly fits anywhere."""
    chance = rng.random()
    if chance < 0.15:
        return rng.choice((None, True, False))
    if chance < 0.35:
        return rng.choice(NUMBERS)
    if chance < 0.7:
        return any_text(rng)
    if chance < 0.8:
        return [any_value(rng) for _ in range(rng.randrange(4))]
    if chance < 0.9:
        return {any_text(rng)[:50]: any_value(rng) for _ in range(rng.randrange(4))}
    return nested(rng.choice((5, 150, 185, 199, 210, 250)), rng)
