"""Start many processes at the same moment."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Start = Callable[[], None]
"""Called by a worker when it is ready; returns when all of them are."""

# In this order: the heavy imports first, then the modules that hold the workers.
_PRELOAD = [
    "anyio._backends._asyncio",
    "bullpen.store.files.store",
    "bullpen.team.team",
    "row_claims",
    "row_crowds",
    "row_killed",
    "row_reader",
    "row_waking",
]
_PATIENCE_S = 120.0

context = multiprocessing.get_context("forkserver")


def prepare(modules: Sequence[str] = _PRELOAD) -> None:
    """Start the server that children are forked from, with everything imported."""
    here = str(Path(__file__).parent)
    # The server is a new interpreter that does not know where this script was started.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    context.set_forkserver_preload(list(modules))


@dataclass(frozen=True, slots=True)
class Together(Generic[T]):
    """The workers' results, in order, and the time from the first start to the last end."""

    results: list[T]
    wall_s: float


def together(count: int, work: Callable[..., T], *args: Any) -> Together[T]:
    """Run `work(index, start, *args)` in this many processes, all at once.

    Raises:
        RuntimeError: a worker failed; the text is its traceback.
    """
    barrier = context.Barrier(count)
    pipes, processes = [], []
    for index in range(count):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(sender, barrier, work, index, args))
        process.start()
        sender.close()
        pipes.append(receiver)
        processes.append(process)
    answers = [_received(pipe) for pipe in pipes]
    for process in processes:
        process.join(_PATIENCE_S)
    begin = min(begin for begin, _, _ in answers)
    end = max(end for _, end, _ in answers)
    return Together([result for _, _, result in answers], end - begin)


def _received(pipe: Connection) -> tuple[float, float, Any]:
    if not pipe.poll(_PATIENCE_S):
        raise RuntimeError(f"A worker did not answer within {_PATIENCE_S:g} s.")
    answer = pipe.recv()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    begin, end, result = answer
    return begin, end, result


def _run(
    pipe: Connection, barrier: Any, work: Callable[..., Any], index: int, args: Sequence[Any]
) -> None:
    begin = 0.0

    def start() -> None:
        nonlocal begin
        barrier.wait(_PATIENCE_S)
        begin = time.perf_counter()

    try:
        result = work(index, start, *args)
        pipe.send((begin, time.perf_counter(), result))
    except BaseException:
        barrier.abort()
        pipe.send(traceback.format_exc())
