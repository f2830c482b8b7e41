"""Rows 1 and 2: one send, into a small, a big and an old inbox."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median

from approaches import peer_update, replace, rewrite_update
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.store.files.writer import TeamFiles
from bullpen.team.team import Teams
from counts import Counts
from figures import NO_GOAL, Figure, Row, at_most, milliseconds
from scenery import READER, TEAM, core, inbox_path, inbox_text, make_inbox, message, plain_inbox

Send = Callable[[Message], Awaitable[None]]

SMALL = 100


async def rows(folder: Path, counts: Counts) -> list[Row]:
    """All rows about a single sender."""
    found = []
    for fsync in (False, True):
        found += await _small(folder / f"small-{fsync}", counts, fsync=fsync)
    await _make_history(folder / "old", counts)
    for fsync in (False, True):
        found += await _big(folder / f"big-{fsync}", folder / "old", counts, fsync=fsync)
    return found


async def alternate(
    contestants: Mapping[str, Send],
    sends: int,
    *,
    warm_up: int = 3,
    before: Callable[[], None] = lambda: None,
) -> dict[str, list[float]]:
    """Time every contestant `sends` times, in turns, so that noise affects all equally."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    shuffle = random.Random(1).shuffle
    for number in range(-warm_up, sends):
        shuffle(order)
        for name in order:
            send, letter = contestants[name], message()
            before()
            begin = time.perf_counter()
            await send(letter)
            took = time.perf_counter() - begin
            if number >= 0:
                times[name].append(took)
    return times


def through_store(store: FileStore, *, fresh: bool = True) -> Send:
    """Ours, by the public method, which works in a thread."""

    async def send(letter: Message) -> None:
        await store.append(TEAM, READER, letter, actor=LEAD, fresh=fresh)

    return send


def through_team(store: FileStore) -> Send:
    """Ours, by the operation that the command line and other doors call."""
    mailbox = Teams(store).open(TEAM).mailbox

    async def send(letter: Message) -> None:
        await mailbox.send(READER, letter.text, sender=LEAD)

    return send


def through_core(files: TeamFiles) -> Send:
    """Ours, by the synchronous core."""

    async def send(letter: Message) -> None:
        with files.writing() as writer:
            writer.append(READER, letter, actor=LEAD, fresh=True)

    return send


def _others(folder: Path, count: int, *, fsync: bool) -> dict[str, Send]:
    peer, rewrite = (plain_inbox(folder / name, count) for name in ("peer", "rewrite"))
    bare = plain_inbox(folder / "bare", count)
    content = Path(bare).read_bytes()

    async def send_peer(letter: Message) -> None:
        peer_update(peer, lambda rows: rows.append(letter.raw), fsync=fsync)

    async def send_rewrite(letter: Message) -> None:
        rewrite_update(rewrite, lambda rows: rows.append(letter.raw), fsync=fsync)

    async def send_bare(_: Message) -> None:
        replace(bare, content, fsync=fsync)

    return {"peer": send_peer, "rewrite": send_rewrite, "bare": send_bare}


async def _repeated(
    repeats: int, measure: Callable[[int], Awaitable[dict[str, list[float]]]]
) -> dict[str, Figure]:
    """The median over the repeats of each contestant's median."""
    medians: dict[str, list[float]] = {}
    for number in range(repeats):
        for name, times in (await measure(number)).items():
            medians.setdefault(name, []).append(median(times))
    return {name: milliseconds(values) for name, values in medians.items()}


