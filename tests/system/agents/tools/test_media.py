"""The program that reads PDFs and images for Read, as a real process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.contracts.tool import Attachment
from bullpen.agents.tools.files import media, media_worker
from bullpen.agents.tools.toolbox import call, toolbox
from support.agents.pictures import pdf, png

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench


async def seen(bench: Bench, **given: Any) -> tuple[str, list[Attachment]]:
    shown: list[Attachment] = []
    text, failed = await call(toolbox(bench.desk), "Read", given, bench.desk, attach=shown.append)
    assert not failed, text
    return text, shown


async def test_pages_of_a_pdf_are_read_in_a_process_of_their_own(ann: Bench) -> None:
    (ann.cwd / "a.pdf").write_bytes(pdf(*(f"Text {n}" for n in range(1, 13))))
    text, shown = await seen(ann, file_path="a.pdf", pages="2-3")
    assert "pages 2 to 3 of 12" in text
    assert "[Page 2]\nText 2\n\n[Page 3]\nText 3" in shown[0].instead
    assert shown[0].data.startswith(b"%PDF-")


async def test_a_damaged_pdf_and_a_huge_image_are_refused_in_words(ann: Bench) -> None:
    (ann.cwd / "a.pdf").write_bytes(b"%PDF-1.7\n" + b"<<" * 100_000)
    assert "cannot be read: it is damaged" in await ann.refused("Read", file_path="a.pdf")
    (ann.cwd / "a.png").write_bytes(png(1, media.IMAGE_SIDE_MAX + 1))
    told = await ann.refused("Read", file_path="a.png")
    assert "too large" in told and "8000 pixels a side" in told


async def test_a_worker_that_does_not_end_is_killed(
    ann: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    endless = tmp_path / "endless.py"
    endless.write_text(
        f"import os, time\nopen({str(ann.cwd / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "while True: time.sleep(1)\n"
    )
    monkeypatch.setattr(media_worker, "__file__", str(endless))
    monkeypatch.setattr(media, "_WORK_S", 2.0)
    (ann.cwd / "a.pdf").write_bytes(pdf("Hello"))
    assert "took longer than 2 seconds" in await ann.refused("Read", file_path="a.pdf")
    pid = int((ann.cwd / "pid").read_text())
    await ann.until(lambda: not ann.runs(pid))
