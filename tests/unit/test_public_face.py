"""The public face: the names and signatures of four modules are pinned.

After a change on purpose: BULLPEN_PUBLIC_FACE=write pytest tests/unit/test_public_face.py
"""

from __future__ import annotations

import enum
import inspect
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bullpen.protocol.record import Wire

PINNED = Path(__file__).with_name("public_face.txt")
PUBLIC = ("bullpen", "bullpen.store.contract", "bullpen.agents.contracts", "bullpen.testing")
PARTS = (
    "bullpen.team.tasks.operations.Tasks",
    "bullpen.team.mail.operations.Mailboxes",
    "bullpen.team.requests.operations.Approvals",
    "bullpen.team.roster.Roster",
    "bullpen.team.agents.operations.Agents",
)
"""The classes of `team.tasks` and the other parts of a team."""
SUITES = (
    "bullpen.testing.store_contract",
    "bullpen.testing.mailbox_contract",
    "bullpen.testing.commit_contract",
    "bullpen.testing.restore_contract",
    "bullpen.testing.backend_contract",
    "bullpen.testing.driver_contract",
    "bullpen.testing.forge.contract",
    "bullpen.testing.forge.stage",
    "bullpen.testing.gates.gate_contract",
    "bullpen.testing.gates.tool_contract",
)


def _names(module: Any) -> list[str]:
    own = getattr(module, "__all__", None)
    if own is not None:
        return sorted(own)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def _signature(value: Any) -> str:
    try:
        return re.sub(r"<function (\w+) at 0x\w+>", r"\1", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""


def _described(where: str, value: Any, *, tests: bool = False) -> Iterator[str]:
    if inspect.isclass(value):
        is_record = issubclass(value, BaseModel | Wire)
        is_plain = not (issubclass(value, BaseException) or is_record or tests)
        yield f"class {where}" + (_signature(value) if is_plain else "")
        if issubclass(value, Wire):
            yield f"  fields {', '.join(sorted(value.field_keys()))}"
        if issubclass(value, BaseModel):
            yield f"  fields {', '.join(sorted(value.model_fields))}"
        if issubclass(value, enum.Enum):
            return
        # What a class has of its own, wherever our code writes it down.
        ours = [each for each in value.__mro__ if each.__module__.startswith("bullpen.")]
        parts = reversed(ours) if is_plain else [value]
        members = {name: member for part in parts for name, member in vars(part).items()}
        for name, member in sorted(members.items()):
            if name.startswith("_") or name == "model_config":
                continue
            if isinstance(member, property):
                yield f"  {name}"
            elif isinstance(member, staticmethod | classmethod):
                yield f"  {name}{_signature(member.__func__)}"
            elif inspect.isfunction(member):
                yield f"  {name}{'' if tests else _signature(member)}"
    elif callable(value):
        yield f"{where}{_signature(value)}"
    else:
        yield where


def public_face() -> str:
    """Describe every public name, a line each."""
    lines: list[str] = []
    for name in PUBLIC[:3]:
        module = import_module(name)
        for each in _names(module):
            lines += _described(f"{name}.{each}", getattr(module, each))
    for part in PARTS:
        name, _, each = part.rpartition(".")
        lines += _described(part, getattr(import_module(name), each))
    for name in SUITES:
        module = import_module(name)
        for each in _names(module):
            if inspect.isclass(getattr(module, each)):
                lines += _described(f"{name}.{each}", getattr(module, each), tests=True)
    return "\n".join(lines) + "\n"


def test_the_public_names_and_signatures_are_those_that_were_promised() -> None:
    face = public_face()
    if os.environ.get("BULLPEN_PUBLIC_FACE") == "write":
        PINNED.write_text(face, "utf-8")
    assert face == PINNED.read_text("utf-8")


def test_a_changed_signature_would_be_found() -> None:
    def before(text: str) -> None: ...
    def after(text: str, *, loud: bool) -> None: ...

    assert list(_described("say", before)) != list(_described("say", after))


def test_public_modules_say_that_they_are_public() -> None:
    for name in (
        "bullpen",
        "bullpen.store.contract",
        "bullpen.agents.contracts",
        "bullpen.testing",
    ):
        assert "Public" in (import_module(name).__doc__ or ""), name