async def _small(folder: Path, counts: Counts, *, fsync: bool) -> list[Row]:
    async def measure(number: int) -> dict[str, list[float]]:
        here = folder / str(number)
        store = await make_inbox(here / "store", SMALL, fsync=fsync)
        await make_inbox(here / "core", SMALL, fsync=fsync)
        team = await make_inbox(here / "team", SMALL, fsync=fsync)
        await Teams(team).open(TEAM).roster.join(READER, by=LEAD)
        contestants = {
            "store": through_store(store),
            "team": through_team(team),
            "core": through_core(core(here / "core", fsync=fsync)),
            **_others(here, SMALL, fsync=fsync),
        }
        times = await alternate(contestants, counts.sends)
        await store.aclose()
        await team.aclose()
        return times

    p50 = await _repeated(counts.repeats, measure)
    columns = (p50["peer"], p50["rewrite"], p50["bare"])

    def row(name: str, words: str) -> Row:
        work = f"one send, {SMALL} in the inbox, fsync {_on(fsync)}, p50: {words}"
        goal = (
            at_most(p50[name], p50["bare"], "bare", times=1.5)
            if fsync
            else at_most(p50[name], p50["rewrite"], "rewrite")
        )
        return Row(1, work, p50[name], goal if name != "team" else NO_GOAL, columns)

    return [
        row("store", "`store.append`"),
        row("core", "the synchronous core"),
        row("team", "`team.mailbox.send`"),
    ]


async def _big(folder: Path, old: Path, counts: Counts, *, fsync: bool) -> list[Row]:
    """Our variants in turns; then the others, whose writes would disturb ours."""
    boxes = {
        "small": await make_inbox(folder / "small", SMALL, fsync=fsync),
        "big": await make_inbox(folder / "big", counts.unread, fsync=fsync),
        "old": FileStore(old, fsync=fsync),
    }
    ours = {name: through_store(store) for name, store in boxes.items()}
    p50 = await _repeated(counts.repeats, lambda _: alternate(ours, counts.sends))
    others = _others(folder, counts.unread, fsync=fsync)
    p50 |= await _repeated(
        counts.repeats, lambda _: alternate(others, counts.slow_sends, warm_up=1)
    )
    columns = (p50["peer"], p50["rewrite"], p50["bare"])
    work = f"one send, {counts.unread:,} unread in the inbox, fsync {_on(fsync)}, p50"
    aged = f"one send, {counts.history:,} of history, {SMALL} of them unread, fsync {_on(fsync)}"
    small = f"ours at {SMALL}"
    found = [
        Row(2, work, p50["big"], at_most(p50["big"], p50["small"], small, times=1.5), columns),
        Row(2, f"{aged}, p50", p50["old"], at_most(p50["old"], p50["small"], small, times=1.5)),
    ]
    if fsync:
        found += await _slow_paths(folder, boxes, counts, columns, aged)
    for store in boxes.values():
        await store.aclose()
    return found


async def _slow_paths(
    folder: Path,
    boxes: Mapping[str, FileStore],
    counts: Counts,
    columns: tuple[Figure, Figure, Figure],
    aged: str,
) -> list[Row]:
    """The cases outside the fast path. They have no target."""
    found = []
    for name, count in (("small", SMALL), ("big", counts.unread)):
        # As if another program, or a reader's acknowledgement, had written the inbox.
        touch = partial(os.utime, inbox_path(folder / name))
        times = await alternate(
            {"ours": through_store(boxes[name])}, counts.slow_sends * 3, before=touch
        )
        work = f"one send after the inbox was rewritten, {count:,} in it, fsync on, p50"
        found.append(
            Row(2, work, milliseconds(times["ours"]), NO_GOAL, columns if name == "big" else ())
        )
    keyed = through_store(boxes["old"], fresh=False)
    times = await alternate({"ours": keyed}, counts.slow_sends * 3)
    work = f"{aged}, with a key, p50"
    return [*found, Row(2, work, milliseconds(times["ours"]), NO_GOAL)]


async def _make_history(home: Path, counts: Counts) -> None:
    """An inbox with most of its messages seen and archived."""
    store = await make_inbox(home, 1, fsync=False)
    messages = [message() for _ in range(counts.history)]
    inbox_path(home).write_bytes(inbox_text(messages))
    await store.events(TEAM, limit=1)  # Takes the messages into the log.
    seen = [each.id for each in messages[:-SMALL]]
    await store.acknowledge(TEAM, READER, seen, "seen", actor=READER)
    await store.aclose()
    os.sync()


def _on(fsync: bool) -> str:
    return "on" if fsync else "off"
