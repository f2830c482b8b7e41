"""Writes a page that stands alone, as HTML or Markdown, to the file that was asked for."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import typer

from bullpen.doors.cli.session import Session

Form = Literal["html", "md"]


def form_of(form: Form | None, output: str | None) -> Form:
    """Return the form that was asked for, or that the name of the file says."""
    return form or ("md" if output is not None and output.endswith(".md") else "html")


def write_page(session: Session, output: str, page: str, form: Form) -> None:
    """Write a page whole or not at all, and say where it is."""
    path = Path(output)
    _put(path, page)
    session.page.result(
        "report-written/1",
        {"path": str(path.absolute()), "format": form, "bytes": len(page.encode())},
        f"Wrote {output}.",
    )


def _put(path: Path, page: str) -> None:
    if "\0" in str(path):
        raise typer.BadParameter("that is not a valid file name.")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(page, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        # Name the file that was asked for, not the temporary one.
        raise OSError(error.errno, error.strerror, str(path)) from None
