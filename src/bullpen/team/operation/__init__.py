"""Marks the methods that change a team, so that doors and tests can list them all.

Through the door of a host, an agent decides nothing itself: the store sends the operation with its
arguments, and the host runs it in the agent's name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from bullpen.team.budget.rules import OverBudget, Reached
from bullpen.team.operation.call_codec import call_codec, codec_of

F = TypeVar("F", bound=Callable[..., Any])

_NAME = "_bullpen_operation"
_ACTORS = ("by", "sender")


class OperationStore(Protocol):
    """A store that may take operations instead of changes."""

    async def takes_operations(self) -> bool:
        """Return whether it takes nothing else, because its user is an agent."""

    async def operate(self, team: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Have an operation run, once; return what `answer_raw` or `over_budget_raw` made."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One way to change a team: `part.method`, and the parameter that names who acts, if any."""

    part: str
    method: str
    actor: str | None

    @property
    def name(self) -> str:
        """The name that doors and the table of rights use, such as `tasks.claim`."""
        return f"{self.part}.{self.method}"


def operation(method: F) -> F:
    """Mark a method as an operation. It is sent if the store of its team takes operations."""

    @wraps(method)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        store = self._store
        # Only some stores have it, and the operations on whole teams are never sent.
        if hasattr(store, "operate") and hasattr(self, "_team") and await store.takes_operations():
            name = getattr(run, _NAME)
            return await _sent(store, self._team, name, method, *args, **kwargs)
        return await method(self, *args, **kwargs)

    setattr(run, _NAME, "")
    return cast("F", run)


async def _sent(
    store: OperationStore, team: str, name: str, method: F, *args: Any, **kwargs: Any
) -> Any:
    codec = call_codec(method)
    answer = await store.operate(team, name, codec.arguments_raw(*args, **kwargs))
    if "overBudget" in answer:
        raise OverBudget(codec_of(Reached).decode(answer["overBudget"]))
    return codec.result.decode(answer["result"])


def answer_raw(method: Callable[..., Any], result: Any) -> dict[str, Any]:
    """Return the answer to an operation that was sent."""
    return {"result": call_codec(inspect.unwrap(method)).result.encode(result)}


def over_budget_raw(error: OverBudget) -> dict[str, Any]:
    """Return the answer to an operation for which a budget is used up."""
    return {"overBudget": codec_of(Reached).encode(error.reached)}


def operations_of(part: str, kind: type) -> Iterable[Operation]:
    """Return the operations of one part of a team, in the order in which they are written."""
    written = {
        name: method for each in reversed(kind.__mro__) for name, method in vars(each).items()
    }
    for name, method in written.items():
        if hasattr(method, _NAME):
            code = inspect.unwrap(method).__code__
            taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            actor = next((each for each in _ACTORS if each in taken), None)
            made = Operation(part, name, actor)
            setattr(method, _NAME, made.name)
            yield made
