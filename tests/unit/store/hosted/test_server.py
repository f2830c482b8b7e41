"""The socket: who gets in, what is let through, and that nobody is in another's way."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.errors import (
    BullpenError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    StartFailed,
    Unavailable,
    Unreadable,
)
from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store, StoreLimits
from bullpen.store.hosted import frames as wire
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.frames import VERSION
from bullpen.store.hosted.server import HostServer
from bullpen.store.hosted.tokens import OPERATOR, Identities, TokenIdentity
from bullpen.store.memory import MemoryStore
from bullpen.testing.sample_records import config, message, put, task
from support.store.hosting import TOKENS, hosting

ANN = TokenIdentity("alpha", "ann")
HELLO = {"v": VERSION, "token": "operator"}


@pytest.fixture
async def path() -> AsyncIterator[str]:
    inner = MemoryStore()
    await inner.create("alpha", config(), actor=LEAD)
    async with hosting(inner) as path:
        yield path


@pytest.fixture
async def store(path: str) -> AsyncIterator[Store]:
    async with aclosing(HostedStore(path, "operator")) as store:
        yield store


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A folder of this user alone."""
    tmp_path.chmod(0o700)
    return tmp_path


async def raw_line(path: str, *frames: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(path)
    for frame in frames:
        writer.write(frame)
    return reader, writer


async def rest_of(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[Any]:
    """All that the host says until it hangs up."""
    said = []
    with anyio.fail_after(10):
        while True:
            try:
                said.append(await wire.receive(reader))
            except (EOFError, OSError):
                break
    writer.close()
    return said


# Who gets in


async def test_a_token_that_nobody_minted_is_refused(path: str) -> None:
    async with aclosing(HostedStore(path, "other")) as store:
        with pytest.raises(Refused) as refused:
            await store.teams()
    assert refused.value.reason == "unknown_token"


async def test_the_socket_is_open_to_its_user_only(path: str) -> None:
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


async def test_a_folder_that_others_can_reach_is_refused(private: Path) -> None:
    os.chmod(private, 0o755)
    with pytest.raises(Refused, match="chmod 700"):
        await HostServer(MemoryStore(), str(private / "s"), TOKENS.get).open()


async def test_a_process_of_another_user_is_not_let_in(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.store.hosted.socket.os.getuid", lambda: 4_000_000)
    assert await rest_of(*await raw_line(path, wire.pack(HELLO))) == []


async def test_two_hosts_cannot_listen_at_one_place(path: str, store: Store) -> None:
    with pytest.raises(Conflict, match="Another host process"):
        await HostServer(MemoryStore(), path, TOKENS.get).open()
    assert await store.teams() == ["alpha"]


async def test_the_socket_of_a_dead_host_is_taken_over(private: Path) -> None:
    path = private / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with (
        HostServer(MemoryStore(), str(path), TOKENS.get),
        aclosing(HostedStore(str(path), "operator")) as store,
    ):
        assert await store.teams() == []
    assert not path.exists()


async def test_a_path_that_is_too_long_is_an_error_that_says_so(private: Path) -> None:
    with pytest.raises(Unavailable, match="socket cannot be created"):
        await HostServer(MemoryStore(), str(private / ("x" * 200)), TOKENS.get).open()


async def test_without_a_host_the_error_says_how_to_start_it(tmp_path: Path) -> None:
    limits = StoreLimits(lock_wait_s=0.1)
    async with aclosing(HostedStore(str(tmp_path / "s"), "operator", limits=limits)) as store:
        with pytest.raises(Unavailable, match="does not answer") as error:
            await store.teams()
    assert error.value.remedy == "Start it: bullpen host start"


async def test_a_host_that_hangs_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.store.hosted.client._GRACE_S", 0.1)
    path = str(tmp_path / "s")

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(wire.pack({"id": 0, "ok": {"operator": True}}))
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(greet, path)
    limits = StoreLimits(lock_wait_s=0.1)
    async with aclosing(HostedStore(path, "operator", limits=limits)) as store:
        with pytest.raises(Unavailable, match="does not answer"), anyio.fail_after(10):
            await store.teams()
    server.close()


# Tokens


def test_a_minted_token_is_found_again_by_another_host_process(tmp_path: Path) -> None:
    token = Identities(tmp_path / "t.json").mint(ANN)
    assert Identities(tmp_path / "t.json")(token) == ANN


def test_tokens_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    token = Identities(path).mint(OPERATOR)
    assert token.encode() not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_token_ends_the_old_one(tmp_path: Path) -> None:
    identities = Identities(tmp_path / "t.json")
    old, operator = identities.mint(ANN), identities.mint(OPERATOR)
    new = identities.mint(ANN)
    assert (identities(old), identities(new), identities(operator)) == (None, ANN, OPERATOR)


def test_the_tokens_of_a_team_are_revoked_together(tmp_path: Path) -> None:
    identities = Identities(tmp_path / "t.json")
    bob = TokenIdentity("beta", "bob")
    identities.mint(ANN)
    identities.mint(TokenIdentity("alpha", "cleo"))
    identities.mint(bob)
    identities.mint(OPERATOR)
    assert identities.revoke_team("alpha")
    assert not identities.revoke_team("alpha")
    assert identities.all() == [bob, OPERATOR]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"tokens": [{"digest": "x", "team": null, "agent": "ann"}]}',
        '{"tokens": [{"digest": "x", "team": "alpha", "agent": null}]}',
        '{"tokens": [{"digest": 1, "team": null, "agent": null}]}',
        '{"tokens": [{"digest": "x"}]}',
    ],
)
def test_a_damaged_file_of_tokens_lets_nobody_in(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable):
        Identities(path)("x")
    with pytest.raises(Unreadable):
        Identities(path).mint(OPERATOR)


