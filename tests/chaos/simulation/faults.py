"""What goes wrong in a simulated history, drawn from its seed, at one await each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "refuse",
    "lost_answer",
    "away",
    "delay",
    "drop",
    "drop_after",
    "jump",
    "stop",
    "suspend",
    "full_disk",
    "silent",
    "cancel",
    "pause",
    "release",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

_SECONDS: dict[Kind, tuple[float, ...]] = {
    "refuse": (0.0,),
    "lost_answer": (0.0,),
    "away": (3.0, 30.0, 90.0),
    "delay": (1.0, 10.0, 45.0),
    "drop": (0.0,),
    "drop_after": (0.0,),
    # The wall clock is set; nothing else notices.
    "jump": (-28_800.0, -3_600.0, -180.0, 180.0, 3_600.0, 28_800.0),
    # SIGSTOP of one process: both clocks go on without it.
    "stop": (20.0, 180.0, 600.0),
    # The whole machine sleeps: with both clocks, or only with the wall clock.
    "suspend": (180.0, 3_600.0, 28_800.0),
    "full_disk": (3.0, 30.0, 90.0),
    "silent": (5.0, 60.0),
    "cancel": (0.0,),
    "pause": (5.0, 60.0),
    # The lead takes a task from its owner.
    "release": (0.0,),
}

AWAITS = 350
"""How many awaits a history without faults has, roughly."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: at the await with this number.

    With `aims`, at the next one in which an agent writes: reads and heartbeats are more frequent.
    """

    at: int
    kind: Kind
    seconds: float
    aims: bool = False

    def __str__(self) -> str:
        where = "the next write after" if self.aims else "await"
        return f"{self.kind}({self.seconds:g}) at {where} {self.at}"


def drawn(chance: random.Random, kinds: tuple[Kind, ...] = KINDS) -> tuple[Fault, ...]:
    """The faults of one history: often one or two, so that each has all it needs to show."""
    many = chance.choice((0, 1, 1, 1, 2, 2, 3, 5))
    found = [drawn_one(chance, kinds, at=chance.randrange(1, AWAITS)) for _ in range(many)]
    return tuple(sorted(found, key=lambda fault: fault.at))


def drawn_one(chance: random.Random, kinds: tuple[Kind, ...] = KINDS, *, at: int) -> Fault:
    """A fault at one await, or at the next write after it."""
    kind = chance.choice(kinds)
    return Fault(at, kind, chance.choice(_SECONDS[kind]), aims=chance.random() < 0.5)
