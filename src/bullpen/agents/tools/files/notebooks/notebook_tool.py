"""NotebookEdit: change one cell of a Jupyter notebook that the agent has read."""

from __future__ import annotations

from typing import Literal

from anyio import to_thread
from pydantic import Field

from bullpen.agents.contracts.desk import Desk, TeamDesk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.files.after_edit import after_edit
from bullpen.agents.tools.files.file_content import (
    encoded,
    find,
    missing,
    refuse_marks,
    refuse_unread,
    replace,
)
from bullpen.agents.tools.files.file_tools import FilePath
from bullpen.agents.tools.files.notebooks.cells import CellType, Notebook
from bullpen.agents.tools.files.notebooks.shown import is_notebook
from bullpen.agents.tools.files.safe_open import absolute, real_path
from bullpen.errors import Invalid


class NotebookEditInput(ToolInput):
    """Input of NotebookEdit."""

    notebook_path: FilePath
    new_source: str = Field(description="The whole new text of the cell")
    cell_id: str | None = Field(
        None, description="Id or index of the cell; to insert, of the one before (none: first)"
    )
    cell_type: CellType | None = Field(None, description="Needed to insert")
    edit_mode: Literal["replace", "insert", "delete"] = Field(
        "replace", description="What to do with the cell"
    )


async def _notebook_edit(given: NotebookEditInput, desk: Desk) -> str:
    """Replace, insert or delete a cell of a Jupyter notebook that you have read."""
    said = await to_thread.run_sync(_edit_now, given, desk)
    return await after_edit(said, [given.notebook_path], desk)


def _edit_now(given: NotebookEditInput, desk: TeamDesk) -> str:
    path = absolute(given.notebook_path, desk.spec.cwd)
    real = real_path(given.notebook_path, desk.spec.cwd)
    if not is_notebook(path):
        raise Invalid(f"{path!r} is not a notebook (.ipynb).", remedy="Use Edit.")
    encoded(given.new_source)
    found = find(real)
    if found is None:
        raise missing(path, desk)
    refuse_unread(path, found, desk)
    refuse_marks(path, found, given.new_source, desk)
    try:
        notebook = Notebook(found.raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise Invalid(f"{path!r} is not UTF-8.", remedy="Convert it with a program.") from None
    text, said = _edited(notebook, given)
    replace(path, real, found, text.encode("utf-8"), desk)
    return f"{said} The notebook {path} has {len(Notebook(text).cells)} cells."


def _edited(notebook: Notebook, given: NotebookEditInput) -> tuple[str, str]:
    """The new text of the file, and what was done."""
    cell = None if given.cell_id is None else notebook.cell(given.cell_id)
    if given.edit_mode == "insert":
        if given.cell_type is None:
            raise Invalid("A new cell needs a cell_type.", remedy="Give code or markdown.")
        text, new = notebook.inserted(cell, given.new_source, given.cell_type)
        return text, f"Inserted the cell {new}."
    if cell is None:
        raise Invalid(
            f"cell_id is needed to {given.edit_mode} a cell.", remedy="Read shows the ids."
        )
    if given.edit_mode == "delete":
        return notebook.removed(cell), f"Deleted the cell {cell.id}."
    text = notebook.replaced(cell, given.new_source, given.cell_type)
    return text, f"Replaced the cell {cell.id}."


NOTEBOOK_EDIT: Tool[Desk] = documented(
    "NotebookEdit", NotebookEditInput, "write", _notebook_edit, deferred=True
)