async def test_a_revoked_token_is_of_no_use_any_more(private: Path) -> None:
    identities = Identities(private / "t.json")
    inner = MemoryStore()
    await inner.create("alpha", config(), actor=LEAD)
    token, path = identities.mint(ANN), str(private / "s")
    async with (
        HostServer(inner, path, identities),
        aclosing(HostedStore(path, token)) as store,
        aclosing(store.watch("alpha", every_s=0.02)) as seqs,
    ):
        assert await store.teams() == ["alpha"]
        assert await anext(seqs) == 1
        identities.revoke(ANN)
        with pytest.raises(Refused, match="does not know this token"), anyio.fail_after(10):
            while True:
                await anext(seqs)
        with pytest.raises(Refused, match="does not know this token"), anyio.fail_after(10):
            while True:
                await store.teams()


# What is let through


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100,
        os.urandom(4096),
        struct.pack(">I", 4) + b"nope",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 0),
        wire.pack({"op": "teams"}),
        wire.pack({"op": "teams", "id": -1}),
        wire.pack({"op": None, "id": 1}),
    ],
)
@pytest.mark.parametrize("greeted", [False, True])
async def test_garbage_ends_its_own_connection_only(
    path: str, store: Store, garbage: bytes, greeted: bool
) -> None:
    hello = [wire.pack(HELLO)] if greeted else []
    reader, writer = await raw_line(path, *hello, garbage)
    writer.write_eof()
    await rest_of(reader, writer)
    assert await store.teams() == ["alpha"]


MALFORMED: list[dict[str, Any]] = [
    {"op": "nothing"},
    {"op": "read"},
    {"op": "read", "team": 1},
    {"op": "create", "team": "beta", "config": [], "actor": LEAD},
    {"op": "append", "team": "alpha", "to": "ann", "message": {}, "actor": LEAD},
    {"op": "acknowledge", "team": "alpha", "agent": "ann", "ids": [1], "state": "seen"},
    {
        "op": "acknowledge",
        "team": "alpha",
        "agent": "ann",
        "ids": [],
        "state": "archived",
        "actor": "ann",
    },
    {"op": "begin", "team": "alpha", "turn": "t", "stamp": None, "seq": "x"},
    {
        "op": "settle",
        "team": "alpha",
        "turn": "t",
        "stamp": "s",
        "seq": 1,
        "reads": [],
        "changes": [],
        "actor": LEAD,
        "op_name": "x",
    },
    {
        "op": "settle",
        "team": "alpha",
        "turn": "t",
        "stamp": "s",
        "seq": 1,
        "reads": [[], [], True, True, True],
        "changes": [{"put": "x"}],
        "actor": LEAD,
        "op_name": "x",
    },
    {"op": "settle", "team": 7, "eid": "e"},
    {"op": "watch", "team": []},
    {"op": "events", "team": "alpha", "after": None},
    {"op": "restore", "team": "beta", "events": [{}]},
]


@pytest.mark.parametrize("call", MALFORMED, ids=repr)
async def test_a_malformed_call_is_invalid_and_the_next_one_is_answered(
    path: str, call: dict[str, Any]
) -> None:
    reader, writer = await raw_line(path, wire.pack(HELLO), wire.pack({**call, "id": 1}))
    with anyio.fail_after(10):
        await wire.receive(reader)
        answer = await wire.receive(reader)
        assert (answer["id"], answer["error"]["class"]) == (1, "Invalid")
        writer.write(wire.pack({"op": "teams", "id": 2}))
        assert await wire.receive(reader) == {"id": 2, "ok": ["alpha"]}
    writer.close()


