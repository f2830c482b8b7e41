"""What a driver lacks, as one line that says what to do first and what then."""

from __future__ import annotations

from typing import Any

from bullpen.agents.drivers.survey import Surveyed
from bullpen.runs.teamfile.prerequisites import Prerequisites


def test_what_to_install_and_then_to_set_reads_as_two_sentences() -> None:
    native = Surveyed("native", "Bullpen", None, missing="Run: pip install 'bullpen[native]'")
    unused: Any = None
    lacking = Prerequisites(unused, None, None, None, (), (native,)).lacks("native")

    assert lacking is not None
    assert lacking.startswith("Run: pip install 'bullpen[native]'. Then set ")
    assert lacking.endswith(".")


def test_a_library_and_a_program_to_install_read_as_two_sentences() -> None:
    codex = Surveyed("codex", "Codex", None, missing="Run: pip install 'bullpen[acp]'")
    unused: Any = None
    lacking = Prerequisites(unused, None, None, None, (), (codex,)).lacks("codex")

    assert lacking is not None
    assert ". Then install it: " in lacking
