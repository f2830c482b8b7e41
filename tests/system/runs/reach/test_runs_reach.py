"""`bullpen up` with notices to a person: what comes, and that an interrupted run ends soon."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from bullpen.errors import Invalid
from support.crews import eventually
from support.offices import Place
from support.reach.receivers import receiver
from support.runs.unattended_team import WORKS, Night, git_environment, tasks

pytestmark = pytest.mark.anyio


@pytest.fixture
async def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Night]:
    """A repository and a home; nothing of a team in it runs at the end."""
    for name, value in git_environment().items():
        monkeypatch.setenv(name, value)
    found = Night(tmp_path)
    found.make_repository()
    yield found
    async with found.opened() as (app, _):
        place = Place(app, tmp_path, f"bullpen-test-{secrets.token_hex(6)}")
        await place.end_everything()


async def test_a_run_says_on_the_phone_that_it_is_done_and_nothing_else(
    night: Night, tmp_path: Path
) -> None:
    async with receiver(tmp_path) as phone:
        notify = f'[[notify]]\nurl = "ntfy://127.0.0.1:{phone.port}/night"\n'
        night.write(notify + tasks("alpha", "beta"), members=["ann"])
        outcome = await night.up()
    assert outcome.status == "done", (outcome, night.news)
    (got,) = phone.received
    assert got.fields["title"].endswith("is done")


@pytest.mark.parametrize("silent_s", [0.0, 600.0])
async def test_an_interrupted_run_ends_and_tells_the_phone_if_it_can(
    night: Night, tmp_path: Path, silent_s: float
) -> None:
    hangs = '[[agents.ann.turns]]\nwhen = "task"\nsteps = [{hang = true}]\n'
    async with receiver(tmp_path) as phone:
        phone.silent_s = silent_s
        notify = f'[[notify]]\nurl = "ntfy://127.0.0.1:{phone.port}/night"\ntimeout_s = 900\n'
        notify += '[[notify]]\nrun = "cat >> ../told; sleep 600"\non = ["ended"]\n'
        night.write(
            notify + tasks("alpha"), members=["ann"], script=hangs + WORKS.format(name="ann")
        )
        with anyio.fail_after(180):
            async with anyio.create_task_group() as group:
                group.start_soon(night.up)
                await eventually(lambda: any("took task" in line for line in night.news))
                group.cancel_scope.cancel()
    assert (night.folder / "told").exists() or (night.project.parent / "told").exists()
    assert len(phone.received) <= 1
    if silent_s == 0 and phone.received:
        assert phone.received[0].fields["title"].endswith("was interrupted")


async def test_an_address_that_cannot_be_used_is_an_error_before_the_team_starts(
    night: Night,
) -> None:
    for notify, why in (
        ('url = "nonsense://place"', "cannot be used"),
        ('url_env = "NO_SUCH_VARIABLE"', "NO_SUCH_VARIABLE"),
    ):
        night.write(f"[[notify]]\n{notify}\n" + tasks("alpha"), members=["ann"])
        with pytest.raises(Invalid, match=why):
            await night.up()
    async with night.opened() as (app, _):
        assert await app.teams.names() == []
