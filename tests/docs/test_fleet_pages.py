"""The pages about teams that span machines name what there is, and their reader reads."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from bullpen.fleet.servers.connect import connected
from bullpen.fleet.servers.server_process import Cluster
from bullpen.store.contract import StoreLimits
from bullpen.store.nats.client.api_requests import api
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.store import NatsStore
from bullpen.team.team import Teams
from bullpen.testing.nats import running

ROOT = Path(__file__).parents[2]
LAYOUT = "docs/reference/nats-layout.md"


def section(page: str, heading: str) -> str:
    """The text under a heading, to the next one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no section {heading!r}"
    return found[1]


async def test_the_page_lists_every_stream_with_its_subjects_and_storage(tmp_path: Path) -> None:
    rows = re.findall(
        r"^\| `([A-Z_]+)(?:\{pp\})?` \| `([^`]+)` \| (file|memory)",
        section(LAYOUT, "Streams"),
        re.MULTILINE,
    )
    async with running(tmp_path) as cluster, connected(cluster.urls[0]) as client:
        await prepare(client)
        made = await api(client, "STREAM.LIST", None, timeout_s=10)
    forms = [each["config"] for each in made["streams"]]
    assert sorted(rows) == sorted(
        (form["name"].replace("TEAM_00", "TEAM_"), form["subjects"][0].replace("t.00", "t.{pp}"),
         form["storage"])
        for form in forms
    )  # fmt: skip


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Path]:
    """The program of the page, in a file."""
    (code,) = re.findall(
        r"^```python\n(.*?)^```", section(LAYOUT, "Read it"), re.DOTALL | re.MULTILINE
    )
    path = tmp_path / "reader.py"
    path.write_text(code, encoding="utf-8")
    yield path


async def test_the_reader_of_the_page_prints_every_event_once(tmp_path: Path, reader: Path) -> None:
    async with running(tmp_path / "servers") as cluster:
        wanted = await busy_team(cluster, "alpha")
        done = await anyio.run_process(
            [sys.executable, str(reader), "alpha"],
            env={"BULLPEN_STORE": cluster.urls[0]},
            stderr=subprocess.STDOUT,
            check=False,
        )
    assert done.returncode == 0, done.stdout.decode()
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == wanted


async def busy_team(cluster: Cluster, name: str) -> list[str]:
    """A team whose log was cut several times; the numbers of its events."""
    store = NatsStore(Endpoint.parse(cluster.urls[0]), limits=StoreLimits(), events_kept=8)
    try:
        await prepare(await store.link.client())
        teams = Teams(store)
        await teams.create(name, by="team-lead")
        team = teams.open(name)
        for number in range(40):
            await team.tasks.add(f"Task {number}", by="team-lead")
        return [str(event.seq) for event in await store.events(name)]
    finally:
        await store.aclose()
