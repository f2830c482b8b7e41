"""Whatever a model says, the conversation with it is one that every API accepts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from bullpen.agents.drivers.native.conversation import CANCELLED, History
from bullpen.agents.drivers.native.normalize import (
    INTERRUPTED,
    NO_TEXT,
    normalized,
    normalized_history,
)

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def broken_rules(messages: Sequence[ModelMessage]) -> list[str]:
    """The rules of the APIs that a conversation breaks."""
    broken: list[str] = []
    ids: list[str] = []
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        is_request = isinstance(message, ModelRequest)
        if is_request is not (number % 2 == 0):
            broken.append(f"{number}: roles do not alternate")
        if not message.parts:
            broken.append(f"{number}: empty")
        if isinstance(message, ModelRequest):
            results = [each for each in message.parts if isinstance(each, ToolReturnPart)]
            if [each.tool_call_id for each in results] != open_calls:
                broken.append(f"{number}: results do not match the calls")
            if list(message.parts[: len(results)]) != results:
                broken.append(f"{number}: results do not come first")
            open_calls = []
        else:
            open_calls = [call.tool_call_id for call in message.tool_calls]
            ids += open_calls
            if isinstance(message.parts[-1], ThinkingPart):
                broken.append(f"{number}: ends in a thought")
            for call in message.tool_calls:
                call.args_as_dict(raise_if_invalid=True)
                if not NAME.fullmatch(call.tool_name):
                    broken.append(f"{number}: name {call.tool_name!r}")
        said = [each for each in message.parts if isinstance(each, TextPart | UserPromptPart)]
        if not all(str(each.content).strip() for each in said):
            broken.append(f"{number}: blank text")
    if len(set(ids)) < len(ids) or not all(each.strip() for each in ids):
        broken.append(f"ids are not unique: {ids}")
    if open_calls:
        broken.append("calls without results")
    # It can be sent and stored.
    ModelMessagesTypeAdapter.dump_json(list(messages))
    return broken


texts = st.one_of(st.sampled_from(["", " \n", "Fog.", "\ud83d"]), st.text(max_size=8))
names = st.one_of(st.sampled_from(["Look", "", "Look north!", "L" * 90]), st.text(max_size=8))
ids = st.one_of(st.sampled_from(["a", "b", "", " ", "a_2", "é:0"]), st.text(max_size=4))
inputs: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.sampled_from(
        ["", "{}", '{"where": "n"}', '{"where', "[1]", '{"a": NaN}', '{"a": "\\ud800"}']
    ),
    st.dictionaries(st.text(max_size=3), st.one_of(st.floats(), texts), max_size=2),
)
parts: st.SearchStrategy[Any] = st.one_of(
    st.builds(TextPart, texts),
    st.builds(ThinkingPart, texts, signature=st.sampled_from([None, "signed"])),
    st.builds(ToolCallPart, names, inputs, tool_call_id=ids),
)
answers = st.builds(
    ModelResponse,
    parts=st.lists(parts, max_size=5),
    provider_name=st.sampled_from(["anthropic", "openai", None]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(answers, max_size=5), st.integers(0, 4))
def test_any_answers_become_a_conversation_that_the_apis_accept(
    said: list[ModelResponse], finished: int
) -> None:
    history = History()
    for number, response in enumerate(said):
        answer = history.commit([f"Prompt {number}."], [], response)
        for call in answer.response.tool_calls[:finished]:
            history.answer(call, "\ud800" if number % 2 else "", error=False)
        history.settle(CANCELLED)
    messages = history.with_prompts(["The end."])
    assert broken_rules(messages) == []
    assert normalized_history(messages) == messages


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_conversation_of_an_older_version_becomes_one_that_the_apis_accept(
    data: st.DataObject,
) -> None:
    results: st.SearchStrategy[Any] = st.builds(ToolReturnPart, names, texts, tool_call_id=ids)
    prompts = st.builds(UserPromptPart, texts)
    requests = st.builds(ModelRequest, parts=st.lists(st.one_of(results, prompts), max_size=4))
    stored: list[ModelMessage] = data.draw(st.lists(st.one_of(requests, answers), max_size=6))
    history = normalized_history([*stored, ModelRequest([UserPromptPart("The end.")])])
    assert broken_rules(history) == []
    assert normalized_history(history) == history


def test_a_sound_answer_stays_the_same_object() -> None:
    said = ModelResponse(
        [TextPart("I look."), ToolCallPart("Look", {"where": "n"}, tool_call_id="a")]
    )
    assert normalized(said, {"b"}).response is said


def test_calls_with_one_id_get_their_own_and_their_results_in_order() -> None:
    said = ModelResponse([ToolCallPart("Look", {}, tool_call_id="same", id="fc_1")] * 2)
    answer = normalized(said, {"same"})
    assert [call.tool_call_id for call in answer.response.tool_calls] == ["same_2", "same_3"]
    assert [call.id for call in answer.response.tool_calls] == [None, None]
    assert answer.wrong == {}


def test_the_results_of_a_stored_conversation_follow_their_calls() -> None:
    calls = [ToolCallPart("Look", {}, tool_call_id="same") for _ in range(3)]
    results = [ToolReturnPart("Look", each, "same") for each in ("first", "second")]
    stored: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Go.")]),
        ModelResponse(calls),
        ModelRequest([UserPromptPart("Mail."), *results, ToolReturnPart("Look", "?", "other")]),
    ]
    parts = normalized_history(stored)[-1].parts
    told = [(each.tool_call_id, each.content) for each in parts if isinstance(each, ToolReturnPart)]
    assert told == [("same", "first"), ("same_2", "second"), ("same_3", INTERRUPTED)]
    assert isinstance(parts[-1], UserPromptPart)


@pytest.mark.parametrize(
    "said", [[], [TextPart(" \n")], [ThinkingPart("Hm."), TextPart("")]], ids=["no", "blank", "hm"]
)
def test_an_answer_without_words_is_stored_with_words_that_say_so(said: list[Any]) -> None:
    assert normalized(ModelResponse(said)).response.parts[-1] == TextPart(NO_TEXT)


def test_an_odd_name_becomes_a_valid_one_and_the_call_is_not_made() -> None:
    answer = normalized(ModelResponse([ToolCallPart("Look north!", {}, tool_call_id="a")]))
    assert answer.response.tool_calls[0].tool_name == "Look_north_"
    assert "There is no tool 'Look north!'" in answer.wrong["a"]
