"""Notebooks: read by cells, changed one cell at a time, and every other byte stays."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.tool import Attachment
from bullpen.agents.tools.files.notebooks.cells import Notebook
from bullpen.agents.tools.tool_search import ToolShelf
from bullpen.agents.tools.toolbox import call, shown, toolbox
from bullpen.errors import Invalid, Refused
from support.agents.pictures import png
from support.rows import each_row

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench, MakeBench

PRINTED = {"output_type": "stream", "name": "stdout", "text": ["\x1b[31m2\x1b[0m\n"]}


def code(source: str, *outputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        **more,
        "execution_count": 7,
        "metadata": {"tags": ["é"]},
        "outputs": list(outputs),
        "source": source.splitlines(keepends=True),
    }


def words(source: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", **more, "metadata": {}, "source": source}


def notebook(*cells: dict[str, Any], minor: int = 5, **form: Any) -> str:
    made = {"cells": cells, "metadata": {"x": 1.50}, "nbformat": 4, "nbformat_minor": minor}
    return json.dumps(made, **({"indent": 1, "ensure_ascii": False} | form)) + "\n"


THREE = (words("# Title", id="top"), code("a = 1\na + 1", PRINTED, id="sum"), words("End", id="x"))


@pytest.fixture
def book(ann: Bench) -> Path:
    path = ann.cwd / "a.ipynb"
    path.write_text(notebook(*THREE))
    return path


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_bytes())["cells"]
    return found


async def test_read_shows_each_cell_with_its_id_and_what_it_printed(ann: Bench, book: Path) -> None:
    said = await ann.ok("Read", file_path="a.ipynb")
    rows = [line.split("\t", 1)[1] for line in said.splitlines()]
    assert rows[3:] == [
        '<cell id="sum" type="code">',
        *("a = 1", "a + 1", "</cell>"),
        *('<output of="sum">', "2", "</output>"),
        *('<cell id="x" type="markdown">', "End", "</cell>"),
    ]
    part = await ann.ok("Read", file_path="a.ipynb", offset=4, limit=2)
    assert part.startswith('     4\t<cell id="sum"') and "Continue with offset 6" in part


async def test_models_that_see_are_shown_the_images_in_outputs(ann: Bench) -> None:
    data = {"image/png": base64.b64encode(png(30, 20)).decode(), "text/plain": ["<Figure>"]}
    picture = {"output_type": "display_data", "data": data}
    broken = {"output_type": "display_data", "data": {"image/png": "not base64!"}}
    (ann.cwd / "a.ipynb").write_text(notebook(code("draw()", *[picture] * 10, broken, id="c")))
    seen: list[Attachment] = []
    given = {"file_path": "a.ipynb"}
    text, _ = await call(toolbox(ann.desk), "Read", given, ann.desk, attach=seen.append)
    assert [each.data for each in seen] == [png(30, 20)] * 8
    assert "[image 8 of cell c]" in text and text.count("[image/png: not shown]") == 3
    assert "Your model cannot see images" in await ann.ok("Read", **given)


async def test_a_long_output_is_cut(ann: Bench) -> None:
    output = {"output_type": "stream", "text": "long line\n" * 3_000}
    (ann.cwd / "a.ipynb").write_text(notebook(code("x", output, id="c")))
    said = await ann.ok("Read", file_path="a.ipynb")
    assert "more characters]" in said and said.count("long line") == 1_000


@pytest.mark.parametrize("text", ["", "{", '{"cells": {}}', "[1]", '{"cells": [3]}', "[" * 99_999])
async def test_a_damaged_notebook_is_read_as_text_and_not_changed(ann: Bench, text: str) -> None:
    (ann.cwd / "a.ipynb").write_text(text)
    said = await ann.ok("Read", file_path="a.ipynb")
    assert text[:100] in said
    edit = {"notebook_path": "a.ipynb", "cell_id": "0", "new_source": "x"}
    assert "not a valid notebook" in await ann.refused("NotebookEdit", **edit)
    assert (ann.cwd / "a.ipynb").read_text() == text


async def test_a_replaced_cell_keeps_its_id_and_loses_its_outputs(ann: Bench, book: Path) -> None:
    await ann.ok("Read", file_path="a.ipynb")
    said = await ann.ok("NotebookEdit", notebook_path="a.ipynb", cell_id="sum", new_source="b\nc")
    assert "Replaced the cell sum" in said
    changed = THREE[1] | {"source": ["b\n", "c"], "outputs": [], "execution_count": None}
    assert (ann.cwd / "a.ipynb").read_text() == notebook(THREE[0], changed, THREE[2])


@each_row(
    "form",
    [{}, {"indent": 2}, {"indent": "\t"}, {"indent": None}, {"ensure_ascii": True}],
    ids=str,
)
@each_row("ending", ["\n", "\r\n"], ids=["unix", "windows"])
def test_every_change_keeps_the_form_of_the_file(form: dict[str, Any], ending: str) -> None:
    def made(*cells: dict[str, Any]) -> str:
        return notebook(*cells, **form).replace("\n", ending)

    text = made(*THREE)
    book = Notebook(text)
    assert book.replaced(book.cells[0], "Ü", None) == made(THREE[0] | {"source": ["Ü"]}, *THREE[1:])
    assert book.removed(book.cells[0]) == made(*THREE[1:])
    assert book.removed(book.cells[1]) == made(THREE[0], THREE[2])
    assert book.removed(book.cells[2]) == made(*THREE[:2])
    for after, at in ((None, 0), (book.cells[0], 1), (book.cells[2], 3)):
        new, name = book.inserted(after, "a\n", "markdown")
        fresh = {"cell_type": "markdown", "id": name, "metadata": {}, "source": ["a\n"]}
        assert new == made(*THREE[:at], fresh, *THREE[at:])
    empty = Notebook(text)
    for _ in THREE:
        empty = Notebook(empty.removed(empty.cells[0]))
    assert empty.text == made()
    filled, name = empty.inserted(None, "a", "code")
    first: dict[str, Any] = {"cell_type": "code", "id": name, "execution_count": None}
    assert filled == made(first | {"metadata": {}} | {"outputs": [], "source": ["a"]})


def test_what_only_one_cell_has_stays_in_odd_files() -> None:
    text = '\ufeff{ "nbformat": 4, "big": 1e400, "cells" :[ {"cell_type":"raw","a":"\\ud800"} ]}  '
    book = Notebook(text)
    changed = book.replaced(book.cells[0], "é", None)
    changed.encode("utf-8")
    assert changed.startswith('\ufeff{ "nbformat": 4, "big": 1e400, "cells" :[ {"cell_type": "raw"')
    assert "\\ud800" in changed and changed.endswith("} ]}  ")
    with pytest.raises(Invalid, match="text after its end"):
        Notebook(f"{text}, 3")


async def test_a_cell_is_named_by_its_index_too(ann: Bench) -> None:
    path = ann.cwd / "old.ipynb"
    path.write_text(notebook(words("a"), words("b"), minor=2))
    assert '<cell id="cell-1"' in await ann.ok("Read", file_path="old.ipynb")
    edit = {"notebook_path": "old.ipynb", "new_source": "c"}
    await ann.ok("NotebookEdit", **edit, cell_id="cell-1")
    await ann.ok("NotebookEdit", **edit, cell_id="0", edit_mode="insert", cell_type="code")
    assert ["".join(cell["source"]) for cell in cells(path)] == ["a", "c", "c"]
    assert "id" not in cells(path)[1]
    assert "Its cells are: cell-0" in await ann.refused("NotebookEdit", **edit, cell_id="3")


async def test_what_is_missing_in_a_call_is_named(ann: Bench, book: Path) -> None:
    await ann.ok("Read", file_path="a.ipynb")
    edit = {"notebook_path": "a.ipynb", "new_source": "c"}
    assert "cell_type" in await ann.refused("NotebookEdit", **edit, edit_mode="insert")
    assert "cell_id is needed" in await ann.refused("NotebookEdit", **edit, edit_mode="delete")
    (ann.cwd / "a.py").write_text("x")
    edit["notebook_path"] = "a.py"
    assert "is not a notebook" in await ann.refused("NotebookEdit", **edit, cell_id="0")
    unknown = await ann.refused("Edit", file_path="a.ipynb", old_string="a + 1x", new_string="")
    assert "Use NotebookEdit" in unknown


async def test_a_notebook_must_be_read_as_it_is_before_it_is_changed(
    ann: Bench, book: Path
) -> None:
    edit = {"notebook_path": "a.ipynb", "cell_id": "x", "new_source": "c"}
    assert "(reason: not_read)" in await ann.refused("NotebookEdit", **edit)
    await ann.ok("Read", file_path="a.ipynb")
    (ann.cwd / "a.ipynb").write_text(notebook(*THREE[1:]))
    assert "(reason: changed)" in await ann.refused("NotebookEdit", **edit)


async def test_the_commands_after_an_edit_run_for_a_notebook_too(make_bench: MakeBench) -> None:
    ann = make_bench("ann", after_edit={"*.ipynb": ["lint {file}"]})

    def no_commands(call: Call) -> Mapping[str, Any]:
        if call.kind == "run":
            raise Refused("Not here.", reason="denied")
        return call.input

    ann.desk.rule = no_commands
    (ann.cwd / "a.ipynb").write_text(notebook(*THREE))
    await ann.ok("Read", file_path="a.ipynb")
    said = await ann.ok("NotebookEdit", notebook_path="a.ipynb", cell_id="x", new_source="c")
    assert f"`lint {ann.cwd}/a.ipynb` was not run" in said


async def test_it_is_searched_for_unless_a_role_lists_it(make_bench: MakeBench) -> None:
    def seen(**spec: Any) -> set[str]:
        return {tool.name for tool in shown(toolbox(make_bench("ann", **spec).desk), ToolShelf([]))}

    assert "NotebookEdit" not in seen() and "ToolSearch" in seen()
    assert seen(tools=["Read", "NotebookEdit"]) == {"Read", "NotebookEdit"}
    assert seen(tools=["Read", "Edit"]) == {"Read", "Edit", "MultiEdit", "apply_patch"}
