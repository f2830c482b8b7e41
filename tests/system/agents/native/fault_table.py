"""What a model's API can do wrong, and how the agent's turn ends then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bullpen.protocol.agent import Failure
from bullpen.testing.models import Call, Fault, Reply

TEXT = "Fog in the north."
LOOKS = Reply("I look.", [Call("Look", {"where": "north"}, "call_fixed")])

Books = Literal["exact", "estimate", "nothing"]


@dataclass(frozen=True, slots=True)
class Row:
    """A fault, or several requests in a row that fail, and what the agent makes of it.

    Without `ends`, the turn works. `requests` are those of the turn, answered or not. If the turn
    works, the answered ones are booked too, exactly.
    """

    name: str
    faults: Sequence[Reply | Fault]
    ends: Failure | None = None
    requests: int = 1
    # Whether what the faults cost is known, must be estimated, or is nothing.
    books: Books = "nothing"
    # What a tool result of the turn says, or what the turn's error says.
    words: str = ""


class RawCall(Call):
    """A call whose input is this text, JSON or not."""

    raw: str

    def __init__(self, raw: str, name: str = "Look") -> None:
        super().__init__(name)
        object.__setattr__(self, "raw", raw)

    @property
    def json(self) -> str:
        return self.raw


def always(fault: Fault, times: int = 5) -> list[Fault]:
    return [fault] * times


def status(
    number: int, message: str = "It did not work", kind: str = "api_error", **more: Any
) -> Fault:
    return Fault(number, kind, message, **more)


def in_stream(kind: str, message: str, code: str) -> Fault:
    return Fault(0, kind, message, code, drop=Reply("I was about to say."), after=4, how="error")


HTML = Fault(200, raw="<html>Log in to the network of this hotel</html>")
ENDLESS = Reply("on and on " * 1_200)

STATUSES = [
    Row("400", [Fault.refused("tools.3: bad schema")], "rejected", words="tools.3: bad schema"),
    Row("401", [Fault.unauthorized()], "key", words="invalid x-api-key"),
    Row("402", [status(402, "no money left", "billing_error")], "credit", words="no money left"),
    Row("403", [status(403, "not for you", "permission_error")], "permission", words="not for you"),
    Row(
        "403 region",
        [status(403, "Country not supported", code="unsupported_country_region_territory")],
        "permission",
        words="Country not supported",
    ),
    Row("404", [status(404, "model: nope", "not_found_error")], "model", words="model: nope"),
    Row("405", [status(405, "not here")], "model", words="not here"),
    Row("408", [status(408)], requests=2),
    Row("409", [status(409)], requests=2),
    Row("410", [status(410, "retired")], "model", words="retired"),
    Row("413", [status(413, "too large", "request_too_large")], "too_long", words="too large"),
    Row("422", [status(422, "no such field")], "rejected", words="no such field"),
    Row("425", [status(425)], requests=2),
    Row("429 twice", [Fault.rate_limited()] * 2, requests=3),
    Row(
        "429 that says how long",
        [status(429, kind="rate_limit_error", headers={"retry-after-ms": "30"})],
        requests=2,
    ),
    Row("429 for two hours", [Fault.rate_limited(7200)], "rate_limit", words="limits the rate"),
    Row(
        "429 without quota",
        [status(429, "insufficient_quota: none left", "insufficient_quota")],
        "credit",
        words="none left",
    ),
    Row(
        "400 without credit",
        [status(400, "Your credit balance is too low", "invalid_request_error")],
        "credit",
        words="credit balance",
    ),
    Row("400 too long", [Fault.too_long()], "too_long", words="too long"),
    Row("451", [status(451, "for legal reasons")], "permission", words="legal"),
    Row("500 once", [status(500)], requests=2),
    Row("500 for ever", always(status(500)), "server", 5, words="5 times"),
    Row("502 from a proxy", always(Fault(502, raw="<html>Bad gateway</html>")), "server", 5),
    Row("503 once", [status(503)], requests=2),
    Row("503 for an hour", [status(503, headers={"retry-after": "3600"})], "overload"),
    Row("504", [status(504)], requests=2),
    Row("520", [status(520)], requests=2),
    Row("529 twice", [Fault.overloaded()] * 2, requests=3),
    Row("529 for an hour", [status(529, headers={"retry-after": "3600"})], "overload"),
]  # fmt: skip

CONNECTIONS = [
    Row("reset before the answer", [Fault.dropped()], requests=2, books="estimate"),
    Row("reset for ever", always(Fault.dropped()), "network", 5, books="estimate", words="5 times"),
    Row("no answer at all", [Fault.hanging(5)], requests=2, books="estimate"),
    Row("a login page", always(HTML), "network", 5, books="estimate"),
    Row("an empty answer of the server", [Fault(200, raw="")], requests=2, books="estimate"),
    Row("no JSON in an event", [Fault(200, raw="data: {no\n\n")], requests=2, books="estimate"),
    Row("JSON that is not an event", [Fault(200, body={"a": 1})], requests=2, books="estimate"),
    Row(
        "overloaded in the stream",
        [in_stream("overloaded_error", "Overloaded", "server_is_overloaded")],
        requests=2,
        books="estimate",
    ),
    Row(
        "a rate limit in the stream",
        [in_stream("rate_limit_error", "Slow down", "rate_limit_exceeded")],
        requests=2,
        books="estimate",
    ),
    Row(
        "an error in the stream",
        [in_stream("api_error", "Internal error", "server_error")],
        requests=2,
        books="estimate",
    ),
]

NO_TOOL = "There is no tool"
CONTENTS = [
    Row(
        "two calls with one id",
        [Reply("", [Call("Look", {"where": "n"}, "same"), Call("Look", {"where": "s"}, "same")])],
        requests=2,
        books="exact",
        words="fog in the s",
    ),
    Row(
        "the id of an earlier call",
        [Reply("", [Call("Look", {"where": each}, "same")]) for each in "ns"],
        requests=3,
        books="exact",
        words="fog in the s",
    ),
    Row(
        "an id with odd characters",
        [Reply("", [Call("Look", {"where": "n"}, "functions.Look:0 é")])],
        requests=2,
        books="exact",
        words="fog in the n",
    ),
    Row("a name with spaces", [Reply("", [Call("Look north!", {})])], None, 2, "exact", NO_TOOL),
    Row("a name of 100 letters", [Reply("", [Call("L" * 100, {})])], None, 2, "exact", NO_TOOL),
    Row("a name in Greek", [Reply("", [Call("Κοίτα", {})])], None, 2, "exact", NO_TOOL),
    Row("an unknown tool", [Reply("", [Call("Fly", {})])], None, 2, "exact", "Fly"),
    Row(
        "a blank text before a call",
        [Reply("\n", [Call("Look", {"where": "n"})])],
        requests=2,
        books="exact",
        words="fog in the n",
    ),
    Row(
        "input that breaks off",
        [Reply("", [Call("Look", {"where": "in the north"}, broken=True)])],
        requests=2,
        books="exact",
        words="not a JSON object",
    ),
    Row("input that is a list", [Reply("", [RawCall("[1]")])], None, 2, "exact", "not a JSON"),
    Row(
        "input with a number that is none",
        [Reply("", [RawCall('{"where": NaN}')])],
        requests=2,
        books="exact",
        words="not a JSON object",
    ),
    Row(
        "half a character in the input",
        [Reply("", [RawCall('{"where": "\\ud83d"}')])],
        requests=2,
        books="exact",
        words="fog in the \ufffd",
    ),
    Row(
        "half a character in the text",
        [Reply("Oh \ud83d!", [Call("Look", {"where": "n"})])],
        requests=2,
        books="exact",
        words="fog in the n",
    ),
    Row("no usage told", [Reply("", LOOKS.calls, input_tokens=0)], None, 2, "estimate"),
    Row("another model", [Reply("Hm.", model="gpt-2")], "model", books="exact", words="gpt-2"),
    Row("an answer without end", [ENDLESS], "endless", books="estimate", words="without an end"),
]  # fmt: skip

LAST = [
    Row("a blank text", [Reply(" \n")], books="exact"),
    Row("an answer with nothing", [Reply("")], books="exact"),
    Row("an answer cut off at its maximum", [Reply("It began", stop="length")], books="exact"),
]
"""Answers after which the model says nothing more in the turn."""

ROWS = [*STATUSES, *CONNECTIONS, *CONTENTS]
