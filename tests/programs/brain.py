"""The model behind a real program: it answers what a test tells it, request by request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from bullpen.testing.models import Call, Fault, ModelRequest, Reply, Turn

from .dialect import filler, is_search, offers_work, spoken

Script = Callable[[ModelRequest], Reply | Fault]


class ProgramBrain:
    """A brain for `MockModels` that plays the steps it was told, in the words of any program.

    Only requests to work count. What a program asks its models beside them (a title, a summary, a
    classification, something for its memory) is answered with something harmless. A step calls
    tools by our names; a search that has to come first is no step and no request of its own.

    With a `script`, that function is asked instead of the steps. Tools in `own` are the program's
    own of those names and not the team's. Requests for a model in `aside` do not count. `tries` is
    how often the program asks before it believes an error: the repetitions do not count either.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        own: Collection[str] = (),
        aside: Collection[str] = (),
        tries: int = 1,
    ) -> None:
        self._script = script
        self._own = own
        self._aside = aside
        self._tries = tries
        self._steps: list[Reply | Fault] = []
        self._given: list[str] = []
        self._searching: Reply | None = None
        self._failed: tuple[tuple[Turn, ...], Fault] | None = None
        self._tries_left = 0
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Answer the next request with this text, which ends the turn."""
        self._steps.append(Reply(text))

    def use_tool(self, name: str, tool_input: dict[str, Any], *, saying: str = "") -> None:
        """Answer the next request with a tool call, and with some words before it if given."""
        self._steps.append(Reply(saying, (Call(name, tool_input),)))

    def fail(self, cause: str) -> None:
        """Answer the next request with an error."""
        self._steps.append(Fault.refused(cause))

    def hang(self) -> None:
        """Do not answer the next request."""
        self._steps.append(Fault.hanging(600))

    def then(self) -> None:
        """Nothing: a model answers request by request, whatever turn they belong to."""

    def requests(self) -> list[str]:
        """What was new in each request to work: user texts and results of tools."""
        with self._lock:
            return list(self._given)

    def is_work(self, request: ModelRequest) -> bool:
        """Whether a request is for work, and not for something beside it."""
        return request.model not in self._aside and offers_work(request)

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        """Answer a request of the program."""
        if not self.is_work(request):
            return Reply(beside(request))
        with self._lock:
            if self._repeats(request) and self._failed is not None:
                return self._failed[1]
            answer = self._translated(self._step(request), request)
            self._failed = (request.turns, answer) if isinstance(answer, Fault) else None
            self._tries_left = self._tries - 1
            return answer

    def _repeats(self, request: ModelRequest) -> bool:
        """Whether it asks the same again because it was given an error."""
        if self._failed is None or self._failed[0] != request.turns or not self._tries_left:
            return False
        self._tries_left -= 1
        return True

    def _step(self, request: ModelRequest) -> Reply | Fault:
        if self._searching is not None:
            step, self._searching = self._searching, None
            # Mail that came while it searched was heard with this step's request.
            self._given[-1] += f"\n{request.given}"
            return step
        self._given.append(request.given)
        if self._script is not None:
            return self._script(request)
        if not self._steps:
            raise AssertionError(f"The test foresaw no answer to: {request.given}")
        return self._steps.pop(0)

    def _translated(self, step: Reply | Fault, request: ModelRequest) -> Reply | Fault:
        if isinstance(step, Fault):
            return step
        calls = [spoken(call, request, own=self._own) for call in step.calls]
        searches = [call for call in calls if is_search(call)]
        if searches:
            self._searching = step
            return Reply(calls=searches[:1])
        return replace(step, calls=calls)


def beside(request: ModelRequest) -> str:
    """A harmless answer to a request that is not for work, in the form that it asks for."""
    schema = _schema(request.body)
    return "Something." if schema is None else json.dumps(filler(schema))


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The JSON schema that the answer has to have, wherever an API says so."""
    for path in (
        ("output_config", "format", "schema"),
        ("output_format", "schema"),
        ("text", "format", "schema"),
        ("response_format", "json_schema", "schema"),
        ("generationConfig", "responseJsonSchema"),
        ("generationConfig", "responseSchema"),
    ):
        found: Any = body
        for key in path:
            found = (found or {}).get(key)
        if found:
            return dict(found)
    return None
