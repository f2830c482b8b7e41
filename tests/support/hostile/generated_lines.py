"""Hostile command lines by the thousand: all of bash's syntax around programs and their options.

`C` in a piece stands for a file outside the project, `@` for a command inside. The pieces are in
line_pieces.json.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PIECES: dict[str, Any] = json.loads(Path(__file__).with_name("line_pieces.json").read_text("utf-8"))
_SIGNS = "'\"`\\$(){}[];&|<>#!~*?\n\t =-"
_CHARS_MAX = 3_000


@dataclass(slots=True)
class HostileLines:
    """Makes lines; `outside` is the folder that nothing may be written to."""

    dice: random.Random
    outside: str
    seen: set[str] = field(default_factory=set)

    def next(self) -> str:
        """A line that was not made before."""
        while True:
            line = self._options() if self.dice.random() < 0.3 else self._line(3)
            if self.dice.random() < 0.35:
                line = self._damaged(line)
            if line not in self.seen and len(line) <= _CHARS_MAX:
                self.seen.add(line)
                return line

    def _pick(self, kind: str) -> Any:
        return self.dice.choice(PIECES[kind])

    def _aimed(self, piece: str) -> str:
        return piece.replace("C", f"{self.outside}/c{self.dice.randint(0, 9)}")

    def _payload(self) -> str:
        return self._aimed(self._pick("payloads"))

    def _filled(self, piece: str, depth: int) -> str:
        return piece.replace("@", self._inner(depth)) if "@" in piece else piece

    def _inner(self, depth: int) -> str:
        if depth <= 0 or self.dice.random() < 0.45:
            return str(self._payload() if self.dice.random() < 0.5 else self._pick("honest"))
        return self._line(depth - 1)

    def _options(self) -> str:
        """A program that is on the list, with options of all kinds."""
        program = self.dice.choice(list(PIECES["programs"]))
        words = self.dice.choices(PIECES["programs"][program], k=self.dice.randint(1, 4))
        line = " ".join([program, *map(self._aimed, words)])
        if self.dice.random() < 0.15:
            line += " " + self._filled(self._aimed(self._pick("redirections")), 0)
        if self.dice.random() < 0.15:
            line += self._pick("joins") + self._simple(0)
        return line

    def _simple(self, depth: int) -> str:
        words = [self.dice.choice([*PIECES["honest"], *PIECES["honest"], self._payload()])]
        more = self.dice.choice([0, 0, 1, 1, 2])
        words += [self._filled(self._pick("atoms"), depth - 1) for _ in range(more)]
        if self.dice.random() < 0.2:
            words[-1] += self._filled(self._pick("atoms"), depth - 1)
        if self.dice.random() < 0.2:
            redirection = self._filled(self._aimed(self._pick("redirections")), depth - 1)
            words.insert(self.dice.randint(0, len(words)), redirection)
        if self.dice.random() < 0.06:
            words.insert(0, self._filled(self._pick("atoms"), depth - 1))
        line = self.dice.choice([" ", " ", " ", "  ", "\t", " \\\n"]).join(words)
        return self._with_body(line, depth) if self.dice.random() < 0.1 else line

    def _with_body(self, line: str, depth: int) -> str:
        sign, end = self._pick("here")
        body = self._filled(self._pick("bodies"), depth - 1)
        behind = self.dice.choice(["", f"; {self._pick('honest')}", " | cat", " && evil"])
        line = f"{line} {sign}{behind}\n{body}\n{end}\n"
        if self.dice.random() < 0.4:
            line += self.dice.choice([*PIECES["honest"], self._payload()])
        return line

    def _line(self, depth: int) -> str:
        if self.dice.random() < 0.35:
            inside = self._inner(depth - 1) if depth else self._simple(0)
            return self._aimed(self._pick("wraps")).replace("@", inside)
        line = self._simple(depth)
        for _ in range(self.dice.choice([0, 1, 1, 2])):
            line += self._pick("joins") + self._simple(depth - 1)
        return line

    def _damaged(self, line: str) -> str:
        for _ in range(self.dice.choice([1, 1, 2, 3])):
            at, gone = self.dice.randint(0, len(line)), self.dice.choice([0, 0, 1, 2])
            put = self.dice.choice(
                [
                    "",
                    self._pick("atoms").replace("@", "evil"),
                    self.dice.choice(_SIGNS),
                    self._aimed(self._pick("redirections")).replace("@", "evil"),
                ]
            )
            line = line[:at] + put + line[at + gone :]
        return line