async def test_a_frame_that_is_too_long_is_refused_before_it_is_read(path: str) -> None:
    head = struct.pack(">I", wire.FRAME_BYTES_MAX + 1)
    said = await rest_of(*await raw_line(path, wire.pack(HELLO), head))
    assert said[-1]["error"]["class"] == "Invalid"


async def test_an_agent_cannot_send_more_than_one_frame(path: str) -> None:
    ann = wire.pack({"v": VERSION, "token": "ann"})
    goes_on = struct.pack(">I", 1 << 31 | 2) + b"{}"
    said = await rest_of(*await raw_line(path, ann, goes_on))
    assert said[-1]["error"]["class"] == "Invalid"


async def test_too_much_at_once_is_invalid_and_the_connection_stays(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aclosing(HostedStore(path, "ann")) as store:
        await store.teams()
        monkeypatch.setattr(wire, "FRAME_BYTES_MAX", 4096)
        long = message("m1", sender="ann", text="x" * 5000)
        with pytest.raises(Invalid, match="too large for one call"):
            await store.append("alpha", "bob", long, actor="ann")
        assert await store.teams() == ["alpha"]


async def test_a_long_answer_comes_in_several_frames(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "FRAME_BYTES_MAX", 1000)
    await put(store, *(PutTask(task(str(n), description="x" * 300)) for n in range(1, 40)))
    assert len((await store.read("alpha")).tasks) == 39


async def test_an_answer_that_is_too_long_is_an_error_not_a_broken_connection(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, *(PutTask(task(str(n), description="x" * 300)) for n in range(1, 40)))
    monkeypatch.setattr(wire, "FRAMES_MAX", 1)
    monkeypatch.setattr(wire, "FRAME_BYTES_MAX", 5000)
    with pytest.raises(Unavailable, match="cannot be sent"):
        await store.read("alpha")
    assert await store.teams() == ["alpha"]


ERRORS = [
    NotFound("a", remedy="b"),
    Conflict("a", remedy="b"),
    Refused("a", reason="r", remedy="b"),
    Invalid("a", remedy="b"),
    Unavailable("a", remedy="b"),
    Unreadable("path", "why", remedy="b"),
    StartFailed("a", screen="s", remedy="b"),
    BullpenError("a", remedy="b"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_on_the_other_side(error: BullpenError) -> None:
    other = wire.error_of(wire.error_raw(error))
    assert type(other) is type(error)
    assert vars(other) == vars(error)


class _Own(Conflict):
    """An error that the other side does not know."""


def test_an_error_of_an_unknown_class_is_the_nearest_known_one() -> None:
    assert type(wire.error_of(wire.error_raw(_Own("a")))) is Conflict
    assert type(wire.error_of({"class": "Later", "message": "a"})) is Unavailable


class _Faulty(MemoryStore):
    async def teams(self) -> list[str]:
        raise ZeroDivisionError("by chance")


async def test_a_fault_of_the_host_is_unavailable_and_it_goes_on() -> None:
    inner = _Faulty()
    await inner.create("alpha", config(), actor=LEAD)
    async with hosting(inner) as path, aclosing(HostedStore(path, "operator")) as store:
        with pytest.raises(Unavailable, match="ZeroDivisionError"):
            await store.teams()
        assert (await store.read("alpha")).seq == 1


async def test_a_watch_that_is_taken_late_gives_the_newest_number(store: Store) -> None:
    async with aclosing(store.watch("alpha")) as seqs:
        assert await anext(seqs) == 1
        for n in range(1, 31):
            last = await put(store, PutTask(task(str(n))))
        seen: list[int] = []
        with anyio.fail_after(10):
            while not seen or seen[-1] < last.seq:
                seen.append(await anext(seqs))
    assert len(seen) < 30


async def test_many_calls_run_at_once_over_one_connection(path: str, store: Store) -> None:
    """One of them waits for a turn that another connection has; the others do not wait for it."""
    begin = {"op": "begin", "team": "alpha", "turn": "t", "stamp": None, "seq": 0, "id": 1}
    reader, writer = await raw_line(path, wire.pack(HELLO), wire.pack(begin))
    with anyio.fail_after(10):
        await wire.receive(reader)
        await wire.receive(reader)
        async with anyio.create_task_group() as group:
            group.start_soon(put, store, PutTask(task("1")))
            for _ in range(50):
                await store.append("alpha", "ann", message("m"), actor=LEAD)
            assert (await store.read("alpha")).tasks == {}
            writer.close()
    assert list((await store.read("alpha")).tasks) == ["1"]
