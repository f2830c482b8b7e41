"""The pages about teams that span machines name what there is, and their reader reads."""

from __future__ import annotations

import re
import typing
from pathlib import Path

from bullpen.agents.supervisor.machines.host_records import (
    HostBeat,
    HostOrder,
    HostRecord,
    HostSpawn,
)
from bullpen.app import settings
from bullpen.fleet.servers.alarms import Kind
from bullpen.fleet.servers.server_binary import VARIABLE
from bullpen.store.nats.log.state import LogState

ROOT = Path(__file__).parents[3]
OPERATE = "docs/howto/operate-a-cell.md"
HOSTS = "docs/reference/hosts.md"
LAYOUT = "docs/reference/nats-layout.md"


def section(page: str, heading: str) -> str:
    """The text under a heading, to the next one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def first_cells(text: str) -> list[str]:
    """What stands in backticks at the beginning of the rows of a table."""
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def test_the_page_says_what_to_do_about_every_alarm() -> None:
    assert first_cells(section(OPERATE, "Watch")) == list(typing.get_args(Kind))


def test_the_page_names_every_variable() -> None:
    named = {
        settings.STORE,
        settings.CREDS,
        settings.CA,
        settings.HOST_TOKEN,
        VARIABLE,
        "BULLPEN_HOST",
    }
    assert set(first_cells(section(HOSTS, "Variables"))) == named


def test_the_page_has_every_field_of_what_hosts_say_and_are_asked() -> None:
    text = section(LAYOUT, "Hosts and spawning")
    for shape in (HostRecord, HostBeat, HostSpawn, HostOrder):
        for name, key in shape.field_keys().items():
            assert f"`{key}`" in text, name


def test_the_page_has_every_field_of_a_snapshot() -> None:
    text = section(LAYOUT, "Snapshots and history")
    for name in LogState().snapshot():
        assert f"`{name}`" in text, name
