"""The option that records a run on a tape."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from bullpen.doors.cli.options.option import option
from bullpen.runs.tapes.recording import TapeRequest

Record = Annotated[
    str | None,
    option("Record the models' answers in a new file (.tape), or in one of this directory", "FILE"),
]


def tape_request(record: str | None) -> TapeRequest | None:
    """What the option asks for."""
    return None if record is None else TapeRequest(Path(record).expanduser(), os.environ)
