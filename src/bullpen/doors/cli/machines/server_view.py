"""Servers, streams and backups as tables for people and JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bullpen.doors.cli.output.page import Page
from bullpen.fleet.servers.alarms import Alarm
from bullpen.fleet.servers.backup import Backup
from bullpen.fleet.servers.cluster_survey import Round, StreamKey
from bullpen.view.text import Cell


def status_json(last: Round, found: Sequence[Alarm]) -> dict[str, Any]:
    """Servers, their streams and the alarms as a JSON object."""
    return {
        "nodes": [
            {
                "name": told.name,
                "url": told.url,
                "up": told.up,
                "error": told.error or told.ill or None,
                "version": told.version or None,
                "syncAlways": told.sync_always if told.up else None,
                "metaLeader": told.meta_leader or None,
            }
            for told in last
        ],
        "streams": [_stream_json(key, last) for key in _streams(last)],
        "alarms": found,
    }


def show_status(page: Page, last: Round, found: Sequence[Alarm]) -> None:
    """The servers, the streams, and what is wrong."""
    if page.json:
        page.value("server-status/1", status_json(last, found))
        return
    page.table(
        ("server", "state", "version", "synced", "leads", "address"),
        [
            (
                told.name,
                Cell("up", "good") if told.up else Cell("down", "bad"),
                told.version,
                ("always" if told.sync_always else Cell("late", "bad")) if told.up else "",
                "yes" if told.up and told.meta_leader in ("", told.name) else "",
                told.url,
            )
            for told in last
        ],
    )
    rows = [_stream_row(key, last) for key in _streams(last)]
    if rows:
        page.line()
        page.table(("stream", "copies", "leader", "messages", "behind"), rows)
    if found:
        page.line()
    show_alarms(page, found)


def show_alarms(page: Page, found: Sequence[Alarm]) -> None:
    """What is wrong, one sentence each."""
    if page.json:
        page.value("server-alarms/1", {"alarms": found})
        return
    for alarm in found:
        page.line(Cell(f"alarm: {alarm.text}", "bad"))
        page.line(f"hint: {alarm.remedy}")


def backup_json(made: Backup) -> dict[str, Any]:
    """A backup as a JSON object."""
    return {
        "directory": str(made.directory),
        "made": made.made,
        "streams": [
            {
                "name": kept.name,
                "messages": kept.messages if kept.file else None,
                "bytes": kept.size,
                "sha256": kept.sha256 or None,
            }
            for kept in made.streams
        ],
    }


def backup_lines(made: Backup) -> list[str]:
    """What was backed up, in sentences."""
    return [
        f"Wrote {_counted(made)} to {made.directory}.",
        f"Restore it onto empty servers: bullpen server restore {made.directory}",
    ]


def restored_line(found: Backup) -> str:
    """What was restored, in a sentence."""
    return f"Restored {_counted(found)}, as they were at {found.made}."


def _counted(made: Backup) -> str:
    messages = sum(kept.messages for kept in made.streams)
    return f"{len(made.streams)} streams with {messages} messages"


def _streams(last: Round) -> list[StreamKey]:
    return sorted({key for told in last for key in told.replicas})


def _stream_json(key: StreamKey, last: Round) -> dict[str, Any]:
    account, name = key
    copies = {told.name: told.replicas[key] for told in last if key in told.replicas}
    form = next(told.forms[key] for told in last if key in told.forms)
    head = max(copy.last_seq for copy in copies.values())
    return {
        "account": account,
        "name": name,
        "storage": form.storage,
        "wanted": form.replicas,
        "leader": next((node for node, copy in copies.items() if copy.leader == node), None),
        "replicas": [
            {
                "node": node,
                "messages": copy.messages,
                "firstSeq": copy.first_seq,
                "lastSeq": copy.last_seq,
                "lag": head - copy.last_seq,
            }
            for node, copy in sorted(copies.items())
        ],
    }


def _stream_row(key: StreamKey, last: Round) -> tuple[str | Cell, ...]:
    told = _stream_json(key, last)
    account, name = key
    counts = {copy["node"]: copy["messages"] for copy in told["replicas"]}
    same = len(set(counts.values())) == 1
    messages = ", ".join(f"{node} {count}" for node, count in counts.items())
    return (
        name if account == "$G" else f"{account}/{name}",
        f"{len(counts)}/{told['wanted']}",
        told["leader"] or Cell("none", "bad"),
        str(next(iter(counts.values()))) if same else messages,
        str(max(copy["lag"] for copy in told["replicas"])),
    )
