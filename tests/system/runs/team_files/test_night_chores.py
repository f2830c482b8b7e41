"""Chores of a night: quiet hours, mail to a lead that is none, notices, and the merge queue."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from bullpen.protocol.clock import iso
from bullpen.runs.watch.notify import WAITING_MAX, Notified, Notifier
from bullpen.view.notable_events import Happening
from support.crews import eventually
from support.doors.json_shapes import faults

# ── the world outside ────────────────────────────────────────────────────────────────────────────


def happened(number: int, kind: str = "merged") -> Happening:
    return Happening(kind, "night", iso(number), f"thing {number}", seq=number)  # type: ignore[arg-type]


def notifier(folder: Path, *commands: Notified, trouble: list[str] | None = None) -> Notifier:
    tell = ([] if trouble is None else trouble).append
    return Notifier(
        commands, cwd=str(folder), environ=os.environ, kept=folder / "kept.json", tell=tell
    )


@asynccontextmanager
async def telling(folder: Path, *commands: Notified) -> AsyncIterator[tuple[Notifier, list[str]]]:
    trouble: list[str] = []
    notices = notifier(folder, *commands, trouble=trouble)
    async with anyio.create_task_group() as group:
        group.start_soon(notices.run)
        yield notices, trouble
        group.cancel_scope.cancel()


async def test_every_command_is_told_in_order_what_it_wants_to_hear(tmp_path: Path) -> None:
    all_of_it, some = Notified("cat >> all"), Notified("cat >> some", on=("given_up",))
    async with telling(tmp_path, all_of_it, some) as (notices, trouble):
        for number in range(1, 13):
            notices.hear(happened(number, "given_up" if number % 3 == 0 else "merged"))
        await notices.drain(within_s=60)
    rows = [json.loads(line) for line in (tmp_path / "all").read_text("utf-8").splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, 13))
    assert rows[0] == {
        "schema": "bullpen/happening/1",
        "happening": "merged", "team": "night", "at": iso(1), "text": "thing 1", "seq": 1,
    }  # fmt: skip
    assert [fault for row in rows for fault in faults(row)] == []
    rows = [json.loads(line) for line in (tmp_path / "some").read_text("utf-8").splitlines()]
    assert [row["seq"] for row in rows] == [3, 6, 9, 12]
    assert trouble == []
    assert notifier(tmp_path).told_until() == 12


async def test_a_command_that_fails_or_hangs_is_told_and_holds_up_nobody(tmp_path: Path) -> None:
    hanging = Notified("sleep 600 & echo $! > child; wait", timeout_s=0.5)
    failing = Notified("cat > /dev/null; echo the chat is down; exit 3")
    async with telling(tmp_path, hanging, failing, Notified("cat >> fine")) as (notices, trouble):
        notices.hear(happened(1))
        await notices.drain(within_s=60)
    assert sorted(trouble) == [
        f"the notice `{failing.run}` failed: exit code 3: the chat is down",
        f"the notice `{hanging.run}` failed: it took longer than 0.5 s and was stopped",
    ]
    assert (tmp_path / "fine").exists()
    child = int((tmp_path / "child").read_text("utf-8"))

    def is_gone() -> bool:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{child}/stat").read_text("utf-8").split()[2] == "Z"

    await eventually(is_gone)


async def test_a_command_that_is_too_slow_loses_the_oldest_and_says_so(tmp_path: Path) -> None:
    trouble: list[str] = []
    notices = notifier(tmp_path, Notified("cat >> all"), trouble=trouble)
    for number in range(WAITING_MAX + 7):
        notices.hear(happened(number))
    # What is left is told from the oldest on; the first of it says what was lost.
    async with anyio.create_task_group() as group:
        group.start_soon(notices.run)
        await eventually(lambda: _lines(tmp_path / "all") > 0 and bool(trouble))
        group.cancel_scope.cancel()
    first = json.loads((tmp_path / "all").read_text("utf-8").splitlines()[0])
    assert first["seq"] == 7
    assert trouble[0].startswith("7 notices were dropped")


async def test_what_an_interrupted_run_says_last_is_sent_and_soon(tmp_path: Path) -> None:
    trouble: list[str] = []
    notices = notifier(tmp_path, Notified("cat >> all"), trouble=trouble)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(notices.run)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
            # As when a person presses Ctrl-C: what serves the commands is cancelled, too.
            notices.hear(happened(1, "ended"))
            await notices.drain(within_s=5)
    assert json.loads((tmp_path / "all").read_text("utf-8"))["happening"] == "ended"
    assert trouble == []


async def test_what_was_not_told_before_a_kill_is_told_afterwards(tmp_path: Path) -> None:
    stuck = Notified("cat >> all; test $(wc -l < all) -lt 3 || sleep 600", timeout_s=900)
    notices = notifier(tmp_path, stuck)
    for number in range(1, 6):
        notices.hear(happened(number))
    async with anyio.create_task_group() as group:
        group.start_soon(notices.run)
        await eventually(lambda: _lines(tmp_path / "all") == 3)
        group.cancel_scope.cancel()
    await none_is_left(tmp_path)
    again = notifier(tmp_path, stuck)
    assert again.told_until() == 2, "the third was being told: it is told again"


async def test_a_run_that_is_interrupted_sends_what_it_can_and_waits_for_nobody_long(
    tmp_path: Path,
) -> None:
    trouble: list[str] = []
    notices = notifier(tmp_path, Notified("sleep 600"), Notified("cat >> fine"), trouble=trouble)
    with anyio.CancelScope() as run:
        async with anyio.create_task_group() as group:
            group.start_soon(notices.run)
            run.cancel()
            try:
                await anyio.sleep_forever()
            finally:
                # The tasks that send have been cancelled by now.
                notices.hear(happened(1, "ended"))
                await notices.drain(within_s=3)
    assert _lines(tmp_path / "fine") == 1
    assert trouble == ["1 notices were not sent within 3 s"]
    await none_is_left(tmp_path)


async def none_is_left(folder: Path) -> None:
    """What was killed is shown for a moment longer; what was not ends with this test."""
    try:
        await eventually(lambda: not sleeping_in(folder))
    finally:
        for pid in sleeping_in(folder):
            with suppress(OSError):
                os.killpg(os.getpgid(pid), signal.SIGKILL)


def sleeping_in(folder: Path) -> list[int]:
    """The processes that sleep in a folder of this test."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        with suppress(OSError):
            here = os.readlink(f"/proc/{pid}/cwd") == str(folder)
            if here and b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def _lines(path: Path) -> int:
    return path.read_text("utf-8").count("\n") if path.exists() else 0
