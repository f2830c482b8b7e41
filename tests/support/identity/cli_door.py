"""Rows of the command line, typed in this process by whoever the process table says it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import typer
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system import process_owners, processes
from bullpen.agents.system.process_owners import Owners
from bullpen.agents.system.process_table import Process
from bullpen.app.settings import AGENT, HOME, TEAM
from bullpen.doors.cli.main import app
from bullpen.store.files.store import FileStore

from .cast import ACTORS, OTHER_TEAM, OWNER, Identity, nonce_of
from .cast import TEAM as ALPHA
from .commands import ARGUMENTS, CHANGES, PEOPLE_ONLY, READS, TYPISTS, may_type
from .rows import Row, Seen, Verdict, Way
from .scene import RealClock, Scene, build, build_other, place_of

_COMMAND = get_command(app)
_FORGERS = (Identity.CHILD, Identity.TEAMMATE, Identity.OTHER_TEAM)


def rows(what: str) -> list[Row]:
    """The rows of one command."""
    if what in PEOPLE_ONLY:
        # What a person then does with it is tested elsewhere: it starts servers and programs.
        agents = [each for each in TYPISTS if each is not Identity.PERSON]
        return [Row("CLI", what, each, way, "refused") for each in agents for way in _ways(each)]
    if what in READS:
        members = [each for each in TYPISTS if each is not Identity.OTHER_TEAM]
        return [Row("CLI", what, each, "own name", "let in") for each in members]
    right, found = CHANGES[what][1], []
    for each in TYPISTS:
        may = may_type(right, each)
        found.append(Row("CLI", what, each, "own name", "let in" if may else "refused"))
        if each in _FORGERS:
            verdict: Verdict = "own name only" if may else "refused"
            found += [
                Row("CLI", what, each, way, verdict) for way in _ways(each) if way != "own name"
            ]
    return found


def _ways(identity: Identity) -> tuple[Way, ...]:
    return ("own name", "as the owner", "as a person") if identity in _FORGERS else ("own name",)


class CliDoor:
    """A home with both teams. It is put back after every row that changed something."""

    def __init__(self, folder: Path) -> None:
        self._made, self.home, self._folder = folder / "made", folder / "home", folder
        self.scene = anyio.run(self._make)
        shutil.copytree(self._made, self.home)

    async def _make(self) -> Scene:
        store = FileStore(self._made)
        try:
            scene = await build(store, RealClock())
            await build_other(store, RealClock())
        finally:
            await store.aclose()
        return scene

    def perform(self, row: Row) -> Seen:
        """Type a command; what came of it."""
        before = anyio.run(self._actors)
        words = [*self._words(row.what), "--json"]
        with _is(row), mock.patch.object(typer.testing, "_get_command", lambda _: _COMMAND):
            result = CliRunner(env=self._env(row)).invoke(app, words, input="")
        refused = _reason(result.stdout) if result.exit_code else None
        after = anyio.run(self._actors)
        if after != before:
            shutil.rmtree(self.home)
            shutil.copytree(self._made, self.home)
        return Seen(row, refused, after != before, frozenset(after[len(before) :]))

    async def _actors(self) -> list[str]:
        store = FileStore(self.home)
        try:
            if sorted(await store.teams()) != [ALPHA, OTHER_TEAM]:
                return ["somebody"]
            return [event.actor for event in await store.events(ALPHA)]
        finally:
            await store.aclose()

    def _words(self, what: str) -> list[str]:
        if what in PEOPLE_ONLY:
            return [*what.split(" "), *_needed(what)]
        typed = READS.get(what) or CHANGES[what][0]
        return [word.format(**vars(self.scene)) for word in typed.split(" ")]

    def _env(self, row: Row) -> dict[str, str | None]:
        env: dict[str, str | None] = {name: None for name in os.environ if "BULLPEN" in name}
        env |= {HOME: str(self.home), "HOME": str(self._folder), TEAM: ALPHA}
        if row.identity is Identity.PERSON or row.way == "as a person":
            return env
        name = OWNER if row.way == "as the owner" else ACTORS[row.identity].name
        if row.identity is Identity.ORPHAN:
            return env
        return {**env, AGENT: name, NONCE: nonce_of(name)}


@contextmanager
def _is(row: Row) -> Iterator[None]:
    """Let the process table say that this process was started for somebody's launch."""
    if row.identity is Identity.PERSON:
        with mock.patch.object(process_owners, "owners", lambda: Owners({})):
            yield
        return
    name = ACTORS[row.identity].name
    own = processes.look(os.getpid())
    assert own is not None
    if row.identity is Identity.ORPHAN:
        # Its parents are gone, and the runner of its agent adopted it.
        place = place_of(name)
        assert place.pid is not None and place.start is not None
        runner = Process(place.pid, place.pid, "S", place.start, 1)
        with (
            mock.patch.object(
                process_owners,
                "owners",
                lambda: Owners({(runner.pid, runner.start): nonce_of(name)}),
            ),
            mock.patch.object(processes, "ancestors", lambda _: [runner]),
        ):
            yield
        return
    marked = Owners({(own.pid, own.start): nonce_of(name)})
    with mock.patch.object(process_owners, "owners", lambda: marked):
        yield


def _reason(said: str) -> str:
    try:
        error = json.loads(said)["error"]
    except (ValueError, KeyError, TypeError):
        return "failed"
    return str(error.get("reason") or error.get("kind") or "failed")


def _needed(what: str) -> list[str]:
    """Words for what a command needs to be understood."""
    if what in ARGUMENTS:
        return ARGUMENTS[what].split(" ")
    found: Any = _COMMAND
    context = typer.Context(found)
    for word in what.split(" "):
        found = found.get_command(context, word)
        assert found is not None, what
    words = []
    for param in found.params:
        if param.required:
            choices = getattr(getattr(param, "type", None), "choices", None)
            value = str(choices[0]) if choices else "1"
            named = param.param_type_name != "argument"
            words += [param.opts[0], value] if named else [value]
    return words
