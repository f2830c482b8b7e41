"""The option that says until when a team works."""

from __future__ import annotations

from typing import Annotated

import typer

UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="WHEN",
        help="Work until all is done, nobody has anything to do, or a time:"
        " done, idle, 07:00, 8h, 90m.",
        show_default=False,
    ),
]
