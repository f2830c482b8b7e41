"""Images and PDFs in a conversation: how each API gets them, and how long they stay."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, ToolReturnPart

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.contracts.tool import Attachment, ToolResult
from bullpen.agents.drivers.native import attachments, compaction, conversation
from bullpen.agents.drivers.native.conversation import FILE, History
from bullpen.agents.drivers.native.model import ModelConnection
from bullpen.testing.models import Fault, Reply
from bullpen.testing.models import ModelRequest as Request
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace
from support.agents.pictures import pdf, png

from .test_turn import LookInput, every_api, looks, tool_that

PICTURE = png()
DOCUMENT = pdf("Hello there")
IN_BASE64 = base64.b64encode(PICTURE).decode()


async def look(given: LookInput, desk: Desk) -> ToolResult:
    """A picture of anywhere, and a document of the library."""
    if given.where == "library":
        shown = Attachment("a.pdf", "application/pdf", DOCUMENT, "[No PDFs.] Hello there")
    else:
        shown = Attachment(f"{given.where}.png", "image/png", PICTURE, "[No images.]")
    return ToolResult(f"fog in the {given.where}", (shown,))


def parts_with(value: Any, **wanted: str) -> list[dict[str, Any]]:
    """All objects in a request that have these fields."""
    if isinstance(value, list):
        return [found for each in value for found in parts_with(each, **wanted)]
    if not isinstance(value, dict):
        return []
    own = [value] if all(value.get(key) == each for key, each in wanted.items()) else []
    return own + [found for each in value.values() for found in parts_with(each, **wanted)]


def images_in(request: Request) -> list[str]:
    """The images of a request, in the form that its API wants."""
    body = request.body
    if request.api == "anthropic":
        found = parts_with(body, type="image")
        return [each["source"]["data"] for each in found if each["source"]["type"] == "base64"]
    if request.api == "responses":
        return [each["image_url"] for each in parts_with(body, type="input_image")]
    return [each["image_url"]["url"] for each in parts_with(body, type="image_url")]


@every_api
async def test_each_api_gets_an_image_in_its_own_form(workplace: Workplace, model: str) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    steps = [looks("north"), Reply("A black picture.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            assert await workplace.turn(native) == "A black picture."
    request = mock.requests[1]
    (found,) = images_in(request)
    assert found == (
        IN_BASE64 if request.api == "anthropic" else f"data:image/png;base64,{IN_BASE64}"
    )
    assert "fog in the north" in json.dumps(request.body)
    if request.api == "anthropic":
        (result,) = parts_with(request.body, type="tool_result")
        assert [block["type"] for block in result["content"]] == ["text", "image"]


@every_api
async def test_each_api_gets_a_pdf_in_its_own_form(workplace: Workplace, model: str) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    steps = [looks("library"), Reply("It greets.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            assert await workplace.turn(native) == "It greets."
    request, told = mock.requests[1], base64.b64encode(DOCUMENT).decode()
    if request.api == "anthropic":
        (found,) = parts_with(request.body, type="document")
        assert found["source"]["data"] == told
    elif request.api == "responses":
        (found,) = parts_with(request.body, type="input_file")
        assert found["file_data"].endswith(told)
    else:
        (found,) = parts_with(request.body, type="file")
        assert found["file"]["file_data"].endswith(told)


@every_api
async def test_a_model_that_cannot_see_reads_the_words_instead(
    workplace: Workplace, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)
    monkeypatch.setattr(ModelConnection, "sees", lambda self, kind: False)
    steps = [looks("north", "library"), Reply("Nothing.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            await workplace.turn(native)
    assert [result.text for result in mock.requests[1].results] == [
        "fog in the north\n[No images.]",
        "fog in the library\n[No PDFs.] Hello there",
    ]


@every_api
async def test_an_api_that_refuses_images_gets_words_and_is_shown_no_more(
    workplace: Workplace, model: str
) -> None:
    workplace.desk.spec = workplace.desk.spec.evolve(model=model)

    def answers(request: Request) -> Reply | Fault:
        if images_in(request):
            return Fault.refused("this model does not support image input")
        seen = len(request.results)
        return Reply("Blind.") if seen == 2 else looks(["north", "south"][seen])

    with InProcessModels(answers) as mock:
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            assert await workplace.turn(native) == "Blind."
    refused = [request for request in mock.requests if images_in(request)]
    assert len(refused) == 1
    assert "your model cannot see it" in mock.requests[-1].results[0].text
    assert "[No images.]" in mock.requests[-1].results[1].text
    assert "Removed images" in workplace.recorded("trouble")[0]["text"]


async def test_a_server_that_fails_on_images_fails_one_turn(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agents.drivers.native.limiter.RETRY_S", {})

    def brain(request: Request) -> Reply | Fault:
        if images_in(request):
            return Fault(500, "api_error", "image input is not supported")
        return Reply("Well.") if request.results else looks("north")

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            with pytest.raises(TurnFailed):
                await workplace.turn(native)
            assert await workplace.turn(native) == "Well."
    assert "the API failed on it" in mock.requests[-1].results[0].text


async def test_an_image_outlives_the_process_in_a_file_of_its_own(workplace: Workplace) -> None:
    steps = [looks("north"), Reply("Black."), Reply("Still black.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            await workplace.turn(native)
        saved = (workplace.desk.folder / FILE).read_text()
        assert IN_BASE64 not in saved
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            assert await workplace.turn(native) == "Still black."
    assert images_in(mock.requests[2]) == [IN_BASE64]
    assert [path.read_bytes() for path in _kept(workplace)] == [PICTURE]


def _kept(workplace: Workplace) -> list[Any]:
    return list((workplace.desk.folder / attachments.FOLDER).iterdir())


async def test_a_file_that_is_gone_or_changed_becomes_words(workplace: Workplace) -> None:
    steps = [looks("north"), Reply("Black."), Reply("Nothing.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            await workplace.turn(native)
        _kept(workplace)[0].write_bytes(b"something else")
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            await workplace.turn(native)
    assert not images_in(mock.requests[2])
    assert "no longer there" in mock.requests[2].results[0].text


async def test_a_secret_in_the_conversation_does_not_damage_an_image(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few letters of base64 can look like anything."""
    monkeypatch.setattr(
        workplace.desk, "redacted", lambda text: text.replace(IN_BASE64[8:16], "[secret]")
    )
    steps = [looks("north"), Reply("Black."), Reply("Still black.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        for _ in range(2):
            async with workplace.driver(mock, tools=tool_that(look)) as native:
                await workplace.turn(native)
    assert images_in(mock.requests[2]) == [IN_BASE64]


def shown(history: History, number: int, size: int = 10) -> None:
    call = ToolCallPart("Look", {}, f"call-{number}")
    file = Attachment(f"{number}.png", "image/png", bytes([number]) * size, "")
    history.answer(call, f"picture {number}", error=False, attachments=[file])


def numbers_in(messages: list[ModelMessage]) -> list[int]:
    return [each.data[0] for each in attachments.attachments_in(messages)]


def test_the_oldest_images_are_dropped_when_there_are_many() -> None:
    history = History()
    for number in range(attachments.FILES_MAX):
        shown(history, number)
    assert len(numbers_in(history.with_prompts([]))) == attachments.FILES_MAX
    shown(history, 100)
    assert numbers_in(history.with_prompts([])) == [7, 8, 9, 10, 11, 100]
    first = history.owed[0]
    assert isinstance(first, ToolReturnPart)
    assert (
        first.content
        == "picture 0\n[image/png: no longer shown, to save room. Read it again if you need it.]"
    )


def test_the_oldest_images_are_dropped_when_they_are_large() -> None:
    history = History()
    for number in range(6):
        shown(history, number, 3_000_000)
    assert numbers_in(history.with_prompts([])) == [4, 5]
    shown(history, 6, attachments.BYTES_MAX + 1)
    assert numbers_in(history.with_prompts([])) == [6]


def test_files_of_dropped_images_are_removed(tmp_path: Any) -> None:
    history = History()
    for number in range(3):
        shown(history, number)
    conversation.save(tmp_path, history, str)
    assert len(list((tmp_path / attachments.FOLDER).iterdir())) == 3
    history.drop_attachments(attachments.OLD)
    conversation.save(tmp_path, history, str)
    assert list((tmp_path / attachments.FOLDER).iterdir()) == []


async def test_a_request_for_a_summary_has_no_images(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "COMPACT_AT", 0)
    steps = [looks("north"), Reply("I saw black."), Reply("Black, I said.")]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(look)) as native:
            await workplace.turn(native)
    summary = mock.requests[1]
    assert "hand-over" in summary.given and not images_in(summary)


async def test_a_broken_request_is_not_billed_by_the_size_of_its_images(
    workplace: Workplace,
) -> None:
    big = png(3, 3, padding=3_000_000)

    async def look_closely(given: LookInput, desk: Desk) -> ToolResult:
        return ToolResult("big", (Attachment("a.png", "image/png", big, ""),))

    steps: list[Reply | Fault] = [
        looks("north"),
        Fault(200, drop=Reply("Bla"), after=0),
        Reply("Black."),
    ]
    with InProcessModels(lambda request: steps.pop(0)) as mock:
        async with workplace.driver(mock, tools=tool_that(look_closely)) as native:
            await workplace.turn(native)
    guessed = [usage for usage in workplace.desk.usages if usage.estimated]
    assert guessed and all(usage.input_tokens < 20_000 for usage in guessed)


def test_the_estimate_of_an_image_is_that_of_an_image() -> None:
    history = History()
    shown(history, 1, 300)
    messages = history.with_prompts([])
    assert isinstance(messages[-1], ModelRequest)
    assert attachments.sent_size(messages) == (400, 1_600)
