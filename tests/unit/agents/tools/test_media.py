"""Reading images and PDFs: what a model is shown, within which bounds, and what others read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.contracts.tool import Attachment
from bullpen.agents.tools.files import media, media_worker
from bullpen.agents.tools.files.media_type import media_type_of, pixels_of
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Invalid
from support.agents.pictures import gif, jpeg, pdf, png, webp

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's functions, called in this process."""

    async def worked(asked: dict[str, Any], raw: bytes, place: object) -> dict[str, Any]:
        try:
            if asked["do"] == "pages":
                return media_worker.pages_of(raw, asked["first"], asked["last"])
            return media_worker.smaller_image(raw, asked["side_max"])
        except media_worker.Unfit as error:
            return {"unfit": str(error)}

    monkeypatch.setattr(media, "_worked", worked)


async def seen(bench: Bench, **given: Any) -> tuple[str, list[Attachment]]:
    """What Read says and shows to a driver that can show it."""
    shown: list[Attachment] = []
    text, failed = await call(toolbox(bench.desk), "Read", given, bench.desk, attach=shown.append)
    assert not failed, text
    return text, shown


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (png(300, 20), "image/png"),
        (jpeg(300, 20), "image/jpeg"),
        (gif(300, 20), "image/gif"),
        (webp(300, 20), "image/webp"),
    ],
)
async def test_an_image_is_shown_with_a_note_of_what_it_is(
    ann: Bench, raw: bytes, kind: str
) -> None:
    (ann.cwd / "a.picture").write_bytes(raw)
    text, shown = await seen(ann, file_path="a.picture")
    assert [(each.media_type, each.data) for each in shown] == [(kind, raw)]
    digest = shown[0].digest[:16]
    assert f"a.picture: {kind}, {len(raw)} bytes, sha256 {digest}, 300 x 20 pixels." in text
    recorded = [data["text"] for name, data in ann.desk.records if name == "result"]
    assert recorded == [text]


async def test_a_driver_without_eyes_reads_that_it_cannot_see(ann: Bench) -> None:
    (ann.cwd / "a.png").write_bytes(png())
    assert "[Your model cannot see images.]" in await ann.ok("Read", file_path="a.png")
    (ann.cwd / "a.pdf").write_bytes(pdf("Hello there"))
    text = await ann.ok("Read", file_path="a.pdf")
    assert "cannot see PDFs" in text and "[Page 1]\nHello there" in text


async def test_the_words_for_an_attachment_have_no_secrets(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ann.desk, "redacted", lambda text: text.replace("hunter2", "[secret]"))
    (ann.cwd / "a.pdf").write_bytes(pdf("It is hunter2"))
    _, shown = await seen(ann, file_path="a.pdf")
    assert "It is [secret]" in shown[0].instead


@pytest.mark.parametrize(
    "raw", [b"\x89PNG\r\n\x1a\n\0\0", b"\xff\xd8\xff\xe0\0\0", b"GIF89a\0", webp(3, 3)[:20]]
)
async def test_a_damaged_image_is_refused(ann: Bench, raw: bytes) -> None:
    assert media_type_of(raw) and pixels_of(raw) is None
    (ann.cwd / "a.png").write_bytes(raw)
    assert "damaged" in await ann.refused("Read", file_path="a.png")


@pytest.mark.parametrize(
    "raw",
    [png(1, media.IMAGE_SIDE_MAX + 1), png(3, 3, padding=media.IMAGE_BYTES_MAX)],
    ids=["too tall", "too heavy"],
)
async def test_an_image_beyond_the_bounds_is_refused_with_the_bounds(
    ann: Bench, raw: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_library(name: str) -> Any:
        raise media_worker.Unfit(f"the Python package {name} is not installed")

    monkeypatch.setattr(media_worker, "_library", no_library)
    (ann.cwd / "a.png").write_bytes(raw)
    told = await ann.refused("Read", file_path="a.png")
    assert "8000 pixels a side and 3,750,000 bytes" in told and "smaller copy" in told


async def test_pages_of_a_pdf_are_shown_alone(ann: Bench) -> None:
    (ann.cwd / "a.pdf").write_bytes(pdf(*(f"Text {n}" for n in range(1, 31))))
    assert "has 30 pages" in await ann.refused("Read", file_path="a.pdf")
    text, shown = await seen(ann, file_path="a.pdf", pages="3-4")
    assert "pages 3 to 4 of 30" in text
    assert "Text 3" in shown[0].instead and "Text 4" in shown[0].instead
    assert "Text 2" not in shown[0].instead and "Text 5" not in shown[0].instead
    part = media_worker.pages_of(shown[0].data, 1, 0)
    assert part["count"] == 2 and "Text 3" in part["text"]
    text, shown = await seen(ann, file_path="a.pdf", pages="25-")
    assert "pages 25 to 30 of 30" in text and "Text 30" in shown[0].instead
    for pages in ("1-21", "31", "9-"):
        assert "at most 20" in await ann.refused("Read", file_path="a.pdf", pages=pages)


@pytest.mark.parametrize("pages", ["", "0", "5-3", "a", "1,2", "-3"])
def test_other_ranges_of_pages_are_refused(pages: str) -> None:
    with pytest.raises(Invalid, match="range of pages"):
        media.PageRange.of(pages)


async def test_pages_are_only_for_pdfs(ann: Bench) -> None:
    (ann.cwd / "a.png").write_bytes(png())
    (ann.cwd / "a.txt").write_text("words")
    for name in ("a.png", "a.txt"):
        assert "is not a PDF" in await ann.refused("Read", file_path=name, pages="1")


async def test_a_pdf_that_is_none_is_refused(ann: Bench) -> None:
    (ann.cwd / "a.pdf").write_bytes(b"%PDF-1.7\nhello")
    assert "cannot be read: it is damaged" in await ann.refused("Read", file_path="a.pdf")


async def test_a_pdf_too_large_to_send_is_read_as_text(
    ann: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_worker, "PDF_BYTES_MAX", 100)
    (ann.cwd / "a.pdf").write_bytes(pdf("Hello there"))
    text, shown = await seen(ann, file_path="a.pdf")
    assert shown == [] and "too large to be shown" in text and "Hello there" in text


async def test_an_image_that_was_read_may_be_replaced(ann: Bench) -> None:
    (ann.cwd / "a.png").write_bytes(png())
    assert "not read it" in await ann.refused("Write", file_path="a.png", content="words")
    await seen(ann, file_path="a.png")
    await ann.ok("Write", file_path="a.png", content="words")
