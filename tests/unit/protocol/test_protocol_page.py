"""The protocol page names every field, and its scripts work as they stand there, beside us too."""

from __future__ import annotations

from pathlib import Path

from bullpen.protocol.agent import (
    AgentFacts,
    AgentSpec,
    Budget,
    ProcessRecord,
    Spent,
    Usage,
    Workspace,
)
from bullpen.protocol.forge import ForgeSettings, ForgeWork, ForgeWrite
from bullpen.protocol.message import Message
from bullpen.protocol.payloads import Known, Payload
from bullpen.protocol.policy import Plan, Policy, Sandbox, Standing
from bullpen.protocol.presence import Presence
from bullpen.protocol.record import Wire
from bullpen.protocol.request import Request
from bullpen.protocol.task import Check, Facts, Forced, Merge, Nudged, Step, Task
from bullpen.protocol.team import (
    Finished,
    LeadLease,
    Limits,
    Member,
    MergeSettings,
    Origin,
    TeamConfig,
    TeamFacts,
    Unattended,
)
from support.rows import each_row

PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"


@each_row(
    "record",
    [
        TeamConfig,
        Member,
        Message,
        Task,
        Facts,
        Check,
        Forced,
        Merge,
        MergeSettings,
        Step,
        Workspace,
        Origin,
        Unattended,
        Nudged,
        Request,
        Presence,
        AgentFacts,
        AgentSpec,
        ProcessRecord,
        Policy,
        Plan,
        Sandbox,
        Standing,
        Usage,
        Spent,
        Budget,
        TeamFacts,
        Limits,
        LeadLease,
        Finished,
        ForgeSettings,
        ForgeWork,
        ForgeWrite,
        *Known.__args__,
    ],
    ids=lambda record: record.__name__,
)
def test_every_field_is_on_the_page(record: type[Wire]) -> None:
    page = PAGE.read_text("utf-8")
    keys = record.field_keys().values()
    assert [key for key in keys if f"`{key}`" not in page] == []


@each_row("payload", Known.__args__, ids=lambda payload: payload.__name__)
def test_every_payload_type_is_on_the_page(payload: type[Payload]) -> None:
    assert payload.type in PAGE.read_text("utf-8")
