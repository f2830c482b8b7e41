"""One case with damaged files: damage, work, doctor, and a look at what is left."""

from __future__ import annotations

import random
from collections.abc import Iterable

from .budget import Failures, dice
from .damage import Damage, inflict
from .exercise import Exercise, read_everything
from .home import TEAM, Sandbox
from .promises import Aftermath, content_of
from .watchdog import Watchdog

_ONLY_PEOPLE_CAN_MEND = {"cycle", "one_ended_edge"}


async def run(sandbox: Sandbox, watchdog: Watchdog, cases: Iterable[int]) -> Failures:
    """Run cases by their numbers."""
    failures = Failures("files")
    for number in cases:
        rng = dice("files", number)
        sandbox.restore()
        damages = [inflict(sandbox, rng) for _ in range(1 if rng.random() < 0.75 else 2)]
        damages = [damage for damage in damages if damage.path]
        fifos = tuple(sandbox.at(damage.path) for damage in damages if damage.how == "a FIFO")
        watchdog.begin(f"case files:{number}", fifos)
        wrong = await _case(sandbox, damages, rng)
        failures.ran += 1
        if wrong:
            keep = {d.path: d.data for d in damages if d.data is not None}
            failures.add(number, "\n".join(wrong), keep=keep)
        if failures.too_many:
            break
    return failures


async def _case(sandbox: Sandbox, damages: list[Damage], rng: random.Random) -> list[str]:
    exercise = Exercise(sandbox, rng)
    await exercise.work(rng.randrange(1, 5))
    if rng.random() < 0.3:
        await exercise.doctor(fix=False)
    before = {damage.path: content_of(sandbox.at(damage.path)) for damage in damages}
    findings = await exercise.doctor(fix=True)
    finished = findings if isinstance(findings, list) else None
    left = {finding.kind for finding in finished or () if not finding.fixed}
    if finished is not None and left <= _ONLY_PEOPLE_CAN_MEND and rng.random() < 0.3:
        await _well(exercise)
    aftermath = Aftermath(sandbox, damages, exercise.store.meant, before, finished)
    exercise.wrong += aftermath.broken()
    await exercise.work(1)
    if rng.random() < 0.02:
        await exercise.attempt(
            "delete", lambda: exercise.teams.delete(TEAM, by="team-lead", force=True)
        )
    await exercise.store.aclose()
    exercise.wrong += [f"outside the home, {what}" for what in sandbox.escapes()]
    if exercise.wrong:
        what = [f"damaged: {damage.path}: {damage.how}" for damage in damages]
        return [*what, *exercise.told, *exercise.wrong]
    return []


async def _well(exercise: Exercise) -> None:
    """A team that was mended can be read, and has nothing left to mend."""
    left = await exercise.attempt("look again", lambda: exercise.store.checkup(TEAM, fix=False))
    if left:
        exercise.wrong.append(f"after it was mended, the doctor finds {left}")
    error = await exercise.attempt("read all", lambda: read_everything(exercise))
    if error is not None:
        exercise.wrong.append(f"after it was mended, it cannot be read: {error}")
