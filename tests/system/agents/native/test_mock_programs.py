"""The mock speaks as the vendors do where only programs go: generateContent, namespaces, search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from bullpen.testing.models import Call, Fault, MockModels, ModelRequest, Reply

LOOK = {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]}
GOOGLE = {
    "systemInstruction": {"parts": [{"text": "You are ann, a tester."}]},
    "contents": [{"role": "user", "parts": [{"text": "Look around."}]}],
    "tools": [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": LOOK}]}],
}


class Answers:
    """A brain that gives one answer to everything."""

    def __init__(self) -> None:
        self.answer: Reply | Fault = Reply("I look.", [Call("look", {"where": "süd"}, "c1")])

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        return self.answer


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def mock(answers: Answers) -> Iterator[MockModels]:
    with MockModels(answers) as running:
        yield running


def post(url: str, body: dict[str, Any]) -> tuple[int, str]:
    """The status and the text of an answer."""
    headers = {"content-type": "application/json"}
    try:
        with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as failed:
        with failed:
            return failed.code, failed.read().decode()


def google(mock: MockModels, method: str, body: dict[str, Any]) -> tuple[int, str]:
    return post(f"{mock.url}/v1beta/models/gemini-2.5-pro:{method}", body)


def chunks(text: str) -> list[dict[str, Any]]:
    lines = [line for line in text.splitlines() if line]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def parts(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    (candidate,) = chunk["candidates"]
    assert candidate["content"]["role"] == "model"
    found: list[dict[str, Any]] = candidate["content"]["parts"]
    return found


def test_generate_content_whole_and_as_a_stream(mock: MockModels) -> None:
    whole = json.loads(google(mock, "generateContent", GOOGLE)[1])
    streamed = chunks(google(mock, "streamGenerateContent?alt=sse", GOOGLE)[1])
    call = {"functionCall": {"id": "c1", "name": "look", "args": {"where": "süd"}}}
    assert parts(whole) == [{"text": "I look."}, call]
    pieces = [part for chunk in streamed for part in parts(chunk)]
    assert "".join(part.get("text", "") for part in pieces) == "I look."
    assert [part for part in pieces if "functionCall" in part] == [call]
    reasons = [chunk["candidates"][0].get("finishReason") for chunk in streamed]
    assert reasons[-1] == whole["candidates"][0]["finishReason"] == "STOP"
    assert not any(reasons[:-1])
    first, second = mock.requests
    assert (first.api, first.agent, first.model) == ("gemini", "ann", "gemini-2.5-pro")
    assert (first.stream, second.stream) == (False, True)
    assert (first.given, first.tools) == ("Look around.", {"look": LOOK})
    used = whole["usageMetadata"]
    assert used["promptTokenCount"] == first.tokens
    assert used == streamed[-1]["usageMetadata"] == mock.billed[0]


def test_generate_content_reads_calls_and_results_that_come_back(mock: MockModels) -> None:
    called = {"functionCall": {"id": "c1", "name": "look", "args": {"where": "north"}}}
    result = {"id": "c1", "name": "look", "response": {"output": "Nebel über allem"}}
    thought = {"text": "Hm.", "thought": True}
    contents = [
        *GOOGLE["contents"],
        {"role": "model", "parts": [thought, {"text": "I look."}, called]},
        {"role": "user", "parts": [{"functionResponse": result}, {"text": "Mail!"}]},
    ]
    google(mock, "generateContent", {"contents": contents})
    (request,) = mock.requests
    assert request.turns[1].calls == (Call("look", {"where": "north"}, "c1"),)
    assert request.turns[1].text == "I look."
    assert request.given == '{"output": "Nebel über allem"}\nMail!'


def test_generate_content_counts_tokens_without_a_request_for_an_answer(mock: MockModels) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "x" * 4000}]}]}
    counted = json.loads(google(mock, "countTokens", body)[1])
    assert 1000 < counted["totalTokens"] < 1100
    assert mock.requests == []


def test_generate_content_fails_and_stops_in_the_words_of_the_api(
    mock: MockModels, answers: Answers
) -> None:
    answers.answer = Fault.refused("no such model")
    status, text = google(mock, "generateContent", GOOGLE)
    told = {"code": 400, "message": "no such model", "status": "INVALID_REQUEST_ERROR"}
    assert (status, json.loads(text)["error"]) == (400, told)
    answers.answer = Reply("Cut", stop="length")
    (cut,) = json.loads(google(mock, "generateContent", GOOGLE)[1])["candidates"]
    assert cut["finishReason"] == "MAX_TOKENS"
    assert google(mock, "embedContent", GOOGLE)[0] == 404


def responses(mock: MockModels, **body: Any) -> list[dict[str, Any]]:
    _, text = post(f"{mock.openai_url}/responses", {"model": "gpt-5.1", **body})
    output: list[dict[str, Any]] = json.loads(text)["output"]
    return output


SPACE = {
    "type": "namespace",
    "name": "mcp__team",
    "tools": [{"type": "function", "name": "look", "parameters": LOOK}],
}


def test_a_tool_in_a_namespace_is_called_in_it(mock: MockModels, answers: Answers) -> None:
    answers.answer = Reply(calls=[Call("mcp__team__look", {"where": "north"})])
    (item,) = responses(mock, input="Look.", tools=[SPACE])
    assert (item["type"], item["namespace"], item["name"]) == ("function_call", "mcp__team", "look")
    output = {"type": "function_call_output", "call_id": item["call_id"], "output": "fog"}
    responses(mock, input=[{"role": "user", "content": "Look."}, item, output], tools=[SPACE])
    first, second = mock.requests
    assert first.tools == {"mcp__team__look": LOOK}
    assert second.turns[1].calls[0].name == "mcp__team__look"
    assert second.given == "fog"


def test_a_tool_that_a_search_found_is_offered_and_called(
    mock: MockModels, answers: Answers
) -> None:
    search = {"type": "tool_search", "parameters": {"properties": {"query": {}}}}
    answers.answer = Reply(calls=[Call("tool_search", {"query": "look"})])
    (asked,) = responses(mock, input="Look.", tools=[search])
    assert (asked["type"], asked["arguments"]) == ("tool_search_call", {"query": "look"})
    found = {"type": "tool_search_output", "call_id": asked["call_id"], "tools": [SPACE]}
    answers.answer = Reply(calls=[Call("mcp__team__look", {"where": "north"})])
    (item,) = responses(mock, input=[asked, found], tools=[search])
    assert (item["namespace"], item["name"]) == ("mcp__team", "look")
    assert set(mock.requests[1].tools) == {"tool_search", "mcp__team__look"}
    assert mock.requests[1].turns[0].calls[0].name == "tool_search"


def test_a_tool_of_free_form_is_given_its_text(mock: MockModels, answers: Answers) -> None:
    answers.answer = Reply(calls=[Call("apply_patch", {"input": "*** Begin Patch\n"})])
    (item,) = responses(mock, input="Patch.", tools=[{"type": "custom", "name": "apply_patch"}])
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin Patch\n")
    output = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Done."}
    responses(mock, input=[item, output])
    assert mock.requests[1].turns[0].calls[0].input == {"input": "*** Begin Patch\n"}
    assert mock.requests[1].given == "Done."
