"""Texts are read, judged and redacted so soon that no agent waits for it, whatever is in them."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from bullpen.agents.mail.message_frame import frame
from bullpen.agents.permissions.shell.parse import split
from bullpen.agents.system.secrets import Redactor
from support.hostile.generated_lines import HostileLines
from support.pace import counting_s, cpu_s
from system.agents.permissions.test_generated_lines import SEED, Stage
from unit.agents.mail.test_frame_hostile import LONG, message
from unit.agents.permissions.test_shell import LONG_LINES
from unit.agents.permissions.test_table_lines import MANY, effect, filled_lines
from unit.agents.system.test_redactor import ENV, HARD, a_megabyte


@pytest.mark.parametrize("command", LONG_LINES, ids=lambda command: ascii(command[:12]))
def test_long_and_deep_lines_are_read_at_once(command: str) -> None:
    """R-4.1: usually about 5 times a million counts; the square of its length takes minutes."""
    assert cpu_s(lambda: split(command), tries=1) < 25 * counting_s()


@pytest.mark.parametrize("size", [5_000, 1_000_000])
def test_no_line_takes_long_to_decide(tmp_path: Path, size: int) -> None:
    """R-4.1: whatever fills it, a line is decided in 50 ms of a quiet machine, with 50 rules."""
    slow = []
    for line in filled_lines(size):
        work = partial(effect, line, tmp_path, "default", deny=MANY)
        # 50 ms, where bare Python counts to a million in 20.
        took_s = min(cpu_s(work, tries=1), cpu_s(work, tries=3))
        if took_s > 2.5 * counting_s():
            slow.append((line[:20], round(took_s / counting_s(), 1)))
    assert slow == []


def test_generated_lines_are_decided_quickly(tmp_path: Path) -> None:
    """R-4.1: no line keeps the agent waiting."""
    stage = Stage(tmp_path)
    lines = HostileLines(random.Random(SEED + 1), str(stage.outside))
    slowest = max(cpu_s(partial(stage.effect, lines.next()), tries=1) for _ in range(300))
    assert slowest < 10 * counting_s()


@pytest.mark.parametrize("text", LONG)
def test_a_long_hostile_text_is_framed_soon(text: str) -> None:
    long = message(text * 60_000)
    assert cpu_s(lambda: frame(long, known=True), tries=1) < 150 * counting_s()


def test_a_megabyte_is_redacted_in_a_moment() -> None:
    """50 ms on a quiet machine: less than three times what counting to a million takes there."""
    text, redactor = a_megabyte(), Redactor(ENV)
    assert cpu_s(lambda: redactor.text(text)) < 8 * counting_s()


@pytest.mark.parametrize("hard", HARD)
def test_no_text_takes_for_ever_to_redact(hard: str) -> None:
    """A regular expression that tries everything takes exponential time."""
    text = hard * (300_000 // len(hard))

    def redacting() -> None:
        redactor = Redactor(ENV)
        redactor.text(text)
        pieces = redactor.stream()
        for at in range(0, len(text), 65536):
            pieces.feed(text[at : at + 65536])

    assert cpu_s(redacting, tries=1) < 250 * counting_s()
