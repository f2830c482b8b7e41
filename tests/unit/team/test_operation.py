"""Every method that writes to a store is on the list of operations."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams, operations

_WRITES = {
    *("_settle", "_change_facts", "settle", "commit", "acknowledge"),
    *("create", "delete", "beat", "restore", "move"),
}
_STORE_WRITES = {"append"}
"""What writes only if it is called at a store: lists have it too."""


def test_every_method_that_writes_is_an_operation() -> None:
    team = Team(MemoryStore(), "alpha")
    parts = {name: part for name, part in vars(team).items() if not name.startswith("_")}
    kinds: dict[str, type] = {"teams": Teams, **{name: type(part) for name, part in parts.items()}}
    kinds.pop("name")
    unlisted = [
        f"{part}.{name}"
        for part, kind in kinds.items()
        for name, method in vars(kind).items()
        if not name.startswith("_") and _writes(kind, name, set())
        if f"{part}.{name}" not in operations() and inspect.isfunction(method)
    ]
    assert unlisted == []


def test_a_method_without_the_mark_is_found() -> None:
    class Part:
        async def quietly(self) -> None:
            await self._indirectly()

        async def _indirectly(self) -> None:
            await self._settle()

        async def _settle(self) -> None: ...

    assert _writes(Part, "quietly", set())


def test_a_store_that_is_appended_to_is_found_and_a_list_is_not() -> None:
    class Part:
        _store: Any

        async def tell(self) -> None:
            await self._store.append("alpha", "bob", "Hello.", actor="ann")

        async def gather(self) -> None:
            found: list[str] = []
            found.append("x")

    assert _writes(Part, "tell", set())
    assert not _writes(Part, "gather", set())


def _writes(kind: type, name: str, seen: set[str]) -> bool:
    """Whether a method calls what writes, itself or through a method of its own class."""
    method = vars(kind).get(name)
    if name in seen or not inspect.isfunction(method):
        return False
    seen.add(name)
    tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
    at_store = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Attribute)
        and node.func.value.attr == "_store"
    }
    called = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    } | {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    if called & _WRITES or at_store & _STORE_WRITES:
        return True
    return any(_writes(kind, each, seen) for each in called)
